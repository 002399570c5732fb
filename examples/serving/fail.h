#ifndef EXAMPLES_SERVING_FAIL_H_
#define EXAMPLES_SERVING_FAIL_H_

#include <stdbool.h>

#include "tensorflow/c/c_api.h"

// Prints "serve: <message>" to stderr, once for each failure, where it is
// found. Returns false, so that functions can `return Fail(...)`.
__attribute__((format(printf, 1, 2))) bool Fail(const char* format, ...);

// Whether `status` is OK. If not, fails with what was being done, and
// TensorFlow's message.
__attribute__((format(printf, 2, 3))) bool Succeeded(const TF_Status* status,
                                                     const char* doing, ...);

#endif  // EXAMPLES_SERVING_FAIL_H_
