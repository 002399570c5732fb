// Forward and Backward as a whole, with every tensor and the scratch memory
// between pages that nobody may touch, and inputs that nobody may write. BUILD
// makes a test for each instruction set.

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/engine/engine.h"
#include "kernels/engine/threads/team.h"
#include "tests/engine/engine_call.h"
#include "tests/engine/guard_pages.h"
#include "tests/engine/guarded.h"
#include "tests/engine/simd_targets.h"
#include "tests/engine/thread_pool.h"

namespace rnn {
namespace {

struct Steps {
  bool holes = false;  // steps within lengths that are not valid
  bool go_backwards = false;
  bool repeats_outputs = false;
};
constexpr Steps kHoles{true};
constexpr Steps kHolesBack{true, true};
constexpr Steps kRepeated{true, false, true};
constexpr Steps kNoHoles{false, true, true};
constexpr Steps kAll{true, true, true};

struct Case {
  const char* name;
  int64_t T, B, I, H;
  int64_t L = 1, D = 1;
  int64_t num_proj = 0;  // for the LSTM
  std::vector<int32_t> lengths = {};
  float dropout = 0;
  bool skip_input = false;
  Steps steps = {};
};

// Sizes beside those of vectors, panels, tiles, blocks and chunks.
const Case kCases[] = {
    {"one_of_everything", 1, 1, 1, 1},
    {"one_step_of_one_row", 1, 1, 33, 65},
    {"one_row", 3, 1, 17, 31},
    {"two_rows", 4, 2, 15, 17},
    {"seven_rows", 3, 7, 9, 15},
    {"thirteen_rows", 3, 13, 5, 63},
    {"thirty_three_rows", 2, 33, 7, 19},
    {"both_directions", 4, 3, 6, 9, 1, 2, 0, {4, 1, 3}},
    {"stack", 3, 5, 11, 7, 3, 2, 0, {3, 0, 2, 1, 3}, 0.4f},
    {"skip_input", 3, 2, 13, 13, 2, 2, 0, {}, 0, true},
    {"projection", 4, 5, 6, 19, 2, 2, 5, {1, 4, 0, 3, 2}},
    {"projection_of_one_row", 2, 1, 3, 67, 1, 1, 33},
    {"input_deeper_than_a_block", 1, 2, 521, 5},
    {"hidden_deeper_than_a_block", 2, 2, 3, 515},
    // Read weights where they lie: of bfloat16 pairs, and by vectors of Keras'.
    {"one_step_of_one_row_not_packed", 1, 1, 34, 48},
    {"one_step_not_packed", 1, 16, 18, 80},
    {"one_step_of_many_rows_not_packed", 1, 32, 18, 80},
    {"two_steps_not_packed", 2, 3, 18, 34, 2, 2, 0, {2, 1, 2}},
    {"steps_not_packed", 4, 2, 34, 48, 1, 1, 0, {4, 2}},
    {"narrower_than_a_vector_not_packed", 2, 3, 4, 2},
    {"gates_narrower_than_a_vector_not_packed", 2, 3, 4, 6},
    {"a_vector_and_a_part_not_packed", 2, 3, 4, 18},
    {"vectors_and_a_part_not_packed", 2, 3, 4, 34},
    {"projection_not_packed", 2, 3, 18, 38, 1, 2, 22},
    {"skip_input_not_packed", 1, 3, 34, 34, 2, 1, 0, {}, 0, true},
    // Pack them when their turn comes.
    {"one_step_packed_in_turn", 1, 40, 35, 290, 1, 2},
    {"one_step_packed_in_turn_projected", 1, 36, 20, 150, 1, 2, 131},
    {"many_rows", 3, 67, 99, 259},
    {"many_rows_projected", 3, 66, 130, 264, 1, 2, 131, {}},
    {"many_rows_in_chunks", 9, 130, 20, 150, 1, 2},
    {"no_rows", 2, 0, 3, 5},
    {"empty_rows", 2, 3, 3, 5, 1, 1, 0, {0, 0, 0}},
    {"several_chunks_of_time", 90, 13, 3, 5},
    {"several_chunks_in_a_stack", 90, 13, 3, 5, 2, 2},
    {"large_enough_for_a_team", 5, 17, 131, 133},
    {"holes", 6, 4, 9, 15, 1, 1, 0, {}, 0, false, kHoles},
    {"backwards", 6, 4, 9, 15, 1, 1, 0, {6, 3, 0, 5}, 0, false, kHolesBack},
    {"repeated", 6, 4, 9, 17, 1, 1, 0, {6, 3, 0, 5}, 0, false, kRepeated},
    {"no_holes", 6, 4, 9, 17, 1, 1, 0, {6, 3, 0, 5}, 0, false, kNoHoles},
    {"holes_in_a_stack", 5, 5, 6, 9, 2, 2, 0, {}, 0.4f, false, kHolesBack},
    {"holes_in_several_chunks", 90, 13, 3, 5, 1, 1, 0, {}, 0, false, kAll},
};

enum class Weights { kParams, kKeras, kKerasWithoutBias, kInt8 };
constexpr const char* kWeightsSuffixes[] = {"", "_keras", "_keras_without_bias",
                                            "_int8"};

struct Draw {
  Case sizes;
  CellMode mode;
  Weights weights;

  std::string name() const {
    return std::string(kModeNames[static_cast<int>(mode)]) + "_" + sizes.name +
           kWeightsSuffixes[static_cast<int>(weights)];
  }
};
void PrintTo(const Draw& draw, std::ostream* out) {
  *out << draw.name() << " on " << SelectSimdTarget().name;
}

bool Serves(Weights weights, const Case& c) {
  if (weights == Weights::kParams || weights == Weights::kInt8) return true;
  const bool is_costly = c.H > 500;
  return c.L == 1 && c.num_proj == 0 && !is_costly;
}

std::vector<Draw> Draws(const std::vector<Weights>& all_weights) {
  std::vector<Draw> draws;
  for (const Case& c : kCases) {
    for (CellMode mode : kModes) {
      if (c.num_proj != 0 && mode != CellMode::kLstm) continue;
      for (Weights weights : all_weights) {
        if (Serves(weights, c)) draws.push_back({c, mode, weights});
      }
    }
  }
  return draws;
}

EngineSizes SizesOf(const Draw& draw) {
  EngineSizes sizes;
  RnnDescriptor& d = sizes.descriptor;
  d.mode = draw.mode;
  d.num_layers = draw.sizes.L;
  d.num_directions = draw.sizes.D;
  d.input_size = draw.sizes.I;
  d.hidden_size = draw.sizes.H;
  d.num_proj = draw.sizes.num_proj;
  d.skip_input = draw.sizes.skip_input;
  d.dropout = draw.sizes.dropout;
  sizes.max_time = draw.sizes.T;
  sizes.batch = draw.sizes.B;
  sizes.lengths = draw.sizes.lengths;
  for (int64_t t = 0; draw.sizes.steps.holes && t < sizes.max_time; ++t) {
    for (int64_t b = 0; b < sizes.batch; ++b) {
      sizes.mask.push_back((7 * t + 3 * b) % 5 > 1);
    }
  }
  sizes.go_backwards = draw.sizes.steps.go_backwards;
  sizes.repeats_outputs = draw.sizes.steps.repeats_outputs;
  sizes.int8_weights = draw.weights == Weights::kInt8;
  sizes.keras_weights = draw.weights == Weights::kKeras ||
                        draw.weights == Weights::kKerasWithoutBias;
  sizes.keras_bias = draw.weights == Weights::kKeras;
  return sizes;
}

// All outputs, after outputs and scratch were filled with this byte.
template <typename Element, template <typename> class Buffer>
std::vector<std::vector<Element>> Run(const EngineSizes& sizes,
                                      unsigned char byte, Executor& executor) {
  EngineCall<Element, Buffer> call(sizes);
  for (auto* values : call.Inputs()) values->MakeReadOnly();
  if (call.int8) call.int8->MakeReadOnly();
  for (auto* values : call.Outputs()) values->FillBytes(byte);
  call.FillScratchWith(byte);
  call.Forward(executor);
  if (sizes.training) {
    // What Forward wrote is Backward's input.
    call.y.MakeReadOnly();
    call.reserve.MakeReadOnly();
    call.Backward(executor);
  }
  std::vector<std::vector<Element>> results;
  for (auto* values : call.Outputs()) results.push_back(values->values());
  return results;
}

// What is read without having been written would carry the difference of the
// fillings into the results, and what is not written would be it.
template <typename Element>
void ExpectStaysInside(EngineSizes sizes, const std::string& name) {
  ThreadPool pool(2);
  Team team(3, pool.AsSchedule());
  SerialExecutor serial;
  for (bool training : {true, false}) {
    if (training && sizes.int8_weights) continue;
    sizes.training = training;
    sizes.time_major = training;
    SetGuardedCase(name + (training ? " training" : " inference"));
    SCOPED_TRACE(guarded_case);
    const auto zeroed = Run<Element, EndGuarded>(sizes, 0, serial);
    const auto poisoned = Run<Element, EndGuarded>(sizes, kPoison, serial);
    const auto at_begin = Run<Element, BeginGuarded>(sizes, kPoison, team);
    for (size_t i = 0; i < zeroed.size(); ++i) {
      EXPECT_TRUE(SameBits(poisoned[i], zeroed[i])) << "output " << i;
      EXPECT_TRUE(SameBits(at_begin[i], zeroed[i])) << "output " << i;
    }
    if (training || sizes.int8_weights) continue;
    // Weights that were prepared before, in memory of their own.
    EngineSizes prepared_sizes = sizes;
    prepared_sizes.prepared_weights = true;
    SetGuardedCase(name + " inference, prepared");
    const auto prepared =
        Run<Element, EndGuarded>(prepared_sizes, kPoison, serial);
    const auto prepared_at_begin =
        Run<Element, BeginGuarded>(prepared_sizes, kPoison, team);
    for (size_t i = 0; i < zeroed.size(); ++i) {
      EXPECT_TRUE(SameBits(prepared[i], zeroed[i])) << "output " << i;
      EXPECT_TRUE(SameBits(prepared_at_begin[i], zeroed[i])) << "output " << i;
    }
  }
}

std::string NameOf(const testing::TestParamInfo<Draw>& info) {
  return info.param.name();
}

class EngineGuardTest : public testing::TestWithParam<Draw> {};
INSTANTIATE_TEST_SUITE_P(All, EngineGuardTest,
                         testing::ValuesIn(Draws({Weights::kParams,
                                                  Weights::kKeras,
                                                  Weights::kKerasWithoutBias})),
                         NameOf);
class EngineInt8GuardTest : public testing::TestWithParam<Draw> {};
INSTANTIATE_TEST_SUITE_P(All, EngineInt8GuardTest,
                         testing::ValuesIn(Draws({Weights::kInt8})), NameOf);

TEST_P(EngineGuardTest, Float) {
  ExpectStaysInside<float>(SizesOf(GetParam()), GetParam().name() + " float");
}
TEST_P(EngineGuardTest, Double) {
  ExpectStaysInside<double>(SizesOf(GetParam()), GetParam().name() + " double");
}
TEST_P(EngineGuardTest, Half) {
  ExpectStaysInside<Half>(SizesOf(GetParam()), GetParam().name() + " half");
}
TEST_P(EngineGuardTest, BFloat16) {
  ExpectStaysInside<BFloat16>(SizesOf(GetParam()),
                              GetParam().name() + " bfloat16");
}
TEST_P(EngineInt8GuardTest, Float) {
  ExpectStaysInside<float>(SizesOf(GetParam()), GetParam().name() + " float");
}

}  // namespace
}  // namespace rnn
