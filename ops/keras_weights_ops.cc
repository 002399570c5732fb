// Ops of one layer of Keras: the layer itself, its gradient, and what is
// between its weights and params. Letters as in cudnn_rnn_ops.cc.
#include <optional>
#include <vector>

#include "ops/attribute_strings.h"
#include "ops/keras_weights_rules.h"
#include "ops/params_rules.h"
#include "ops/partial_shapes.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::PartialTensorShape;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

absl::Status GetKerasShapes(InferenceContext* c,
                            const KerasWeightsAttributes& attributes,
                            KerasShapes* shapes) {
  TF_RETURN_IF_ERROR(GetPartialShape(c, "kernel", &shapes->kernel));
  TF_RETURN_IF_ERROR(
      GetPartialShape(c, "recurrent_kernel", &shapes->recurrent_kernel));
  if (attributes.num_biases == 0) return absl::OkStatus();
  return GetPartialShape(c, "biases", &shapes->bias.emplace());
}

// Of each direction that `attributes` has.
absl::Status GetKerasShapes(InferenceContext* c,
                            const KerasWeightsAttributes& weights_attributes,
                            const RnnAttributes& attributes,
                            KerasShapes (*shapes)[2]) {
  TF_RETURN_IF_ERROR(GetKerasShapes(c, weights_attributes, &(*shapes)[0]));
  if (attributes.num_directions == 1) return absl::OkStatus();
  std::vector<ShapeHandle> handles;
  TF_RETURN_IF_ERROR(c->input("backward_weights", &handles));
  KerasShapes& backward = (*shapes)[1];
  TF_RETURN_IF_ERROR(GetPartialShape(c, handles[0], &backward.kernel));
  TF_RETURN_IF_ERROR(
      GetPartialShape(c, handles[1], &backward.recurrent_kernel));
  if (handles.size() == 2) return absl::OkStatus();
  return GetPartialShape(c, handles[2], &backward.bias.emplace());
}

// Of the mask, if there is one.
absl::Status GetKerasMaskShape(InferenceContext* c,
                               std::optional<PartialTensorShape>* mask) {
  int64_t num_masks;
  TF_RETURN_IF_ERROR(c->GetAttr("num_masks", &num_masks));
  TF_RETURN_IF_ERROR(CheckNumMasks(num_masks));
  if (num_masks == 0) return absl::OkStatus();
  return GetPartialShape(c, "masks", &mask->emplace());
}

// What both shape functions of KerasRNN begin with: reads attributes and
// shapes, but for those that a gradient takes beside, and checks them.
absl::Status ReadKerasCall(InferenceContext* c, RnnAttributes* attributes,
                           KerasWeightsAttributes* weights_attributes,
                           ForwardShapes* shapes, CallSizes* sizes) {
  const auto defines = [](absl::string_view name) {
    return name == "time_major";
  };
  TF_RETURN_IF_ERROR(ReadRnnAttributes(c, defines, attributes));
  TF_RETURN_IF_ERROR(ReadKerasWeightsAttributes(c, weights_attributes));
  bool go_backwards, zero_output_for_mask;
  TF_RETURN_IF_ERROR(
      ReadKerasSteps(c, attributes, &go_backwards, &zero_output_for_mask));
  TF_RETURN_IF_ERROR(
      GetPartialShapes(c, {{"input", &shapes->input},
                           {"input_h", &shapes->input_h},
                           {"input_c", &shapes->input_c},
                           {"sequence_lengths", &shapes->sequence_lengths}}));
  KerasShapes weights[2];
  TF_RETURN_IF_ERROR(
      GetKerasShapes(c, *weights_attributes, *attributes, &weights));
  std::optional<PartialTensorShape> mask;
  TF_RETURN_IF_ERROR(GetKerasMaskShape(c, &mask));
  return CheckKerasCall(*attributes, *shapes, weights, mask, sizes);
}

absl::Status KerasRnnShapeFunction(InferenceContext* c) {
  RnnAttributes attributes;
  KerasWeightsAttributes weights_attributes;
  ForwardShapes shapes;
  CallSizes sizes;
  TF_RETURN_IF_ERROR(
      ReadKerasCall(c, &attributes, &weights_attributes, &shapes, &sizes));
  bool is_training;
  TF_RETURN_IF_ERROR(c->GetAttr("is_training", &is_training));

  const int64_t num_directions = attributes.num_directions;
  const auto shape = [&](int64_t outer, int64_t features_per_unit) {
    // No shape says that H is small enough if those of the weights are unknown.
    const bool is_known = sizes.hidden_size != kUnknownSize &&
                          sizes.hidden_size <= INT64_MAX / features_per_unit;
    const int64_t features =
        is_known ? features_per_unit * sizes.hidden_size : kUnknownSize;
    return ShapeOf(
        c, Ordered(attributes.time_major, outer, sizes.batch, features));
  };
  const ShapeHandle states = shape(num_directions, 1);
  TF_RETURN_IF_ERROR(
      c->set_output("output", {shape(sizes.time, num_directions)}));
  TF_RETURN_IF_ERROR(c->set_output("output_h", {states}));
  TF_RETURN_IF_ERROR(
      c->set_output("output_c", {attributes.is_lstm() ? states : c->Scalar()}));
  // Its length depends on the values of sequence_lengths.
  return c->set_output(
      "reserve_space",
      {is_training ? c->Vector(c->UnknownDim()) : c->Scalar()});
}

absl::Status KerasRnnBackpropShapeFunction(InferenceContext* c) {
  RnnAttributes attributes;
  KerasWeightsAttributes weights_attributes;
  BackpropShapes shapes;
  CallSizes sizes;
  TF_RETURN_IF_ERROR(ReadKerasCall(c, &attributes, &weights_attributes,
                                   &shapes.forward, &sizes));
  TF_RETURN_IF_ERROR(GetBackpropOnlyShapes(c, &shapes));
  TF_RETURN_IF_ERROR(CheckBackpropShapes(attributes, shapes, &sizes));
  // Every gradient has the shape of its tensor. All of these come first, but
  // for backward_weights, which come last.
  const int num_backward =
      attributes.num_directions == 1
          ? 0
          : 2 + static_cast<int>(weights_attributes.num_biases);
  const int num_first = c->num_outputs() - num_backward;
  for (int i = 0; i < num_first; ++i) c->set_output(i, c->input(i));
  for (int i = 0; i < num_backward; ++i) {
    c->set_output(num_first + i, c->input(c->num_inputs() - num_backward + i));
  }
  return absl::OkStatus();
}

absl::Status KerasToParamsShapeFunction(InferenceContext* c) {
  KerasWeightsAttributes attributes;
  TF_RETURN_IF_ERROR(ReadKerasWeightsAttributes(c, &attributes));
  KerasShapes shapes;
  TF_RETURN_IF_ERROR(GetKerasShapes(c, attributes, &shapes));
  KerasSizes sizes;
  TF_RETURN_IF_ERROR(CheckKerasShapes(attributes.mode, shapes, &sizes));
  Network network;
  TF_RETURN_IF_ERROR(MakeKerasNetwork(attributes.mode, sizes, &network));
  return c->set_output("params",
                       {network.layout ? c->Vector(network.layout->size())
                                       : c->Vector(c->UnknownDim())});
}

absl::Status KerasToParamsBackpropShapeFunction(InferenceContext* c) {
  KerasWeightsAttributes attributes;
  TF_RETURN_IF_ERROR(ReadKerasWeightsAttributes(c, &attributes));
  PartialTensorShape params_backprop, num_units_shape;
  TF_RETURN_IF_ERROR(GetPartialShape(c, "params_backprop", &params_backprop));
  TF_RETURN_IF_ERROR(GetPartialShape(c, "num_units", &num_units_shape));
  TF_RETURN_IF_ERROR(CheckScalar("num_units", num_units_shape));
  std::optional<int64_t> num_units;
  if (const tensorflow::Tensor* constant = c->input_tensor(1)) {
    TF_RETURN_IF_ERROR(CheckScalar(
        "num_units", PartialTensorShape(constant->shape().dim_sizes())));
    num_units = constant->scalar<int32_t>()();
  }
  KerasSizes sizes;
  TF_RETURN_IF_ERROR(CheckKerasBackpropShapes(attributes.mode, params_backprop,
                                              num_units, &sizes));
  const int64_t gates_size =
      sizes.hidden_size ? rnn::NumGates(attributes.mode) * *sizes.hidden_size
                        : InferenceContext::kUnknownDim;
  const auto matrix = [&](const std::optional<int64_t>& rows) {
    return c->Matrix(rows.value_or(InferenceContext::kUnknownDim), gates_size);
  };
  TF_RETURN_IF_ERROR(
      c->set_output("kernel_backprop", {matrix(sizes.input_size)}));
  TF_RETURN_IF_ERROR(
      c->set_output("recurrent_kernel_backprop", {matrix(sizes.hidden_size)}));
  ShapeHandle bias;
  TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(
      KerasBiasShape(attributes.mode, sizes.hidden_size), &bias));
  return c->set_output("biases_backprop",
                       std::vector<ShapeHandle>(attributes.num_biases, bias));
}

REGISTER_OP("TfCudnnRnn>KerasRNN")
    .Input("input: T")                 // [T, B, I]
    .Input("input_h: T")               // [D, B, H]
    .Input("input_c: T")               // [D, B, H]; any unless lstm
    .Input("kernel: T")                // [I, G*H]
    .Input("recurrent_kernel: T")      // [H, G*H]
    .Input("biases: num_biases * T")   // [G*H]; [2, 3*H] of a GRU
    .Input("sequence_lengths: int32")  // [B]
    .Input("masks: num_masks * bool")  // [T, B]
    .Input("backward_weights: num_backward_weights * T")
    .Output("output: T")         // [T, B, D*H]
    .Output("output_h: T")       // [D, B, H]
    .Output("output_c: T")       // [D, B, H]; [] unless lstm
    .Output("reserve_space: T")  // [R]; [] unless is_training
    .Attr(kType)
    .Attr(kNumBiases)
    .Attr(kRnnMode)
    .Attr(kIsTraining)
    .Attr(kTimeMajor)
    .Attr(kNumMasks)
    .Attr(kGoBackwards)
    .Attr(kZeroOutputForMask)
    .Attr(kNumBackwardWeights)
    .SetShapeFn(KerasRnnShapeFunction)
    .Doc(R"doc(
One recurrent layer, with the weights of a Keras layer or, in both directions,
of two.

As CudnnRNNV3 on the params that KerasToParams returns, which it need not make.
As in a layer of Keras, any steps of a row may be valid, and be taken from the
last to the first.

kernel: As of KerasToParams, and so are recurrent_kernel and biases.
backward_weights: None, and D is 1; or those of the backward direction, and D is
  2: a kernel, a recurrent kernel and, if there are biases, a bias. Then
  go_backwards must be false and zero_output_for_mask true.
masks: None, or one: [T,B], or [B,T] unless time_major. Of the steps within
  sequence_lengths those are valid where it is true.
go_backwards: Whether steps are taken from the last to the first. `output` then
  begins with the last step of `input`.
zero_output_for_mask: Whether `output` is zero at steps that are not valid.
  Otherwise it is there what it is at the step before, and zero before the first
  valid one.
reserve_space: As CudnnRNNV3 would return it, for CudnnRNNBackpropV3.
)doc");

REGISTER_OP("TfCudnnRnn>KerasRNNBackprop")
    .Input("input: T")                 // [T, B, I]
    .Input("input_h: T")               // [D, B, H]
    .Input("input_c: T")               // [D, B, H]; any unless lstm
    .Input("kernel: T")                // [I, G*H]
    .Input("recurrent_kernel: T")      // [H, G*H]
    .Input("biases: num_biases * T")   // [G*H]; [2, 3*H] of a GRU
    .Input("sequence_lengths: int32")  // [B]
    .Input("output: T")                // [T, B, D*H]
    .Input("output_h: T")              // [D, B, H]
    .Input("output_c: T")              // [D, B, H]; any unless lstm
    .Input("output_backprop: T")       // [T, B, D*H]
    .Input("output_h_backprop: T")     // [D, B, H]
    .Input("output_c_backprop: T")     // [D, B, H]; any unless lstm
    .Input("reserve_space: T")         // [R]
    .Input("masks: num_masks * bool")  // [T, B]
    .Input("backward_weights: num_backward_weights * T")
    .Output("input_backprop: T")             // like input
    .Output("input_h_backprop: T")           // like input_h
    .Output("input_c_backprop: T")           // like input_c; zeros unless lstm
    .Output("kernel_backprop: T")            // like kernel
    .Output("recurrent_kernel_backprop: T")  // like recurrent_kernel
    .Output("biases_backprop: num_biases * T")  // like biases
    .Output("backward_weights_backprop: num_backward_weights * T")
    .Attr(kType)
    .Attr(kNumBiases)
    .Attr(kRnnMode)
    .Attr(kTimeMajor)
    .Attr(kNumMasks)
    .Attr(kGoBackwards)
    .Attr(kZeroOutputForMask)
    .Attr(kNumBackwardWeights)
    .SetShapeFn(KerasRnnBackpropShapeFunction)
    .Doc(R"doc(
Gradients of KerasRNN.

Takes the forward op's inputs, outputs and attributes, and the gradients of its
first three outputs. The forward op must have run with is_training=True.
)doc");

REGISTER_OP("TfCudnnRnn>KerasToParams")
    .Input("kernel: T")               // [I, G*H]
    .Input("recurrent_kernel: T")     // [H, G*H]
    .Input("biases: num_biases * T")  // [G*H]; [2, 3*H] of a GRU
    .Output("params: T")              // [N]
    .Attr(kType)
    .Attr(kNumBiases)
    .Attr(kRnnMode)
    .SetShapeFn(KerasToParamsShapeFunction)
    .Doc(R"doc(
Puts params together from the weights of a Keras layer.

One layer in one direction, without a projection. Gates lie side by side, in
Keras' order.

kernel: [I,G*H], G being the number of gates.
recurrent_kernel: [H,G*H].
biases: None, or one: [G*H], or [2,3*H] of a GRU (with reset_after=True).
params: As CudnnRNNV3 takes it. A single bias becomes the input bias, and the
  recurrent one is zero.
)doc");

REGISTER_OP("TfCudnnRnn>KerasToParamsBackprop")
    .Input("params_backprop: T")                // [N]
    .Input("num_units: int32")                  // []
    .Output("kernel_backprop: T")               // [I, G*H]
    .Output("recurrent_kernel_backprop: T")     // [H, G*H]
    .Output("biases_backprop: num_biases * T")  // [G*H]; [2, 3*H] of a GRU
    .Attr(kType)
    .Attr(kNumBiases)
    .Attr(kRnnMode)
    .SetShapeFn(KerasToParamsBackpropShapeFunction)
    .Doc(R"doc(
Gradients of KerasToParams.
)doc");

}  // namespace
}  // namespace tf_cudnn_rnn
