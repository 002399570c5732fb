// The signatures of a SavedModel: which tensors of its graph are its inputs
// and outputs. TensorFlow's C API hands them out within a serialized
// MetaGraphDef; this reads the few fields that count.
#ifndef EXAMPLES_SERVING_SIGNATURE_H_
#define EXAMPLES_SERVING_SIGNATURE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api.h"

// Some bytes of the MetaGraphDef: valid as long as the buffer they lie in.
typedef struct {
  const uint8_t* data;
  size_t size;
} Bytes;

// The two arguments that printf's "%.*s" takes.
#define TEXT(bytes) (int)(bytes).size, (const char*)(bytes).data

// The values are field numbers of SignatureDef.
typedef enum { kInput = 1, kOutput = 2 } Side;

typedef struct {
  Bytes name;    // in the signature, for instance "x"
  Bytes tensor;  // in the graph, for instance "serving_default_x:0"
  TF_DataType type;
} TensorInfo;

// Whether `bytes` are the characters of `text`.
bool Equals(Bytes bytes, const char* text);

// Finds the signature `name`. If there is none, prints those that there are
// and returns false.
bool FindSignature(const TF_Buffer* meta_graph, const char* name,
                   Bytes* signature);

// Takes the next input or output from the front of `signature`, a copy of what
// FindSignature found; returns false if there is none left. Their order has no
// meaning.
bool NextTensor(Bytes* signature, Side side, TensorInfo* tensor);

// Finds the tensor in the graph. On failure prints why and returns false.
bool FindInGraph(TF_Graph* graph, const TensorInfo* tensor, TF_Output* output);

#endif  // EXAMPLES_SERVING_SIGNATURE_H_
