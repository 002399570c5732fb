// The rules for weights in int8 (network/int8_weights.h), which a call has in
// the place of params: weights [N], scales [M] and biases [K].
#ifndef OPS_INT8_RULES_H_
#define OPS_INT8_RULES_H_

#include "absl/status/status.h"
#include "ops/attributes.h"
#include "ops/call_shapes.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tf_cudnn_rnn {

struct Int8Shapes {
  tensorflow::PartialTensorShape weights;
  tensorflow::PartialTensorShape scales;
  tensorflow::PartialTensorShape biases;
};

// Checks a call of CudnnRNNInt8; `shapes.params` is of unknown rank.
absl::Status CheckInt8Call(const RnnAttributes& attributes,
                           const ForwardShapes& shapes,
                           const Int8Shapes& weights, CallSizes* sizes);

}  // namespace tf_cudnn_rnn

#endif  // OPS_INT8_RULES_H_
