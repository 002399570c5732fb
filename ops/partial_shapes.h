// What a shape function knows of its inputs' shapes, in the type that the rules
// take.
#ifndef OPS_PARTIAL_SHAPES_H_
#define OPS_PARTIAL_SHAPES_H_

#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {

inline absl::Status GetPartialShape(
    tensorflow::shape_inference::InferenceContext* c,
    tensorflow::shape_inference::ShapeHandle handle,
    tensorflow::PartialTensorShape* shape) {
  tensorflow::TensorShapeProto proto;
  c->ShapeHandleToProto(handle, &proto);
  return tensorflow::PartialTensorShape::BuildPartialTensorShape(proto, shape);
}

// The first of the inputs of this name.
inline absl::Status GetPartialShape(
    tensorflow::shape_inference::InferenceContext* c, const char* input,
    tensorflow::PartialTensorShape* shape) {
  std::vector<tensorflow::shape_inference::ShapeHandle> handles;
  TF_RETURN_IF_ERROR(c->input(input, &handles));
  return GetPartialShape(c, handles[0], shape);
}

}  // namespace tf_cudnn_rnn

#endif  // OPS_PARTIAL_SHAPES_H_
