#include "ops/params_rules.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/engine_status.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {

using ::tensorflow::PartialTensorShape;

std::string DescribeNetwork(const rnn::RnnDescriptor& d) {
  std::string text = absl::StrCat(
      "rnn_mode = ", RnnModeName(d.mode), ", num_layers = ", d.num_layers,
      ", directions = ", d.num_directions, ", num_units = ", d.hidden_size,
      ", input_size = ", d.input_size);
  if (d.has_projection()) absl::StrAppend(&text, ", num_proj = ", d.num_proj);
  if (d.skip_input) absl::StrAppend(&text, ", skipped input");
  return text;
}

absl::Status MakeNetwork(const RnnAttributes& attributes,
                         const NetworkSizes& sizes, Network* network) {
  network->descriptor = MakeDescriptor(attributes, sizes);
  network->layout.reset();
  if (sizes.all_known()) {
    network->layout.emplace();
    return FromEngine(
        rnn::ParamsLayout::Create(network->descriptor, &*network->layout));
  }
  // Validate() would quote the num_units that stands in for the unknown one.
  if (!sizes.hidden_size && attributes.is_lstm() && attributes.num_proj < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_proj must be in [0, num_units], got ", attributes.num_proj, "."));
  }
  return FromEngine(rnn::Validate(network->descriptor));
}

absl::Status CheckScalar(absl::string_view name,
                         const PartialTensorShape& shape) {
  if (shape.unknown_rank() || shape.dims() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is not a scalar: it must have shape [], got ",
                   shape.DebugString(), "; pass one int32 number."));
}

absl::Status CheckParamsRank(const PartialTensorShape& params) {
  if (params.unknown_rank() || params.dims() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "RNN params must be a 1-D vector. params must have shape [N], got ",
      params.DebugString(), "; flatten it."));
}

absl::Status CheckParamsLength(const PartialTensorShape& params,
                               const rnn::RnnDescriptor& descriptor,
                               const rnn::ParamsLayout& layout) {
  if (params.unknown_rank() || params.dim_size(0) == -1 ||
      params.dim_size(0) == layout.size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "Mismatching RNN parameter size. params must have shape [N] = [",
      layout.size(), "] for ", DescribeNetwork(descriptor), ", got ",
      params.DebugString(),
      "; tf_cudnn_rnn.params_size and CudnnRNNParamsSize tell N for the same "
      "options."));
}

absl::Status CheckCanonicalCounts(const CanonicalCounts& counts,
                                  const rnn::RnnDescriptor& descriptor,
                                  const rnn::ParamsLayout& layout) {
  const int64_t num_pseudo_layers = descriptor.num_pseudo_layers();
  const int64_t num_weights = layout.num_canonical_weights();
  const int64_t num_biases = layout.num_canonical_biases();
  const auto mismatch = [&](absl::string_view tensorflow_text,
                            const char* attribute, int64_t given,
                            absl::string_view letters, int64_t required) {
    return absl::InvalidArgumentError(absl::StrCat(
        tensorflow_text, " ", attribute, " must be L*D*", letters, " = ",
        required, " for ", DescribeNetwork(descriptor), ", got ", given, "."));
  };
  const auto wrong_weights = [&](absl::string_view tensorflow_text) {
    return mismatch(tensorflow_text, counts.weights_attribute, counts.weights,
                    descriptor.has_projection() ? "(2*G + 1)" : "2*G",
                    num_weights);
  };
  const auto wrong_biases = [&](absl::string_view tensorflow_text) {
    return mismatch(tensorflow_text, counts.biases_attribute, counts.biases,
                    "2*G", num_biases);
  };
  // TensorFlow's checks, texts and order, typing errors included.
  if (counts.weights % num_pseudo_layers != 0) {
    return wrong_weights(
        "Number of params (weights) is not a multipleof num_layers * "
        "num_dirs.");
  }
  if (counts.biases % num_pseudo_layers != 0) {
    return wrong_biases(
        "Number of params (biases) is not a multipleof num_layers * "
        "num_dirs.");
  }
  const bool is_odd = counts.weights / num_pseudo_layers % 2 != 0;
  if (is_odd && !descriptor.has_projection()) {
    return wrong_weights(
        "Number of params (weights) per layer is notan even number with no "
        "projection.");
  }
  if (!is_odd && descriptor.has_projection()) {
    return wrong_weights(
        "Number of params (weights) per layer is notan odl number with "
        "projection.");
  }
  if (counts.weights != num_weights) {
    return wrong_weights(absl::StrCat("C Number of params mismatch. Expected ",
                                      counts.weights, ", got ", num_weights,
                                      "."));
  }
  if (counts.biases != num_biases) {
    return wrong_biases(absl::StrCat("A Number of params mismatch. Expected ",
                                     counts.biases, ", got ", num_biases, "."));
  }
  return absl::OkStatus();
}

absl::Status CheckCanonicalSize(absl::string_view list, int64_t index,
                                const PartialTensorShape& shape,
                                const rnn::Region& region) {
  const int64_t size = shape.num_elements();  // -1 if not fully known
  if (size == -1 || size == region.size()) return absl::OkStatus();
  const std::string required =
      region.columns == 1 && list == "biases"
          ? absl::StrCat("[", region.rows, "]")
          : absl::StrCat("[", region.rows, ",", region.columns, "]");
  return absl::InvalidArgumentError(absl::StrCat(
      "Params size mismatch. Expected ", region.size(), ", got ", size, ". ",
      list, "[", index, "] must have the ", region.size(),
      " elements of shape ", required, ", got ", shape.DebugString(), "."));
}

}  // namespace tf_cudnn_rnn
