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
                     int64_t time, int64_t batch_row, std::vector<F> values) {
  RowsToDrop<F> rows({probability, key}, layer,
                     static_cast<int64_t>(values.size()));
  rows.Add(time, batch_row, values.data());
  return values;
}

// Whether feature j is kept if the generator's words of min_kept_word and more
// are.
bool IsKept(int64_t j, uint32_t batch_row, uint32_t time, uint32_t layer,
            uint64_t key, uint64_t min_kept_word) {
  const Words words =
      Philox4x32({static_cast<uint32_t>(j / 4), batch_row, time, layer}, key);
  return words[j % 4] >= min_kept_word;
}

template <typename F>
class DropoutTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(DropoutTest, Types);

TYPED_TEST(DropoutTest, EachElementHasItsWord) {
  using F = TypeParam;
  constexpr float kProbability = 0.3f;
  constexpr uint64_t kKey = 0x0123456789abcdef;
  const uint64_t min_kept_word = static_cast<uint64_t>(
      std::floor(static_cast<double>(kProbability) * 4294967296.0));
  const F scale = F{1} / (F{1} - F{kProbability});
  std::vector<F> in(kCount);
  for (int64_t j = 0; j < kCount; ++j) in[j] = static_cast<F>(j + 1);
  const std::vector<F> out = Apply(kProbability, kKey, 5, 70000, 3, in);
  for (int64_t j = 0; j < kCount; ++j) {
    const bool is_kept = IsKept(j, 3, 70000, 5, kKey, min_kept_word);
    EXPECT_EQ(out[j], is_kept ? in[j] * scale : 0) << j;
  }
}

// Rows lie apart, in no order, and are of steps and batch rows of their own.
template <typename Operand>
void ExpectEachRowItsWords(const SimdKernels<Operand>& kernels,
                           int64_t features, int64_t num_rows) {
  constexpr int64_t kGap = 4;
  const int64_t row_size = features + kGap;
  DropoutRows<Operand> dropout;
  dropout.layer = 3;
  dropout.key = 0x0123456789abcdef;
  dropout.min_kept_word = uint64_t{1} << 31;
  dropout.scale = 2;
  dropout.features = features;
  std::vector<Operand> values;
  for (int64_t i = 0; i < num_rows * row_size; ++i) {
    // What BFloat16 has exactly.
    values.push_back(FromDouble<Operand>(static_cast<double>(1 + i % 100)));
  }
  const std::vector<Operand> in = values;
  std::vector<DroppedRow<Operand>> rows;
  for (int64_t i = num_rows - 1; i >= 0; --i) {
    rows.push_back({static_cast<uint32_t>(7 * i % 5),
                    0xffffffffu - static_cast<uint32_t>(i),
                    values.data() + i * row_size});
  }
  dropout.rows = rows.data();
  dropout.count = num_rows;
  kernels.drop_out(dropout);
  for (const DroppedRow<Operand>& row : rows) {
    for (int64_t j = 0; j < row_size; ++j) {
      const double before = ToDouble(in[row.values + j - values.data()]);
      double expected = before;
      if (j < features) {
        expected = IsKept(j, row.batch_row, row.time, dropout.layer,
                          dropout.key, dropout.min_kept_word)
                       ? before * 2
                       : 0;
      }
      ASSERT_EQ(ToDouble(row.values[j]), expected)
          << "feature " << j << " of " << features << ", of " << num_rows
          << " rows";
    }
  }
}

template <typename Operand>
void ExpectEachRowItsWords(const SimdKernels<Operand>& kernels) {
  for (int64_t features : {1, 3, 4, 5, 15, 16, 127, 128, 129, 300}) {
    for (int64_t num_rows : {0, 1, 2, 8, 9, 33}) {
      ExpectEachRowItsWords(kernels, features, num_rows);
    }
  }
}

TEST(DropoutKernelsTest, EveryInstructionSetDrawsTheSameWords) {
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    ExpectEachRowItsWords(*target->float_kernels);
    ExpectEachRowItsWords(*target->double_kernels);
    if (target->bfloat16_kernels != nullptr) {
      ExpectEachRowItsWords(*target->bfloat16_kernels);
    }
  }
}

// More rows than wait for each other, and rows so wide that few do.
TYPED_TEST(DropoutTest, RowsThatWaitGetTheirOwnMasks) {
  using F = TypeParam;
  for (int64_t features : {3, 15, 100, 700, 5000}) {
    constexpr int64_t kRows = 70;
    std::vector<F> values(kRows * features, F{1});
    {
      RowsToDrop<F> rows({0.5f, 17}, /*layer=*/2, features);
      for (int64_t i = 0; i < kRows; ++i) {
        rows.Add(/*time=*/i / 7, /*batch_row=*/i % 7,
                 values.data() + i * features);
      }
    }
    const std::vector<F> ones(features, F{1});
    for (int64_t i = 0; i < kRows; ++i) {
      const F* row = values.data() + i * features;
      ASSERT_EQ(std::vector<F>(row, row + features),
                Apply(0.5f, 17, 2, i / 7, i % 7, ones))
          << "row " << i << " of " << features << " features";
    }
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

}  // namespace
}  // namespace rnn
