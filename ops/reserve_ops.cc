// What a reserve_space tells about the forward call that made it. Letters as in
// cudnn_rnn_ops.cc.
#include "network/descriptor.h"
#include "ops/attribute_strings.h"
#include "ops/attributes.h"
#include "ops/call_shapes.h"
#include "ops/partial_shapes.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::PartialTensorShape;
using ::tensorflow::shape_inference::DimensionHandle;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

absl::Status ReadReserveShapeFunction(InferenceContext* c) {
  RnnAttributes attributes;
  TF_RETURN_IF_ERROR(ReadRnnAttributes(c, DefinesAll, &attributes));
  ForwardShapes shapes;
  TF_RETURN_IF_ERROR(GetForwardShapes(c, &shapes));
  CallSizes sizes;
  TF_RETURN_IF_ERROR(CheckForwardShapes(attributes, shapes, &sizes));
  PartialTensorShape reserve_space;
  TF_RETURN_IF_ERROR(GetPartialShape(c, "reserve_space", &reserve_space));
  TF_RETURN_IF_ERROR(CheckReserveSpaceRank(reserve_space));

  DimensionHandle boundaries = c->MakeDim(0), features;
  if (rnn::DropsOut(attributes.dropout)) {
    TF_RETURN_IF_ERROR(c->Divide(DimensionOf(c, sizes.pseudo_layers),
                                 attributes.num_directions,
                                 /*evenly_divisible=*/true, &boundaries));
    TF_RETURN_IF_ERROR(c->Subtract(boundaries, 1, &boundaries));
  }
  TF_RETURN_IF_ERROR(c->Multiply(DimensionOf(c, sizes.output_size),
                                 attributes.num_directions, &features));
  const ShapeHandle masks =
      c->MakeShape({boundaries, DimensionOf(c, sizes.time),
                    DimensionOf(c, sizes.batch), features});
  TF_RETURN_IF_ERROR(c->set_output("dropout_masks", {masks}));
  return c->set_output("states_outer_major", {c->Scalar()});
}

REGISTER_OP("TfCudnnRnn>CudnnRNNReadReserve")
    .Input("input: T")                   // [T, B, I]
    .Input("input_h: T")                 // [L*D, B, P]
    .Input("input_c: T")                 // [L*D, B, H]; any unless lstm
    .Input("params: T")                  // [N]
    .Input("sequence_lengths: int32")    // [B]
    .Input("reserve_space: T")           // [R]
    .Output("dropout_masks: M")          // [L-1, T, B, D*P]; 0 without dropout
    .Output("states_outer_major: bool")  // []
    .Attr(kType)
    .Attr("M: {float32, float64}")
    .Attr(kRnnMode)
    .Attr(kInputMode)
    .Attr(kDirection)
    .Attr(kDropout)
    .Attr(kNumProj)
    .Attr(kTimeMajor)
    .SetShapeFn(ReadReserveShapeFunction)
    .Doc(R"doc(
What a training call of CudnnRNNV3, or of a built-in CudnnRNN op, noted in its
reserve_space.

Takes that call's inputs and options; refuses the reserve_space of another one.

dropout_masks: [L-1,T,B,D*P]. By what the outputs of each layer but the last
  were multiplied: 0, or 1/(1-dropout). Empty, [0,T,B,D*P], if dropout is 0.
states_outer_major: Whether the memory of all states is that of [L*D,B,.]. It is
  that of [B,L*D,.] if time_major is false, unless a built-in op was told to
  follow cuDNN there.
M: The type that T is computed in: float64 for float64, else float32.
)doc");

}  // namespace
}  // namespace tf_cudnn_rnn
