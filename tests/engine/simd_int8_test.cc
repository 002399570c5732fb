// Products of floats with int8 weights, and what rounds their left operands,
// against plain loops.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/engine/plan/operand_plan.h"
#include "tests/engine/guard_pages.h"
#include "tests/engine/random_values.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

// Whole vectors of every instruction set, lines, and what is left of them.
constexpr int64_t kDepths[] = {1,  3,  8,  15, 16,  17,  31,  32,
                               33, 63, 64, 65, 100, 128, 200, 517};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Rounded {
  std::vector<int16_t> integers;
  float scale;
};

// By the rule of simd_kernels.h, element by element.
Rounded RoundPlainly(const std::vector<float>& row) {
  const int64_t depth = row.size();
  const float limit = static_cast<float>(std::min<int64_t>(
      INT16_MAX, std::numeric_limits<int32_t>::max() / (128 * depth)));
  float largest = 0;
  bool is_finite = true;
  for (float value : row) {
    if (!std::isfinite(value)) is_finite = false;
    largest = std::max(largest, std::abs(value));
  }
  Rounded rounded{std::vector<int16_t>(PaddedInt8Depth(depth)), 0};
  if (!is_finite) rounded.scale = kNan;
  if (!is_finite || largest < 0x1p-100f) return rounded;
  rounded.scale = largest / limit;
  for (int64_t k = 0; k < depth; ++k) {
    rounded.integers[k] =
        static_cast<int16_t>(std::nearbyint(row[k] * (limit / largest)));
  }
  return rounded;
}

void ExpectRounded(const SimdTarget& target, const std::vector<float>& row) {
  const int64_t depth = row.size();
  EndGuarded<float> in(depth);
  std::copy(row.begin(), row.end(), in.data());
  EndGuarded<int16_t> out(PaddedInt8Depth(depth));
  float scale = -1;
  target.int8_kernels->round_row(in.data(), depth, out.data(), &scale);
  const Rounded expected = RoundPlainly(row);
  if (std::isnan(expected.scale)) {
    EXPECT_TRUE(std::isnan(scale));
  } else {
    EXPECT_EQ(scale, expected.scale);
  }
  for (int64_t k = 0; k < out.size(); ++k) {
    EXPECT_EQ(out[k], expected.integers[k]) << "at " << k;
  }
}

TEST(SimdInt8Test, RowsAreRounded) {
  RandomValues random(1);
  for (const SimdTarget* target : TestedSimdTargets()) {
    for (int64_t depth : kDepths) {
      SCOPED_TRACE(std::string(target->name) + ", depth " +
                   std::to_string(depth));
      for (double bound : {1.0, 1e-20, 1e30}) {
        ExpectRounded(*target, random.Reals<float>(depth, -bound, bound));
      }
    }
  }
}

TEST(SimdInt8Test, RowsOfSpecialValues) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    std::vector<float> row(40, 0.25f);
    for (float value : {0.0f, -0.0f, -kLargest, kLargest, 0x1p-100f, -0x1p-101f,
                        1e-40f, kInfinity, -kInfinity, kNan, -kNan}) {
      row[39] = value;
      ExpectRounded(*target, row);
      ExpectRounded(*target, std::vector<float>(40, value));
    }
  }
}

// Halves go to even numbers, on both sides of zero.
TEST(SimdInt8Test, HalvesAreRoundedToEven) {
  const float limit = static_cast<float>(Int8RowLimit(8));
  const std::vector<float> row = {limit, 0.5f,  1.5f,  2.5f,
                                  -0.5f, -1.5f, -2.5f, 3.0f};
  const int16_t kExpected[] = {
      static_cast<int16_t>(limit), 0, 2, 2, 0, -2, -2, 3};
  for (const SimdTarget* target : TestedSimdTargets()) {
    std::vector<int16_t> out(PaddedInt8Depth(8));
    float scale = 0;
    target->int8_kernels->round_row(row.data(), 8, out.data(), &scale);
    EXPECT_EQ(scale, 1) << target->name;
    EXPECT_TRUE(std::equal(kExpected, kExpected + 8, out.begin()))
        << target->name;
  }
}

// The largest sums that there can be have room.
TEST(SimdInt8Test, SumsDoNotOverflow) {
  for (int64_t depth : {1, 512, 516, 1024, 16384, 131072}) {
    EXPECT_LE(Int8RowLimit(depth) * 128 * depth,
              std::numeric_limits<int32_t>::max());
    EXPECT_GE(Int8RowLimit(depth), 127);
  }
}

enum class Start { kZero, kBias, kAccumulate };

// All operands end where their memory does.
struct Operands {
  Operands(int64_t rows, int64_t depth, int64_t columns, RandomValues& random,
           int64_t columns_behind = 0)
      : rows(rows),
        depth(depth),
        columns(columns),
        columns_behind(columns_behind),
        a_stride(LeftIntegersStride(depth)),
        a((rows - 1) * a_stride + PaddedInt8Depth(depth)),
        a_scales(rows),
        b((columns + columns_behind) * depth),
        b_scales(columns),
        bias(columns),
        c(rows * columns) {
    const int64_t limit = Int8RowLimit(depth);
    for (int64_t m = 0; m < rows; ++m) {
      a_scales[m] = static_cast<float>(random.Real(0, 1e-3));
      for (int64_t k = 0; k < PaddedInt8Depth(depth); ++k) {
        a[m * a_stride + k] =
            k < depth ? static_cast<int16_t>(random.Integer(-limit, limit)) : 0;
      }
    }
    for (int64_t i = 0; i < b.size(); ++i) {
      b[i] = static_cast<int8_t>(random.Integer(-128, 127));
    }
    for (int64_t j = 0; j < columns; ++j) {
      b_scales[j] = static_cast<float>(random.Real(0, 1e-2));
      bias[j] = static_cast<float>(random.Real(-1, 1));
    }
    for (int64_t i = 0; i < c.size(); ++i) {
      c[i] = static_cast<float>(random.Real(-1, 1));
    }
  }

  float Expected(Start start, int64_t m, int64_t j) {
    int64_t sum = 0;
    for (int64_t k = 0; k < depth; ++k) {
      sum += int64_t{a[m * a_stride + k]} * b[j * depth + k];
    }
    const float product = static_cast<float>(sum) * (a_scales[m] * b_scales[j]);
    return start == Start::kZero   ? product
           : start == Start::kBias ? bias[j] + product
                                   : c[m * columns + j] + product;
  }

  std::vector<float> Multiply(const SimdTarget& target, Start start) {
    EndGuarded<float> out(rows * columns);
    std::vector<float*> out_rows;
    for (int64_t i = 0; i < out.size(); ++i) out[i] = c[i];
    for (int64_t m = 0; m < rows; ++m) {
      out_rows.push_back(out.data() + m * columns - 3);
    }
    Int8Product p{};
    p.rows = rows;
    p.depth = depth;
    p.columns = columns;
    p.a = a.data();
    p.a_stride = a_stride;
    p.a_scales = a_scales.data();
    p.b = b.data();
    p.columns_behind = columns_behind;
    p.b_scales = b_scales.data();
    p.c = out_rows.data();
    p.c_offset = 3;
    p.bias = start == Start::kBias ? bias.data() : nullptr;
    p.accumulate = start == Start::kAccumulate;
    target.int8_kernels->multiply(p);
    return std::vector<float>(out.data(), out.data() + out.size());
  }

  int64_t rows, depth, columns, columns_behind, a_stride;
  EndGuarded<int16_t> a;
  EndGuarded<float> a_scales;
  EndGuarded<int8_t> b;
  EndGuarded<float> b_scales, bias, c;
};

void ExpectProducts(int64_t rows, int64_t depth, int64_t columns,
                    int64_t columns_behind = 0) {
  RandomValues random(rows * 1000 + depth * 10 + columns);
  Operands operands(rows, depth, columns, random, columns_behind);
  for (Start start : {Start::kZero, Start::kBias, Start::kAccumulate}) {
    std::vector<float> expected;
    for (int64_t m = 0; m < rows; ++m) {
      for (int64_t j = 0; j < columns; ++j) {
        expected.push_back(operands.Expected(start, m, j));
      }
    }
    for (const SimdTarget* target : TestedSimdTargets()) {
      EXPECT_EQ(operands.Multiply(*target, start), expected)
          << target->name << ", rows " << rows << ", depth " << depth
          << ", columns " << columns << " and " << columns_behind;
    }
  }
}

TEST(SimdInt8Test, ProductsAreExact) {
  for (int64_t depth : kDepths) ExpectProducts(3, depth, 13);
  for (int64_t columns : {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 64}) {
    ExpectProducts(2, 70, columns);
  }
  for (int64_t rows = 1; rows <= 9; ++rows) ExpectProducts(rows, 70, 11);
}

// Which is read up to the end of memory, and does not count.
TEST(SimdInt8Test, WhatLiesBehindBIsNoPartOfProducts) {
  for (int64_t depth : kDepths) {
    for (int64_t columns_behind : {1, 2, 40}) {
      ExpectProducts(1, depth, 8, columns_behind);
      ExpectProducts(3, depth, 5, columns_behind);
    }
  }
}

// A row of NaN gives NaN, and no other row does.
TEST(SimdInt8Test, NanStaysInItsRow) {
  RandomValues random(1);
  Operands operands(4, 40, 9, random);
  operands.a_scales[2] = kNan;
  for (const SimdTarget* target : TestedSimdTargets()) {
    const std::vector<float> c = operands.Multiply(*target, Start::kBias);
    for (int64_t i = 0; i < static_cast<int64_t>(c.size()); ++i) {
      EXPECT_EQ(std::isnan(c[i]), i / 9 == 2) << target->name << " at " << i;
    }
  }
}

}  // namespace
}  // namespace rnn
