// Tensors in .npy files, NumPy's format for one array: the values as they lie
// in memory, after a line of text that says their type and shape.
#ifndef EXAMPLES_SERVING_NPY_H_
#define EXAMPLES_SERVING_NPY_H_

#include <stdbool.h>

#include "tensorflow/c/c_api.h"

// The name of a type, as NumPy has it; "type <number>" of those that these
// files do not hold here. They hold float32, float64, int32, int64 and bool.
const char* TypeName(TF_DataType type);

// Reads a file into a new tensor. The caller deletes it. On failure prints why
// and returns NULL.
TF_Tensor* ReadNpy(const char* path);

// Writes a tensor to a file. On failure prints why and returns false.
bool WriteNpy(const char* path, const TF_Tensor* tensor);

// Prints a tensor's values to stdout, a line for each row of its last
// dimension, with as many digits as tell two values apart.
bool PrintValues(const TF_Tensor* tensor);

#endif  // EXAMPLES_SERVING_NPY_H_
