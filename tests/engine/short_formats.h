// The 16-bit formats, by arithmetic that shares nothing with the kernels.
#ifndef TESTS_ENGINE_SHORT_FORMATS_H_
#define TESTS_ENGINE_SHORT_FORMATS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {

// A 16-bit format and plain arithmetic on it.
struct ShortFormat {
  const char* name;
  int fraction_bits;
  int min_exponent;  // of normal numbers
  void (*SimdConversions::*to_float)(const uint16_t*, float*, int64_t);
  void (*SimdConversions::*from_float)(const float*, uint16_t*, int64_t);

  uint16_t infinity() const {
    return static_cast<uint16_t>(0x7fff >> fraction_bits << fraction_bits);
  }
  bool IsNan(uint16_t bits) const { return (bits & 0x7fff) > infinity(); }

  // Not for NaN.
  double Value(uint16_t bits) const {
    const int exponent = (bits & 0x7fff) >> fraction_bits;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    const double magnitude =
        (bits & 0x7fff) == infinity() ? std::numeric_limits<double>::infinity()
        : exponent == 0
            ? std::ldexp(fraction, min_exponent - fraction_bits)
            : std::ldexp(fraction + (1 << fraction_bits),
                         min_exponent - fraction_bits + exponent - 1);
    return bits & 0x8000 ? -magnitude : magnitude;
  }

  // To nearest, ties to even. Not for NaN.
  uint16_t Rounded(float x) const {
    const int sign = std::signbit(x) ? 0x8000 : 0;
    if (std::isinf(x)) return static_cast<uint16_t>(sign | infinity());
    const double magnitude = std::abs(static_cast<double>(x));
    const int exponent = magnitude == 0
                             ? min_exponent
                             : std::max(std::ilogb(magnitude), min_exponent);
    // Counted in steps between neighbours; 2^fraction_bits and more is normal.
    const int steps = static_cast<int>(
        std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent)));
    const int bits = ((exponent - min_exponent) << fraction_bits) + steps;
    return static_cast<uint16_t>(sign | std::min<int>(bits, infinity()));
  }
};

inline const ShortFormat kShortFormats[] = {
    {"binary16", 10, -14, &SimdConversions::half_to_float,
     &SimdConversions::float_to_half},
    {"bfloat16", 7, -126, &SimdConversions::bfloat16_to_float,
     &SimdConversions::float_to_bfloat16},
};

}  // namespace rnn

#endif  // TESTS_ENGINE_SHORT_FORMATS_H_
