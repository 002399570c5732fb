// multiply_panel and what arranges its operands against plain loops.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/engine/dot_product.h"
#include "tests/engine/element_values.h"
#include "tests/engine/guarded.h"
#include "tests/engine/random_values.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

constexpr int64_t kMaxRows = 13;   // two tiles of six, and one
constexpr int64_t kManyRows = 33;  // tiles of all heights, and many of them
constexpr int64_t kOffset = 3;     // of c's columns; not aligned

enum class Start { kZero, kBias, kAccumulate };
constexpr Start kStarts[] = {Start::kZero, Start::kBias, Start::kAccumulate};

// The place of B[k][j] in a panel of so many columns.
template <typename Operand>
int64_t PanelIndex(int64_t k, int64_t j, int64_t columns) {
  constexpr int64_t kStep = kDepthStep<Operand>;
  return (k / kStep * columns + j) * kStep + k % kStep;
}

template <typename Value>
void FillRandomly(Guarded<Value>& values, RandomValues& random) {
  for (int64_t i = 0; i < values.size(); ++i) {
    values[i] = FromDouble<Value>(random.Real(-1, 1));
  }
}

// Of the blocks of its products.
template <typename Operand>
constexpr int64_t kDepthBlock = 512 * kDepthStep<Operand>;

// The operands of a product of some rows and a full panel. The rows of `a` end
// in poison, after the zeros that fill the last step; columns of `b` beyond
// those asked for are not zero, as in an engine's panel, so that a wrong column
// would show.
template <typename Operand>
struct Operands {
  using F = ComputeType<Operand>;

  Operands(int64_t depth_asked_for, int64_t panel_columns, uint64_t seed,
           int64_t rows = kMaxRows)
      : depth(PaddedDepth<Operand>(depth_asked_for)),
        columns(panel_columns),
        a_values(rows * (depth + 1)),
        b(depth * panel_columns),
        bias(panel_columns),
        c(rows * panel_columns) {
    RandomValues random(seed);
    for (int64_t m = 0; m < rows; ++m) {
      a.push_back(a_values.data() + m * (depth + 1));
      for (int64_t k = 0; k < depth; ++k) {
        A(m, k) =
            FromDouble<Operand>(k < depth_asked_for ? random.Real(-1, 1) : 0);
      }
    }
    FillRandomly(b, random);
    FillRandomly(bias, random);
    FillRandomly(c, random);
  }

  Operand& A(int64_t m, int64_t k) { return a_values[m * (depth + 1) + k]; }
  Operand& B(int64_t k, int64_t j) {
    return b[PanelIndex<Operand>(k, j, columns)];
  }

  // What an element's sum begins with.
  F First(Start start, int64_t m, int64_t j) {
    return start == Start::kBias         ? bias[j]
           : start == Start::kAccumulate ? c[m * columns + j]
                                         : 0;
  }

  // The value of an element, and the sum of the magnitudes it is made of.
  void Plain(Start start, int64_t m, int64_t j, long double* value,
             double* sum) {
    *value = First(start, m, j);
    *sum = std::abs(First(start, m, j));
    for (int64_t k = 0; k < depth; ++k) {
      const long double term =
          static_cast<long double>(ToDouble(a[m][k])) * ToDouble(B(k, j));
      *value += term;
      *sum += std::abs(static_cast<double>(term));
    }
  }

  // How far a product may be from Plain() whose `sum` is this. Each of at most
  // a block's additions + 5 + 1, and as many products, errs by half an epsilon
  // of what is summed so far.
  double MostError(double sum) const {
    const int64_t chain = std::min(depth, kDepthBlock<Operand>) + 6;
    return static_cast<double>(chain) * std::numeric_limits<F>::epsilon() * sum;
  }

  int64_t depth;
  int64_t columns;
  Guarded<Operand> a_values;
  std::vector<const Operand*> a;
  Guarded<Operand> b;
  Guarded<F> bias;
  Guarded<F> c;
};

// B as a panel of `columns` columns. What is not packed is a copy, with poison
// between columns.
template <typename Operand>
class OperandsPanel {
 public:
  OperandsPanel(PanelKind kind, Operands<Operand>& operands, int64_t columns) {
    const int64_t depth = operands.depth;
    switch (kind) {
      case PanelKind::kPacked:
        panel_.packed = operands.b.data();
        break;
      case PanelKind::kTransposed:
        panel_.stride = depth + 1;
        copy_.emplace(columns * panel_.stride);
        for (int64_t j = 0; j < columns; ++j) {
          Operand* column = copy_->data() + j * panel_.stride;
          for (int64_t k = 0; k < depth; ++k) column[k] = operands.B(k, j);
        }
        panel_.transposed = copy_->data();
        break;
    }
  }

  const Panel<Operand>& get() const { return panel_; }

 private:
  Panel<Operand> panel_{};
  std::optional<Guarded<Operand>> copy_;
};

// Has multiply(product) multiply rows [row, row + rows) by `columns` columns of
// B, which it adds to a product of type Product; result[m * columns + j].
// Checks that nothing but the result is written.
template <typename Product, typename Operand, typename MultiplyBy>
std::vector<ComputeType<Operand>> CheckedProduct(Operands<Operand>& operands,
                                                 Start start, int64_t row,
                                                 int64_t rows, int64_t columns,
                                                 MultiplyBy multiply) {
  using F = ComputeType<Operand>;
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
  Product product{};
  product.rows = rows;
  product.depth = operands.depth;
  product.columns = columns;
  product.a = operands.a.data() + row;
  product.c = c.data();
  product.c_offset = kOffset;
  product.bias = start == Start::kBias ? bias.data() : nullptr;
  product.accumulate = start == Start::kAccumulate;
  multiply(product);

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

template <typename Operand>
std::vector<ComputeType<Operand>> Multiply(PanelKind kind,
                                           const SimdKernels<Operand>& kernels,
                                           Operands<Operand>& operands,
                                           Start start, int64_t row,
                                           int64_t rows, int64_t columns) {
  const OperandsPanel<Operand> panel(kind, operands, columns);
  return CheckedProduct<PanelProduct<Operand>>(
      operands, start, row, rows, columns, [&](PanelProduct<Operand>& product) {
        product.b = panel.get();
        kernels.multiply_panel(product);
      });
}

// By rows of B; poison lies between these.
template <typename Operand>
std::vector<ComputeType<Operand>> MultiplyByRows(
    const SimdKernels<Operand>& kernels, Operands<Operand>& operands,
    Start start, int64_t row, int64_t rows, int64_t columns, int64_t gap = 3) {
  const int64_t stride = columns + gap;
  Guarded<Operand> b(
      operands.depth == 0 ? 0 : (operands.depth - 1) * stride + columns);
  for (int64_t k = 0; k < operands.depth; ++k) {
    for (int64_t j = 0; j < columns; ++j) {
      b[k * stride + j] = operands.B(k, j);
    }
  }
  return CheckedProduct<RowsProduct<Operand>>(
      operands, start, row, rows, columns, [&](RowsProduct<Operand>& product) {
        product.b = b.data();
        product.stride = stride;
        kernels.multiply_rows(product);
      });
}

// B in dot panels, as simd_kernels.h describes them.
template <typename Operand>
std::vector<Operand> DotPanels(const SimdKernels<Operand>& kernels,
                               Operands<Operand>& operands, int64_t columns) {
  constexpr int64_t kStep = kDepthStep<Operand>;
  const int64_t width = kernels.dot_columns;
  const int64_t round = kernels.dot_round;
  const int64_t padded_depth = (operands.depth + round - 1) / round * round;
  const int64_t num_panels = (columns + width - 1) / width;
  std::vector<Operand> panels(num_panels * padded_depth * width);
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t k = 0; k < operands.depth; ++k) {
      const int64_t block = k / kernels.depth_block * kernels.depth_block;
      const int64_t num_rounds =
          (std::min(kernels.depth_block, padded_depth - block)) / round;
      const int64_t chain = k % round / kStep;
      const int64_t link = (k - block) / round;
      const int64_t group = chain / kernels.dot_chains;
      const int64_t step = ((group * num_rounds + link) * kernels.dot_chains +
                            chain % kernels.dot_chains) *
                           width;
      panels[j / width * padded_depth * width + block * width +
             (step + j % width) * kStep + k % kStep] = operands.B(k, j);
    }
  }
  return panels;
}

// Has B packed, and expects the same bits by rows, if the kernels promise them.
template <typename Operand>
std::vector<ComputeType<Operand>> Multiply(const SimdKernels<Operand>& kernels,
                                           Operands<Operand>& operands,
                                           Start start, int64_t row,
                                           int64_t rows, int64_t columns) {
  const auto result = Multiply(PanelKind::kPacked, kernels, operands, start,
                               row, rows, columns);
  const auto by_rows =
      MultiplyByRows(kernels, operands, start, row, rows, columns);
  if (!kernels.has_tile_registers) {
    EXPECT_TRUE(SameBits(by_rows, result))
        << "rows " << row << " + " << rows << ", " << columns << " columns";
  } else {  // tile registers add in another order
    for (int64_t i = 0; i < rows * columns; ++i) {
      long double value;
      double sum;
      operands.Plain(start, row + i / columns, i % columns, &value, &sum);
      EXPECT_NEAR(by_rows[i], value, operands.MostError(sum)) << i;
    }
  }
  return result;
}

template <typename Operand>
class SimdProductTest : public testing::Test {};
using Types = testing::Types<float, double, BFloat16>;
TYPED_TEST_SUITE(SimdProductTest, Types);

constexpr int64_t kDepths[] = {0,   1,   2,   3,    7,    8,    9,   15,
                               16,  17,  31,  33,   63,   65,   127, 129,
                               511, 512, 513, 1023, 1025, 1100, 2100};

TYPED_TEST(SimdProductTest, EveryElementIsTheSumOfItsProducts) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    for (int64_t depth : kDepths) {
      SCOPED_TRACE(testing::Message() << "depth " << depth);
      Operands<Operand> operands(depth, kernels.panel_columns, depth + 1);
      for (Start start : kStarts) {
        const auto result =
            Multiply(kernels, operands, start, 0, kMaxRows, operands.columns);
        for (int64_t i = 0; i < kMaxRows * operands.columns; ++i) {
          long double value;
          double sum;
          operands.Plain(start, i / operands.columns, i % operands.columns,
                         &value, &sum);
          ASSERT_NEAR(result[i], value, operands.MostError(sum))
              << "row " << i / operands.columns << ", column "
              << i % operands.columns << ", start " << static_cast<int>(start);
        }
      }
    }
  }
}

// Of few rows so much depth is taken at a time that others' depths fit.
TYPED_TEST(SimdProductTest, DotPanelsOfAnyDepthHaveTheBitsOfColumns) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    const int64_t rows = kernels.dot_rows;
    const int64_t span = 32 / rows * kernels.depth_block;
    for (int64_t depth : {span, span + 3, 2 * span + 1}) {
      const int64_t columns = 2 * kernels.dot_columns + 1;
      Operands<Operand> operands(depth, columns, depth, kManyRows);
      const std::vector<Operand> panels = DotPanels(kernels, operands, columns);
      const auto expected = Multiply(PanelKind::kTransposed, kernels, operands,
                                     Start::kBias, 0, rows, columns);
      for (bool from_last : {false, true}) {
        const auto result = CheckedProduct<DotPanelsProduct<Operand>>(
            operands, Start::kBias, 0, rows, columns,
            [&](DotPanelsProduct<Operand>& product) {
              product.panels = panels.data();
              product.panel_size = static_cast<int64_t>(panels.size()) / 3;
              product.from_last = from_last;
              kernels.multiply_dot_panels(&product, 1);
            });
        EXPECT_TRUE(SameBits(result, expected))
            << "depth " << depth << ", from the last: " << from_last;
      }
    }
  }
}

// Dot panels have the bits of columns in place, for any number of rows, and of
// columns that end anywhere in one of several panels; whatever values are.
TYPED_TEST(SimdProductTest, DotPanelsHaveTheBitsOfColumns) {
  using Operand = TypeParam;
  constexpr double kSpecial[] = {0.0, -0.0, INFINITY, NAN, 1e-40, -1e38};
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    for (int64_t depth : kDepths) {
      const int64_t width = kernels.dot_columns;
      Operands<Operand> operands(depth, 3 * width + 1, depth + 3, kManyRows);
      for (int i = 0; i < 6 && depth > 40; ++i) {
        operands.A(2 + i, 5 * i) = FromDouble<Operand>(kSpecial[i]);
        operands.B(7 * i, i) = FromDouble<Operand>(kSpecial[i]);
      }
      const int64_t round = kernels.dot_round;
      const int64_t panel_size =
          (operands.depth + round - 1) / round * round * width;
      for (int64_t columns : {int64_t{1}, width, width + 1, 2 * width,
                              3 * width - 1, operands.columns}) {
        const std::vector<Operand> panels =
            DotPanels(kernels, operands, columns);
        for (int64_t rows :
             {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{5}, int64_t{6},
              int64_t{7}, int64_t{13}, int64_t{31}, kManyRows}) {
          const Start start = kStarts[(depth + rows + columns) % 3];
          const auto expected = Multiply(PanelKind::kTransposed, kernels,
                                         operands, start, 0, rows, columns);
          const auto result = CheckedProduct<DotPanelsProduct<Operand>>(
              operands, start, 0, rows, columns,
              [&](DotPanelsProduct<Operand>& product) {
                product.panels = panels.data();
                product.panel_size = panel_size;
                product.from_last = (depth + rows) % 2 == 1;
                // What the first panel has, and the rest.
                DotPanelsProduct<Operand> parts[] = {product, product};
                parts[0].columns = std::min(columns, width);
                parts[1].columns -= parts[0].columns;
                parts[1].panels += panel_size;
                parts[1].c_offset += width;
                if (product.bias != nullptr) parts[1].bias += width;
                kernels.multiply_dot_panels(parts, columns > width ? 2 : 1);
              });
          ASSERT_TRUE(SameBits(result, expected))
              << "depth " << depth << ", " << rows << " rows, " << columns
              << " columns, start " << static_cast<int>(start);
        }
      }
    }
  }
}

// A product in chains has the bits of one product after another, each of which
// has the depth of a chain and is added to those before.
TYPED_TEST(SimdProductTest, ChainsAreAddedOneAfterAnother) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    if (kernels.has_tile_registers) continue;  // chains of their own
    for (int64_t chain : {int64_t{64}, int64_t{128}, kernels.depth_block}) {
      for (int64_t depth : {0, 1, 63, 64, 65, 128, 200, 512, 513, 1100, 2100}) {
        SCOPED_TRACE(testing::Message()
                     << "chain " << chain << ", depth " << depth);
        Operands<Operand> operands(depth, kernels.panel_columns, depth + 7);
        const OperandsPanel<Operand> panel(PanelKind::kPacked, operands,
                                           operands.columns);
        for (int64_t rows : {1, 2, 5, 13}) {
          for (Start start : kStarts) {
            const auto product_by = [&](auto multiply) {
              return CheckedProduct<PanelProduct<Operand>>(
                  operands, start, 0, rows, operands.columns,
                  [&](PanelProduct<Operand>& product) {
                    product.b = panel.get();
                    multiply(product);
                  });
            };
            const auto in_chains = product_by([&](PanelProduct<Operand>& p) {
              p.chain = chain;
              kernels.multiply_panel(p);
            });
            const auto one_by_one = product_by([&](PanelProduct<Operand>& p) {
              PanelProduct<Operand> part = p;
              do {
                part.depth = std::min(chain, p.depth - part.a_offset);
                part.chain = chain;
                kernels.multiply_panel(part);
                part.a_offset += chain;
                part.b.packed += chain * operands.columns;
                part.accumulate = true;
              } while (part.a_offset < p.depth);
            });
            ASSERT_EQ(in_chains.size(), one_by_one.size());
            for (size_t i = 0; i < in_chains.size(); ++i) {
              ASSERT_TRUE(SameBits(in_chains[i], one_by_one[i]))
                  << rows << " rows, start " << static_cast<int>(start)
                  << ", element " << i;
            }
          }
        }
      }
    }
  }
}

// And each of these is therefore right, by the test above.
TYPED_TEST(SimdProductTest, BitsDependNeitherOnRowsNorOnColumns) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    for (int64_t depth : {0, 1, 7, 65, 511, 512, 513, 1100}) {
      SCOPED_TRACE(testing::Message() << "depth " << depth);
      Operands<Operand> operands(depth, kernels.panel_columns, depth + 100);
      using F = ComputeType<Operand>;
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

// Up to tiles of 16 rows, two of them together, and many; wherever rows lie.
TYPED_TEST(SimdProductTest, BitsOfManyRowsAreThoseOfEach) {
  using Operand = TypeParam;
  constexpr int64_t kRows = 70;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    for (int64_t depth : {2, 34, 1100}) {
      for (int64_t columns : {int64_t{1}, kernels.lanes + int64_t{1},
                              int64_t{kernels.panel_columns}}) {
        SCOPED_TRACE(testing::Message()
                     << "depth " << depth << ", " << columns << " columns");
        Operands<Operand> operands(depth, kernels.panel_columns, depth, kRows);
        const auto multiply = [&](int64_t row, int64_t rows) {
          return Multiply(kernels, operands, Start::kAccumulate, row, rows,
                          columns);
        };
        std::vector<ComputeType<Operand>> each;
        for (int64_t row = 0; row < kRows; ++row) {
          for (auto value : multiply(row, 1)) each.push_back(value);
        }
        const auto expect_each = [&](int64_t row, int64_t rows) {
          const auto* begin = each.data() + row * columns;
          ASSERT_TRUE(SameBits(multiply(row, rows),
                               std::vector(begin, begin + rows * columns)))
              << rows << " rows from " << row << " on";
        };
        for (int64_t rows : {2, 15, 16, 17, 31, 32, 33, 34, 48, 64, 65, 70}) {
          expect_each(0, rows);
          expect_each(kRows - rows, rows);
          if (this->HasFatalFailure()) return;
        }
        // Rows that do not lie one after another.
        std::rotate(operands.a.begin() + 20, operands.a.begin() + 31,
                    operands.a.begin() + 68);
        each.clear();
        for (int64_t row = 0; row < kRows; ++row) {
          for (auto value : multiply(row, 1)) each.push_back(value);
        }
        for (int64_t rows : {16, 32, 70}) expect_each(kRows - rows, rows);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(SimdProductTest, PartsOfTheDepthGiveTheBitsOfTheWhole) {
  using Operand = TypeParam;
  using F = ComputeType<Operand>;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    const int64_t block = kernels.depth_block;
    for (int64_t rows : {1, 13, 33}) {
      Operands<Operand> operands(2 * block + 34, kernels.panel_columns, rows,
                                 rows);
      const int64_t columns = operands.columns;
      const auto whole =
          Multiply(kernels, operands, Start::kBias, 0, rows, columns);
      std::vector<F> parts(rows * columns);
      std::vector<F*> c;
      for (int64_t m = 0; m < rows; ++m) c.push_back(&parts[m * columns]);
      for (int64_t k = 0; k < operands.depth; k += block) {
        PanelProduct<Operand> product{};
        product.rows = rows;
        product.depth = std::min(block, operands.depth - k);
        product.columns = columns;
        product.a = operands.a.data();
        product.a_offset = k;
        product.b.packed = operands.b.data() + k * columns;
        product.b.next = operands.b.data();
        product.c = c.data();
        product.bias = operands.bias.data();
        product.accumulate = k > 0;
        kernels.multiply_panel(product);
      }
      EXPECT_TRUE(SameBits(parts, whole)) << rows << " rows";
    }
  }
}

// The sums over blocks of the depth that columns of B are to give, for all
// elements.
template <typename Operand>
class DotProducts {
 public:
  using F = ComputeType<Operand>;

  DotProducts(const SimdTarget& target, Operands<Operand>& operands)
      : operands_(operands) {
    const int64_t depth = operands.depth;
    const auto rows = static_cast<int64_t>(operands.a.size());
    std::vector<F> a(rows * depth), b(operands.columns * depth);
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t m = 0; m < rows; ++m) {
        a[m * depth + k] = static_cast<F>(ToDouble(operands.A(m, k)));
      }
      for (int64_t j = 0; j < operands.columns; ++j) {
        b[j * depth + k] = static_cast<F>(ToDouble(operands.B(k, j)));
      }
    }
    for (int64_t m = 0; m < rows; ++m) {
      for (int64_t j = 0; j < operands.columns; ++j) {
        int64_t k = 0;
        do {
          sums_.push_back(DotProduct<Operand>(
              target, a.data() + m * depth + k, b.data() + j * depth + k,
              std::min(depth - k, kDepthBlock<Operand>)));
          k += kDepthBlock<Operand>;
        } while (k < depth);
      }
    }
    num_blocks_ =
        static_cast<int64_t>(sums_.size()) / (rows * operands.columns);
  }

  int64_t num_blocks() const { return num_blocks_; }

  // What is expected of an element.
  F Element(Start start, int64_t m, int64_t j) const {
    F value = operands_.First(start, m, j);
    for (int64_t i = 0; i < num_blocks_; ++i) {
      value = sums_[(m * operands_.columns + j) * num_blocks_ + i] + value;
    }
    return value;
  }

 private:
  Operands<Operand>& operands_;
  std::vector<F> sums_;  // [rows][columns][blocks]
  int64_t num_blocks_;
};

// An element's bits follow from its row, its column and the depth alone.
TYPED_TEST(SimdProductTest, ColumnsOfBGiveDotProducts) {
  using Operand = TypeParam;
  using F = ComputeType<Operand>;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    for (int64_t depth : kDepths) {
      SCOPED_TRACE(testing::Message() << "depth " << depth);
      Operands<Operand> operands(depth, kernels.panel_columns, depth + 200,
                                 kManyRows);
      const DotProducts<Operand> expected(*target, operands);
      for (Start start : kStarts) {
        const auto expect_dot_products = [&](int64_t row, int64_t rows,
                                             int64_t columns) {
          const std::vector<F> result =
              Multiply(PanelKind::kTransposed, kernels, operands, start, row,
                       rows, columns);
          for (int64_t i = 0; i < rows * columns; ++i) {
            const int64_t m = row + i / columns, j = i % columns;
            ASSERT_TRUE(SameBits(result[i], expected.Element(start, m, j)))
                << "row " << m << " of rows " << row << " + " << rows
                << ", column " << j << " of " << columns << ", start "
                << static_cast<int>(start) << ": " << result[i]
                << " instead of " << expected.Element(start, m, j);
          }
        };
        for (int64_t rows = 1; rows <= kManyRows; ++rows) {
          expect_dot_products(kManyRows - rows, rows, operands.columns);
          if (this->HasFatalFailure()) return;
        }
        for (int64_t columns = 1; columns < operands.columns; ++columns) {
          for (int64_t rows : {1, 2, 7}) {
            expect_dot_products(0, rows, columns);
            if (this->HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// So that the above is right, and not only the same.
TYPED_TEST(SimdProductTest, DotProductsAreTheSumsOfTheirProducts) {
  using Operand = TypeParam;
  using F = ComputeType<Operand>;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    for (int64_t depth : kDepths) {
      SCOPED_TRACE(testing::Message() << "depth " << depth);
      Operands<Operand> operands(depth, kernels.panel_columns, depth + 300);
      const DotProducts<Operand> model(*target, operands);
      // The most roundings that an element of the sum goes through: of the
      // product, of the chain, of the lanes' sum, of the blocks' sum. One more
      // is the reference's own.
      const int64_t step = kernels.lanes * kDepthStep<Operand>;
      const int64_t deepest = std::min(operands.depth, kDepthBlock<Operand>);
      const double chain = static_cast<double>((deepest + step - 1) / step *
                                               kDepthStep<Operand>);
      const double roundings =
          1 + chain + std::log2(kernels.lanes) + model.num_blocks() + 1;
      const double unit = std::numeric_limits<F>::epsilon() / 2;
      const double bound = roundings * unit / (1 - roundings * unit);
      for (Start start : kStarts) {
        const std::vector<F> result =
            Multiply(PanelKind::kTransposed, kernels, operands, start, 0,
                     kMaxRows, operands.columns);
        for (int64_t i = 0; i < kMaxRows * operands.columns; ++i) {
          const int64_t m = i / operands.columns, j = i % operands.columns;
          long double value;
          double sum;
          operands.Plain(start, m, j, &value, &sum);
          ASSERT_LE(std::abs(result[i] - value), bound * sum)
              << "row " << m << ", column " << j << ", start "
              << static_cast<int>(start);
        }
      }
    }
  }
}

// An element's row and column are numbers, everything else is NaN.
TYPED_TEST(SimdProductTest, OtherRowsAndColumnsDoNotMatter) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    for (int64_t depth : {5, 64, 1035}) {
      for (PanelKind kind : kPanelKinds) {
        SCOPED_TRACE(testing::Message()
                     << "depth " << depth << ", "
                     << kPanelKindNames[static_cast<int>(kind)]);
        const auto multiply = [&](Operands<Operand>& operands) {
          return Multiply(kind, kernels, operands, Start::kBias, 0, kMaxRows,
                          operands.columns);
        };
        Operands<Operand> healthy(depth, kernels.panel_columns, 4);
        const auto expected = multiply(healthy);
        for (int64_t j = 0; j < healthy.columns; ++j) {
          const int64_t m = j % kMaxRows;
          Operands<Operand> operands(depth, kernels.panel_columns, 4);
          const Operand nan =
              FromDouble<Operand>(std::numeric_limits<double>::quiet_NaN());
          for (int64_t k = 0; k < operands.depth; ++k) {
            for (int64_t i = 0; i < kMaxRows; ++i) {
              if (i != m) operands.A(i, k) = nan;
            }
            for (int64_t i = 0; i < operands.columns; ++i) {
              if (i != j) operands.B(k, i) = nan;
            }
          }
          const int64_t index = m * operands.columns + j;
          ASSERT_TRUE(SameBits(multiply(operands)[index], expected[index]))
              << "row " << m << ", column " << j;
        }
      }
    }
  }
}

TYPED_TEST(SimdProductTest, EqualColumnsGiveEqualBits) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    Operands<Operand> operands(700, kernels.panel_columns, 5);
    const int64_t columns = operands.columns;
    for (int64_t k = 0; k < operands.depth; ++k) {
      for (int64_t j = 1; j < columns; ++j) {
        operands.B(k, j) = operands.B(k, 0);
      }
    }
    std::fill_n(operands.bias.data(), columns, operands.bias[0]);
    for (PanelKind kind : kPanelKinds) {
      const auto result =
          Multiply(kind, kernels, operands, Start::kBias, 0, kMaxRows, columns);
      for (int64_t i = 0; i < kMaxRows * columns; ++i) {
        ASSERT_TRUE(SameBits(result[i], result[i - i % columns]))
            << i << ", " << kPanelKindNames[static_cast<int>(kind)];
      }
    }
  }
}

TYPED_TEST(SimdProductTest, NoRowsWriteNothing) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    for (int64_t depth : {int64_t{9}, 4 * kernels.depth_block}) {
      Operands<Operand> operands(depth, kernels.panel_columns, 6);
      for (PanelKind kind : kPanelKinds) {
        Multiply(kind, kernels, operands, Start::kZero, 0, 0, 1);
      }
    }
  }
}

// Strips and their tails, and rows of A by which strips are narrower.
TYPED_TEST(SimdProductTest, RowsMayBeOfAnyWidth) {
  using Operand = TypeParam;
  constexpr int64_t kWidest = 1100;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    for (int64_t rows : {1, 2, 3, 5, 8, 17, 32, 33, 65}) {
      Operands<Operand> operands(21, kWidest, 9, rows);
      for (int64_t columns : {int64_t{1}, int64_t{255}, int64_t{256},
                              int64_t{257}, int64_t{513}, kWidest}) {
        SCOPED_TRACE(testing::Message() << target->name << ", rows " << rows
                                        << ", columns " << columns);
        const auto result =
            MultiplyByRows(kernels, operands, Start::kBias, 0, rows, columns);
        for (int64_t i = 0; i < rows * columns; ++i) {
          long double value;
          double sum;
          operands.Plain(Start::kBias, i / columns, i % columns, &value, &sum);
          ASSERT_NEAR(ToDouble(result[i]), static_cast<double>(value),
                      sum * 24 * Epsilon<ComputeType<Operand>>())
              << "row " << i / columns << ", column " << i % columns;
        }
      }
    }
  }
}

// Large matrices are fetched ahead: all those far apart, and none near by but
// the widest (and, of double, the one before).
TYPED_TEST(SimdProductTest, RowsFarApartGiveTheSameBits) {
  using Operand = TypeParam;
  constexpr int64_t kDepth = 531;  // more than a block, and a rest of steps
  constexpr int64_t kWidest = 1100;
  constexpr int64_t kLargeBytes = int64_t{9} << 20;
  constexpr int64_t kGap = kLargeBytes / kDepth / sizeof(Operand);
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    // Of up to four tiles, which share the fetching, and of more.
    for (int64_t rows : {1, 2, 3, 4, 5, 9, 13, 32}) {
      Operands<Operand> operands(kDepth, kWidest, 10, rows);
      for (int64_t columns : {int64_t{1}, int64_t{40}, int64_t{129},
                              int64_t{261}, int64_t{900}, kWidest}) {
        const auto multiply = [&](int64_t gap) {
          return MultiplyByRows(kernels, operands, Start::kBias, 0, rows,
                                columns, gap);
        };
        SCOPED_TRACE(testing::Message() << target->name << ", rows " << rows
                                        << ", columns " << columns);
        const auto far = multiply(kGap);
        EXPECT_TRUE(SameBits(far, multiply(1)));
        constexpr int64_t kPick = 37;  // of all values, for they take long
        for (int64_t i = 0; i < rows * columns; i += kPick) {
          long double value;
          double sum;
          operands.Plain(Start::kBias, i / columns, i % columns, &value, &sum);
          ASSERT_NEAR(ToDouble(far[i]), static_cast<double>(value),
                      sum * kDepth * Epsilon<ComputeType<Operand>>())
              << "row " << i / columns << ", column " << i % columns;
        }
      }
    }
  }
}

// A value for each place.
template <typename Operand>
Operand Numbered(int64_t j, int64_t k) {
  Operand value;
  const int64_t number = 1 + 64 * j + k;  // few bits, and never zero
  std::memset(static_cast<void*>(&value), 0, sizeof value);
  std::memcpy(static_cast<void*>(&value), &number,
              std::min(sizeof value, sizeof number));
  return value;
}

// Rows of unequal worth, one of which may be absent, and a window [begin, end)
// of their columns: whole tiles, tails both ways.
template <typename Operand>
struct NumberedRows {
  static constexpr int64_t kDepth = 41;
  static constexpr int64_t kNone = -1;

  NumberedRows(int64_t count, int64_t begin, int64_t end,
               int64_t absent_row = kNone)
      : values(count * kDepth), absent(absent_row) {
    for (int64_t j = 0; j < count; ++j) {
      rows.push_back(j == absent ? nullptr : values.data() + j * kDepth);
      for (int64_t k = begin; k < end; ++k) {
        values[j * kDepth + k] = Numbered<Operand>(j, k);
      }
    }
  }

  Operand At(int64_t j, int64_t k) const {
    return j == absent || j >= static_cast<int64_t>(rows.size())
               ? Operand{}
               : Numbered<Operand>(j, k);
  }

  Guarded<Operand> values;
  int64_t absent;
  std::vector<const Operand*> rows;
};

// Calls check(rows, columns, begin, end) for windows of NumberedRows.
template <typename Operand, typename Check>
void ForWindows(Check check) {
  constexpr int64_t kDepth = NumberedRows<Operand>::kDepth;
  for (int64_t columns : {1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 48, 64, 65}) {
    for (int64_t absent :
         {NumberedRows<Operand>::kNone, int64_t{2}, columns - 1}) {
      for (int64_t begin : {0, 5}) {
        for (int64_t end :
             {begin, begin + 1, begin + 2, int64_t{21}, kDepth - 1, kDepth}) {
          SCOPED_TRACE(testing::Message()
                       << "columns " << columns << " but for " << absent
                       << ", from " << begin << " to " << end);
          check(NumberedRows<Operand>(columns, begin, end, absent), columns,
                begin, end);
        }
      }
    }
  }
}

TYPED_TEST(SimdProductTest, TransposesRows) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    ForWindows<Operand>([&](const NumberedRows<Operand>& source,
                            int64_t columns, int64_t begin, int64_t end) {
      const int64_t padded = PaddedDepth<Operand>(columns);
      const int64_t out_stride = padded + 2;
      Guarded<Operand> out(source.kDepth * out_stride);
      KernelsOf<Operand>(*target).transpose_rows(
          source.rows.data(), columns, begin, end,
          out.data() + begin * out_stride, out_stride);
      EXPECT_TRUE(out.intact());
      for (int64_t k = 0; k < source.kDepth; ++k) {
        for (int64_t j = 0; j < out_stride; ++j) {
          const Operand value = out[k * out_stride + j];
          if (k < begin || k >= end || j >= padded) {
            EXPECT_TRUE(IsPoison(value)) << k << ' ' << j;
          } else {
            EXPECT_TRUE(SameBits(value, source.At(j, k))) << k << ' ' << j;
          }
        }
      }
    });
  }
}

TYPED_TEST(SimdProductTest, PacksColumns) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    ForWindows<Operand>([&](const NumberedRows<Operand>& source,
                            int64_t columns, int64_t begin, int64_t end) {
      if ((end - begin) % kDepthStep<Operand> != 0) return;
      Guarded<Operand> out((end - begin) * columns);
      KernelsOf<Operand>(*target).pack_columns(source.rows.data(), columns,
                                               begin, end, out.data());
      EXPECT_TRUE(out.intact());
      for (int64_t k = begin; k < end; ++k) {
        for (int64_t j = 0; j < columns; ++j) {
          EXPECT_TRUE(SameBits(out[PanelIndex<Operand>(k - begin, j, columns)],
                               source.At(j, k)))
              << k << ' ' << j;
        }
      }
    });
  }
}

// Of whole steps, and of one that a depth ends within.
TYPED_TEST(SimdProductTest, PacksRows) {
  using Operand = TypeParam;
  constexpr int64_t kStep = kDepthStep<Operand>;
  constexpr int64_t kGap = 3;  // between the steps
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    SCOPED_TRACE(target->name);
    for (int64_t columns = 0; columns <= NumberedRows<Operand>::kDepth;
         ++columns) {
      for (int64_t num_rows = 1; num_rows <= 5; ++num_rows) {
        for (int64_t padding : {0, 1, 37}) {
          SCOPED_TRACE(std::to_string(num_rows) + " rows of " +
                       std::to_string(columns) + " columns and " +
                       std::to_string(padding));
          NumberedRows<Operand> source(num_rows, 0, columns);
          const int64_t num_steps = (num_rows + kStep - 1) / kStep;
          const int64_t size = (columns + padding) * kStep;
          const int64_t stride = size + kGap;
          Guarded<Operand> out(num_steps * stride - kGap);
          const Operand unused = out[0];
          KernelsOf<Operand>(*target).pack_rows(source.rows.data(), num_rows,
                                                columns, columns + padding,
                                                out.data(), stride);
          EXPECT_TRUE(out.intact());
          for (int64_t i = 0; i < num_steps * stride - kGap; ++i) {
            const int64_t row = i / stride * kStep + i % stride % kStep;
            const int64_t j = i % stride / kStep;
            const Operand expected = i % stride >= size ? unused
                                     : row < num_rows && j < columns
                                         ? source.At(row, j)
                                         : Operand{};
            ASSERT_TRUE(SameBits(out[i], expected)) << i;
          }
        }
      }
    }
  }
}

bool HasTileProducts(const SimdTarget& target) {
  return target.name == std::string("avx512_amx");
}

// The sum of a[k] * b[k] over k < depth, as a block of it is added up: the
// second of each pair first; or, on tiles, the first ones of 16 pairs and the
// second ones, each added up from zero.
float ProductOfPairs(const SimdTarget& target, const std::vector<float>& a,
                     const std::vector<float>& b) {
  const auto depth = static_cast<int64_t>(a.size());
  float sum = 0;
  if (!HasTileProducts(target)) {
    for (int64_t k = 0; k < depth; k += 2) {
      for (int64_t one : {k + 1, k}) sum = std::fma(a[one], b[one], sum);
    }
    return sum;
  }
  for (int64_t begin = 0; begin < depth; begin += 32) {
    float sums[2] = {0, 0};
    for (int64_t k = begin; k < std::min(begin + 32, depth); ++k) {
      sums[k % 2] = std::fma(a[k], b[k], sums[k % 2]);
    }
    sum += sums[0] + sums[1];
  }
  return sum;
}

// What simd_kernels.h says of pairs, on numbers whose order shows.
TEST(BFloat16ProductTest, PairsAreAddedInOrder) {
  for (const SimdTarget* target : TestedSimdTargetsOf<BFloat16>()) {
    const SimdKernels<BFloat16>& kernels = KernelsOf<BFloat16>(*target);
    SCOPED_TRACE(target->name);
    for (int64_t depth : {2, 30, 34, 1024}) {
      Operands<BFloat16> operands(depth, kernels.panel_columns, 8);
      const auto result = Multiply(kernels, operands, Start::kZero, 0, kMaxRows,
                                   operands.columns);
      for (int64_t i = 0; i < kMaxRows * operands.columns; ++i) {
        const int64_t m = i / operands.columns, j = i % operands.columns;
        std::vector<float> a, b;
        for (int64_t k = 0; k < depth; ++k) {
          a.push_back(static_cast<float>(ToDouble(operands.a[m][k])));
          b.push_back(static_cast<float>(ToDouble(operands.B(k, j))));
        }
        ASSERT_TRUE(SameBits(result[i], ProductOfPairs(*target, a, b)))
            << m << ' ' << j << ", depth " << depth;
      }
    }
  }
}

TEST(BFloat16ProductTest, SomeTargetsHaveItAndLesserOnesDoNot) {
  for (const SimdTarget* target : TestedSimdTargets()) {
    EXPECT_EQ(
        target->bfloat16_kernels != nullptr,
        HasTileProducts(*target) || target->name == std::string("avx512_bf16"))
        << target->name;
  }
}

}  // namespace
}  // namespace rnn
