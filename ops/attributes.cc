#include "ops/attributes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tf_cudnn_rnn {
namespace {

template <typename Value>
struct NamedValue {
  const char* name;
  Value value;
};

// Unreachable through the op definitions, which list the allowed values.
absl::Status IsUnknown(const char* what, const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat("Invalid RNN ", what, ": ", text));
}

template <typename Value, size_t size>
absl::Status Parse(const char* what, const std::string& text,
                   const NamedValue<Value> (&values)[size], Value* result) {
  for (const NamedValue<Value>& candidate : values) {
    if (text == candidate.name) {
      *result = candidate.value;
      return absl::OkStatus();
    }
  }
  return IsUnknown(what, text);
}

absl::Status ParseMode(const std::string& text, rnn::CellMode* mode) {
  for (int i = 0; i < rnn::kNumCellModes; ++i) {
    *mode = static_cast<rnn::CellMode>(i);
    if (text == RnnModeName(*mode)) return absl::OkStatus();
  }
  return IsUnknown("mode", text);
}

}  // namespace

absl::Status ParseModes(const std::string& rnn_mode,
                        const std::string& input_mode,
                        const std::string& direction,
                        RnnAttributes* attributes) {
  static constexpr NamedValue<InputMode> kInputModes[] = {
      {"linear_input", InputMode::kLinear},
      {"skip_input", InputMode::kSkip},
      {"auto_select", InputMode::kAuto}};
  static constexpr NamedValue<int64_t> kDirections[] = {{"unidirectional", 1},
                                                        {"bidirectional", 2}};
  TF_RETURN_IF_ERROR(ParseMode(rnn_mode, &attributes->mode));
  TF_RETURN_IF_ERROR(
      Parse("input mode", input_mode, kInputModes, &attributes->input_mode));
  return Parse("direction mode", direction, kDirections,
               &attributes->num_directions);
}

const char* RnnModeName(rnn::CellMode mode) {
  return rnn::kCellModeNames[static_cast<int>(mode)];
}

rnn::RnnDescriptor MakeDescriptor(const RnnAttributes& attributes,
                                  const NetworkSizes& sizes) {
  const bool skips = attributes.input_mode == InputMode::kSkip;
  const int64_t any_hidden_size = std::max<int64_t>(
      {1, attributes.num_proj, skips ? sizes.input_size.value_or(1) : 1});
  rnn::RnnDescriptor descriptor;
  descriptor.mode = attributes.mode;
  descriptor.num_layers = sizes.num_layers.value_or(1);
  descriptor.num_directions = attributes.num_directions;
  descriptor.hidden_size = sizes.hidden_size.value_or(any_hidden_size);
  descriptor.input_size = sizes.input_size.value_or(descriptor.hidden_size);
  descriptor.num_proj = attributes.num_proj;
  descriptor.skip_input =
      skips || (attributes.input_mode == InputMode::kAuto &&
                descriptor.input_size == descriptor.hidden_size);
  descriptor.dropout = attributes.dropout;
  return descriptor;
}

}  // namespace tf_cudnn_rnn
