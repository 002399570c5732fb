// What programs ask the library itself: the only names that it exports.
#include <cstdint>

#include "kernels/engine/simd/instruction_set.h"
#include "kernels/memory/scratch_pool.h"

#define TF_CUDNN_RNN_EXPORT extern "C" __attribute__((visibility("default")))

// The name of the instruction set that all kernels of this process use; nullptr
// if the environment now asks for one that this build does not have, which ops
// refuse as they are made.
TF_CUDNN_RNN_EXPORT const char* tf_cudnn_rnn_instruction_set() {
  return rnn::SimdTargetVariableFault().empty() ? rnn::SelectedSimdTargetName()
                                                : nullptr;
}

// Gives the scratch memory that is kept for the next calls back to the system;
// returns how many bytes that was.
TF_CUDNN_RNN_EXPORT int64_t tf_cudnn_rnn_release_scratch() {
  return tf_cudnn_rnn::ScratchPool::OfProcess().Release();
}
