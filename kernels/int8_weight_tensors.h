// The inputs weights, scales and biases of CudnnRNNInt8.
#ifndef KERNELS_INT8_WEIGHT_TENSORS_H_
#define KERNELS_INT8_WEIGHT_TENSORS_H_

#include <vector>

#include "absl/status/status.h"
#include "network/int8_weights.h"
#include "ops/int8_rules.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_cudnn_rnn {

struct Int8WeightTensors {
  const tensorflow::Tensor* weights = nullptr;
  const tensorflow::Tensor* scales = nullptr;
  const tensorflow::Tensor* biases = nullptr;
  // What was checked of `scales`: others may write the tensor meanwhile. Of the
  // other two any numbers are right.
  std::vector<float> checked_scales;

  // Copies the scales, and fails if they are not such as scales have to be.
  absl::Status CheckScales();

  // Valid after CheckScales(), and as long as this object.
  rnn::Int8Weights Data() const;
};

absl::Status GetInt8Weights(tensorflow::OpKernelContext* context,
                            Int8WeightTensors* weights, Int8Shapes* shapes);

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_INT8_WEIGHT_TENSORS_H_
