// The file of a network: a safetensors file of one tensor, `params`, or of
// three, `weights` in int8, `scales` and `biases`, whose metadata say what
// network it is. docs/runtime.md describes it.
#ifndef RUNTIME_WEIGHTS_FILE_H_
#define RUNTIME_WEIGHTS_FILE_H_

#include <cstdint>
#include <string>

#include "network/descriptor.h"
#include "network/element_types.h"
#include "runtime/aligned_memory.h"
#include "runtime/int8_data.h"

namespace rnn_runtime {

struct WeightsFile {
  rnn::RnnDescriptor descriptor;
  rnn::ElementType type = rnn::ElementType::kFloat;
  AlignedMemory data;      // all that is behind the header
  int64_t num_params = 0;  // unless int8

  bool is_int8 = false;
  int64_t num_values = 0;
  int64_t num_scales = 0;
  int64_t num_biases = 0;
  // Where they begin in `data`, in bytes.
  int64_t values_begin = 0;
  int64_t scales_begin = 0;
  int64_t biases_begin = 0;

  // In `data`; if they are int8.
  Int8Data Int8() const;
};

// Returns what is wrong with the file, in a sentence, or "". Memory follows the
// size of the file, whatever it says of itself.
std::string ReadWeightsFile(const char* path, WeightsFile* file);

// Returns what is wrong with a file's header, in a sentence, or "", and fills
// `file` but for its data. The header is JSON text, behind which the
// `data_bytes` bytes of its tensors are. For tests, too.
std::string ParseWeightsHeader(const std::string& json, int64_t data_bytes,
                               WeightsFile* file);

}  // namespace rnn_runtime

#endif  // RUNTIME_WEIGHTS_FILE_H_
