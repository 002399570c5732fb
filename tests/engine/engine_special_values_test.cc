// Infinities and NaN go through whole passes as the equations say. BUILD makes
// a test for each instruction set.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/engine/engine.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "tests/engine/engine_call.h"
#include "tests/engine/guard_pages.h"
#include "tests/engine/plans.h"
#include "tests/engine/reference_rnn.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

constexpr int64_t kBatch = 5, kSick = 2;

template <typename F>
using Call = EngineCall<F, EndGuarded>;

EngineSizes Sizes(CellMode mode, int64_t num_proj, int64_t steps) {
  EngineSizes sizes;
  sizes.descriptor.mode = mode;
  sizes.descriptor.num_layers = 2;
  sizes.descriptor.num_directions = 2;
  sizes.descriptor.input_size = 11;
  sizes.descriptor.hidden_size = 19;
  sizes.descriptor.num_proj = num_proj;
  sizes.max_time = steps;
  sizes.batch = kBatch;
  return sizes;
}

template <typename F>
reference::Vector ToDoubles(EndGuarded<F>& values) {
  return {values.data(), values.data() + values.size()};
}

template <typename F>
reference::Problem ProblemOf(Call<F>& call) {
  reference::Problem p;
  p.descriptor = call.sizes().descriptor;
  p.max_time = call.sizes().max_time;
  p.lengths.assign(call.sizes().batch, p.max_time);
  p.x = ToDoubles(call.x);
  p.h0 = ToDoubles(call.h0);
  p.c0 = ToDoubles(call.c0);
  p.params = ToDoubles(call.params);
  p.dy = ToDoubles(call.dy);
  p.dh_n = ToDoubles(call.dh_n);
  p.dc_n = ToDoubles(call.dc_n);
  return p;
}

// An infinite gradient times the derivative of a saturated gate, which is 0 or
// a number below the smallest normal one, is NaN or infinity: both tell of the
// same. Finite values agree.
template <typename F>
void ExpectAgree(const std::string& name, EndGuarded<F>& values,
                 const reference::Vector& expected) {
  SCOPED_TRACE(name);
  ASSERT_EQ(values.size(), static_cast<int64_t>(expected.size()));
  for (int64_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::isfinite(values[i]), std::isfinite(expected[i]))
        << i << ": " << values[i] << " instead of " << expected[i];
    if (!std::isfinite(expected[i])) continue;
    ASSERT_NEAR(
        values[i], expected[i],
        1e3 * std::numeric_limits<F>::epsilon() * (1 + std::abs(expected[i])))
        << i;
  }
}
// And infinities are the same.
template <typename F>
void ExpectAgreeExactly(const std::string& name, EndGuarded<F>& values,
                        const reference::Vector& expected) {
  ExpectAgree(name, values, expected);
  for (int64_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::isnan(values[i]), std::isnan(expected[i])) << name << i;
    if (std::isinf(expected[i])) {
      ASSERT_EQ(values[i], expected[i]) << name << i;
    }
  }
}

enum class Place { kX, kH0, kC0, kInputWeight, kDy, kDcN };

// Puts the value into row kSick of a tensor, or into a weight.
template <typename F>
void Put(F value, Place place, Call<F>* call) {
  const RnnDescriptor& d = call->sizes().descriptor;
  const int64_t row_of_step_1 = call->sizes().batch + kSick;
  switch (place) {
    case Place::kX:
      call->x[row_of_step_1 * d.input_size + 3] = value;
      break;
    case Place::kH0:
      call->h0[kSick * d.output_size() + 1] = value;
      break;
    case Place::kC0:
      call->c0[kSick * d.hidden_size + 1] = value;
      break;
    case Place::kInputWeight:
      call->params[5] = value;
      break;
    case Place::kDy:
      call->dy[row_of_step_1 * d.num_directions * d.output_size() + 1] = value;
      break;
    case Place::kDcN:
      call->dc_n[kSick * d.hidden_size + 1] = value;
      break;
  }
}

template <typename F>
void ExpectFlowsAsInTheReference(const EngineSizes& sizes, Place place,
                                 F value) {
  Call<F> call(sizes);
  Put(value, place, &call);
  SerialExecutor executor;
  call.Forward(executor);
  call.Backward(executor);
  const auto [outputs, gradients] = reference::Run(ProblemOf<F>(call));
  ExpectAgreeExactly("y", call.y, outputs.y);
  ExpectAgreeExactly("h_n", call.h_n, outputs.h_n);
  ExpectAgreeExactly("c_n", call.c_n, outputs.c_n);
  ExpectAgree("dx", call.dx, gradients.dx);
  ExpectAgree("dh0", call.dh0, gradients.dh0);
  ExpectAgree("dc0", call.dc0, gradients.dc0);
  ExpectAgree("dparams", call.dparams, gradients.dparams);
}

template <typename F>
class EngineSpecialValuesTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(EngineSpecialValuesTest, Types);

TYPED_TEST(EngineSpecialValuesTest, FlowAsInTheReference) {
  using F = TypeParam;
  constexpr F kInfinity = std::numeric_limits<F>::infinity();
  for (int mode = 0; mode < kNumCellModes; ++mode) {
    const auto cell = static_cast<CellMode>(mode);
    for (Place place : {Place::kX, Place::kH0, Place::kC0, Place::kInputWeight,
                        Place::kDy, Place::kDcN}) {
      const bool is_of_c = place == Place::kC0 || place == Place::kDcN;
      if (is_of_c && cell != CellMode::kLstm) continue;
      for (int64_t num_proj : {0, 7}) {
        if (num_proj != 0 && cell != CellMode::kLstm) continue;
        // Forward reads weights where they lie, respectively packs them.
        for (int64_t steps : {2, 7}) {
          for (F value :
               {kInfinity, -kInfinity, std::numeric_limits<F>::quiet_NaN()}) {
            SCOPED_TRACE(testing::Message()
                         << kModeNames[mode] << ", place "
                         << static_cast<int>(place) << ", num_proj " << num_proj
                         << ", steps " << steps << ", value " << value);
            ExpectFlowsAsInTheReference(Sizes(cell, num_proj, steps), place,
                                        value);
            if (this->HasFailure()) return;
          }
        }
      }
    }
  }
}

// Where instruction sets multiply floats in parts, an infinity has parts whose
// products are NaN: inputs, and gradients of weights.
TEST(EngineSpecialValuesOfManyRowsTest, FlowAsInTheReference) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (int mode = 0; mode < kNumCellModes; ++mode) {
    EngineSizes sizes;
    sizes.descriptor.mode = static_cast<CellMode>(mode);
    sizes.descriptor.input_size = 130;
    sizes.descriptor.hidden_size =
        NumGates(sizes.descriptor.mode) == 1 ? 260 : 150;
    sizes.max_time = 3;
    sizes.batch = 66;
    if (SelectSimdTarget().parts_kernels != nullptr) {
      const Call<float> call(sizes);
      ASSERT_TRUE(HasRecurrentGradientsInParts(call.Description()));
      const BackwardPlan plan = MakeBackwardPlan(call.Description());
      ASSERT_TRUE(IsInParts(plan.input_weights.first.route));
      ASSERT_TRUE(IsInParts(plan.input_weights_gradient.first.route));
    }
    for (Place place :
         {Place::kX, Place::kH0, Place::kInputWeight, Place::kDy}) {
      for (float value :
           {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
        SCOPED_TRACE(testing::Message()
                     << kModeNames[mode] << ", place "
                     << static_cast<int>(place) << ", value " << value);
        ExpectFlowsAsInTheReference(sizes, place, value);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace rnn
