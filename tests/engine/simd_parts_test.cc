// PartsKernels: products of floats by their bfloat16 parts.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/engine/element_values.h"
#include "tests/engine/guard_pages.h"
#include "tests/engine/guarded.h"
#include "tests/engine/random_values.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

class SimdPartsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const SimdTarget* target : TestedSimdTargets()) {
      if (target->parts_kernels != nullptr) targets_.push_back(target);
    }
    if (targets_.empty()) GTEST_SKIP() << "nothing here multiplies parts";
  }

  std::vector<const SimdTarget*> targets_;
};

// Operands of a product, whole and in parts, these in memory of exactly their
// size between guard pages.
struct Operands {
  Operands(const SimdTarget& target, int64_t num_rows, int64_t any_depth,
           const std::function<float(RandomValues&)>& value)
      : kernels(*target.parts_kernels),
        depth_block(target.float_kernels->depth_block),
        rows(num_rows),
        depth(any_depth),
        columns(target.float_kernels->panel_columns),
        a(rows * depth),
        b(depth * columns),
        a_stride(PaddedPartsDepth(depth) * kNumParts),
        a_size((rows + kPartsRows - 1) / kPartsRows * kPartsRows * a_stride),
        a_pages(a_size),
        b_pages(a_stride * columns),
        a_parts(a_pages.At(GuardedSide::kEnd, a_size)),
        b_parts(b_pages.At(GuardedSide::kEnd, a_stride * columns)) {
    RandomValues random(depth + 17 * rows);
    for (float& x : a) x = value(random);
    for (float& x : b) x = value(random);
    Split();
  }

  void Split() {
    for (int64_t i = 0; i < rows; ++i) {
      kernels.split_row(a.data() + i * depth, depth, a_parts + i * a_stride);
    }
    for (int64_t k = 0; k < depth; k += kPartsDepth) {
      kernels.split_group(b.data() + k * columns,
                          std::min(kPartsDepth, depth - k),
                          b_parts + k * kNumParts * columns);
    }
  }

  // Rows [row, row + count) times the first `num_columns` of B.
  PartsProduct Product(int64_t row, int64_t count, int64_t num_columns,
                       float* const* c) const {
    PartsProduct product{};
    product.rows = count;
    product.depth = PaddedPartsDepth(depth);
    product.columns = num_columns;
    product.a = a_parts + row * a_stride;
    product.a_stride = a_stride;
    product.b = b_parts;
    product.c = c;
    return product;
  }

  // Rows [row, row + count) times the first `num_columns` of B, plus the bias
  // or the former c, if there are any.
  std::vector<float> Multiply(int64_t row, int64_t count, int64_t num_columns,
                              const float* bias = nullptr,
                              const float* c = nullptr) const {
    constexpr int64_t kOffset = 3;
    const int64_t stride = kOffset + num_columns + 5;
    Guarded<float> out(count * stride);
    std::vector<float*> pointers;
    for (int64_t i = 0; i < count; ++i) {
      pointers.push_back(out.data() + i * stride);
      if (c != nullptr) {
        std::copy_n(c + (row + i) * columns, num_columns,
                    pointers[i] + kOffset);
      }
    }
    PartsProduct product = Product(row, count, num_columns, pointers.data());
    product.c_offset = kOffset;
    product.bias = bias;
    product.accumulate = c != nullptr;
    kernels.multiply_panel(product);
    EXPECT_TRUE(out.intact());
    std::vector<float> result;
    for (int64_t i = 0; i < count * stride; ++i) {
      const int64_t j = i % stride - kOffset;
      if (j >= 0 && j < num_columns) {
        result.push_back(out[i]);
      } else {
        EXPECT_TRUE(IsPoison(out[i])) << "row " << i / stride << ", " << j;
      }
    }
    return result;
  }

  // The exact value, and the sum of the magnitudes it is made of.
  double Exact(int64_t i, int64_t j, double* magnitude) const {
    double sum = 0;
    *magnitude = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const double term =
          static_cast<double>(a[i * depth + k]) * b[k * columns + j];
      sum += term;
      *magnitude += std::abs(term);
    }
    return sum;
  }

  // In blocks of depth, a chain of multiply-adds each.
  float Chain(int64_t i, int64_t j) const {
    float sum = 0;
    for (int64_t begin = 0; begin < depth; begin += depth_block) {
      float block = 0;
      for (int64_t k = begin; k < std::min(begin + depth_block, depth); ++k) {
        block = std::fma(a[i * depth + k], b[k * columns + j], block);
      }
      sum = begin == 0 ? block : sum + block;
    }
    return sum;
  }

  const PartsKernels& kernels;
  int64_t depth_block;
  int64_t rows, depth, columns;
  std::vector<float> a;  // [rows][depth]
  std::vector<float> b;  // [depth][columns]
  int64_t a_stride;
  int64_t a_size;
  GuardPages<BFloat16> a_pages, b_pages;
  BFloat16* a_parts;
  BFloat16* b_parts;
};

float Ordinary(RandomValues& random) {
  return static_cast<float>(random.Real(-1, 1));
}

constexpr int64_t kDepths[] = {1, 2, 31, 32, 33, 64, 100, 511, 512, 513, 1100};

TEST_F(SimdPartsTest, EveryElementIsTheSumOfItsProducts) {
  for (const SimdTarget* target : targets_) {
    for (int64_t depth : kDepths) {
      for (int64_t rows : {1, 15, 16, 17, 32, 33, 64, 70}) {
        const Operands operands(*target, rows, depth, Ordinary);
        const int64_t columns = operands.columns;
        RandomValues random(5);
        std::vector<float> bias(columns), c(rows * columns);
        for (float& x : bias) x = Ordinary(random);
        for (float& x : c) x = Ordinary(random);
        for (int start = 0; start < 3; ++start) {
          const auto result = operands.Multiply(
              0, rows, columns, start == 1 ? bias.data() : nullptr,
              start == 2 ? c.data() : nullptr);
          for (int64_t i = 0; i < rows * columns; ++i) {
            double magnitude;
            const double first = start == 1   ? bias[i % columns]
                                 : start == 2 ? c[i]
                                              : 0;
            const double exact =
                operands.Exact(i / columns, i % columns, &magnitude) + first;
            // Products err by 2^-23; chains are of 16 pairs, 6 a group, and of
            // a block's groups.
            const double additions = 2 + 16 + 6 * 16 + 4;
            ASSERT_NEAR(result[i], exact,
                        additions * std::numeric_limits<float>::epsilon() / 2 *
                            (magnitude + std::abs(first)))
                << "depth " << depth << ", row " << i / columns << ", column "
                << i % columns << ", start " << start;
          }
        }
      }
    }
  }
}

// As exact as float, in the mean: what is rounded is the sum, not the products.
TEST_F(SimdPartsTest, ErrsNoMoreThanMultiplyAdds) {
  const auto positive = [](RandomValues& random) {
    return static_cast<float>(random.Real(0, 1));
  };
  const auto of_all_sizes = [](RandomValues& random) {
    return static_cast<float>(std::ldexp(
        random.Real(-1, 1), static_cast<int>(random.Integer(-20, 20))));
  };
  for (const SimdTarget* target : targets_) {
    for (const std::function<float(RandomValues&)>& value :
         {std::function<float(RandomValues&)>(Ordinary),
          std::function<float(RandomValues&)>(positive),
          std::function<float(RandomValues&)>(of_all_sizes)}) {
      for (int64_t depth : {32, 100, 512, 2048}) {
        constexpr int64_t kRows = 32;
        const Operands operands(*target, kRows, depth, value);
        const auto result = operands.Multiply(0, kRows, operands.columns);
        double errors = 0, chain_errors = 0;
        for (int64_t i = 0; i < kRows; ++i) {
          for (int64_t j = 0; j < operands.columns; ++j) {
            double magnitude;
            const double exact = operands.Exact(i, j, &magnitude);
            errors += std::pow(result[i * operands.columns + j] - exact, 2);
            chain_errors += std::pow(operands.Chain(i, j) - exact, 2);
          }
        }
        EXPECT_LE(errors, chain_errors) << "depth " << depth;
      }
    }
  }
}

TEST_F(SimdPartsTest, BitsDependNeitherOnRowsNorOnColumns) {
  for (const SimdTarget* target : targets_) {
    for (int64_t depth : {1, 33, 512, 1100}) {
      constexpr int64_t kRows = 70;
      const Operands operands(*target, kRows, depth, Ordinary);
      const int64_t all_columns = operands.columns;
      const auto all = operands.Multiply(0, kRows, all_columns);
      for (int64_t row : {0, 1, 16, 37}) {
        for (int64_t rows : {1, 16, 17, 32, 33}) {
          for (int64_t columns = 1; columns <= all_columns;
               columns += columns < 16 ? 5 : 16) {
            // Rows that fill a tile must be there.
            if (row + (rows + kPartsRows - 1) / kPartsRows * kPartsRows > 80) {
              continue;
            }
            const auto part = operands.Multiply(row, rows, columns);
            for (int64_t i = 0; i < rows; ++i) {
              ASSERT_EQ(
                  std::memcmp(&part[i * columns], &all[(row + i) * all_columns],
                              columns * sizeof(float)),
                  0)
                  << "depth " << depth << ", row " << i << " of " << row
                  << " + " << rows << ", columns " << columns;
            }
          }
        }
      }
    }
  }
}

// The parts of an infinity times those of a number are no numbers, and sums of
// large values may be too large in another order: neither may be seen.
TEST_F(SimdPartsTest, SpecialValuesGiveWhatMultiplyAddsGive) {
  const float special[] = {kInfinity, -kInfinity, kNaN,       kMax,
                           -kMax,     3.4e38f,    -3.399e38f, 1e30f};
  for (const SimdTarget* target : targets_) {
    for (int64_t depth : {1, 32, 100, 600}) {
      constexpr int64_t kRows = 35;
      Operands operands(*target, kRows, depth, [](auto& random) {
        // Many have parts that are zero.
        return random.Integer(0, 1) == 0
                   ? Ordinary(random)
                   : static_cast<float>(random.Integer(-2, 2)) / 4;
      });
      const auto ordinary = operands.Multiply(0, kRows, operands.columns);
      RandomValues random(depth);
      std::vector<bool> is_special_row(kRows),
          is_special_column(operands.columns);
      for (int n = 0; n < 12; ++n) {
        const int64_t i = random.Integer(0, kRows - 1);
        is_special_row[i] = true;
        operands.a[i * depth + random.Integer(0, depth - 1)] =
            special[random.Integer(0, 7)];
      }
      for (int n = 0; n < 6; ++n) {
        const int64_t j = random.Integer(0, operands.columns - 1);
        is_special_column[j] = true;
        operands.b[random.Integer(0, depth - 1) * operands.columns + j] =
            special[random.Integer(0, 7)];
      }
      operands.Split();
      // Zeros are added without a trace, whatever they are.
      const std::vector<float> zeros(kRows * operands.columns);
      const bool has_bias = depth == 100, accumulates = depth == 600;
      const auto result = operands.Multiply(
          0, kRows, operands.columns, has_bias ? zeros.data() : nullptr,
          accumulates ? zeros.data() : nullptr);
      for (int64_t i = 0; i < kRows; ++i) {
        for (int64_t j = 0; j < operands.columns; ++j) {
          const float value = result[i * operands.columns + j];
          const std::string place = "depth " + std::to_string(depth) +
                                    ", row " + std::to_string(i) + ", column " +
                                    std::to_string(j);
          if (!is_special_row[i] && !is_special_column[j]) {
            ASSERT_EQ(value, ordinary[i * operands.columns + j]) << place;
            continue;
          }
          const float expected = operands.Chain(i, j);
          if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(value)) << place << ": " << value;
          } else if (std::isinf(expected)) {
            ASSERT_EQ(value, expected) << place;
          } else {
            double magnitude;
            operands.Exact(i, j, &magnitude);
            ASSERT_NEAR(value, expected, 1e-5 * magnitude) << place;
          }
        }
      }
    }
  }
}

// A number's parts add up to it, whatever its size; what is lost is below the
// least normal number.
TEST_F(SimdPartsTest, PartsAddUp) {
  for (const SimdTarget* target : targets_) {
    std::vector<float> values = {0,      -0.0f,  1,       kMax,  -kMax,
                                 1e-38f, 1e-30f, 3.4e38f, 1e-45f};
    RandomValues random(8);
    for (int exponent = -125; exponent < 128; ++exponent) {
      values.push_back(static_cast<float>(std::ldexp(
          random.Real(1, 2) * (exponent % 2 == 0 ? 1 : -1), exponent)));
    }
    values.resize(288);
    std::vector<BFloat16> parts(values.size() * kNumParts);
    target->parts_kernels->split_row(
        values.data(), static_cast<int64_t>(values.size()), parts.data());
    for (size_t k = 0; k < values.size(); ++k) {
      double sum = 0;
      for (int part = 0; part < kNumParts; ++part) {
        sum += ToDouble(parts[k / kPartsDepth * kNumParts * kPartsDepth +
                              part * kPartsDepth + k % kPartsDepth]);
      }
      ASSERT_NEAR(sum, values[k], std::numeric_limits<float>::min()) << k;
      if (std::abs(values[k]) > 1e-32f) {
        ASSERT_EQ(sum, values[k]) << k;
      }
    }
  }
}

}  // namespace
}  // namespace rnn
