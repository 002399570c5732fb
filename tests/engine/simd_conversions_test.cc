#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/engine/guarded.h"
#include "tests/engine/random_values.h"
#include "tests/engine/short_formats.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

class SimdConversionsTest : public testing::TestWithParam<ShortFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, SimdConversionsTest,
                         testing::ValuesIn(kShortFormats),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

std::vector<uint16_t> AllPatterns() {
  std::vector<uint16_t> patterns(65536);
  for (int i = 0; i < 65536; ++i) patterns[i] = static_cast<uint16_t>(i);
  return patterns;
}

uint32_t FloatBits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

TEST_P(SimdConversionsTest, EveryPatternGivesItsValueAndComesBack) {
  const ShortFormat& format = GetParam();
  const std::vector<uint16_t> patterns = AllPatterns();
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    std::vector<float> values(patterns.size());
    (target->conversions.*format.to_float)(patterns.data(), values.data(),
                                           65536);
    std::vector<uint16_t> back(patterns.size());
    (target->conversions.*format.from_float)(values.data(), back.data(), 65536);
    for (uint16_t bits : patterns) {
      if (format.IsNan(bits)) {
        ASSERT_TRUE(std::isnan(values[bits])) << bits;
        ASSERT_TRUE(format.IsNan(back[bits])) << bits;
      } else {
        ASSERT_EQ(FloatBits(values[bits]),
                  FloatBits(static_cast<float>(format.Value(bits))))
            << bits;
        ASSERT_EQ(back[bits], bits);
      }
    }
  }
}

TEST_P(SimdConversionsTest, RoundsToNearestEven) {
  const ShortFormat& format = GetParam();
  std::vector<float> inputs;
  // Every value, every midpoint between neighbours (beyond the largest, too),
  // and what lies right beside them.
  for (uint16_t bits : AllPatterns()) {
    if ((bits & 0x7fff) >= format.infinity()) continue;
    const double value = format.Value(bits);
    const double step = std::ldexp(
        1.0, std::max(value == 0 ? format.min_exponent : std::ilogb(value),
                      format.min_exponent) -
                 format.fraction_bits);
    for (double x : {value, value + std::copysign(step / 2, value)}) {
      const float middle = static_cast<float>(x);
      inputs.push_back(middle);
      inputs.push_back(std::nextafter(middle, 0.0f));
      inputs.push_back(std::nextafter(
          middle,
          std::copysign(std::numeric_limits<float>::infinity(), middle)));
    }
  }
  for (float x :
       {std::numeric_limits<float>::max(), std::numeric_limits<float>::min(),
        std::numeric_limits<float>::denorm_min(),
        std::numeric_limits<float>::infinity(), 0.0f}) {
    inputs.push_back(x);
    inputs.push_back(-x);
  }
  RandomValues random(3);
  for (int i = 0; i < 1000000; ++i) {
    const uint32_t bits = static_cast<uint32_t>(random.Bits());
    float x;
    std::memcpy(&x, &bits, sizeof x);
    if (!std::isnan(x)) inputs.push_back(x);
  }

  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    std::vector<uint16_t> rounded(inputs.size());
    (target->conversions.*format.from_float)(
        inputs.data(), rounded.data(), static_cast<int64_t>(inputs.size()));
    for (size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_EQ(rounded[i], format.Rounded(inputs[i]))
          << "for " << std::hexfloat << inputs[i];
    }
  }
}

TEST_P(SimdConversionsTest, NanStaysNan) {
  const ShortFormat& format = GetParam();
  // Quiet and signalling, and payloads that lie in the bits cut off.
  for (uint32_t bits : {0x7fc00000u, 0x7f800001u, 0x7f801fffu, 0x7f80ffffu,
                        0x7fffffffu, 0xffc00000u, 0xff800001u, 0xffffffffu}) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    for (const SimdTarget* target : TestedSimdTargets()) {
      SCOPED_TRACE(target->name);
      for (int64_t count : {1, 8}) {  // the tail's code and the vectors'
        const std::vector<float> in(count, x);
        std::vector<uint16_t> out(count);
        (target->conversions.*format.from_float)(in.data(), out.data(), count);
        for (uint16_t result : out) {
          EXPECT_TRUE(format.IsNan(result)) << std::hex << bits << result;
        }
      }
    }
  }
}

// Tails are other code than vectors, and stay within their count.
TEST_P(SimdConversionsTest, EveryCountGivesTheScalarTargetsBits) {
  const ShortFormat& format = GetParam();
  constexpr int kMaxCount = 40;
  RandomValues random(4);
  const std::vector<float> floats =
      random.Reals<float>(kMaxCount, -70000, 70000);
  std::vector<uint16_t> halves(kMaxCount);
  for (uint16_t& bits : halves) {
    do {
      bits = static_cast<uint16_t>(random.Bits());
    } while (format.IsNan(bits));
  }
  std::vector<uint16_t> expected_halves(kMaxCount);
  std::vector<float> expected_floats(kMaxCount);
  const SimdConversions& scalar = ScalarTarget().conversions;
  (scalar.*format.from_float)(floats.data(), expected_halves.data(), kMaxCount);
  (scalar.*format.to_float)(halves.data(), expected_floats.data(), kMaxCount);

  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    for (int count = 0; count <= kMaxCount; ++count) {
      SCOPED_TRACE(count);
      Guarded<float> float_in(
          std::vector<float>(floats.begin(), floats.begin() + count));
      Guarded<uint16_t> half_out(count);
      (target->conversions.*format.from_float)(float_in.data(), half_out.data(),
                                               count);
      EXPECT_TRUE(half_out.intact());
      EXPECT_TRUE(std::equal(half_out.data(), half_out.data() + count,
                             expected_halves.begin()));

      Guarded<uint16_t> half_in(
          std::vector<uint16_t>(halves.begin(), halves.begin() + count));
      Guarded<float> float_out(count);
      (target->conversions.*format.to_float)(half_in.data(), float_out.data(),
                                             count);
      EXPECT_TRUE(float_out.intact());
      EXPECT_TRUE(
          SameBits(float_out.values(),
                   std::vector<float>(expected_floats.begin(),
                                      expected_floats.begin() + count)));
    }
  }
}

}  // namespace
}  // namespace rnn
