#include "network/descriptor.h"

#include <cstdint>
#include <limits>
#include <locale>
#include <sstream>
#include <string>

#include "network/float_bits.h"

namespace rnn {

namespace {

// With all the digits that tell one float from another, alike in each locale.
std::string Exactly(float value) {
  std::ostringstream digits;
  digits.imbue(std::locale::classic());
  digits.precision(std::numeric_limits<float>::max_digits10);
  digits << static_cast<double>(value);
  return digits.str();
}

// Whether `value` is in [0, 1]; false for NaN.
bool IsProbability(float value) {
  constexpr uint32_t kOne = 0x3F800000;
  return BitsOf(value) <= kOne || BitsOf(value) == kMinusZeroBits;
}

}  // namespace

bool DropsOut(float probability) {
  return (BitsOf(probability) & ~kMinusZeroBits) != 0;
}

Status Validate(const RnnDescriptor& d) {
  if (d.num_layers < 1) {
    return Status::InvalidArgument("num_layers must be at least 1, got " +
                                   std::to_string(d.num_layers) + ".");
  }
  if (d.num_directions != 1 && d.num_directions != 2) {
    return Status::InvalidArgument(
        "the number of directions must be 1 or 2, got " +
        std::to_string(d.num_directions) + ".");
  }
  if (d.hidden_size < 1) {
    return Status::InvalidArgument("num_units must be at least 1, got " +
                                   std::to_string(d.hidden_size) + ".");
  }
  if (d.input_size < 1) {
    return Status::InvalidArgument("input_size must be at least 1, got " +
                                   std::to_string(d.input_size) + ".");
  }
  if (d.num_proj != 0 && d.mode != CellMode::kLstm) {
    return Status::InvalidArgument(
        "num_proj must be 0 unless rnn_mode is \"lstm\": only LSTM cells have "
        "a projection, got num_proj = " +
        std::to_string(d.num_proj) + ".");
  }
  if (d.num_proj < 0 || d.num_proj > d.hidden_size) {
    return Status::InvalidArgument("num_proj must be in [0, num_units] = [0, " +
                                   std::to_string(d.hidden_size) + "], got " +
                                   std::to_string(d.num_proj) + ".");
  }
  if (d.skip_input && d.input_size != d.hidden_size) {
    return Status::InvalidArgument(
        "input_mode \"skip_input\" needs input_size == num_units, got "
        "input_size = " +
        std::to_string(d.input_size) + " and num_units = " +
        std::to_string(d.hidden_size) + "; use \"linear_input\".");
  }
  if (!IsProbability(d.dropout)) {
    return Status::InvalidArgument("dropout must be in [0, 1], got " +
                                   Exactly(d.dropout) + ".");
  }
  return Status();
}

}  // namespace rnn
