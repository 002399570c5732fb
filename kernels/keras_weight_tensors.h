// The inputs kernel, recurrent_kernel and biases, which ops for Keras' weights
// share.
#ifndef KERNELS_KERAS_WEIGHT_TENSORS_H_
#define KERNELS_KERAS_WEIGHT_TENSORS_H_

#include "absl/status/status.h"
#include "kernels/tf_adapter.h"
#include "network/weights.h"
#include "ops/keras_weights_rules.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_cudnn_rnn {

struct KerasWeightTensors {
  const tensorflow::Tensor* kernel = nullptr;
  const tensorflow::Tensor* recurrent_kernel = nullptr;
  const tensorflow::Tensor* bias = nullptr;  // or there is none

  template <typename T>
  rnn::KerasWeights<const Element<T>> Data() const {
    rnn::KerasWeights<const Element<T>> weights{};
    weights.kernel = tf_cudnn_rnn::Data<T>(*kernel);
    weights.recurrent_kernel = tf_cudnn_rnn::Data<T>(*recurrent_kernel);
    if (bias != nullptr) weights.bias = tf_cudnn_rnn::Data<T>(*bias);
    return weights;
  }
};

absl::Status GetKerasWeights(tensorflow::OpKernelContext* context,
                             KerasWeightTensors* weights, KerasShapes* shapes);

// The same three, of the list backward_weights.
absl::Status GetBackwardKerasWeights(tensorflow::OpKernelContext* context,
                                     KerasWeightTensors* weights,
                                     KerasShapes* shapes);

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_KERAS_WEIGHT_TENSORS_H_
