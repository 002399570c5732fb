#include "kernels/dropout_keys.h"

#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/env_var.h"

namespace tf_cudnn_rnn {

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
  return tensorflow::ReadBoolFromEnvVar("TF_CUDNN_RESET_RND_GEN_STATE",
                                        /*default_val=*/false,
                                        &reset_each_call_);
}

}  // namespace tf_cudnn_rnn
