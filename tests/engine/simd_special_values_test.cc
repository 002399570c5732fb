// Infinities and NaN go through a cell as its equations say, forward and
// backward, in every lane.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/engine/random_values.h"
#include "tests/engine/reference_rnn.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// What a pre-activation or a state may be; half of them are ordinary.
constexpr double kValues[] = {kInfinity, -kInfinity, kNan, 1e30, -1e30,
                              0,         0.5,        -2,   1.5,  -0.25};
// Gradients: those whose products overflow in neither type.
constexpr double kModerate[] = {kInfinity, -kInfinity, kNan, 0,
                                0.5,       -2,         1.5,  -0.25};
// What an activation may be.
constexpr double kActivations[] = {0, 1, 0.5, 0.25, 0.75, kNan};

double Draw(RandomValues& random, const double* begin, const double* end) {
  return begin[random.Integer(0, end - begin - 1)];
}
double AnyValue(RandomValues& random) {
  return Draw(random, std::begin(kValues), std::end(kValues));
}
double AnyModerate(RandomValues& random) {
  return Draw(random, std::begin(kModerate), std::end(kModerate));
}
double AnyActivation(RandomValues& random) {
  return Draw(random, std::begin(kActivations), std::end(kActivations));
}

// Both NaN, the same infinity, or nearly the same number.
bool Agree(double value, double expected, double epsilon) {
  if (std::isnan(expected)) return std::isnan(value);
  if (std::isinf(expected)) return value == expected;
  return std::abs(value - expected) <= 32 * epsilon * (1 + std::abs(expected));
}

template <typename F>
class SimdSpecialValuesTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SimdSpecialValuesTest, Types);

constexpr int64_t kRows = 3;
constexpr int kNumDraws = 200;

template <typename F, typename Any>
std::vector<F> Values(RandomValues& random, int64_t count, Any any) {
  std::vector<F> values(count);
  for (F& value : values) value = static_cast<F>(any(random));
  return values;
}

// Where each of the kRows rows begins.
template <typename Value>
std::vector<Value*> RowsOf(Value* matrix, int64_t columns) {
  std::vector<Value*> rows;
  for (int64_t row = 0; row < kRows; ++row) {
    rows.push_back(matrix + row * columns);
  }
  return rows;
}

TYPED_TEST(SimdSpecialValuesTest, Forward) {
  using F = TypeParam;
  constexpr double kEpsilon = std::numeric_limits<F>::epsilon();
  for (const SimdTarget* target : TestedSimdTargets()) {
    const SimdKernels<F>& kernels = KernelsOf<F>(*target);
    for (CellMode mode : kModes) {
      SCOPED_TRACE(std::string(target->name) + " " +
                   kModeNames[static_cast<int>(mode)]);
      RandomValues random(1);
      const int64_t H = kernels.cell_units[static_cast<int>(mode)] - 1;
      const int64_t G = NumGates(mode);
      int64_t num_nan = 0, num_infinite = 0, num_finite = 0;
      for (int draw = 0; draw < kNumDraws; ++draw) {
        const auto values = [&](int64_t count) {
          return Values<F>(random, count, AnyValue);
        };
        std::vector<F> input_sums = values(kRows * G * H);
        std::vector<F> new_bias = values(H), c = values(kRows * H);
        std::vector<F> h_prev = values(kRows * H), h(kRows * H);
        const std::vector<F> c_before = c;
        const auto h_prev_rows = RowsOf(h_prev.data(), H);
        const auto h_rows = RowsOf(h.data(), H);
        CellForwardStep<F> step{};
        step.rows = kRows;
        step.hidden_size = H;
        step.units = H;
        step.depth = 0;  // sums of products have tests of their own
        const F nothing = 0;
        step.recurrent = &nothing;
        step.h_prev = h_prev_rows.data();
        step.input_sums = input_sums.data();
        step.recurrent_new_bias = new_bias.data();
        step.c = c.data();
        step.h = h_rows.data();
        kernels.cell_forward[static_cast<int>(mode)](&step, 1);
        for (int64_t i = 0; i < kRows * H; ++i) {
          const int64_t row = i / H, unit = i % H;
          reference::CellInput input;
          for (int64_t gate = 0; gate < G; ++gate) {
            input.w_x[gate] = input_sums[(row * G + gate) * H + unit];
          }
          if (mode == CellMode::kGru) input.r_h[kNew] = new_bias[unit];
          input.h = h_prev[i];
          input.c = c_before[i];
          const auto exact = reference::CellForward(mode, input);
          const auto expect_agrees = [&](const char* name, double value,
                                         double expected) {
            EXPECT_TRUE(Agree(value, expected, kEpsilon))
                << name << " is " << value << " instead of " << expected
                << "; gates " << input.w_x[0] << ' ' << input.w_x[1] << ' '
                << input.w_x[2] << ' ' << input.w_x[3] << ", bR_n "
                << input.r_h[kNew] << ", h " << input.h << ", c " << input.c;
          };
          expect_agrees("h", h[i], exact.h);
          if (mode == CellMode::kLstm) {
            expect_agrees("c", c[i], exact.c);
          }
          if (this->HasFailure()) return;
          (std::isnan(h[i])   ? num_nan
           : std::isinf(h[i]) ? num_infinite
                              : num_finite) += 1;
        }
      }
      EXPECT_GT(num_nan, 0);
      EXPECT_GT(num_finite, 0);
      // tanh and sigmoid bound the others.
      if (mode == CellMode::kRelu || mode == CellMode::kGru) {
        EXPECT_GT(num_infinite, 0);
      }
    }
  }
}

TYPED_TEST(SimdSpecialValuesTest, Backward) {
  using F = TypeParam;
  constexpr double kEpsilon = std::numeric_limits<F>::epsilon();
  for (const SimdTarget* target : TestedSimdTargets()) {
    const SimdKernels<F>& kernels = KernelsOf<F>(*target);
    for (CellMode mode : kModes) {
      SCOPED_TRACE(std::string(target->name) + " " +
                   kModeNames[static_cast<int>(mode)]);
      RandomValues random(2);
      const int64_t H = 2 * kernels.lanes - 1;
      const int64_t G = NumGates(mode);
      const int64_t reserved = NumReservedPerUnit(mode);
      for (int draw = 0; draw < kNumDraws; ++draw) {
        const auto values = [&](int64_t count, auto any) {
          return Values<F>(random, count, any);
        };
        // Activations, and then c' or q.
        std::vector<F> saved = values(kRows * reserved * H, AnyActivation);
        for (int64_t row = 0; row < kRows && reserved > 0; ++row) {
          F* last = saved.data() + (row * reserved + reserved - 1) * H;
          for (int64_t unit = 0; unit < H; ++unit) {
            last[unit] = static_cast<F>(AnyModerate(random));
          }
        }
        const std::vector<F> c_prev = values(kRows * H, AnyModerate);
        const std::vector<F> h_prev = values(kRows * H, AnyModerate);
        const std::vector<F> h = values(
            kRows * H, mode == CellMode::kRelu ? AnyModerate : AnyActivation);
        std::vector<F> dh = values(kRows * H, AnyModerate);
        std::vector<F> dc = values(kRows * H, AnyModerate);
        const std::vector<F> dh_before = dh, dc_before = dc;
        std::vector<F> dgates(kRows * G * H), recurrent(kRows * G * H);
        const auto saved_rows = RowsOf(saved.data(), reserved * H);
        const auto c_prev_rows = RowsOf(c_prev.data(), H);
        const auto h_prev_rows = RowsOf(h_prev.data(), H);
        const auto h_rows = RowsOf(h.data(), H);
        CellBackwardStep<F> step{};
        step.rows = kRows;
        step.hidden_size = H;
        step.units = H;
        step.saved = saved_rows.data();
        step.c_prev = c_prev_rows.data();
        step.h_prev = h_prev_rows.data();
        step.h = h_rows.data();
        step.dh = dh.data();
        step.dc = dc.data();
        step.dgates = dgates.data();
        step.recurrent_dgates = recurrent.data();
        kernels.cell_backward[static_cast<int>(mode)](step);
        for (int64_t i = 0; i < kRows * H; ++i) {
          const int64_t row = i / H, unit = i % H;
          reference::CellInput input;
          input.c = c_prev[i];
          input.h = h_prev[i];
          reference::CellOutput output;
          output.h = h[i];
          const F* of_unit = saved.data() + row * reserved * H + unit;
          for (int64_t gate = 0; gate < G && reserved > 0; ++gate) {
            output.gates[gate] = of_unit[gate * H];
          }
          if (reserved > 0) {
            output.c = output.q = of_unit[(reserved - 1) * H];
          }
          const auto expected = reference::CellBackward(
              mode, input, output, dh_before[i],
              mode == CellMode::kLstm ? dc_before[i] : 0);
          const auto expect_agrees = [&](const char* name, double value,
                                         double expected_value) {
            EXPECT_TRUE(Agree(value, expected_value, kEpsilon))
                << name << " is " << value << " instead of " << expected_value
                << "; dh " << dh_before[i] << ", dc " << dc_before[i]
                << ", gates " << output.gates[0] << ' ' << output.gates[1]
                << ' ' << output.gates[2] << ' ' << output.gates[3]
                << ", c' or q " << output.c << ", c " << input.c << ", h "
                << input.h;
          };
          for (int64_t gate = 0; gate < G; ++gate) {
            const int64_t index = (row * G + gate) * H + unit;
            expect_agrees("dgates", dgates[index], expected.w_x[gate]);
            if (mode == CellMode::kGru) {
              expect_agrees("recurrent_dgates", recurrent[index],
                            expected.r_h[gate]);
            }
          }
          if (mode == CellMode::kLstm) expect_agrees("dc", dc[i], expected.c);
          if (mode == CellMode::kGru) expect_agrees("dh", dh[i], expected.h);
          if (this->HasFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rnn
