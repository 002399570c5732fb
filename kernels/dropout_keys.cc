#include "kernels/dropout_keys.h"

#include <cstdlib>
#include <string>

#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/determinism.h"
#include "tensorflow/core/util/env_var.h"

namespace tf_cudnn_rnn {

namespace {

constexpr char kResetVariable[] = "TF_CUDNN_RESET_RND_GEN_STATE";

}  // namespace

absl::Status ReadSeed(tensorflow::OpKernelConstruction* context,
                      uint64_t* seed) {
  int32_t seed1, seed2;
  TF_RETURN_IF_ERROR(context->GetAttr("seed", &seed1));
  TF_RETURN_IF_ERROR(context->GetAttr("seed2", &seed2));
  *seed = JoinSeeds(seed1, seed2);
  return absl::OkStatus();
}

absl::Status BuiltInKeys::Initialize(
    tensorflow::OpKernelConstruction* context) {
  TF_RETURN_IF_ERROR(ReadSeed(context, &seed_));
  if (tensorflow::ReadBoolFromEnvVar(kResetVariable, /*default_val=*/false,
                                     &reset_each_call_)
          .ok()) {
    return absl::OkStatus();
  }
  const char* value = std::getenv(kResetVariable);
  return absl::InvalidArgumentError(
      std::string("the environment variable ") + kResetVariable +
      " must be \"0\", \"1\", \"false\" or \"true\", got \"" +
      (value == nullptr ? "" : value) + "\"; set one of these, or unset it.");
}

absl::Status BuiltInKeys::Next(bool draws, uint64_t* key) {
  if (draws && seed_ == 0 && tensorflow::OpDeterminismRequired()) {
    return absl::InvalidArgumentError(
        "dropout must have a seed when op determinism is enabled "
        "(tf.config.experimental.enable_op_determinism), got seed = 0 and "
        "seed2 = 0, which mean none; pass one of them, or use "
        "tf_cudnn_rnn.raw_ops, whose rng_seed decides alone.");
  }
  *key = BuiltInKey(seed_, reset_each_call_ ? 0 : num_calls_.fetch_add(1));
  return absl::OkStatus();
}

}  // namespace tf_cudnn_rnn
