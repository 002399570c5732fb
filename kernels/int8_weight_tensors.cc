#include "kernels/int8_weight_tensors.h"

#include <cstdint>

#include "kernels/tf_adapter.h"
#include "network/shared_memory.h"
#include "ops/engine_status.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {

absl::Status Int8WeightTensors::CheckScales() {
  const int64_t count = scales->NumElements();
  checked_scales.resize(count);
  rnn::CopyOnce(tf_cudnn_rnn::Data<float>(*scales), count,
                checked_scales.data());
  return FromEngine(rnn::CheckInt8Scales(checked_scales.data(), count));
}

rnn::Int8Weights Int8WeightTensors::Data() const {
  rnn::Int8Weights data;
  data.values = tf_cudnn_rnn::Data<int8_t>(*weights);
  data.scales = checked_scales.data();
  data.biases = tf_cudnn_rnn::Data<float>(*biases);
  return data;
}

absl::Status GetInt8Weights(tensorflow::OpKernelContext* context,
                            Int8WeightTensors* weights, Int8Shapes* shapes) {
  TF_RETURN_IF_ERROR(context->input("weights", &weights->weights));
  TF_RETURN_IF_ERROR(context->input("scales", &weights->scales));
  TF_RETURN_IF_ERROR(context->input("biases", &weights->biases));
  shapes->weights = PartialShape(*weights->weights);
  shapes->scales = PartialShape(*weights->scales);
  shapes->biases = PartialShape(*weights->biases);
  return absl::OkStatus();
}

}  // namespace tf_cudnn_rnn
