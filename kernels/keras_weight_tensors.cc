#include "kernels/keras_weight_tensors.h"

#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {

absl::Status GetKerasWeights(tensorflow::OpKernelContext* context,
                             KerasWeightTensors* weights, KerasShapes* shapes) {
  tensorflow::OpInputList biases;
  TF_RETURN_IF_ERROR(context->input("kernel", &weights->kernel));
  TF_RETURN_IF_ERROR(
      context->input("recurrent_kernel", &weights->recurrent_kernel));
  TF_RETURN_IF_ERROR(context->input_list("biases", &biases));
  shapes->kernel = PartialShape(*weights->kernel);
  shapes->recurrent_kernel = PartialShape(*weights->recurrent_kernel);
  TF_RETURN_IF_ERROR(CheckNumBiases(biases.size()));
  if (biases.size() > 0) {
    weights->bias = &biases[0];
    shapes->bias = PartialShape(biases[0]);
  }
  return absl::OkStatus();
}

absl::Status GetBackwardKerasWeights(tensorflow::OpKernelContext* context,
                                     KerasWeightTensors* weights,
                                     KerasShapes* shapes) {
  tensorflow::OpInputList list;
  TF_RETURN_IF_ERROR(context->input_list("backward_weights", &list));
  weights->kernel = &list[0];
  weights->recurrent_kernel = &list[1];
  shapes->kernel = PartialShape(list[0]);
  shapes->recurrent_kernel = PartialShape(list[1]);
  if (list.size() > 2) {
    weights->bias = &list[2];
    shapes->bias = PartialShape(list[2]);
  }
  return absl::OkStatus();
}

}  // namespace tf_cudnn_rnn
