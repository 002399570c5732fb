// cell_forward and cell_backward against the equations, unit by unit.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/engine/element_values.h"
#include "tests/engine/guarded.h"
#include "tests/engine/random_values.h"
#include "tests/engine/reference_rnn.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

constexpr int64_t kMaxRows = 13;

// Units before and after the panel under test, which nobody may touch.
constexpr int64_t kBefore = 3;
constexpr int64_t kAfter = 5;

// Sizes of one call.
struct Sizes {
  CellMode mode;
  int64_t rows;
  int64_t units;       // of the panel
  int64_t cell_units;  // that fit into it
  int64_t depth;       // P

  int64_t G() const { return NumGates(mode); }
  int64_t H() const { return kBefore + units + kAfter; }
  int64_t reserved() const { return NumReservedPerUnit(mode) * H(); }
  bool is_lstm() const { return mode == CellMode::kLstm; }
  bool is_gru() const { return mode == CellMode::kGru; }
};

// [rows, columns], with a gap of poison after each row.
template <typename F>
struct Rows {
  Rows(int64_t rows, int64_t columns)
      : columns(columns), values(rows * (columns + 1)) {
    for (int64_t m = 0; m < rows; ++m) {
      mutable_pointers.push_back(values.data() + m * (columns + 1));
    }
    pointers.assign(mutable_pointers.begin(), mutable_pointers.end());
  }
  void Fill(RandomValues& random) {
    for (F* row : mutable_pointers) {
      for (int64_t j = 0; j < columns; ++j) {
        row[j] = FromDouble<F>(random.Real(-1, 1));
      }
    }
  }
  F* operator[](int64_t row) { return mutable_pointers[row]; }

  int64_t columns;
  Guarded<F> values;
  std::vector<F*> mutable_pointers;
  std::vector<const F*> pointers;
};

template <typename F>
void FillDense(Guarded<F>& values, RandomValues& random) {
  for (int64_t i = 0; i < values.size(); ++i) {
    values[i] = FromDouble<F>(random.Real(-1, 1));
  }
}

// Half the distance between numbers of an operand near `value`, if results are
// rounded to it.
template <typename Operand>
double Rounding(double value) {
  return std::is_same_v<Operand, ComputeType<Operand>>
             ? 0
             : Epsilon<Operand>() / 2 * std::abs(value);
}

// Whether `groups` stretches of H values, `stride` apart, were written nowhere
// but at the panel's units.
template <typename F>
bool OnlyPanelWritten(const F* row, const Sizes& s, int64_t groups) {
  for (int64_t i = 0; i < groups * s.H(); ++i) {
    const int64_t unit = i % s.H() - kBefore;
    const bool in_panel = unit >= 0 && unit < s.units;
    if (!in_panel && !IsPoison(row[i])) return false;
  }
  return true;
}

// How a step gets R, or its products.
enum class RecurrentKind { kPacked, kSums };
constexpr RecurrentKind kRecurrentKinds[] = {RecurrentKind::kPacked,
                                             RecurrentKind::kSums};
constexpr const char* kRecurrentKindNames[] = {"packed", "multiplied"};

template <typename Operand>
struct ForwardCall {
  using F = ComputeType<Operand>;
  static constexpr int64_t kStep = kDepthStep<Operand>;

  ForwardCall(const Sizes& s, uint64_t seed)
      : s(s),
        depth(PaddedDepth<Operand>(s.depth)),
        panel(depth * s.G() * s.cell_units),
        h_prev(s.rows, depth),
        input_sums(s.rows * s.G() * s.H()),
        recurrent_new_bias(s.H()),
        c(s.rows * s.H()),
        h(s.rows, s.H()),
        saved(s.rows, s.reserved()) {
    RandomValues random(seed);
    FillDense(panel, random);
    // After the columns of the panel's units there are zeros, and so there are
    // at the end of an h that does not fill the last step.
    for (int64_t i = 0; i < panel.size(); ++i) {
      const int64_t column = i / kStep % (s.G() * s.cell_units);
      if (column >= s.G() * s.units) panel[i] = Operand{};
    }
    h_prev.Fill(random);
    for (int64_t m = 0; m < s.rows; ++m) {
      std::fill(h_prev[m] + s.depth, h_prev[m] + depth, Operand{});
    }
    FillDense(input_sums, random);
    FillDense(recurrent_new_bias, random);
    // Neighbours of the panel stay poison, to show that they stay.
    for (int64_t m = 0; m < s.rows; ++m) {
      for (int64_t u = 0; u < s.units; ++u) {
        c[m * s.H() + kBefore + u] = static_cast<F>(random.Real(-1, 1));
      }
    }
    c_before = c.values();
  }

  void Run(const SimdKernels<Operand>& kernels, bool save,
           RecurrentKind kind = RecurrentKind::kPacked) {
    const CellForwardStep<Operand> step = Step(kernels, save, kind);
    kernels.cell_forward[static_cast<int>(s.mode)](&step, 1);
  }

  // Good as long as this lives, and until the next call.
  CellForwardStep<Operand> Step(const SimdKernels<Operand>& kernels, bool save,
                                RecurrentKind kind) {
    const Operand* recurrent = nullptr;
    sums.reset();
    const int64_t columns = s.G() * s.cell_units;
    switch (kind) {
      case RecurrentKind::kPacked: {
        const int64_t together = kernels.cell_columns[static_cast<int>(s.mode)];
        copy.emplace(columns * depth);
        for (int64_t j = 0; j < columns; ++j) {
          const int64_t first = j / together * together;
          for (int64_t k = 0; k < depth; ++k) {
            (*copy)[first * depth + (k / kStep * together + j - first) * kStep +
                    k % kStep] = R(k, j);
          }
        }
        recurrent = copy->data();
        break;
      }
      case RecurrentKind::kSums: {
        // R as Keras has it: rows, in which gates are apart.
        const int64_t stride = columns + 3;
        copy.emplace(depth * stride);
        for (int64_t k = 0; k < depth; ++k) {
          for (int64_t j = 0; j < columns; ++j) {
            copy->data()[k * stride + j] = R(k, j);
          }
        }
        sums.emplace(s.rows, s.G() * s.H());
        for (int64_t gate = 0; gate < s.G(); ++gate) {
          RowsProduct<Operand> product{};
          product.rows = s.rows;
          product.depth = depth;
          product.columns = s.units;
          product.a = h_prev.pointers.data();
          product.b = copy->data() + gate * s.units;
          product.stride = stride;
          product.c = sums->mutable_pointers.data();
          product.c_offset = gate * s.H() + kBefore;
          kernels.multiply_rows(product);
        }
        break;
      }
    }
    CellForwardStep<Operand> step{};
    step.rows = s.rows;
    step.hidden_size = s.H();
    step.unit = kBefore;
    step.units = s.units;
    step.depth = depth;
    step.recurrent = recurrent;
    if (sums.has_value()) step.recurrent_sums = sums->pointers.data();
    step.h_prev = h_prev.pointers.data();
    step.input_sums = input_sums.data();
    step.recurrent_new_bias = s.is_gru() ? recurrent_new_bias.data() : nullptr;
    step.c = s.is_lstm() ? c.data() : nullptr;
    step.h = h.mutable_pointers.data();
    step.saved = save ? saved.mutable_pointers.data() : nullptr;
    return step;
  }

  reference::CellInput Input(int64_t m, int64_t u) {
    reference::CellInput in;
    for (int64_t gate = 0; gate < s.G(); ++gate) {
      in.w_x[gate] = input_sums[(m * s.G() + gate) * s.H() + kBefore + u];
      if (s.is_gru() && gate == kNew) {
        in.r_h[gate] = recurrent_new_bias[kBefore + u];
      }
      for (int64_t k = 0; k < s.depth; ++k) {
        in.r_h[gate] +=
            ToDouble(h_prev[m][k]) * ToDouble(R(k, gate * s.units + u));
      }
    }
    if (s.is_gru()) in.h = ToDouble(h_prev[m][kBefore + u]);
    if (s.is_lstm()) in.c = c_before[m * s.H() + kBefore + u];
    return in;
  }

  // Of the panel, as a matrix.
  Operand& R(int64_t k, int64_t column) {
    const int64_t columns = s.G() * s.cell_units;
    return panel[(k / kStep * columns + column) * kStep + k % kStep];
  }

  Sizes s;
  int64_t depth;  // of whole steps
  Guarded<Operand> panel;
  Rows<Operand> h_prev;
  Guarded<F> input_sums;
  Guarded<F> recurrent_new_bias;
  Guarded<F> c;
  Rows<Operand> h;
  Rows<Operand> saved;
  std::vector<F> c_before;

  // What the last step reads in place of `panel`.
  std::optional<Guarded<Operand>> copy;
  std::optional<Rows<F>> sums;
};

template <typename Operand>
bool HaveSameResults(ForwardCall<Operand>& a, ForwardCall<Operand>& b) {
  return SameBits(a.h.values.values(), b.h.values.values()) &&
         SameBits(a.c.values(), b.c.values()) &&
         SameBits(a.saved.values.values(), b.saved.values.values());
}

template <typename Operand>
void CheckForward(const SimdTarget& target, const Sizes& s, bool save,
                  RecurrentKind kind) {
  SCOPED_TRACE(testing::Message()
               << target.name << ' ' << kModeNames[static_cast<int>(s.mode)]
               << ", rows " << s.rows << ", units " << s.units << " of "
               << s.cell_units << ", depth " << s.depth << ", save " << save
               << ", R " << kRecurrentKindNames[static_cast<int>(kind)]);
  using F = ComputeType<Operand>;
  ForwardCall<Operand> call(s, 1);
  call.Run(KernelsOf<Operand>(target), save, kind);

  ASSERT_TRUE(call.h.values.intact());
  ASSERT_TRUE(call.c.intact());
  ASSERT_TRUE(call.saved.values.intact());
  // Pre-activations are sums of `depth` products of at most 1, and what follows
  // has slopes of at most 1, or (ReLU) passes them on.
  const double tolerance =
      2 * std::numeric_limits<F>::epsilon() * static_cast<double>(s.depth + 8);
  for (int64_t m = 0; m < s.rows; ++m) {
    ASSERT_TRUE(OnlyPanelWritten(call.h[m], s, 1));
    ASSERT_TRUE(OnlyPanelWritten(call.saved[m], s,
                                 save ? NumReservedPerUnit(s.mode) : 0));
    ASSERT_TRUE(OnlyPanelWritten(&call.c[m * s.H()], s, 1));
    for (int64_t u = 0; u < s.units; ++u) {
      const reference::CellOutput expected =
          reference::CellForward(s.mode, call.Input(m, u));
      const int64_t unit = kBefore + u;
      ASSERT_NEAR(ToDouble(call.h[m][unit]), expected.h,
                  tolerance + Rounding<Operand>(expected.h))
          << m << ", " << u;
      if (s.is_lstm()) {
        ASSERT_NEAR(call.c[m * s.H() + unit], expected.c, tolerance);
      }
      if (!save || s.reserved() == 0) continue;
      const Operand* saved = call.saved[m] + unit;
      for (int64_t gate = 0; gate < s.G(); ++gate) {
        ASSERT_NEAR(ToDouble(saved[gate * s.H()]), expected.gates[gate],
                    tolerance + Rounding<Operand>(expected.gates[gate]))
            << "gate " << gate;
      }
      if (s.is_lstm()) {
        ASSERT_TRUE(SameBits(saved[kLstmReserveCell * s.H()],
                             FromDouble<Operand>(call.c[m * s.H() + unit])));
      } else {
        ASSERT_NEAR(ToDouble(saved[kGruReserveRecurrentNew * s.H()]),
                    expected.q, tolerance + Rounding<Operand>(expected.q));
      }
    }
  }
}

template <typename Operand>
class SimdCellsTest : public testing::Test {};
using Types = testing::Types<float, double, BFloat16>;
TYPED_TEST_SUITE(SimdCellsTest, Types);

TYPED_TEST(SimdCellsTest, ForwardFollowsTheEquations) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    for (CellMode mode : kModes) {
      const int64_t cell_units =
          KernelsOf<Operand>(*target).cell_units[static_cast<int>(mode)];
      for (int64_t units = 1; units <= cell_units; ++units) {
        for (int64_t rows = 1; rows <= kMaxRows; ++rows) {
          Sizes s{mode, rows, units, cell_units, 0};
          s.depth = s.H();
          for (bool save : {false, true}) {
            for (RecurrentKind kind : kRecurrentKinds) {
              CheckForward<Operand>(*target, s, save, kind);
              if (this->HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

// Up to tiles of 16 rows, two of them together, and many.
TYPED_TEST(SimdCellsTest, ForwardOfManyRowsFollowsTheEquations) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    for (CellMode mode : kModes) {
      const int64_t cell_units =
          KernelsOf<Operand>(*target).cell_units[static_cast<int>(mode)];
      for (int64_t units :
           {int64_t{1}, cell_units / 2, cell_units - 1, cell_units}) {
        for (int64_t rows : {16, 17, 31, 32, 33, 40, 65}) {
          for (RecurrentKind kind : kRecurrentKinds) {
            CheckForward<Operand>(*target, {mode, rows, units, cell_units, 70},
                                  /*save=*/true, kind);
            if (this->HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// A projecting LSTM reads fewer features than it has units.
TYPED_TEST(SimdCellsTest, DepthIsNotTheHiddenSize) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    const int64_t cell_units =
        KernelsOf<Operand>(*target)
            .cell_units[static_cast<int>(CellMode::kLstm)];
    for (int64_t depth : {1, 2, 33, 512, 513}) {
      for (RecurrentKind kind : kRecurrentKinds) {
        CheckForward<Operand>(
            *target, {CellMode::kLstm, 7, cell_units, cell_units, depth},
            /*save=*/true, kind);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

// Gives row `to_row` what row `from_row` of `from` has for R and the cells, as
// far as there are units.
template <typename Operand>
void CopyInputs(ForwardCall<Operand>& from, int64_t from_row,
                ForwardCall<Operand>& to, int64_t to_row) {
  const int64_t G = to.s.G(), units = to.s.units;
  std::copy_n(from.h_prev[from_row], to.depth, to.h_prev[to_row]);
  for (int64_t gate = 0; gate < G; ++gate) {
    std::copy_n(&from.input_sums[(from_row * G + gate) * from.s.H() + kBefore],
                units,
                &to.input_sums[(to_row * G + gate) * to.s.H() + kBefore]);
  }
  std::copy_n(&from.c_before[from_row * from.s.H() + kBefore], units,
              &to.c[to_row * to.s.H() + kBefore]);
  std::copy_n(&from.recurrent_new_bias[kBefore], units,
              &to.recurrent_new_bias[kBefore]);
}

TYPED_TEST(SimdCellsTest, ForwardBitsOfARowDoNotDependOnTheOthers) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    for (CellMode mode : kModes) {
      const int64_t cell_units = kernels.cell_units[static_cast<int>(mode)];
      constexpr int64_t kRows = 35;
      for (int64_t units : {int64_t{1}, cell_units * 5 / 8, cell_units}) {
        Sizes s{mode, kRows, units, cell_units, 0};
        s.depth = s.H();
        for (RecurrentKind kind : kRecurrentKinds) {
          ForwardCall<Operand> all(s, 2);
          all.Run(kernels, /*save=*/true, kind);
          for (int64_t m = 0; m < kRows; ++m) {
            Sizes one = s;
            one.rows = 1;
            ForwardCall<Operand> alone(one, 2);  // of the same seed: the panel
            CopyInputs(all, m, alone, 0);
            alone.Run(kernels, /*save=*/true, kind);
            const auto same = [](const auto* a, const auto* b, int64_t count) {
              return SameBits(std::vector(a, a + count),
                              std::vector(b, b + count));
            };
            ASSERT_TRUE(same(alone.h[0], all.h[m], s.H()))
                << target->name << ", row " << m << ", R "
                << kRecurrentKindNames[static_cast<int>(kind)];
            ASSERT_TRUE(same(alone.c.data(), all.c.data() + m * s.H(), s.H()));
            ASSERT_TRUE(same(alone.saved[0], all.saved[m], s.reserved()));
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdCellsTest, PanelsOfACallAreThoseOfCallsOfTheirOwn) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    for (CellMode mode : kModes) {
      const int64_t cell_units = kernels.cell_units[static_cast<int>(mode)];
      for (int64_t depth : {72, 130}) {
        SCOPED_TRACE(testing::Message() << target->name << ' '
                                        << kModeNames[static_cast<int>(mode)]
                                        << ", depth " << depth);
        struct Panel {
          int64_t rows, units;
          RecurrentKind kind;
        };
        const Panel panels[] = {{33, cell_units, RecurrentKind::kPacked},
                                {1, cell_units, RecurrentKind::kPacked},
                                {7, 1, RecurrentKind::kSums},
                                {40, cell_units - 1, RecurrentKind::kPacked},
                                {30, 1, RecurrentKind::kPacked},
                                {16, cell_units, RecurrentKind::kPacked}};
        std::deque<ForwardCall<Operand>> together, alone;
        for (const Panel& panel : panels) {
          const Sizes s{mode, panel.rows, panel.units, cell_units, depth};
          together.emplace_back(s, together.size());
          alone.emplace_back(s, alone.size());
        }
        std::vector<CellForwardStep<Operand>> steps;
        for (size_t i = 0; i < together.size(); ++i) {
          steps.push_back(
              together[i].Step(kernels, /*save=*/true, panels[i].kind));
          alone[i].Run(kernels, /*save=*/true, panels[i].kind);
        }
        kernels.cell_forward[static_cast<int>(mode)](
            steps.data(), static_cast<int>(steps.size()));
        for (size_t i = 0; i < together.size(); ++i) {
          SCOPED_TRACE(i);
          ASSERT_TRUE(together[i].h.values.intact());
          ASSERT_TRUE(HaveSameResults(together[i], alone[i]));
        }
      }
    }
  }
}

TYPED_TEST(SimdCellsTest, BitsDoNotDependOnWhereRowsLie) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    for (CellMode mode : kModes) {
      const int64_t cell_units = kernels.cell_units[static_cast<int>(mode)];
      for (int64_t rows : {5, 17, 33}) {
        SCOPED_TRACE(testing::Message() << target->name << ' '
                                        << kModeNames[static_cast<int>(mode)]
                                        << ", " << rows << " rows");
        const Sizes s{mode, rows, cell_units, cell_units, 74};
        ForwardCall<Operand> regular(s, 4), scattered(s, 4);
        Rows<Operand> apart(3 * rows, scattered.depth);
        for (int64_t m = 0; m < rows; ++m) {
          Operand* row = apart[3 * m + m * m % 3];
          std::copy_n(scattered.h_prev[m], scattered.depth, row);
          scattered.h_prev.pointers[m] = row;
        }
        regular.Run(kernels, /*save=*/true);
        scattered.Run(kernels, /*save=*/true);
        EXPECT_TRUE(HaveSameResults(regular, scattered));
      }
    }
  }
}

// Of depths beyond a block of products, too: those of cells are one chain.
TYPED_TEST(SimdCellsTest, FewUnitsHaveTheBitsOfAWholePanel) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    for (CellMode mode : kModes) {
      const int64_t cell_units = kernels.cell_units[static_cast<int>(mode)];
      for (int64_t depth : {80, 1030}) {
        for (int64_t rows : {1, 2, 7, 26}) {
          for (int64_t units :
               {int64_t{1}, cell_units / 2, cell_units * 5 / 8}) {
            SCOPED_TRACE(testing::Message()
                         << target->name << ' '
                         << kModeNames[static_cast<int>(mode)] << ", " << rows
                         << " rows, " << units << " units, depth " << depth);
            ForwardCall<Operand> whole(
                {mode, rows, cell_units, cell_units, depth}, 3);
            ForwardCall<Operand> few({mode, rows, units, cell_units, depth}, 1);
            for (int64_t gate = 0; gate < few.s.G(); ++gate) {
              for (int64_t u = 0; u < units; ++u) {
                for (int64_t k = 0; k < few.depth; ++k) {
                  few.R(k, gate * units + u) =
                      whole.R(k, gate * cell_units + u);
                }
              }
            }
            for (int64_t m = 0; m < rows; ++m) CopyInputs(whole, m, few, m);
            whole.Run(kernels, /*save=*/true);
            few.Run(kernels, /*save=*/true);
            for (int64_t m = 0; m < rows; ++m) {
              const auto expect_same = [&](const char* name, const auto* a,
                                           const auto* b) {
                EXPECT_TRUE(
                    SameBits(std::vector(a + kBefore, a + kBefore + units),
                             std::vector(b + kBefore, b + kBefore + units)))
                    << name << ", row " << m;
              };
              expect_same("h", whole.h[m], few.h[m]);
              expect_same("c", &whole.c[m * whole.s.H()],
                          &few.c[m * few.s.H()]);
              for (int64_t i = 0; i < NumReservedPerUnit(mode); ++i) {
                expect_same("saved", whole.saved[m] + i * whole.s.H(),
                            few.saved[m] + i * few.s.H());
              }
            }
            if (this->HasFailure()) return;
          }
        }
      }
    }
  }
}

TYPED_TEST(SimdCellsTest, SumsGiveTheBitsOfPackedR) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    const SimdKernels<Operand>& kernels = KernelsOf<Operand>(*target);
    if (kernels.has_tile_registers) continue;  // they add in another order
    for (CellMode mode : kModes) {
      const int64_t cell_units = kernels.cell_units[static_cast<int>(mode)];
      for (int64_t rows : {1, 2, 4, 7, 16, 33}) {
        for (int64_t units :
             {cell_units, cell_units - 1, cell_units * 5 / 8, int64_t{1}}) {
          SCOPED_TRACE(testing::Message()
                       << target->name << ' '
                       << kModeNames[static_cast<int>(mode)] << ", " << rows
                       << " rows, " << units << " units");
          Sizes s{mode, rows, units, cell_units, 0};
          s.depth = s.H() + 64;
          ForwardCall<Operand> packed(s, 7), sums(s, 7);
          packed.Run(kernels, /*save=*/true);
          sums.Run(kernels, /*save=*/true, RecurrentKind::kSums);
          EXPECT_TRUE(HaveSameResults(sums, packed));
        }
      }
    }
  }
}

template <typename Operand>
struct BackwardCall {
  using F = ComputeType<Operand>;

  BackwardCall(const Sizes& s, uint64_t seed)
      : s(s),
        saved(s.rows, s.reserved()),
        c_prev(s.rows, s.H()),
        h_prev(s.rows, s.H()),
        h(s.rows, s.H()),
        dy(s.rows, s.H()),
        dh(s.rows * s.H()),
        dc(s.rows * s.H()),
        dgates(s.rows * s.G() * s.H()),
        recurrent_dgates(s.rows * s.G() * s.H()),
        rounded_dgates(s.rows, s.G() * s.H()),
        rounded_recurrent_dgates(s.rows, s.G() * s.H()),
        m_out(s.rows * s.H()) {
    RandomValues random(seed);
    c_prev.Fill(random);
    h_prev.Fill(random);
    dy.Fill(random);
    for (int64_t m = 0; m < s.rows; ++m) {
      for (int64_t u = 0; u < s.units; ++u) {
        const int64_t unit = kBefore + u;
        dh[m * s.H() + unit] = static_cast<F>(random.Real(-1, 1));
        dc[m * s.H() + unit] = static_cast<F>(random.Real(-1, 1));
        // As a forward step would have left them.
        reference::CellInput in;
        for (double& sum : in.w_x) sum = random.Real(-2, 2);
        for (double& sum : in.r_h) sum = random.Real(-2, 2);
        in.c = ToDouble(c_prev[m][unit]);
        in.h = ToDouble(h_prev[m][unit]);
        const auto out = reference::CellForward(s.mode, in);
        h[m][unit] = FromDouble<Operand>(out.h);
        for (int64_t gate = 0; gate < s.G() && s.reserved() > 0; ++gate) {
          saved[m][gate * s.H() + unit] = FromDouble<Operand>(out.gates[gate]);
        }
        if (s.is_lstm()) {
          saved[m][kLstmReserveCell * s.H() + unit] =
              FromDouble<Operand>(out.c);
        } else if (s.is_gru()) {
          saved[m][kGruReserveRecurrentNew * s.H() + unit] =
              FromDouble<Operand>(out.q);
        }
      }
    }
    dh_before = dh.values();
    dc_before = dc.values();
  }

  void Run(const SimdKernels<Operand>& kernels, bool has_dy, bool has_m) {
    CellBackwardStep<Operand> step{};
    step.rows = s.rows;
    step.hidden_size = s.H();
    step.unit = kBefore;
    step.units = s.units;
    step.saved = s.reserved() > 0 ? saved.pointers.data() : nullptr;
    step.c_prev = s.is_lstm() ? c_prev.pointers.data() : nullptr;
    step.h_prev = s.is_gru() ? h_prev.pointers.data() : nullptr;
    step.h = s.reserved() > 0 ? nullptr : h.pointers.data();
    step.dy = has_dy ? dy.pointers.data() : nullptr;
    step.dh = dh.data();
    step.dc = s.is_lstm() ? dc.data() : nullptr;
    step.dgates = dgates.data();
    step.recurrent_dgates = s.is_gru() ? recurrent_dgates.data() : nullptr;
    step.rounded_dgates = rounded_dgates.mutable_pointers.data();
    step.rounded_recurrent_dgates =
        s.is_gru() ? rounded_recurrent_dgates.mutable_pointers.data() : nullptr;
    step.m = has_m ? m_out.data() : nullptr;
    kernels.cell_backward[static_cast<int>(s.mode)](step);
  }

  reference::CellInput Input(int64_t m, int64_t unit) {
    reference::CellInput in;
    in.c = ToDouble(c_prev[m][unit]);
    in.h = ToDouble(h_prev[m][unit]);
    return in;
  }
  reference::CellOutput Output(int64_t m, int64_t unit) {
    reference::CellOutput out;
    out.h = ToDouble(h[m][unit]);
    if (s.reserved() == 0) return out;
    for (int64_t gate = 0; gate < s.G(); ++gate) {
      out.gates[gate] = ToDouble(saved[m][gate * s.H() + unit]);
    }
    const Operand* last = saved[m] + s.G() * s.H() + unit;
    if (s.is_lstm()) out.c = ToDouble(*last);
    if (s.is_gru()) out.q = ToDouble(*last);
    return out;
  }

  Sizes s;
  Rows<Operand> saved, c_prev, h_prev, h;
  Rows<F> dy;
  Guarded<F> dh, dc, dgates, recurrent_dgates;
  Rows<Operand> rounded_dgates, rounded_recurrent_dgates;
  Guarded<Operand> m_out;
  std::vector<F> dh_before, dc_before;
};

template <typename Operand>
void CheckBackward(const SimdTarget& target, const Sizes& s, bool has_dy,
                   bool has_m) {
  SCOPED_TRACE(testing::Message()
               << target.name << ' ' << kModeNames[static_cast<int>(s.mode)]
               << ", rows " << s.rows << ", units " << s.units << ", dy "
               << has_dy << ", m " << has_m);
  using F = ComputeType<Operand>;
  constexpr bool kRounds = !std::is_same_v<F, Operand>;
  BackwardCall<Operand> call(s, 3);
  call.Run(KernelsOf<Operand>(target), has_dy, has_m);

  for (Guarded<F>* values :
       {&call.dh, &call.dc, &call.dgates, &call.recurrent_dgates}) {
    ASSERT_TRUE(values->intact());
  }
  for (Guarded<Operand>* values : {&call.m_out, &call.rounded_dgates.values,
                                   &call.rounded_recurrent_dgates.values}) {
    ASSERT_TRUE(values->intact());
  }
  // A handful of operations on values of at most 4.
  const double tolerance = 32 * std::numeric_limits<F>::epsilon();
  for (int64_t m = 0; m < s.rows; ++m) {
    const int64_t row = m * s.H();
    ASSERT_TRUE(OnlyPanelWritten(&call.dh[row], s, 1));
    ASSERT_TRUE(OnlyPanelWritten(&call.dc[row], s, 1));
    ASSERT_TRUE(OnlyPanelWritten(&call.m_out[row], s, 1));
    ASSERT_TRUE(OnlyPanelWritten(&call.dgates[row * s.G()], s, s.G()));
    ASSERT_TRUE(
        OnlyPanelWritten(&call.recurrent_dgates[row * s.G()], s, s.G()));
    for (Rows<Operand>* rounded :
         {&call.rounded_dgates, &call.rounded_recurrent_dgates}) {
      ASSERT_TRUE(OnlyPanelWritten((*rounded)[m], s, kRounds ? s.G() : 0));
    }
    for (int64_t u = 0; u < s.units; ++u) {
      const int64_t unit = kBefore + u;
      double dh = call.dh_before[row + unit];
      if (has_dy) dh += call.dy[m][unit];
      const double dc = s.is_lstm() ? call.dc_before[row + unit] : 0;
      const reference::CellOutput out = call.Output(m, unit);
      const reference::CellGradient expected =
          reference::CellBackward(s.mode, call.Input(m, unit), out, dh, dc);
      for (int64_t gate = 0; gate < s.G(); ++gate) {
        const int64_t index = row * s.G() + gate * s.H() + unit;
        ASSERT_NEAR(call.dgates[index], expected.w_x[gate], tolerance)
            << "gate " << gate << ", row " << m << ", unit " << u;
        if (s.is_gru()) {
          ASSERT_NEAR(call.recurrent_dgates[index], expected.r_h[gate],
                      tolerance)
              << "gate " << gate << ", row " << m << ", unit " << u;
        }
        if (!kRounds) continue;
        const int64_t column = gate * s.H() + unit;
        ASSERT_TRUE(SameBits(call.rounded_dgates[m][column],
                             FromDouble<Operand>(call.dgates[index])));
        if (s.is_gru()) {
          ASSERT_TRUE(
              SameBits(call.rounded_recurrent_dgates[m][column],
                       FromDouble<Operand>(call.recurrent_dgates[index])));
        }
      }
      if (s.is_lstm()) {
        ASSERT_NEAR(call.dc[row + unit], expected.c, tolerance);
      }
      if (s.is_gru()) {
        ASSERT_NEAR(call.dh[row + unit], expected.h, tolerance);
      }
      if (has_m) {
        const double m_expected = out.gates[kOutput] * std::tanh(out.c);
        ASSERT_NEAR(ToDouble(call.m_out[row + unit]), m_expected,
                    tolerance + Rounding<Operand>(m_expected));
      }
    }
  }
}

TYPED_TEST(SimdCellsTest, BackwardFollowsTheEquations) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    for (CellMode mode : kModes) {
      // The engine's panels here are as wide as those of a product.
      const int64_t max_units = KernelsOf<Operand>(*target).panel_columns;
      for (int64_t units = 1; units <= max_units; ++units) {
        for (int64_t rows = 1; rows <= kMaxRows; ++rows) {
          const Sizes s{mode, rows, units, max_units, 0};
          CheckBackward<Operand>(*target, s, /*has_dy=*/rows % 2 == 0,
                                 /*has_m=*/s.is_lstm() && rows % 2 == 1);
          if (this->HasFatalFailure()) return;
        }
      }
    }
  }
}

// ReLU's derivative at 0 is 0, NaN is not positive.
TYPED_TEST(SimdCellsTest, ReluPassesNoGradientAtZero) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    BackwardCall<Operand> call({CellMode::kRelu, 1, 3, 3, 0}, 4);
    using F = ComputeType<Operand>;
    call.h[0][kBefore + 0] = FromDouble<Operand>(0.0);
    call.h[0][kBefore + 1] = FromDouble<Operand>(std::numeric_limits<F>::min());
    call.h[0][kBefore + 2] = FromDouble<Operand>(-0.0);
    call.Run(KernelsOf<Operand>(*target), /*has_dy=*/false, /*has_m=*/false);
    EXPECT_EQ(call.dgates[kBefore + 0], 0) << target->name;
    EXPECT_EQ(call.dgates[kBefore + 1], call.dh_before[kBefore + 1])
        << target->name;
    EXPECT_EQ(call.dgates[kBefore + 2], 0) << target->name;
  }
}

TYPED_TEST(SimdCellsTest, NanStaysNan) {
  using Operand = TypeParam;
  for (const SimdTarget* target : TestedSimdTargetsOf<Operand>()) {
    for (CellMode mode : kModes) {
      const int64_t cell_units =
          KernelsOf<Operand>(*target).cell_units[static_cast<int>(mode)];
      Sizes s{mode, 2, cell_units, cell_units, 0};
      s.depth = s.H();
      ForwardCall<Operand> call(s, 5);
      // Of unit 1 of row 1, first gate.
      call.input_sums[s.G() * s.H() + kBefore + 1] =
          std::numeric_limits<ComputeType<Operand>>::quiet_NaN();
      call.Run(KernelsOf<Operand>(*target), /*save=*/false);
      for (int64_t m = 0; m < s.rows; ++m) {
        for (int64_t u = 0; u < s.units; ++u) {
          EXPECT_EQ(std::isnan(ToDouble(call.h[m][kBefore + u])),
                    m == 1 && u == 1)
              << target->name << ' ' << kModeNames[static_cast<int>(mode)];
        }
      }
    }
  }
}

// The equations of backward are those of forward, differentiated.
TEST(PlainCellsTest, GradientsAreDifferencesOfForward) {
  constexpr double kStep = 1e-6;
  RandomValues random(6);
  for (CellMode mode : kModes) {
    SCOPED_TRACE(kModeNames[static_cast<int>(mode)]);
    for (int draw = 0; draw < 100; ++draw) {
      reference::CellInput in;
      for (double& sum : in.w_x) sum = random.Real(-2, 2);
      for (double& sum : in.r_h) sum = random.Real(-2, 2);
      in.c = random.Real(-1, 1);
      in.h = random.Real(-1, 1);
      const double dh = random.Real(-1, 1), dc = random.Real(-1, 1);
      const reference::CellGradient gradient = reference::CellBackward(
          mode, in, reference::CellForward(mode, in), dh, dc);
      const auto difference = [&](double* value) {
        const auto loss = [&] {
          const auto out = reference::CellForward(mode, in);
          return dh * out.h + dc * out.c;
        };
        const double before = *value;
        *value = before + kStep;
        const double above = loss();
        *value = before - kStep;
        const double below = loss();
        *value = before;
        return (above - below) / (2 * kStep);
      };
      for (int gate = 0; gate < NumGates(mode); ++gate) {
        ASSERT_NEAR(gradient.w_x[gate], difference(&in.w_x[gate]), 1e-8);
        ASSERT_NEAR(gradient.r_h[gate], difference(&in.r_h[gate]), 1e-8);
      }
      ASSERT_NEAR(gradient.h, difference(&in.h), 1e-8);
      ASSERT_NEAR(gradient.c, difference(&in.c), 1e-8);
    }
  }
}

}  // namespace
}  // namespace rnn
