#include "ops/int8_rules.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "network/int8_weights.h"
#include "ops/engine_status.h"
#include "ops/params_rules.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::PartialTensorShape;

// One of the three tensors.
struct NamedVector {
  const char* name;
  const char* letter;
  const PartialTensorShape& shape;
  int64_t (rnn::Int8Layout::*size)() const;
};

absl::Status CheckRank(const NamedVector& vector) {
  if (vector.shape.unknown_rank() || vector.shape.dims() == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(vector.name, " must have shape [", vector.letter, "], got ",
                   vector.shape.DebugString(), "; flatten it."));
}

absl::Status CheckLength(const NamedVector& vector,
                         const rnn::RnnDescriptor& descriptor,
                         const rnn::Int8Layout& layout) {
  const int64_t size = (layout.*vector.size)();
  if (vector.shape.IsCompatibleWith(PartialTensorShape({size}))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      vector.name, " must have shape [", vector.letter, "] = [", size, "] for ",
      DescribeNetwork(descriptor), ", got ", vector.shape.DebugString(),
      "; tf_cudnn_rnn.weights.quantize returns weights, scales and biases that "
      "go together."));
}

}  // namespace

absl::Status CheckInt8Call(const RnnAttributes& attributes,
                           const ForwardShapes& shapes,
                           const Int8Shapes& weights, CallSizes* sizes) {
  using Layout = rnn::Int8Layout;
  const NamedVector vectors[] = {
      {"weights", "N", weights.weights, &Layout::num_values},
      {"scales", "M", weights.scales, &Layout::num_scales},
      {"biases", "K", weights.biases, &Layout::num_biases}};
  // Ranks come before what the sizes of the network tell, as that of params.
  for (const NamedVector& vector : vectors) {
    TF_RETURN_IF_ERROR(CheckRank(vector));
  }
  TF_RETURN_IF_ERROR(CheckForwardShapes(attributes, shapes, sizes));
  Network network;
  TF_RETURN_IF_ERROR(
      MakeNetwork(attributes, sizes->network(attributes), &network));
  if (!network.layout.has_value()) return absl::OkStatus();
  Layout layout;
  absl::Status status = FromEngine(Layout::Create(network.descriptor, &layout));
  for (const NamedVector& vector : vectors) {
    if (!status.ok()) break;
    status = CheckLength(vector, network.descriptor, layout);
  }
  return WithInputShapes(status, shapes);
}

}  // namespace tf_cudnn_rnn
