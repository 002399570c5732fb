#include "kernels/engine/elements/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/engine/element_values.h"
#include "tests/engine/philox.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

// The known answers that come with Random123.
TEST(PhiloxTest, GivesTheKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, 0),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                       0xffffffffffffffff),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // Key words 0xa4093822, 0x299f31d0: the low word is word 0.
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       0x299f31d0a4093822),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

constexpr int64_t kCount = 1001;  // not a multiple of the four words

template <typename F>
std::vector<F> Apply(float probability, uint64_t key, int64_t layer,
                     int64_t time, int64_t batch_row,
                     const std::vector<F>& in) {
  std::vector<F> out(in.size(), std::numeric_limits<F>::quiet_NaN());
  const Dropout dropout{probability, key};
  dropout.Apply(layer, time, batch_row, static_cast<int64_t>(in.size()),
                in.data(), out.data());
  return out;
}

template <typename F>
class DropoutTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(DropoutTest, Types);

TYPED_TEST(DropoutTest, EachElementHasItsWord) {
  using F = TypeParam;
  constexpr float kProbability = 0.3f;
  constexpr uint64_t kKey = 0x0123456789abcdef;
  const double threshold =
      std::floor(static_cast<double>(kProbability) * 4294967296.0);
  const F scale = F{1} / (F{1} - F{kProbability});
  std::vector<F> in(kCount);
  for (int64_t j = 0; j < kCount; ++j) in[j] = static_cast<F>(j + 1);
  const std::vector<F> out = Apply(kProbability, kKey, 5, 70000, 3, in);
  for (int64_t j = 0; j < kCount; ++j) {
    const Words words =
        Philox4x32({static_cast<uint32_t>(j / 4), 3, 70000, 5}, kKey);
    EXPECT_EQ(out[j], words[j % 4] >= threshold ? in[j] * scale : 0) << j;
  }
}

TYPED_TEST(DropoutTest, EveryInstructionSetDrawsTheSameWords) {
  using F = TypeParam;
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    for (int64_t count : {1, 3, 4, 5, 127, 128, 129, 300}) {
      for (int64_t first : {0, 508}) {
        std::vector<F> values(count + 4);
        for (size_t j = 0; j < values.size(); ++j) {
          values[j] = static_cast<F>(j + 1);
        }
        const std::vector<F> in = values;
        DropoutRow<F> row;
        row.counter[0] = 7;
        row.counter[1] = 0xffffffff;
        row.counter[2] = 3;
        row.key = 0x0123456789abcdef;
        row.min_kept_word = uint64_t{1} << 31;
        row.scale = F{2};
        row.first = first;
        row.count = count;
        row.in = row.out = values.data();
        KernelsOf<F>(*target).drop_out(row);
        for (int64_t j = 0; j < count; ++j) {
          const int64_t word = first + j;
          const Words words = Philox4x32(
              {static_cast<uint32_t>(word / 4), 7, 0xffffffff, 3}, row.key);
          ASSERT_EQ(values[j],
                    words[word % 4] >= row.min_kept_word ? in[j] * 2 : 0)
              << j << " of " << count;
        }
        for (int64_t j = count; j < count + 4; ++j) {
          ASSERT_EQ(values[j], in[j]) << "beyond " << count;
        }
      }
    }
  }
}

// They are converted block by block.
TEST(BFloat16DropoutTest, DrawsTheWordsOfOtherTypes) {
  const Dropout dropout{0.5f, 23};
  std::vector<BFloat16> values(kCount);
  const std::vector<float> ones(kCount, 1.0f);
  for (BFloat16& value : values) value = FromDouble<BFloat16>(1);
  dropout.Apply(1, 2, 3, kCount, values.data(), values.data());
  const std::vector<float> expected = Apply(0.5f, 23, 1, 2, 3, ones);
  for (int64_t j = 0; j < kCount; ++j) {
    EXPECT_EQ(ToDouble(values[j]), expected[j]) << j;
  }
}

TYPED_TEST(DropoutTest, KeepsItsFraction) {
  using F = TypeParam;
  const std::vector<F> ones(100000, F{1});
  for (float probability : {0.01f, 0.25f, 0.5f, 0.9f}) {
    const std::vector<F> out = Apply(probability, 17, 0, 0, 0, ones);
    double kept = 0;
    for (F value : out) {
      if (value == 0) continue;
      kept += 1;
      ASSERT_FLOAT_EQ(static_cast<float>(value), 1 / (1 - probability));
    }
    // Five standard deviations.
    const double n = static_cast<double>(ones.size());
    EXPECT_NEAR(kept / n, 1 - probability,
                5 * std::sqrt(probability * (1 - probability) / n));
  }
}

TYPED_TEST(DropoutTest, ProbabilityZeroKeepsEverything) {
  using F = TypeParam;
  const std::vector<F> in(kCount, F{1} / 3);
  EXPECT_EQ(Apply(0.0f, 17, 1, 2, 3, in), in);
}

TYPED_TEST(DropoutTest, ProbabilityOneGivesZerosAndNoNan) {
  using F = TypeParam;
  const std::vector<F> in(kCount, F{1} / 3);
  EXPECT_EQ(Apply(1.0f, 17, 1, 2, 3, in), std::vector<F>(kCount, F{0}));
}

TYPED_TEST(DropoutTest, MasksDifferByLayerTimeRowAndKey) {
  using F = TypeParam;
  const std::vector<F> ones(kCount, F{1});
  const std::vector<F> mask = Apply(0.5f, 17, 1, 2, 3, ones);
  EXPECT_EQ(mask, Apply(0.5f, 17, 1, 2, 3, ones));
  EXPECT_NE(mask, Apply(0.5f, 17, 2, 2, 3, ones));
  EXPECT_NE(mask, Apply(0.5f, 17, 1, 3, 3, ones));
  EXPECT_NE(mask, Apply(0.5f, 17, 1, 2, 4, ones));
  EXPECT_NE(mask, Apply(0.5f, 18, 1, 2, 3, ones));
  EXPECT_NE(mask, Apply(0.5f, 17 + (uint64_t{1} << 32), 1, 2, 3, ones));
}

TYPED_TEST(DropoutTest, WorksInPlaceAndOnAnyCount) {
  using F = TypeParam;
  const std::vector<F> ones(kCount, F{1});
  const std::vector<F> mask = Apply(0.5f, 17, 1, 2, 3, ones);
  const Dropout dropout{0.5f, 17};
  for (int64_t count = 0; count <= 9; ++count) {
    std::vector<F> values(12, F{1});
    dropout.Apply(1, 2, 3, count, values.data(), values.data());
    for (int64_t j = 0; j < 12; ++j) {
      EXPECT_EQ(values[j], j < count ? mask[j] : 1) << j << " of " << count;
    }
  }
}

}  // namespace
}  // namespace rnn
