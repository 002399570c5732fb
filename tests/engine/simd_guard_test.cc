// Every micro-kernel on memory that ends, or begins, at a page nobody may
// touch: tails of tiles read and write nothing but what is theirs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/engine/guard_pages.h"
#include "tests/engine/guarded.h"
#include "tests/engine/random_values.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

constexpr int64_t kMaxRows = 13;   // two tiles of six, and one
constexpr int64_t kMostRows = 33;  // two tiles of 16, and one
constexpr int64_t kMaxDepth = 67;  // before it is padded
constexpr int64_t kMaxLanes = 16;
constexpr int64_t kMaxTransposed = 2 * kMaxLanes + 1;
constexpr int64_t kMaxColumns = kMaxPanelVectors * kMaxLanes;
constexpr int64_t kMaxUnits = kMaxColumns;
constexpr int64_t kMaxHidden = kMaxDepth + 1 + kMaxUnits;

constexpr GuardedSide kSides[] = {GuardedSide::kEnd, GuardedSide::kBegin};

std::string Describe(
    const char* what, const SimdTarget& target,
    std::initializer_list<std::pair<const char*, int64_t>> sizes) {
  std::string text = std::string(what) + " on " + target.name;
  for (const auto& [name, size] : sizes) {
    text += std::string(", ") + name + ' ' + std::to_string(size);
  }
  return text;
}

// One, and the neighbours of every multiple of the lanes up to `most`.
std::set<int64_t> AroundLanes(int64_t lanes, int64_t most) {
  std::set<int64_t> counts = {1, most};
  for (int64_t multiple = lanes; multiple <= most; multiple += lanes) {
    for (int64_t count : {multiple - 1, multiple, multiple + 1}) {
      if (count >= 1 && count <= most) counts.insert(count);
    }
  }
  return counts;
}

std::vector<int64_t> NumbersOfRows() {
  std::vector<int64_t> numbers = {17, 32, kMostRows};
  for (int64_t rows = 1; rows <= kMaxRows; ++rows) numbers.push_back(rows);
  return numbers;
}

// All depths for a few numbers of rows, a few depths for all; of whole steps.
template <typename Element>
std::set<int64_t> DepthsFor(int64_t rows) {
  std::set<int64_t> depths;
  const bool takes_all = rows == 1 || rows == 6 || rows == kMaxRows;
  for (int64_t depth = 0; depth <= kMaxDepth; ++depth) {
    if (takes_all || depth == 0 || depth == 1 || depth == 3 || depth >= 63) {
      depths.insert(PaddedDepth<Element>(depth));
    }
  }
  return depths;
}

// One of many numbers, without much work.
template <typename Element>
Element NumberOf(uint32_t bits) {
  if constexpr (std::is_same_v<Element, BFloat16>) {
    return {static_cast<uint16_t>(0x3f00 | (bits >> 16 & 0x80ff))};
  } else {
    return static_cast<Element>(static_cast<int32_t>(bits)) / Element(1u << 31);
  }
}

// Memory for one operand after another, guarded on the side asked for. It is
// mapped once: the operands of a call move within.
template <typename F>
class Operand {
 public:
  explicit Operand(int64_t capacity) : pages_(capacity) {}

  // `count` random values.
  F* Random(GuardedSide side, int64_t count) {
    F* values = pages_.At(side, count);
    // Which they are matters little, that they can be had quickly a lot.
    for (int64_t i = 0; i < count; ++i) {
      state_ = state_ * 1664525u + 1013904223u;
      values[i] = NumberOf<F>(state_);
    }
    return values;
  }
  F* Poisoned(GuardedSide side, int64_t count) {
    F* values = pages_.At(side, count);
    std::memset(static_cast<void*>(values), kPoison, count * sizeof(F));
    return values;
  }

 private:
  GuardPages<F> pages_;
  uint32_t state_ = 1;
};

// Rows that each have guards of their own.
template <typename F>
class OperandRows {
 public:
  OperandRows(int64_t rows, int64_t capacity) {
    for (int64_t i = 0; i < rows; ++i) rows_.emplace_back(capacity);
    pointers_.resize(rows);
  }

  F* const* Random(GuardedSide side, int64_t rows, int64_t count) {
    for (int64_t i = 0; i < rows; ++i) {
      pointers_[i] = rows_[i].Random(side, count);
    }
    return pointers_.data();
  }
  F* const* Poisoned(GuardedSide side, int64_t rows, int64_t count) {
    for (int64_t i = 0; i < rows; ++i) {
      pointers_[i] = rows_[i].Poisoned(side, count);
    }
    return pointers_.data();
  }

 private:
  std::deque<Operand<F>> rows_;
  std::vector<F*> pointers_;
};

template <typename F>
void ExpectWritten(const F* values, int64_t count, const std::string& what) {
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_FALSE(IsPoison(values[i])) << what << ": value " << i;
  }
}

// Weights in each of the two ways, with nothing beyond what the kernel may
// read.
template <typename F>
class WeightPanels {
 public:
  WeightPanels()
      : values_(PaddedDepth<F>(kMaxDepth) * kMaxGates * kMaxColumns) {}

  // Packed, [depth][panel_columns], or transposed, [columns][depth].
  Panel<F> Random(PanelKind kind, GuardedSide side, int64_t depth,
                  int64_t panel_columns, int64_t columns) {
    Panel<F> panel{};
    if (kind == PanelKind::kTransposed) {
      panel.transposed = values_.Random(side, columns * depth);
      panel.stride = depth;
      return panel;
    }
    panel.packed = values_.Random(side, depth * panel_columns);
    return panel;
  }

 private:
  Operand<F> values_;
};

// What products have beside B, with nothing beyond what they may read.
template <typename Element>
class GuardedProducts {
 public:
  explicit GuardedProducts(int64_t max_columns = kMaxColumns)
      : c_(kMostRows, max_columns), bias_(max_columns) {}

  // multiply(product), which sets B: all of c must be written. Then again,
  // adding to c.
  template <typename Product, typename Multiply>
  void Run(const std::string& text, GuardedSide side, int64_t rows,
           int64_t depth, int64_t columns, Multiply multiply) {
    SetGuardedCase(text);
    Product product{};
    product.rows = rows;
    product.depth = depth;
    product.columns = columns;
    product.a = a_.Random(side, rows, depth);
    product.c = c_.Poisoned(side, rows, columns);
    product.bias = bias_.Random(side, columns);
    multiply(product);
    for (int64_t row = 0; row < rows; ++row) {
      ExpectWritten(product.c[row], columns, text);
      if (testing::Test::HasFatalFailure()) return;
    }
    product.bias = nullptr;
    product.accumulate = true;
    multiply(product);
  }

 private:
  using F = ComputeType<Element>;
  OperandRows<Element> a_{kMostRows, PaddedDepth<Element>(kMaxDepth)};
  OperandRows<F> c_;
  Operand<F> bias_;
};

template <typename F>
class SimdGuardTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SimdGuardTest, Types);

template <typename Element>
class SimdProductGuardTest : public testing::Test {};
using ProductTypes = testing::Types<float, double, BFloat16>;
TYPED_TEST_SUITE(SimdProductGuardTest, ProductTypes);

TYPED_TEST(SimdProductGuardTest, MultiplyPanel) {
  using Element = TypeParam;
  WeightPanels<Element> weights;
  GuardedProducts<Element> products;
  for (const SimdTarget* target : TestedSimdTargetsOf<Element>()) {
    const SimdKernels<Element>& kernels = KernelsOf<Element>(*target);
    for (int64_t columns : AroundLanes(kernels.lanes, kernels.panel_columns)) {
      for (int64_t rows : NumbersOfRows()) {
        for (int64_t depth : DepthsFor<Element>(rows)) {
          for (GuardedSide side : kSides) {
            for (PanelKind kind : kPanelKinds) {
              const std::string text =
                  Describe("multiply_panel", *target,
                           {{"rows", rows},
                            {"columns", columns},
                            {"depth", depth},
                            {"panel kind", static_cast<int>(kind)}});
              const Panel<Element> b = weights.Random(
                  kind, side, depth, kernels.panel_columns, columns);
              products.template Run<PanelProduct<Element>>(
                  text, side, rows, depth, columns,
                  [&](PanelProduct<Element>& product) {
                    product.b = b;
                    kernels.multiply_panel(product);
                  });
              if (this->HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdProductGuardTest, MultiplyDotPanels) {
  using Element = TypeParam;
  WeightPanels<Element> weights;
  GuardedProducts<Element> products;
  for (const SimdTarget* target : TestedSimdTargetsOf<Element>()) {
    const SimdKernels<Element>& kernels = KernelsOf<Element>(*target);
    const int64_t width = kernels.dot_columns;
    const int64_t round = kernels.dot_round;
    for (int64_t columns : AroundLanes(kernels.lanes, 3 * width)) {
      for (int64_t rows : NumbersOfRows()) {
        for (int64_t depth : DepthsFor<Element>(rows)) {
          const int64_t panel_size =
              (depth + round - 1) / round * round * width;
          const int64_t num_panels = (columns + width - 1) / width;
          for (GuardedSide side : kSides) {
            const std::string text = Describe(
                "multiply_dot_panels", *target,
                {{"rows", rows}, {"columns", columns}, {"depth", depth}});
            const Panel<Element> b = weights.Random(
                PanelKind::kPacked, side, num_panels * panel_size, 1, columns);
            products.template Run<DotPanelsProduct<Element>>(
                text, side, rows, depth, columns,
                [&](DotPanelsProduct<Element>& product) {
                  product.panels = b.packed;
                  product.panel_size = panel_size;
                  product.from_last = (rows + columns) % 2 == 1;
                  kernels.multiply_dot_panels(&product, 1);
                });
            if (this->HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdProductGuardTest, MultiplyRows) {
  using Element = TypeParam;
  constexpr int64_t kWidest = 2 * kMaxColumns;
  Operand<Element> b(PaddedDepth<Element>(kMaxDepth) * (kWidest + 1));
  GuardedProducts<Element> products(kWidest);
  for (const SimdTarget* target : TestedSimdTargetsOf<Element>()) {
    const SimdKernels<Element>& kernels = KernelsOf<Element>(*target);
    for (int64_t columns : AroundLanes(kernels.lanes, kWidest)) {
      for (int64_t rows : {int64_t{1}, int64_t{2}, int64_t{7}, kMostRows}) {
        for (int64_t depth : DepthsFor<Element>(rows)) {
          for (GuardedSide side : kSides) {
            for (int64_t gap : {0, 1}) {
              const std::string text = Describe("multiply_rows", *target,
                                                {{"rows", rows},
                                                 {"columns", columns},
                                                 {"depth", depth},
                                                 {"gap", gap}});
              const int64_t stride = columns + gap;
              const Element* values = b.Random(
                  side, depth == 0 ? 0 : (depth - 1) * stride + columns);
              products.template Run<RowsProduct<Element>>(
                  text, side, rows, depth, columns,
                  [&](RowsProduct<Element>& product) {
                    product.b = values;
                    product.stride = stride;
                    kernels.multiply_rows(product);
                  });
              if (this->HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdProductGuardTest, TransposeRows) {
  using Element = TypeParam;
  OperandRows<Element> in(kMaxTransposed, kMaxDepth);
  Operand<Element> out(kMaxDepth * (PaddedDepth<Element>(kMaxTransposed) + 1));
  for (const SimdTarget* target : TestedSimdTargetsOf<Element>()) {
    const SimdKernels<Element>& kernels = KernelsOf<Element>(*target);
    for (int64_t columns : AroundLanes(kernels.lanes, kMaxTransposed)) {
      for (int64_t depth = 0; depth <= kMaxDepth; ++depth) {
        for (int64_t begin : {int64_t{0}, depth / 2}) {
          for (GuardedSide side : kSides) {
            const std::string text = Describe(
                "transpose_rows", *target,
                {{"columns", columns}, {"from", begin}, {"to", depth}});
            SetGuardedCase(text);
            // Rows of the output lie side by side, or one value apart.
            for (int64_t gap : {0, 1}) {
              const int64_t padded = PaddedDepth<Element>(columns);
              const int64_t stride = padded + gap;
              const int64_t rows = depth - begin;
              Element* result = out.Poisoned(
                  side, rows == 0 ? 0 : (rows - 1) * stride + padded);
              kernels.transpose_rows(in.Random(side, columns, depth), columns,
                                     begin, depth, result, stride);
              for (int64_t row = 0; row < rows; ++row) {
                ExpectWritten(result + row * stride, padded, text);
              }
              if (this->HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdProductGuardTest, PackColumns) {
  using Element = TypeParam;
  constexpr int64_t kStep = kDepthStep<Element>;
  OperandRows<Element> in(kMaxTransposed, kMaxDepth);
  Operand<Element> out(kMaxDepth * kMaxTransposed);
  for (const SimdTarget* target : TestedSimdTargetsOf<Element>()) {
    const SimdKernels<Element>& kernels = KernelsOf<Element>(*target);
    for (int64_t columns : AroundLanes(kernels.lanes, kMaxTransposed)) {
      for (int64_t depth = 0; depth <= kMaxDepth; ++depth) {
        for (int64_t begin : {depth % kStep, depth / 2}) {
          if ((depth - begin) % kStep != 0) continue;
          for (GuardedSide side : kSides) {
            const std::string text = Describe(
                "pack_columns", *target,
                {{"columns", columns}, {"from", begin}, {"to", depth}});
            SetGuardedCase(text);
            const int64_t count = (depth - begin) * columns;
            Element* result = out.Poisoned(side, count);
            kernels.pack_columns(in.Random(side, columns, depth), columns,
                                 begin, depth, result);
            ExpectWritten(result, count, text);
            if (this->HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdProductGuardTest, PackRows) {
  using Element = TypeParam;
  constexpr int64_t kStep = kDepthStep<Element>;
  constexpr int64_t kMaxPackedRows = 5;
  constexpr int64_t kMaxPadding = 17;
  OperandRows<Element> in(kMaxPackedRows, kMaxTransposed);
  Operand<Element> out((kMaxPackedRows + 1) *
                       (kMaxTransposed + kMaxPadding + 1));
  for (const SimdTarget* target : TestedSimdTargetsOf<Element>()) {
    const SimdKernels<Element>& kernels = KernelsOf<Element>(*target);
    for (int64_t columns : AroundLanes(kernels.lanes, kMaxTransposed)) {
      for (int64_t rows = 1; rows <= kMaxPackedRows; ++rows) {
        for (int64_t padding : {int64_t{0}, int64_t{1}, kMaxPadding}) {
          for (GuardedSide side : kSides) {
            const std::string text = Describe(
                "pack_rows", *target,
                {{"columns", columns}, {"padding", padding}, {"rows", rows}});
            SetGuardedCase(text);
            // Steps of the output lie side by side, or one value apart.
            for (int64_t gap : {0, 1}) {
              const int64_t padded = (columns + padding) * kStep;
              const int64_t stride = padded + gap;
              const int64_t num_steps = (rows + kStep - 1) / kStep;
              Element* result =
                  out.Poisoned(side, (num_steps - 1) * stride + padded);
              kernels.pack_rows(in.Random(side, rows, columns), rows, columns,
                                columns + padding, result, stride);
              for (int64_t step = 0; step < num_steps; ++step) {
                ExpectWritten(result + step * stride, padded, text);
              }
              if (this->HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdProductGuardTest, CellForward) {
  using Element = TypeParam;
  using F = ComputeType<Element>;
  WeightPanels<Element> weights;
  OperandRows<Element> h_prev(kMostRows, kMaxHidden), h(kMostRows, kMaxHidden);
  OperandRows<Element> saved(kMostRows, (kMaxGates + 1) * kMaxHidden);
  Operand<F> input_sums(kMostRows * kMaxGates * kMaxHidden);
  Operand<F> new_bias(kMaxHidden), c(kMostRows * kMaxHidden);
  OperandRows<F> sums(kMostRows, kMaxGates * kMaxHidden);
  for (const SimdTarget* target : TestedSimdTargetsOf<Element>()) {
    const SimdKernels<Element>& kernels = KernelsOf<Element>(*target);
    for (CellMode mode : kModes) {
      const int64_t cell_units = kernels.cell_units[static_cast<int>(mode)];
      const int64_t G = NumGates(mode);
      const bool is_gru = mode == CellMode::kGru;
      std::set<int64_t> numbers = AroundLanes(kernels.lanes, cell_units);
      // Whose columns may not fit into one product.
      numbers.insert(cell_units * 5 / 8);
      for (int64_t units : numbers) {
        for (int64_t rows : NumbersOfRows()) {
          for (int64_t depth : DepthsFor<Element>(rows)) {
            // The GRU reads its own units of h, and as many as there are.
            if (is_gru && depth < units) continue;
            const int64_t unit = is_gru ? depth - units : depth % 3;
            const int64_t H = unit + units;
            for (GuardedSide side : kSides) {
              for (bool is_multiplied : {false, true}) {
                const std::string text =
                    Describe("cell_forward", *target,
                             {{kModeNames[static_cast<int>(mode)], 0},
                              {"rows", rows},
                              {"units", units},
                              {"depth", depth},
                              {"multiplied elsewhere", is_multiplied}});
                SetGuardedCase(text);
                CellForwardStep<Element> step{};
                step.rows = rows;
                step.hidden_size = H;
                step.unit = unit;
                step.units = units;
                step.depth = depth;
                if (is_multiplied) {
                  step.recurrent_sums =
                      sums.Random(side, rows, (G - 1) * H + unit + units);
                } else {
                  step.recurrent = weights
                                       .Random(PanelKind::kPacked, side, depth,
                                               G * cell_units, G * cell_units)
                                       .packed;
                }
                step.h_prev = h_prev.Random(side, rows, depth);
                step.input_sums = input_sums.Random(side, rows * G * H);
                if (is_gru) step.recurrent_new_bias = new_bias.Random(side, H);
                if (mode == CellMode::kLstm) step.c = c.Random(side, rows * H);
                step.h = h.Poisoned(side, rows, H);
                const int64_t reserved = NumReservedPerUnit(mode);
                step.saved = rows % 2 == 0
                                 ? nullptr
                                 : saved.Poisoned(side, rows, reserved * H);
                kernels.cell_forward[static_cast<int>(mode)](&step, 1);
                for (int64_t row = 0; row < rows; ++row) {
                  ExpectWritten(step.h[row] + unit, units, text);
                  for (int64_t i = 0; i < reserved && step.saved; ++i) {
                    ExpectWritten(step.saved[row] + i * H + unit, units, text);
                  }
                }
                if (this->HasFatalFailure()) return;
              }
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdGuardTest, CellBackward) {
  using F = TypeParam;
  constexpr int64_t kWidest = 2 * kMaxUnits + 5;
  OperandRows<F> saved(kMaxRows, (kMaxGates + 1) * kWidest);
  OperandRows<F> c_prev(kMaxRows, kWidest), h_prev(kMaxRows, kWidest);
  OperandRows<F> h(kMaxRows, kWidest), dy(kMaxRows, kWidest);
  Operand<F> dh(kMaxRows * kWidest), dc(kMaxRows * kWidest);
  Operand<F> m(kMaxRows * kWidest);
  Operand<F> dgates(kMaxRows * kMaxGates * kWidest);
  Operand<F> recurrent_dgates(kMaxRows * kMaxGates * kWidest);
  for (const SimdTarget* target : TestedSimdTargets()) {
    const SimdKernels<F>& kernels = KernelsOf<F>(*target);
    for (CellMode mode : kModes) {
      const int64_t G = NumGates(mode);
      const bool is_lstm = mode == CellMode::kLstm;
      const bool is_gru = mode == CellMode::kGru;
      for (int64_t units : AroundLanes(kernels.lanes, 2 * kernels.lanes + 1)) {
        for (int64_t unit : {0, 1, 16}) {
          const int64_t H = unit + units;
          for (int64_t rows = 1; rows <= kMaxRows; ++rows) {
            for (GuardedSide side : kSides) {
              const std::string text =
                  Describe("cell_backward", *target,
                           {{kModeNames[static_cast<int>(mode)], 0},
                            {"rows", rows},
                            {"unit", unit},
                            {"units", units}});
              SetGuardedCase(text);
              CellBackwardStep<F> step{};
              step.rows = rows;
              step.hidden_size = H;
              step.unit = unit;
              step.units = units;
              const int64_t reserved = NumReservedPerUnit(mode);
              if (reserved > 0) {
                step.saved = saved.Random(side, rows, reserved * H);
              } else {
                step.h = h.Random(side, rows, H);
              }
              if (is_lstm) {
                step.c_prev = c_prev.Random(side, rows, H);
                step.dc = dc.Random(side, rows * H);
                if (rows % 2 == 0) step.m = m.Poisoned(side, rows * H);
              }
              if (is_gru) {
                step.h_prev = h_prev.Random(side, rows, H);
                step.recurrent_dgates =
                    recurrent_dgates.Poisoned(side, rows * G * H);
              }
              if (rows % 3 != 0) step.dy = dy.Random(side, rows, H);
              step.dh = dh.Random(side, rows * H);
              step.dgates = dgates.Poisoned(side, rows * G * H);
              kernels.cell_backward[static_cast<int>(mode)](step);
              for (int64_t i = 0; i < rows * G; ++i) {
                ExpectWritten(step.dgates + i * H + unit, units, text);
                if (is_gru) {
                  ExpectWritten(step.recurrent_dgates + i * H + unit, units,
                                text);
                }
              }
              for (int64_t row = 0; row < rows && step.m != nullptr; ++row) {
                ExpectWritten(step.m + row * H + unit, units, text);
              }
              if (this->HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdGuardTest, Activations) {
  using F = TypeParam;
  Operand<F> in(kMaxDepth), out(kMaxDepth);
  for (const SimdTarget* target : TestedSimdTargets()) {
    for (int64_t count = 0; count <= kMaxDepth; ++count) {
      for (GuardedSide side : kSides) {
        for (auto function :
             {MathOf<F>(*target).sigmoid, MathOf<F>(*target).tanh}) {
          const std::string text =
              Describe("activation", *target, {{"count", count}});
          SetGuardedCase(text);
          F* result = out.Poisoned(side, count);
          function(in.Random(side, count), result, count);
          ExpectWritten(result, count, text);
          if (this->HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(SimdGuardConversionsTest, EveryCount) {
  GuardPages<float> floats(kMaxDepth);
  GuardPages<uint16_t> bits(kMaxDepth);
  for (const SimdTarget* target : TestedSimdTargets()) {
    const SimdConversions& conversions = target->conversions;
    for (int64_t count = 0; count <= kMaxDepth; ++count) {
      for (GuardedSide side : kSides) {
        SetGuardedCase(Describe("conversion", *target, {{"count", count}}));
        float* as_float = floats.At(side, count);
        uint16_t* as_bits = bits.At(side, count);
        for (auto to_float :
             {conversions.half_to_float, conversions.bfloat16_to_float}) {
          std::fill_n(as_bits, count, uint16_t{0x3c00});
          std::fill_n(as_float, count, -1.0f);
          to_float(as_bits, as_float, count);
          for (int64_t i = 0; i < count; ++i) EXPECT_GT(as_float[i], 0);
        }
        for (auto from_float :
             {conversions.float_to_half, conversions.float_to_bfloat16}) {
          std::fill_n(as_bits, count, uint16_t{0});
          std::fill_n(as_float, count, 1.0f);
          from_float(as_float, as_bits, count);
          for (int64_t i = 0; i < count; ++i) EXPECT_NE(as_bits[i], 0);
        }
      }
    }
  }
}

// Without this the tests above would show nothing.
TEST(SimdGuardDeathTest, GuardsStopWhatGoesBeyond) {
  GuardPages<float> pages(5);
  SetGuardedCase("here");
  volatile float* at_end = pages.At(GuardedSide::kEnd, 5);
  volatile float* at_begin = pages.At(GuardedSide::kBegin, 5);
  at_end[4] = at_begin[0] = 1;
  EXPECT_DEATH(at_end[5] = 1, "past the end of a buffer .here.");
  EXPECT_DEATH(static_cast<void>(at_end[5]), "past the end of a buffer");
  EXPECT_DEATH(at_begin[-1] = 1, "before the begin of a buffer");
  EXPECT_DEATH(
      {
        pages.MakeReadOnly();
        at_end[4] = 1;
      },
      "writing of a buffer");
}

}  // namespace
}  // namespace rnn
