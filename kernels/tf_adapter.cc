#include "kernels/tf_adapter.h"

#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {

absl::Status AllocateZeros(tensorflow::OpKernelContext* context,
                           const char* name,
                           const tensorflow::TensorShape& shape) {
  tensorflow::Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(context->allocate_output(name, shape, &output));
  FillWithZeros(output);
  return absl::OkStatus();
}

absl::Status AllocateScratch(tensorflow::OpKernelContext* context,
                             int64_t num_bytes, tensorflow::Tensor* scratch) {
  if (num_bytes < 0) {
    return absl::ResourceExhaustedError(
        "The scratch memory of this call needs more bytes than 64 bits can "
        "count; use a smaller batch or fewer time steps.");
  }
  return context->allocate_temp(tensorflow::DT_INT8,
                                tensorflow::TensorShape({num_bytes}), scratch);
}

}  // namespace tf_cudnn_rnn
