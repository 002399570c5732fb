// Weights in int8, as the interface in C and files of weights hand them over.
#ifndef RUNTIME_INT8_DATA_H_
#define RUNTIME_INT8_DATA_H_

#include <cstdint>

namespace rnn_runtime {

// rnn_int8_weights of rnn_runtime.h has the shapes. The memory is the caller's,
// and addresses need no alignment.
struct Int8Data {
  const void* values = nullptr;  // int8
  int64_t num_values = 0;
  const void* scales = nullptr;  // float
  int64_t num_scales = 0;
  const void* biases = nullptr;  // float
  int64_t num_biases = 0;
};

}  // namespace rnn_runtime

#endif  // RUNTIME_INT8_DATA_H_
