// The attributes that all ops of the family share, parsed.
#ifndef OPS_ATTRIBUTES_H_
#define OPS_ATTRIBUTES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "network/descriptor.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {

enum class InputMode { kLinear, kSkip, kAuto };

struct RnnAttributes {
  rnn::CellMode mode = rnn::CellMode::kLstm;
  InputMode input_mode = InputMode::kLinear;
  int64_t num_directions = 1;  // D
  int64_t num_proj = 0;
  float dropout = 0.0f;
  bool time_major = true;

  bool is_lstm() const { return mode == rnn::CellMode::kLstm; }
};

// The sizes that attributes leave open, as far as they are known: a shape
// function may not know them all.
struct NetworkSizes {
  std::optional<int64_t> num_layers;   // L
  std::optional<int64_t> input_size;   // I
  std::optional<int64_t> hidden_size;  // H

  bool all_known() const { return num_layers && input_size && hidden_size; }
};

// "auto_select" is decided here: skip if I == H. Sizes that are unknown get
// values that break no rule, so that Validate() judges the known ones.
rnn::RnnDescriptor MakeDescriptor(const RnnAttributes& attributes,
                                  const NetworkSizes& sizes);

// The strings are the values of the attributes of the same names.
absl::Status ParseModes(const std::string& rnn_mode,
                        const std::string& input_mode,
                        const std::string& direction,
                        RnnAttributes* attributes);

// The value of the attribute rnn_mode that means `mode`.
const char* RnnModeName(rnn::CellMode mode);

// Whether the definition of an op has the attribute of a name. A node of a
// graph may carry attributes of other ops, which TensorFlow lets pass: they are
// read by nobody.
using DefinesAttribute = absl::FunctionRef<bool(absl::string_view)>;

// Of an op that has all those of RnnAttributes.
inline bool DefinesAll(absl::string_view) { return true; }

// Context is an OpKernelConstruction or a shape function's InferenceContext.
// What the op does not define keeps its default.
template <typename Context>
absl::Status ReadRnnAttributes(Context* context, DefinesAttribute defines,
                               RnnAttributes* attributes) {
  const auto read = [&](const char* name, auto* value) {
    return defines(name) ? context->GetAttr(name, value) : absl::OkStatus();
  };
  std::string rnn_mode;
  std::string input_mode = "linear_input", direction = "unidirectional";
  TF_RETURN_IF_ERROR(context->GetAttr("rnn_mode", &rnn_mode));
  TF_RETURN_IF_ERROR(read("input_mode", &input_mode));
  TF_RETURN_IF_ERROR(read("direction", &direction));
  TF_RETURN_IF_ERROR(read("dropout", &attributes->dropout));
  TF_RETURN_IF_ERROR(read("num_proj", &attributes->num_proj));
  TF_RETURN_IF_ERROR(read("time_major", &attributes->time_major));
  return ParseModes(rnn_mode, input_mode, direction, attributes);
}

}  // namespace tf_cudnn_rnn

#endif  // OPS_ATTRIBUTES_H_
