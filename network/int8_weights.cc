#include "network/int8_weights.h"

#include <algorithm>
#include <cstdint>
#include <locale>
#include <sstream>
#include <string>

#include "network/float_bits.h"

namespace rnn {

namespace {

// Whether `value` is finite and not negative.
bool IsScale(float value) {
  constexpr uint32_t kInfinity = 0x7f800000;
  return BitsOf(value) < kInfinity || BitsOf(value) == kMinusZeroBits;
}

}  // namespace

Status Int8Layout::Create(const RnnDescriptor& descriptor, Int8Layout* layout) {
  ParamsLayout params;
  if (Status s = ParamsLayout::Create(descriptor, &params); !s.ok()) return s;
  const RnnDescriptor& d = descriptor;
  const int64_t depth = std::max(d.widest_input(), d.hidden_size);
  if (depth > kMaxDepth) {
    return Status::InvalidArgument(
        "int8 weights can have rows of at most " + std::to_string(kMaxDepth) +
        " elements, got " + std::to_string(depth) +
        " (the larger of num_units and of what enters a layer); use weights of "
        "float.");
  }
  layout->descriptor_ = d;
  layout->params_ = params;
  layout->num_scales_ = layout->InputScales(d.num_pseudo_layers());
  return Status();
}

int64_t Int8Layout::NumInputRows(int64_t k) const {
  const int64_t layer = descriptor_.layer_of(k);
  return descriptor_.has_input_weights(layer) ? descriptor_.gates_size() : 0;
}

int64_t Int8Layout::NumOtherRows() const {
  return descriptor_.gates_size() +
         (descriptor_.has_projection() ? descriptor_.output_size() : 0);
}

int64_t Int8Layout::InputScales(int64_t k) const {
  const int64_t first = std::min(k, descriptor_.num_directions);
  return first * NumInputRows(0) + (k - first) * descriptor_.gates_size() +
         k * NumOtherRows();
}

int64_t Int8Layout::RecurrentScales(int64_t k) const {
  return InputScales(k) + NumInputRows(k);
}

int64_t Int8Layout::ProjectionScales(int64_t k) const {
  return RecurrentScales(k) + descriptor_.gates_size();
}

int64_t Int8Layout::InputBias(int64_t k) const {
  return params_.InputBias(k).offset - num_values();
}

int64_t Int8Layout::RecurrentBias(int64_t k) const {
  return params_.RecurrentBias(k).offset - num_values();
}

Status CheckInt8Scales(const float* scales, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!IsScale(scales[i])) {
      std::ostringstream message;
      message.imbue(std::locale::classic());
      message << "scales must be finite and not negative, got scales[" << i
              << "] = " << scales[i]
              << "; that of a row is its largest magnitude, divided by 127.";
      return Status::InvalidArgument(message.str());
    }
  }
  return Status();
}

}  // namespace rnn
