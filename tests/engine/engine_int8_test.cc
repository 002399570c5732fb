// Forward with int8 weights: values against the reference with the floats that
// they stand for, and bits between ways to run.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/engine/engine.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "network/int8_weights.h"
#include "tests/engine/engine_call.h"
#include "tests/engine/guard_pages.h"
#include "tests/engine/int8_values.h"
#include "tests/engine/make_sequences.h"
#include "tests/engine/random_values.h"
#include "tests/engine/reference_rnn.h"
#include "tests/engine/simd_targets.h"
#include "tests/engine/threads_in_turn.h"

namespace rnn {
namespace {

struct Sizes {
  RnnDescriptor descriptor;
  int64_t max_time = 0;
  std::vector<int32_t> lengths;  // [B]

  int64_t batch() const { return static_cast<int64_t>(lengths.size()); }
};

RnnDescriptor Network(CellMode mode, int64_t input_size, int64_t hidden_size) {
  RnnDescriptor d;
  d.mode = mode;
  d.input_size = input_size;
  d.hidden_size = hidden_size;
  return d;
}

std::vector<int32_t> AllOf(int64_t steps, int64_t batch) {
  return std::vector<int32_t>(batch, static_cast<int32_t>(steps));
}

// Each tensor ends where its memory does.
using Weights8 = Int8Values<EndGuarded>;

struct Outputs {
  std::vector<float> y, h_n, c_n;

  bool operator==(const Outputs& other) const {
    return y == other.y && h_n == other.h_n && c_n == other.c_n;
  }
};

struct Inputs {
  std::vector<float> x, h0, c0;

  Inputs(const Sizes& sizes, uint64_t seed) {
    const RnnDescriptor& d = sizes.descriptor;
    const int64_t states = d.num_pseudo_layers() * sizes.batch();
    RandomValues random(seed);
    x = random.Reals<float>(sizes.max_time * sizes.batch() * d.input_size, -1,
                            1);
    h0 = random.Reals<float>(states * d.output_size(), -1, 1);
    c0 = random.Reals<float>(states * d.hidden_size, -1, 1);
  }
};

CallDescription CallOf(const Sizes& sizes, const Sequences& sequences) {
  CallDescription call;
  call.descriptor = sizes.descriptor;
  call.sequences = &sequences;
  call.weight_order = WeightOrder::kInt8;
  return call;
}

Outputs RunForward(const Sizes& sizes, Weights8& weights, const Inputs& inputs,
                   Executor& executor, bool are_prepared = false,
                   int64_t core_cache_bytes = 1 << 20) {
  EngineSizes call_sizes;
  call_sizes.descriptor = sizes.descriptor;
  call_sizes.max_time = sizes.max_time;
  call_sizes.batch = sizes.batch();
  call_sizes.lengths = sizes.lengths;
  call_sizes.training = false;
  call_sizes.int8_weights = true;
  call_sizes.prepared_weights = are_prepared;
  EngineCall<float, EndGuarded> call(call_sizes);
  const auto copy = [](auto& from, auto& to) {
    std::copy_n(from.data(), to.size(), to.data());
  };
  copy(inputs.x, call.x);
  copy(inputs.h0, call.h0);
  copy(inputs.c0, call.c0);
  copy(weights.values, call.int8->values);
  copy(weights.scales, call.int8->scales);
  copy(weights.biases, call.int8->biases);
  call.PlanForCoreCaches(core_cache_bytes);
  call.FillScratchWith(0xff);
  const auto run = [&] {
    for (auto* output : call.Outputs()) output->FillBytes(0xff);
    call.Forward(executor);
  };
  run();
  if (are_prepared) {
    call.int8->biases.FillBytes(0xff);  // nobody reads them any more
    run();
  }
  return {call.y.values(), call.h_n.values(), call.c_n.values()};
}

Outputs RunForward(const Sizes& sizes, Weights8& weights,
                   const Inputs& inputs) {
  SerialExecutor alone;
  return RunForward(sizes, weights, inputs, alone);
}

// Rows of left operands are rounded to steps of a part of their largest value:
// each value errs by up to half a step, in a standard deviation of step /
// sqrt(12). Weights of one unit, of W and of R together, have squares that add
// up to 6 at most (Int8Values), so sums err by 0.7 steps. Of as many as there
// are here some err by five times that, and steps and layers hand errors on, of
// which there may be as much again.
double Tolerance(const RnnDescriptor& d) {
  const int64_t depth =
      std::max({d.layer_input_size(0), d.layer_input_size(d.num_layers - 1),
                d.hidden_size});
  return 8.0 / static_cast<double>(Int8RowLimit(depth));
}

// As a part of the largest value, or of 1 if that is larger.
void ExpectNear(const char* name, const std::vector<float>& values,
                const reference::Vector& expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size()) << name;
  double scale = 1;
  for (double value : expected) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance * scale)
        << name << " at " << i;
  }
}

void ExpectAgreesWithTheReference(const Sizes& sizes) {
  Weights8 weights(sizes.descriptor, 1);
  const Inputs inputs(sizes, 2);
  const Outputs outputs = RunForward(sizes, weights, inputs);
  reference::Problem problem;
  problem.descriptor = sizes.descriptor;
  problem.max_time = sizes.max_time;
  problem.lengths.assign(sizes.lengths.begin(), sizes.lengths.end());
  problem.x.assign(inputs.x.begin(), inputs.x.end());
  problem.h0.assign(inputs.h0.begin(), inputs.h0.end());
  problem.c0.assign(inputs.c0.begin(), inputs.c0.end());
  problem.params = weights.Params(sizes.descriptor);
  problem.dy.assign(outputs.y.size(), 0);
  problem.dh_n.assign(outputs.h_n.size(), 0);
  problem.dc_n.assign(outputs.c_n.size(), 0);
  const reference::Outputs expected = reference::Run(problem).outputs;
  const double tolerance = Tolerance(sizes.descriptor);
  ExpectNear("y", outputs.y, expected.y, tolerance);
  ExpectNear("h_n", outputs.h_n, expected.h_n, tolerance);
  if (sizes.descriptor.mode == CellMode::kLstm) {
    ExpectNear("c_n", outputs.c_n, expected.c_n, tolerance);
  }
}

// Networks with every option.
std::vector<Sizes> ManySizes() {
  std::vector<Sizes> all;
  for (CellMode mode : kModes) {
    RnnDescriptor d = Network(mode, 19, 37);
    all.push_back({d, 1, AllOf(1, 1)});
    all.push_back({d, 6, AllOf(6, 3)});
    d.num_layers = 3;
    d.num_directions = 2;
    all.push_back({d, 7, {7, 0, 3, 7, 1}});
    d = Network(mode, 40, 40);
    d.num_layers = 2;
    d.skip_input = true;
    all.push_back({d, 5, {2, 5}});
    d = Network(mode, 33, 64);
    all.push_back({d, 20, AllOf(20, 48)});  // several chunks
  }
  RnnDescriptor d = Network(CellMode::kLstm, 21, 50);
  d.num_proj = 23;
  all.push_back({d, 6, {6, 4, 1}});
  d.num_layers = 2;
  d.num_directions = 2;
  all.push_back({d, 40, AllOf(40, 20)});
  return all;
}

std::string NameOf(const Sizes& sizes) {
  const RnnDescriptor& d = sizes.descriptor;
  return std::string(kModeNames[static_cast<int>(d.mode)]) + " I " +
         std::to_string(d.input_size) + " H " + std::to_string(d.hidden_size) +
         " P " + std::to_string(d.output_size()) + " L " +
         std::to_string(d.num_layers) + " D " +
         std::to_string(d.num_directions) + " T " +
         std::to_string(sizes.max_time) + " B " + std::to_string(sizes.batch());
}

TEST(EngineInt8Test, AgreesWithTheReference) {
  for (const Sizes& sizes : ManySizes()) {
    SCOPED_TRACE(NameOf(sizes));
    ExpectAgreesWithTheReference(sizes);
  }
}

TEST(EngineInt8Test, ThreadsAndCachesDoNotChangeBits) {
  for (Sizes sizes : ManySizes()) {
    SCOPED_TRACE(NameOf(sizes));
    Weights8 weights(sizes.descriptor, 1);
    const Inputs inputs(sizes, 2);
    const Outputs base = RunForward(sizes, weights, inputs);
    for (int num_threads : {1, 2, 3, 7}) {
      ThreadsInTurn threads(num_threads);
      EXPECT_EQ(base, RunForward(sizes, weights, inputs, threads))
          << num_threads;
      EXPECT_EQ(base,
                RunForward(sizes, weights, inputs, threads,
                           /*are_prepared=*/true, /*core_cache_bytes=*/1 << 14))
          << num_threads;
    }
  }
}

// From -0 the first step multiplies, from +0 it does not.
TEST(EngineInt8Test, StartingFromZerosGivesTheValuesOfTheProduct) {
  for (const Sizes& sizes : ManySizes()) {
    SCOPED_TRACE(NameOf(sizes));
    Weights8 weights(sizes.descriptor, 1);
    Inputs zeros(sizes, 2);
    std::fill(zeros.h0.begin(), zeros.h0.end(), 0.0f);
    Inputs negative_zeros = zeros;
    std::fill(negative_zeros.h0.begin(), negative_zeros.h0.end(), -0.0f);
    EXPECT_EQ(RunForward(sizes, weights, zeros),
              RunForward(sizes, weights, negative_zeros));
  }
}

// Work that is large enough to be split.
TEST(EngineInt8Test, SplitWorkDoesNotChangeBits) {
  for (int64_t batch : {1, 5, 40}) {
    RnnDescriptor d = Network(CellMode::kLstm, 120, 400);
    d.num_proj = 192;
    const Sizes sizes{d, 4, AllOf(4, batch)};
    Weights8 weights(d, 1);
    const Inputs inputs(sizes, 2);
    const Outputs base = RunForward(sizes, weights, inputs);
    for (int num_threads : {2, 5}) {
      ThreadsInTurn threads(num_threads);
      EXPECT_EQ(base, RunForward(sizes, weights, inputs, threads))
          << num_threads;
      // Or this would show nothing.
      EXPECT_GT(threads.num_tasks(), sizes.max_time);
    }
  }
}

// Sums are exact: neither the number of steps nor that of rows matters.
TEST(EngineInt8Test, StepsOneByOneHaveTheBitsOfAllAtOnce) {
  for (CellMode mode : kModes) {
    RnnDescriptor d = Network(mode, 45, 70);
    d.num_layers = 2;
    const Sizes sizes{d, 30, AllOf(30, 17)};
    Weights8 weights(d, 1);
    const Inputs inputs(sizes, 2);
    const Outputs whole = RunForward(sizes, weights, inputs);
    // The last row alone, one step after another.
    const Sizes step{d, 1, AllOf(1, 1)};
    const int64_t row = 16;
    Inputs at(step, 3);
    for (int64_t k = 0; k < 2; ++k) {
      for (int64_t u = 0; u < 70; ++u) {
        at.h0[k * 70 + u] = inputs.h0[(k * 17 + row) * 70 + u];
        at.c0[k * 70 + u] = inputs.c0[(k * 17 + row) * 70 + u];
      }
    }
    for (int64_t t = 0; t < 30; ++t) {
      std::copy_n(inputs.x.begin() + (t * 17 + row) * 45, 45, at.x.begin());
      const Outputs now = RunForward(step, weights, at);
      for (int64_t u = 0; u < 70; ++u) {
        ASSERT_EQ(now.y[u], whole.y[(t * 17 + row) * 70 + u])
            << static_cast<int>(mode) << " step " << t;
      }
      at.h0 = now.h_n;
      if (mode == CellMode::kLstm) at.c0 = now.c_n;
    }
  }
}

// What is not finite stays in its row, and makes all of it NaN from its step
// on.
TEST(EngineInt8Test, NanStaysInItsRow) {
  const Sizes sizes{Network(CellMode::kGru, 12, 20), 5, AllOf(5, 3)};
  Weights8 weights(sizes.descriptor, 1);
  Inputs inputs(sizes, 2);
  const Outputs before = RunForward(sizes, weights, inputs);
  inputs.x[(2 * 3 + 1) * 12 + 7] = std::numeric_limits<float>::infinity();
  const Outputs after = RunForward(sizes, weights, inputs);
  for (int64_t t = 0; t < 5; ++t) {
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t u = 0; u < 20; ++u) {
        const int64_t i = (t * 3 + b) * 20 + u;
        if (b == 1 && t >= 2) {
          EXPECT_TRUE(std::isnan(after.y[i])) << t << ' ' << u;
        } else {
          EXPECT_EQ(after.y[i], before.y[i]) << t << ' ' << b << ' ' << u;
        }
      }
    }
  }
}

Status PlanOf(const CallDescription& call, bool has_reserve) {
  ForwardPlan plan;
  return ForwardPlan::Create(call, has_reserve, {1, 1 << 20}, &plan);
}

TEST(EngineInt8Test, PlansRefuseWhatThereIsNot) {
  const Sizes sizes{Network(CellMode::kLstm, 8, 8), 3, AllOf(3, 2)};
  const Sequences sequences = MakeSequences(3, sizes.lengths);
  CallDescription call = CallOf(sizes, sequences);
  EXPECT_TRUE(PlanOf(call, false).ok());
  EXPECT_NE(PlanOf(call, true).message().find("no gradients"),
            std::string::npos);
  call.element_type = ElementType::kDouble;
  EXPECT_NE(PlanOf(call, false).message().find("float32"), std::string::npos);
  call = CallOf(sizes, sequences);
  call.descriptor.input_size = Int8Layout::kMaxDepth + 1;
  EXPECT_NE(PlanOf(call, false).message().find("131072"), std::string::npos);
  call.descriptor.input_size = Int8Layout::kMaxDepth;
  EXPECT_TRUE(PlanOf(call, false).ok());
}

TEST(EngineInt8Test, PlansSayThatWeightsAreInt8) {
  RnnDescriptor d = Network(CellMode::kLstm, 8, 8);
  d.num_layers = 2;
  d.num_proj = 4;
  const Sizes sizes{d, 3, AllOf(3, 2)};
  const Sequences sequences = MakeSequences(3, sizes.lengths);
  ForwardPlan plan;
  ASSERT_TRUE(
      ForwardPlan::Create(CallOf(sizes, sequences), false, {1, 1 << 20}, &plan)
          .ok());
  EXPECT_NE(Describe(plan).find("weights=int8 | W=int8,int8 R=int8"),
            std::string::npos)
      << Describe(plan);
}

TEST(EngineInt8Test, LayoutsFollowParams) {
  RnnDescriptor d = Network(CellMode::kLstm, 5, 6);
  d.num_layers = 2;
  d.num_directions = 2;
  d.num_proj = 3;
  Int8Layout layout;
  ASSERT_TRUE(Int8Layout::Create(d, &layout).ok());
  ParamsLayout params;
  ASSERT_TRUE(ParamsLayout::Create(d, &params).ok());
  EXPECT_EQ(layout.num_values(), params.InputBias(0).offset);
  EXPECT_EQ(layout.num_biases(), params.size() - layout.num_values());
  EXPECT_EQ(layout.num_scales(), 4 * (24 + 24 + 3));
  EXPECT_EQ(layout.InputScales(3), 3 * 51);
  EXPECT_EQ(layout.ProjectionScales(3), 3 * 51 + 48);
  d.num_proj = 0;
  d.skip_input = true;
  d.input_size = 6;
  ASSERT_TRUE(Int8Layout::Create(d, &layout).ok());
  EXPECT_EQ(layout.RecurrentScales(1), 24);
  EXPECT_EQ(layout.InputScales(2), 2 * 24);
  EXPECT_EQ(layout.num_scales(), 2 * 24 + 2 * 48);
}

TEST(EngineInt8Test, ScalesAreFiniteAndNotNegative) {
  const float kInfinity = std::numeric_limits<float>::infinity();
  const float good[] = {0, 1e-30f, 2};
  EXPECT_TRUE(CheckInt8Scales(good, 3).ok());
  for (float bad : {-1e-9f, kInfinity, -kInfinity, std::nanf("")}) {
    const float scales[] = {1, bad};
    const Status status = CheckInt8Scales(scales, 2);
    EXPECT_NE(status.message().find("scales[1]"), std::string::npos);
  }
}

}  // namespace
}  // namespace rnn
