#include "ops/shape_functions.h"

#include <optional>
#include <vector>

#include "ops/attributes.h"
#include "ops/call_shapes.h"
#include "ops/int8_rules.h"
#include "ops/params_rules.h"
#include "ops/partial_shapes.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::PartialTensorShape;
using ::tensorflow::Tensor;
using ::tensorflow::shape_inference::DimensionHandle;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

// Positions of the inputs that outputs take after.
enum ForwardInput { kInput, kInputH, kInputC, kParams };

// What is known of the inputs' shapes from all of them together; an unknown
// dimension keeps its identity.
class RefinedShapes {
 public:
  RefinedShapes(InferenceContext* c, const RnnAttributes& attributes,
                const CallSizes& sizes)
      : c_(c), attributes_(attributes), sizes_(sizes) {}

  absl::Status Input(ShapeHandle* shape) const {
    return Refine(kInput, sizes_.time, sizes_.input_size, shape);
  }
  absl::Status InputH(ShapeHandle* shape) const {
    return Refine(kInputH, sizes_.pseudo_layers, sizes_.output_size, shape);
  }
  absl::Status InputC(ShapeHandle* shape) const {
    return Refine(kInputC, sizes_.pseudo_layers, sizes_.hidden_size, shape);
  }
  absl::Status Params(ShapeHandle* shape) const {
    TF_RETURN_IF_ERROR(c_->WithRank(c_->input(kParams), 1, shape));
    Network network;
    TF_RETURN_IF_ERROR(
        MakeNetwork(attributes_, sizes_.network(attributes_), &network));
    if (!network.layout.has_value()) return absl::OkStatus();
    return c_->Merge(*shape, c_->Vector(network.layout->size()), shape);
  }
  absl::Status Output(ShapeHandle* shape) const {
    ShapeHandle input, input_h;
    TF_RETURN_IF_ERROR(Input(&input));
    TF_RETURN_IF_ERROR(InputH(&input_h));
    DimensionHandle features;
    TF_RETURN_IF_ERROR(c_->Multiply(c_->Dim(input_h, 2),
                                    attributes_.num_directions, &features));
    return c_->ReplaceDim(input, 2, features, shape);
  }

 private:
  absl::Status Refine(ForwardInput position, int64_t outer, int64_t features,
                      ShapeHandle* shape) const {
    const ShapeHandle known = ShapeOf(
        c_, Ordered(attributes_.time_major, outer, sizes_.batch, features));
    return c_->Merge(c_->input(position), known, shape);
  }

  InferenceContext* c_;
  const RnnAttributes& attributes_;
  const CallSizes& sizes_;
};

// All attributes of RnnAttributes but `missing`.
auto DefinesAllBut(absl::string_view missing) {
  return [missing](absl::string_view name) { return name != missing; };
}

absl::Status SetOutput(InferenceContext* c, const char* name,
                       ShapeHandle shape) {
  return c->set_output(name, {shape});
}

// Those that every forward op has.
absl::Status SetForwardOutputs(InferenceContext* c,
                               const RnnAttributes& attributes,
                               const CallSizes& sizes) {
  const RefinedShapes refined(c, attributes, sizes);
  ShapeHandle output, output_h, output_c = c->Scalar();
  TF_RETURN_IF_ERROR(refined.Output(&output));
  TF_RETURN_IF_ERROR(refined.InputH(&output_h));
  if (attributes.is_lstm()) TF_RETURN_IF_ERROR(refined.InputC(&output_c));
  TF_RETURN_IF_ERROR(SetOutput(c, "output", output));
  TF_RETURN_IF_ERROR(SetOutput(c, "output_h", output_h));
  return SetOutput(c, "output_c", output_c);
}

// The network that num_layers, num_units and input_size describe, as far as
// they are constants.
absl::Status GetNetwork(InferenceContext* c, const RnnAttributes& attributes,
                        Network* network) {
  NetworkSizes sizes;
  struct Scalar {
    const char* name;
    std::optional<int64_t>* value;
  };
  // In the order of the op definitions.
  const Scalar scalars[] = {{"num_layers", &sizes.num_layers},
                            {"num_units", &sizes.hidden_size},
                            {"input_size", &sizes.input_size}};
  for (int i = 0; i < 3; ++i) {
    PartialTensorShape shape;
    TF_RETURN_IF_ERROR(GetPartialShape(c, c->input(i), &shape));
    TF_RETURN_IF_ERROR(CheckScalar(scalars[i].name, shape));
    const Tensor* constant = c->input_tensor(i);
    if (constant == nullptr) continue;
    // The shape of a constant can be unknown where its value is not.
    TF_RETURN_IF_ERROR(CheckScalar(
        scalars[i].name, PartialTensorShape(constant->shape().dim_sizes())));
    *scalars[i].value = constant->scalar<int32_t>()();
  }
  return MakeNetwork(attributes, sizes, network);
}

absl::Status GetCanonicalCounts(InferenceContext* c, CanonicalCounts* counts) {
  counts->weights_attribute = "num_params_weights";
  counts->biases_attribute = "num_params_biases";
  TF_RETURN_IF_ERROR(c->GetAttr(counts->weights_attribute, &counts->weights));
  return c->GetAttr(counts->biases_attribute, &counts->biases);
}

}  // namespace

absl::Status ForwardShapeFunction(InferenceContext* c) {
  RnnAttributes attributes;
  TF_RETURN_IF_ERROR(ReadRnnAttributes(c, DefinesAll, &attributes));
  bool is_training;
  TF_RETURN_IF_ERROR(c->GetAttr("is_training", &is_training));
  ForwardShapes shapes;
  TF_RETURN_IF_ERROR(GetForwardShapes(c, &shapes));
  CallSizes sizes;
  TF_RETURN_IF_ERROR(CheckForwardShapes(attributes, shapes, &sizes));
  PartialTensorShape rng_seed;
  TF_RETURN_IF_ERROR(GetPartialShape(c, "rng_seed", &rng_seed));
  TF_RETURN_IF_ERROR(CheckRngSeedShape(rng_seed));

  TF_RETURN_IF_ERROR(SetForwardOutputs(c, attributes, sizes));
  // The length of reserve_space depends on the values of sequence_lengths.
  TF_RETURN_IF_ERROR(
      SetOutput(c, "reserve_space",
                is_training ? c->Vector(c->UnknownDim()) : c->Scalar()));
  return SetOutput(c, "host_reserved", c->Scalar());
}

absl::Status Int8ShapeFunction(InferenceContext* c) {
  RnnAttributes attributes;
  TF_RETURN_IF_ERROR(
      ReadRnnAttributes(c, DefinesAllBut("dropout"), &attributes));
  ForwardShapes shapes;
  Int8Shapes weights;
  TF_RETURN_IF_ERROR(
      GetPartialShapes(c, {{"input", &shapes.input},
                           {"input_h", &shapes.input_h},
                           {"input_c", &shapes.input_c},
                           {"weights", &weights.weights},
                           {"scales", &weights.scales},
                           {"biases", &weights.biases},
                           {"sequence_lengths", &shapes.sequence_lengths}}));
  CallSizes sizes;
  TF_RETURN_IF_ERROR(CheckInt8Call(attributes, shapes, weights, &sizes));
  return SetForwardOutputs(c, attributes, sizes);
}

absl::Status BackpropShapeFunction(InferenceContext* c) {
  RnnAttributes attributes;
  TF_RETURN_IF_ERROR(ReadRnnAttributes(c, DefinesAll, &attributes));
  BackpropShapes shapes;
  TF_RETURN_IF_ERROR(GetForwardShapes(c, &shapes.forward));
  TF_RETURN_IF_ERROR(GetBackpropOnlyShapes(c, &shapes));
  CallSizes sizes;
  TF_RETURN_IF_ERROR(CheckBackpropShapes(attributes, shapes, &sizes));

  const RefinedShapes refined(c, attributes, sizes);
  ShapeHandle input, input_h, params, input_c = c->input(kInputC);
  TF_RETURN_IF_ERROR(refined.Input(&input));
  TF_RETURN_IF_ERROR(refined.InputH(&input_h));
  TF_RETURN_IF_ERROR(refined.Params(&params));
  if (attributes.is_lstm()) TF_RETURN_IF_ERROR(refined.InputC(&input_c));
  TF_RETURN_IF_ERROR(SetOutput(c, "input_backprop", input));
  TF_RETURN_IF_ERROR(SetOutput(c, "input_h_backprop", input_h));
  TF_RETURN_IF_ERROR(SetOutput(c, "input_c_backprop", input_c));
  return SetOutput(c, "params_backprop", params);
}

absl::Status ParamsSizeShapeFunction(InferenceContext* c) {
  RnnAttributes attributes;
  TF_RETURN_IF_ERROR(
      ReadRnnAttributes(c, DefinesAllBut("time_major"), &attributes));
  Network network;
  TF_RETURN_IF_ERROR(GetNetwork(c, attributes, &network));
  return SetOutput(c, "params_size", c->Vector(1));
}

absl::Status ParamsToCanonicalShapeFunction(InferenceContext* c) {
  RnnAttributes attributes;
  TF_RETURN_IF_ERROR(
      ReadRnnAttributes(c, DefinesAllBut("time_major"), &attributes));
  CanonicalCounts counts;
  TF_RETURN_IF_ERROR(GetCanonicalCounts(c, &counts));
  Network network;
  TF_RETURN_IF_ERROR(GetNetwork(c, attributes, &network));
  PartialTensorShape params;
  TF_RETURN_IF_ERROR(GetPartialShape(c, "params", &params));
  TF_RETURN_IF_ERROR(CheckParamsRank(params));
  if (network.layout.has_value()) {
    TF_RETURN_IF_ERROR(
        CheckCanonicalCounts(counts, network.descriptor, *network.layout));
    TF_RETURN_IF_ERROR(
        CheckParamsLength(params, network.descriptor, *network.layout));
  }
  std::vector<ShapeHandle> weights, biases;
  for (int64_t i = 0; i < counts.weights; ++i) {
    weights.push_back(
        network.layout.has_value()
            ? c->Matrix(network.layout->CanonicalWeight(i).rows,
                        network.layout->CanonicalWeight(i).columns)
            : c->Matrix(c->UnknownDim(), c->UnknownDim()));
  }
  for (int64_t i = 0; i < counts.biases; ++i) {
    biases.push_back(network.layout.has_value()
                         ? c->Vector(network.layout->CanonicalBias(i).rows)
                         : c->Vector(c->UnknownDim()));
  }
  TF_RETURN_IF_ERROR(c->set_output("weights", weights));
  return c->set_output("biases", biases);
}

absl::Status CanonicalToParamsShapeFunction(InferenceContext* c) {
  RnnAttributes attributes;
  TF_RETURN_IF_ERROR(
      ReadRnnAttributes(c, DefinesAllBut("time_major"), &attributes));
  CanonicalCounts counts;
  TF_RETURN_IF_ERROR(GetCanonicalCounts(c, &counts));
  Network network;
  TF_RETURN_IF_ERROR(GetNetwork(c, attributes, &network));
  if (!network.layout.has_value()) {
    return SetOutput(c, "params", c->Vector(c->UnknownDim()));
  }
  TF_RETURN_IF_ERROR(
      CheckCanonicalCounts(counts, network.descriptor, *network.layout));
  std::vector<ShapeHandle> weights, biases;
  TF_RETURN_IF_ERROR(c->input("weights", &weights));
  TF_RETURN_IF_ERROR(c->input("biases", &biases));
  PartialTensorShape shape;
  for (int64_t i = 0; i < counts.weights; ++i) {
    TF_RETURN_IF_ERROR(GetPartialShape(c, weights[i], &shape));
    TF_RETURN_IF_ERROR(CheckCanonicalSize("weights", i, shape,
                                          network.layout->CanonicalWeight(i)));
  }
  for (int64_t i = 0; i < counts.biases; ++i) {
    TF_RETURN_IF_ERROR(GetPartialShape(c, biases[i], &shape));
    TF_RETURN_IF_ERROR(CheckCanonicalSize("biases", i, shape,
                                          network.layout->CanonicalBias(i)));
  }
  return SetOutput(c, "params", c->Vector(network.layout->size()));
}

}  // namespace tf_cudnn_rnn
