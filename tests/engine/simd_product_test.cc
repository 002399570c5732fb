// multiply_panel and transpose_rows against plain loops.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/engine/guarded.h"
#include "tests/engine/random_values.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

constexpr int64_t kMaxRows = 13;  // two tiles of six, and one
constexpr int64_t kOffset = 3;    // of c's columns; not aligned

enum class Start { kZero, kBias, kAccumulate };
constexpr Start kStarts[] = {Start::kZero, Start::kBias, Start::kAccumulate};

// The operands of a product of 13 rows and a full panel. The rows of `a` end in
// poison; columns of `b` beyond those asked for are not zero, as in an engine's
// panel, so that a wrong column would show.
template <typename F>
struct Operands {
  Operands(int64_t depth, int64_t panel_columns, uint64_t seed)
      : depth(depth),
        columns(panel_columns),
        a_values(kMaxRows * (depth + 1)),
        b(depth * panel_columns),
        bias(panel_columns),
        c(kMaxRows * panel_columns) {
    RandomValues random(seed);
    for (int64_t m = 0; m < kMaxRows; ++m) {
      a.push_back(a_values.data() + m * (depth + 1));
      for (int64_t k = 0; k < depth; ++k) {
        a_values[m * (depth + 1) + k] = static_cast<F>(random.Real(-1, 1));
      }
    }
    for (Guarded<F>* values : {&b, &bias, &c}) {
      for (int64_t i = 0; i < values->size(); ++i) {
        (*values)[i] = static_cast<F>(random.Real(-1, 1));
      }
    }
  }

  // The value of an element, and the sum of the magnitudes it is made of.
  void Plain(Start start, int64_t m, int64_t j, double* value, double* sum) {
    *value = start == Start::kBias         ? bias[j]
             : start == Start::kAccumulate ? c[m * columns + j]
                                           : 0;
    *sum = std::abs(*value);
    for (int64_t k = 0; k < depth; ++k) {
      const double term = static_cast<double>(a[m][k]) * b[k * columns + j];
      *value += term;
      *sum += std::abs(term);
    }
  }

  int64_t depth;
  int64_t columns;
  Guarded<F> a_values;
  std::vector<const F*> a;
  Guarded<F> b;
  Guarded<F> bias;
  Guarded<F> c;
};

// Multiplies rows [row, row + rows) by `columns` columns of the panel;
// result[m * columns + j]. Checks that nothing but the result is written.
template <typename F>
std::vector<F> MultiplyBy(const Panel<F>& panel, const SimdKernels<F>& kernels,
                          Operands<F>& operands, Start start, int64_t row,
                          int64_t rows, int64_t columns) {
  const int64_t stride = kOffset + columns + 5;
  Guarded<F> out(rows * stride);
  std::vector<F*> c;
  for (int64_t m = 0; m < rows; ++m) {
    c.push_back(out.data() + m * stride);
    if (start == Start::kAccumulate) {
      std::copy_n(operands.c.data() + (row + m) * operands.columns, columns,
                  c[m] + kOffset);
    }
  }
  Guarded<F> bias(
      std::vector<F>(operands.bias.data(), operands.bias.data() + columns));
  PanelProduct<F> product{};
  product.rows = rows;
  product.depth = operands.depth;
  product.columns = columns;
  product.a = operands.a.data() + row;
  product.b = panel;
  product.c = c.data();
  product.c_offset = kOffset;
  product.bias = start == Start::kBias ? bias.data() : nullptr;
  product.accumulate = start == Start::kAccumulate;
  kernels.multiply_panel(product);

  EXPECT_TRUE(out.intact());
  std::vector<F> result;
  for (int64_t i = 0; i < rows * stride; ++i) {
    const int64_t j = i % stride - kOffset;
    if (j >= 0 && j < columns) {
      result.push_back(out[i]);
    } else if (!IsPoison(out[i])) {
      ADD_FAILURE() << "row " << i / stride << ": column " << j
                    << " is not of the panel, yet written";
    }
  }
  return result;
}

// Has B packed, and expects the same bits where B lies in other ways.
template <typename F>
std::vector<F> Multiply(const SimdKernels<F>& kernels, Operands<F>& operands,
                        Start start, int64_t row, int64_t rows,
                        int64_t columns) {
  Panel<F> packed{};
  packed.packed = operands.b.data();
  const std::vector<F> result =
      MultiplyBy(packed, kernels, operands, start, row, rows, columns);
  const auto expect_same = [&](const Panel<F>& panel, const char* how) {
    const std::vector<F> other =
        MultiplyBy(panel, kernels, operands, start, row, rows, columns);
    EXPECT_EQ(
        std::memcmp(other.data(), result.data(), result.size() * sizeof(F)), 0)
        << how << ", rows " << row << " + " << rows << ", " << columns
        << " columns";
  };

  const int64_t depth = operands.depth;
  Guarded<F> transposed(columns * depth);
  const F* pointers[256] = {};
  for (int64_t j = 0; j < columns; ++j) {
    pointers[j] = transposed.data() + j * depth;
    for (int64_t k = 0; k < depth; ++k) {
      transposed[j * depth + k] = operands.b[k * operands.columns + j];
    }
  }
  Panel<F> in_rows{};
  in_rows.rows = pointers;
  expect_same(in_rows, "transposed");

  // Vectors in reverse order, with gaps.
  const int64_t vectors = (columns + kernels.lanes - 1) / kernels.lanes;
  Panel<F> in_vectors{};
  in_vectors.stride = vectors * kernels.lanes + 3;
  Guarded<F> strided(depth == 0 ? 0
                                : (depth - 1) * in_vectors.stride +
                                      vectors * kernels.lanes);
  for (int64_t v = 0; v < vectors; ++v) {
    const int64_t begin = (vectors - 1 - v) * kernels.lanes;
    in_vectors.vectors[v] = strided.data() + begin;
    for (int64_t k = 0; k < depth; ++k) {
      std::copy_n(operands.b.data() + k * operands.columns + v * kernels.lanes,
                  kernels.lanes,
                  strided.data() + k * in_vectors.stride + begin);
    }
  }
  expect_same(in_vectors, "strided");
  return result;
}

template <typename F>
class SimdProductTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SimdProductTest, Types);

constexpr int64_t kDepths[] = {0,  1,  2,  3,  7,   8,   9,   15,  16,  17,
                               31, 33, 63, 65, 127, 129, 511, 512, 513, 1100};

TYPED_TEST(SimdProductTest, EveryElementIsTheSumOfItsProducts) {
  using F = TypeParam;
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<F>& kernels = KernelsOf<F>(*target);
    for (int64_t depth : kDepths) {
      SCOPED_TRACE(testing::Message() << "depth " << depth);
      Operands<F> operands(depth, kernels.panel_columns, depth + 1);
      for (Start start : kStarts) {
        const std::vector<F> result =
            Multiply(kernels, operands, start, 0, kMaxRows, operands.columns);
        for (int64_t i = 0; i < kMaxRows * operands.columns; ++i) {
          double value, sum;
          operands.Plain(start, i / operands.columns, i % operands.columns,
                         &value, &sum);
          // Each of at most 512 + 3 + 1 additions, and as many products, errs
          // by half an epsilon of what is summed so far.
          const double chain = std::min<int64_t>(depth, 512) + 4;
          ASSERT_NEAR(result[i], value,
                      chain * std::numeric_limits<F>::epsilon() * sum)
              << "row " << i / operands.columns << ", column "
              << i % operands.columns << ", start " << static_cast<int>(start);
        }
      }
    }
  }
}

// And each of these is therefore right, by the test above.
TYPED_TEST(SimdProductTest, BitsDependNeitherOnRowsNorOnColumns) {
  using F = TypeParam;
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<F>& kernels = KernelsOf<F>(*target);
    for (int64_t depth : {0, 1, 7, 65, 511, 512, 513, 1100}) {
      SCOPED_TRACE(testing::Message() << "depth " << depth);
      Operands<F> operands(depth, kernels.panel_columns, depth + 100);
      for (Start start : kStarts) {
        const std::vector<F> all =
            Multiply(kernels, operands, start, 0, kMaxRows, operands.columns);
        const auto expect_part_of_all = [&](int64_t row, int64_t rows,
                                            int64_t columns) {
          const std::vector<F> part =
              Multiply(kernels, operands, start, row, rows, columns);
          for (int64_t m = 0; m < rows; ++m) {
            ASSERT_EQ(std::memcmp(&part[m * columns],
                                  &all[(row + m) * operands.columns],
                                  columns * sizeof(F)),
                      0)
                << "row " << m << " of rows " << row << " + " << rows << ", "
                << columns << " columns, start " << static_cast<int>(start);
          }
        };
        for (int64_t columns = 1; columns <= operands.columns; ++columns) {
          for (int64_t rows = 1; rows <= kMaxRows; ++rows) {
            expect_part_of_all(0, rows, columns);
            if (this->HasFatalFailure()) return;
          }
        }
        for (int64_t row = 0; row < kMaxRows; ++row) {
          for (int64_t rows = 1; rows <= kMaxRows - row; ++rows) {
            expect_part_of_all(row, rows, operands.columns);
            if (this->HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdProductTest, EqualColumnsGiveEqualBits) {
  using F = TypeParam;
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<F>& kernels = KernelsOf<F>(*target);
    Operands<F> operands(700, kernels.panel_columns, 5);
    const int64_t columns = operands.columns;
    for (int64_t i = 0; i < operands.b.size(); ++i) {
      operands.b[i] = operands.b[i - i % columns];
    }
    std::fill_n(operands.bias.data(), columns, operands.bias[0]);
    const std::vector<F> result =
        Multiply(kernels, operands, Start::kBias, 0, kMaxRows, columns);
    for (int64_t i = 0; i < kMaxRows * columns; ++i) {
      ASSERT_TRUE(SameBits(result[i], result[i - i % columns])) << i;
    }
  }
}

TYPED_TEST(SimdProductTest, NoRowsWriteNothing) {
  using F = TypeParam;
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<F>& kernels = KernelsOf<F>(*target);
    Operands<F> operands(9, kernels.panel_columns, 6);
    Multiply(kernels, operands, Start::kZero, 0, 0, 1);
  }
}

// Rows of unequal worth, one of them absent, and a window [begin, end) of their
// columns: whole tiles, tails both ways.
TYPED_TEST(SimdProductTest, TransposesRows) {
  using F = TypeParam;
  constexpr int64_t kDepth = 41;
  for (const SimdTarget* target : TestedSimdTargets()) {
    for (int64_t columns : {1, 3, 4, 7, 8, 15, 16, 17, 33}) {
      for (int64_t begin : {0, 5}) {
        for (int64_t end : {begin, begin + 1, int64_t{21}, kDepth}) {
          SCOPED_TRACE(testing::Message()
                       << target->name << " columns " << columns << " from "
                       << begin << " to " << end);
          Guarded<F> values(columns * kDepth);
          std::vector<const F*> rows;
          for (int64_t j = 0; j < columns; ++j) {
            rows.push_back(j == 2 ? nullptr : values.data() + j * kDepth);
            for (int64_t k = begin; k < end; ++k) {
              values[j * kDepth + k] = static_cast<F>(1000 * j + k);
            }
          }
          const int64_t out_stride = columns + 2;
          Guarded<F> out(kDepth * out_stride);
          KernelsOf<F>(*target).transpose_rows(rows.data(), columns, begin, end,
                                               out.data() + begin * out_stride,
                                               out_stride);
          EXPECT_TRUE(out.intact());
          for (int64_t k = 0; k < kDepth; ++k) {
            for (int64_t j = 0; j < out_stride; ++j) {
              const F value = out[k * out_stride + j];
              if (k < begin || k >= end || j >= columns) {
                EXPECT_TRUE(IsPoison(value)) << k << ' ' << j;
              } else {
                EXPECT_EQ(value, j == 2 ? 0 : 1000 * j + k) << k << ' ' << j;
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace rnn
