// Shape functions of our own ops: they check whatever is known before a graph
// runs, by the rules that the kernels apply, and infer every output.
#ifndef OPS_SHAPE_FUNCTIONS_H_
#define OPS_SHAPE_FUNCTIONS_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_cudnn_rnn {

absl::Status ForwardShapeFunction(
    tensorflow::shape_inference::InferenceContext* context);
absl::Status Int8ShapeFunction(
    tensorflow::shape_inference::InferenceContext* context);
absl::Status BackpropShapeFunction(
    tensorflow::shape_inference::InferenceContext* context);
absl::Status ParamsSizeShapeFunction(
    tensorflow::shape_inference::InferenceContext* context);
absl::Status ParamsToCanonicalShapeFunction(
    tensorflow::shape_inference::InferenceContext* context);
absl::Status CanonicalToParamsShapeFunction(
    tensorflow::shape_inference::InferenceContext* context);

}  // namespace tf_cudnn_rnn

#endif  // OPS_SHAPE_FUNCTIONS_H_
