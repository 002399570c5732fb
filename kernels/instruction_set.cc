// What programs ask the library itself: the only name that it exports.
#include "kernels/engine/simd/instruction_set.h"

#include <cstdlib>

// The name of the instruction set that all kernels of this process use; nullptr
// if the environment now asks for one that this build does not have, which ops
// refuse as they are made.
extern "C" __attribute__((visibility("default"))) const char*
tf_cudnn_rnn_instruction_set() {
  const char* limit = std::getenv(rnn::kSimdTargetVariable);
  const bool is_known =
      limit == nullptr || *limit == '\0' || rnn::IsSimdTargetName(limit);
  return is_known ? rnn::SelectedSimdTargetName() : nullptr;
}
