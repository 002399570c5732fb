// The 64-bit key that decides which elements dropout drops.
#ifndef KERNELS_DROPOUT_KEYS_H_
#define KERNELS_DROPOUT_KEYS_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_cudnn_rnn {

// The attributes seed and seed2 as TensorFlow joins them: a negative seed2 is
// sign-extended and so fills the upper half with ones.
inline uint64_t JoinSeeds(int32_t seed, int32_t seed2) {
  return static_cast<uint64_t>(int64_t{seed}) << 32 |
         static_cast<uint64_t>(int64_t{seed2});
}

// The key of a built-in op's training call number `call`, from 0.
inline uint64_t BuiltInKey(uint64_t seed, uint64_t call) {
  return seed + call * 0x9E3779B97F4A7C15u;
}

// The key of our own op: a function of its input rng_seed [2] alone.
inline uint64_t OwnKey(const int64_t* rng_seed) {
  const uint64_t low = static_cast<uint64_t>(rng_seed[0]);
  const uint64_t high = static_cast<uint64_t>(rng_seed[1]);
  return low ^ (high << 32 | high >> 32);
}

// The keys of one kernel of a built-in op. They start from its seed and advance
// with each training call; TF_CUDNN_RESET_RND_GEN_STATE makes all calls the
// first.
class BuiltInKeys {
 public:
  absl::Status Initialize(tensorflow::OpKernelConstruction* context);

  // The next call's. Fails if the call draws from it (`draws`) without a seed
  // where results must be repeatable (enable_op_determinism), as TensorFlow's
  // random ops do. Kernels are called from many threads at once.
  absl::Status Next(bool draws, uint64_t* key);

 private:
  uint64_t seed_ = 0;
  bool reset_each_call_ = false;
  std::atomic<uint64_t> num_calls_{0};
};

// Reads seed and seed2, which every built-in op has; they must fit int32.
absl::Status ReadSeed(tensorflow::OpKernelConstruction* context,
                      uint64_t* seed);

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_DROPOUT_KEYS_H_
