// What a shape function knows of its inputs' shapes, in the type that the rules
// take.
#ifndef OPS_PARTIAL_SHAPES_H_
#define OPS_PARTIAL_SHAPES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "ops/call_shapes.h"
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

// A dimension of a shape function's result, if its size is known.
inline tensorflow::shape_inference::DimensionHandle DimensionOf(
    tensorflow::shape_inference::InferenceContext* c, int64_t size) {
  return size == kUnknownSize ? c->UnknownDim() : c->MakeDim(size);
}

// A shape, of which some sizes may be unknown.
template <typename Sizes>
tensorflow::shape_inference::ShapeHandle ShapeOf(
    tensorflow::shape_inference::InferenceContext* c, const Sizes& sizes) {
  std::vector<tensorflow::shape_inference::DimensionHandle> dimensions;
  for (const int64_t size : sizes) dimensions.push_back(DimensionOf(c, size));
  return c->MakeShape(dimensions);
}

// The first of the inputs of this name.
inline absl::Status GetPartialShape(
    tensorflow::shape_inference::InferenceContext* c, const char* input,
    tensorflow::PartialTensorShape* shape) {
  std::vector<tensorflow::shape_inference::ShapeHandle> handles;
  TF_RETURN_IF_ERROR(c->input(input, &handles));
  return GetPartialShape(c, handles[0], shape);
}

struct NamedShape {
  const char* input;
  tensorflow::PartialTensorShape* shape;
};

template <size_t size>
absl::Status GetPartialShapes(tensorflow::shape_inference::InferenceContext* c,
                              const NamedShape (&shapes)[size]) {
  for (const NamedShape& named : shapes) {
    TF_RETURN_IF_ERROR(GetPartialShape(c, named.input, named.shape));
  }
  return absl::OkStatus();
}

// The inputs of a forward op with params.
inline absl::Status GetForwardShapes(
    tensorflow::shape_inference::InferenceContext* c, ForwardShapes* shapes) {
  return GetPartialShapes(c, {{"input", &shapes->input},
                              {"input_h", &shapes->input_h},
                              {"input_c", &shapes->input_c},
                              {"params", &shapes->params},
                              {"sequence_lengths", &shapes->sequence_lengths}});
}

// What a backward op takes beside the forward op's inputs.
inline absl::Status GetBackpropOnlyShapes(
    tensorflow::shape_inference::InferenceContext* c, BackpropShapes* shapes) {
  return GetPartialShapes(c, {{"output", &shapes->output},
                              {"output_h", &shapes->output_h},
                              {"output_c", &shapes->output_c},
                              {"output_backprop", &shapes->output_backprop},
                              {"output_h_backprop", &shapes->output_h_backprop},
                              {"output_c_backprop", &shapes->output_c_backprop},
                              {"reserve_space", &shapes->reserve_space}});
}

}  // namespace tf_cudnn_rnn

#endif  // OPS_PARTIAL_SHAPES_H_
