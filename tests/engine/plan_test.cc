// Which choices a plan makes: for kernels of the test's own, so that machines
// that this one is not can be asked about.

#include "kernels/engine/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/engine/plan/choices.h"
#include "kernels/engine/plan/chunks.h"
#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/thresholds.h"
#include "tests/engine/comma_locale.h"
#include "tests/engine/make_sequences.h"
#include "tests/engine/plans.h"

namespace rnn {
namespace {

// As those of most instruction sets.
KernelShape Vectors(ElementType type) {
  KernelShape shape{};
  shape.instruction_set = "vectors";
  shape.element_type = type;
  const bool is_half = type == ElementType::kHalf;
  const bool is_short = is_half || type == ElementType::kBFloat16;
  shape.element_bytes = is_short ? 2 : (type == ElementType::kDouble ? 8 : 4);
  shape.operand_bytes = is_half ? 4 : shape.element_bytes;
  shape.compute_bytes = is_short ? 4 : shape.element_bytes;
  shape.depth_step = type == ElementType::kBFloat16 ? 2 : 1;
  shape.dot_chains = 2;
  shape.dot_columns = 32;
  shape.dot_rows = 6;
  shape.dot_round = 16 * shape.depth_step;
  shape.panel_columns = 64;
  shape.rows_together = 6;
  shape.depth_block = 256;
  for (int64_t& units : shape.cell_units) units = 16;
  shape.has_tile_registers = false;
  shape.operands_are_elements = !is_half;
  shape.rounds_results = shape.element_bytes != shape.compute_bytes;
  shape.rounds_operands = shape.operand_bytes != shape.compute_bytes;
  return shape;
}
// As those of tile registers.
KernelShape Tiles(ElementType type) {
  KernelShape shape = Vectors(type);
  shape.instruction_set = "tiles";
  shape.has_parts = shape.operand_bytes == 4;
  if (type == ElementType::kBFloat16) {
    shape.rows_together = 32;
    shape.has_tile_registers = true;
  }
  return shape;
}

constexpr int64_t kCoreCacheBytes = kMegabyte;

struct Sizes {
  int64_t T, B, I, H;
  CellMode mode = CellMode::kLstm;
  WeightOrder order = WeightOrder::kParams;
  int num_threads = 1;
  int64_t num_directions = 1;
  std::vector<int32_t> lengths = {};  // none: all are T
  bool has_crew = false;
  bool has_threads_awake = false;
  bool weights_are_prepared = false;
  double flops_per_far_byte = 1;
  double flops_per_passed_value = Machine().flops_per_passed_value;
};

struct Plans {
  Plans(const Sizes& s, const KernelShape& kernels,
        int64_t core_cache_bytes = kCoreCacheBytes)
      : sequences(MakeSequences(
            s.T, s.B, s.lengths.empty() ? nullptr : s.lengths.data())) {
    CallDescription call;
    call.descriptor.mode = s.mode;
    call.descriptor.input_size = s.I;
    call.descriptor.hidden_size = s.H;
    call.descriptor.num_directions = s.num_directions;
    call.sequences = &sequences;
    call.element_type = kernels.element_type;
    call.weight_order = s.order;
    call.weights_are_prepared = s.weights_are_prepared;
    Machine machine;
    machine.num_threads = s.num_threads;
    machine.core_cache_bytes = core_cache_bytes;
    machine.has_crew = s.has_crew;
    machine.has_threads_awake = s.has_threads_awake;
    machine.flops_per_far_byte = s.flops_per_far_byte;
    machine.flops_per_passed_value = s.flops_per_passed_value;
    EXPECT_TRUE(ForwardPlan::Create(call, /*has_reserve=*/true, machine,
                                    kernels, &forward)
                    .ok());
    EXPECT_TRUE(BackwardPlan::Create(call, machine, kernels, &backward).ok());
  }

  const Sequences sequences;
  ForwardPlan forward;
  BackwardPlan backward;
};

// W forward, R forward, W backward, R backward.
struct Routes {
  Route input, recurrent, backward_input, backward_recurrent;
};

void ExpectRoutes(const char* what, const Sizes& sizes,
                  const KernelShape& kernels, const Routes& expected) {
  SCOPED_TRACE(what);
  const Plans plans(sizes, kernels);
  const auto expect = [](const char* name, Route route, Route expected_route) {
    EXPECT_STREQ(RouteName(route), RouteName(expected_route)) << name;
  };
  expect("W", plans.forward.input_weights.first.route, expected.input);
  expect("R", plans.forward.recurrent_weights.route, expected.recurrent);
  expect("W of backward", plans.backward.input_weights.first.route,
         expected.backward_input);
  expect("R of backward", plans.backward.recurrent_weights.route,
         expected.backward_recurrent);
}

// H of an LSTM whose R takes about so many bytes, and no more.
int64_t UnitsOf(int64_t bytes, int64_t value_bytes) {
  int64_t H = 16;
  while (4 * (H + 16) * (H + 16) * value_bytes <= bytes) H += 16;
  return H;
}

constexpr Route kPacked = Route::kPacked;
constexpr Route kPackedInTurn = Route::kPackedInTurn;
constexpr Route kParts = Route::kParts;
constexpr Route kRows = Route::kRowsInPlace;
constexpr Route kColumns = Route::kColumnsInPlace;

TEST(PlanTest, SmallCallsReadWeightsInPlace) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  const int64_t rows = bits::kMaxSmallCallRows;
  ExpectRoutes("one row", {1, 1, 64, 64}, floats,
               {kColumns, kColumns, kRows, kRows});
  ExpectRoutes("as many rows as may be", {1, rows, 64, 64}, floats,
               {kColumns, kColumns, kPackedInTurn, kPackedInTurn});
  ExpectRoutes("one row more", {1, rows + 1, 64, 64}, floats,
               {kPackedInTurn, kPackedInTurn, kPackedInTurn, kPackedInTurn});
  const int64_t steps = bits::kMaxStepsInPlace;
  const int64_t H = UnitsOf(bits::kMaxQuicklyPackedBytes, sizeof(float)) + 16;
  ExpectRoutes("as many steps as may be", {steps, 1, 64, H}, floats,
               {kColumns, kColumns, kRows, kPacked});
  ExpectRoutes("one step more", {steps + 1, 1, 64, H}, floats,
               {kColumns, kPacked, kRows, kPacked});
  const int64_t two_steps = speed::kMaxBackwardStepsOfNearInPlace;
  ExpectRoutes("two steps", {two_steps, 1, 64, H}, floats,
               {kColumns, kColumns, kRows, kRows});
  ExpectRoutes("two steps of a small R", {two_steps, 1, 64, H - 16}, floats,
               {kColumns, kPacked, kRows, kRows});
  const auto backward_recurrent = [&](int64_t T, int64_t B) {
    return Plans({T, B, 64, 64}, floats).backward.recurrent_weights.route;
  };
  EXPECT_EQ(backward_recurrent(1, speed::kMaxLeftRowsInPlace), kRows);
  EXPECT_EQ(backward_recurrent(1, speed::kMaxLeftRowsInPlace + 1),
            kPackedInTurn);
  EXPECT_EQ(backward_recurrent(2, speed::kMaxLeftRowsOfStepsInPlace / 2),
            kRows);
  EXPECT_EQ(backward_recurrent(2, speed::kMaxLeftRowsOfStepsInPlace / 2 + 1),
            kPacked);
}

TEST(PlanTest, BackwardReadsALargeRInPlaceForMoreSteps) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  const int64_t H = UnitsOf(speed::kMaxNearRecurrentBytes, sizeof(float));
  const auto route = [&](int64_t T, int64_t B, int64_t units) {
    return Plans({T, B, 64, units}, floats).backward.recurrent_weights.route;
  };
  const int64_t steps = speed::kMaxBackwardStepsOfFarInPlace;
  const int64_t batch = speed::kMaxLeftRowsOfStepsInPlace / steps;
  EXPECT_EQ(route(steps, batch, H + 16), kRows);
  EXPECT_EQ(route(steps, batch + 1, H + 16), kPacked);
  EXPECT_EQ(route(steps + 1, 1, H + 16), kPacked);
  EXPECT_EQ(route(steps, batch, H), kPacked);
  // Steps and rows that are valid count, for bits do not depend on the route.
  Sizes ragged{steps + 1, batch + 1, 64, H + 16};
  ragged.lengths = std::vector<int32_t>(batch + 1, 1);
  EXPECT_EQ(Plans(ragged, floats).backward.recurrent_weights.route, kRows);
  ragged.lengths[0] = static_cast<int32_t>(steps + 1);
  EXPECT_EQ(Plans(ragged, floats).backward.recurrent_weights.route, kPacked);
}

TEST(PlanTest, BackwardReadsALargeROfPairsInPlaceForFewRows) {
  const int64_t H = UnitsOf(speed::kMaxNearRecurrentBytes, sizeof(BFloat16));
  const auto route = [&](const KernelShape& kernels, int64_t T) {
    return Plans({T, 1, 64, H + 16}, kernels).backward.recurrent_weights.route;
  };
  const int64_t rows = speed::kMaxLeftRowsInPlaceOfPairs;
  EXPECT_EQ(route(Vectors(ElementType::kBFloat16), rows), kRows);
  EXPECT_EQ(route(Vectors(ElementType::kBFloat16), rows + 1), kPacked);
  EXPECT_EQ(route(Tiles(ElementType::kBFloat16), rows), kPacked);
}

// The one product with an operand packs it, panel by panel, if each thread has
// a panel and the rows of the left operand stay in its cache.
TEST(PlanTest, WhatIsUsedOnceIsPackedInItsTurn) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  const auto input = [&](const Sizes& sizes, int64_t cache = kCoreCacheBytes) {
    return Plans(sizes, floats, cache).forward.input_weights.first.route;
  };
  Sizes sizes{1, 40, 1024, 64};
  sizes.num_threads = 4;
  // Panels of 64 columns, of G*H.
  sizes.H = 16 * speed::kMinPanelsPerThread * sizes.num_threads;
  EXPECT_EQ(input(sizes), kPackedInTurn);
  sizes.H -= 16;
  EXPECT_EQ(input(sizes), kPacked);
  sizes.num_threads = 1;
  EXPECT_EQ(input(sizes), kPackedInTurn);
  const int64_t row_bytes = floats.depth_block * floats.operand_bytes;
  EXPECT_EQ(input(sizes, sizes.B * row_bytes), kPackedInTurn);
  EXPECT_EQ(input(sizes, sizes.B * row_bytes - 1), kPacked);
  // Several chunks use it as often.
  sizes.T = 100;
  EXPECT_EQ(input(sizes), kPacked);
  // Many rows find it packed.
  EXPECT_EQ(input({1, speed::kMaxRowsInTurn, 64, 64}), kPackedInTurn);
  EXPECT_EQ(input({1, speed::kMaxRowsInTurn + 1, 64, 64}), kPacked);
}

// Such a panel overwrites the one before: each task has a place.
TEST(PlanTest, PackedInItsTurnTakesAPlaceForEachTask) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  Sizes sizes{1, 40, 1024, 512};
  for (int num_threads : {1, 2}) {
    sizes.num_threads = num_threads;
    const OperandPlan w = Plans(sizes, floats).forward.input_weights.first;
    ASSERT_EQ(w.route, kPackedInTurn);
    EXPECT_EQ(w.places.count,
              num_threads == 1 ? 1 : num_threads * speed::kTasksPerThread);
    EXPECT_EQ(w.places.depth_block, floats.depth_block);
    EXPECT_EQ(w.Bytes(floats), w.places.count * w.places.panels_together *
                                   floats.panel_columns * floats.depth_block *
                                   floats.operand_bytes);
  }
  // Several narrow panels at a time, but all places for no more than there are.
  KernelShape narrow = floats;
  narrow.panel_columns = speed::kRowBytesTogether / (2 * floats.element_bytes);
  const auto places = [&](int64_t H) {
    sizes.H = H;
    const OperandPlan w = Plans(sizes, narrow).forward.input_weights.first;
    EXPECT_EQ(w.route, kPackedInTurn);
    return w.places;
  };
  const int64_t most = sizes.num_threads * speed::kTasksPerThread;
  const int64_t panel_units = narrow.panel_columns / 4;  // of four gates
  EXPECT_EQ(places(2 * most * panel_units).count, most);
  EXPECT_EQ(places(2 * most * panel_units).panels_together, 2);
  EXPECT_EQ(places((2 * most - 1) * panel_units).panels_together, 1);
  EXPECT_EQ(places((most - 1) * panel_units).count, most - 1);
}

// R of forward is in panels of its own.
TEST(PlanTest, EachPanelOfCellsHasAPlaceIfThereAreTasksEnough) {
  Sizes sizes{1, 40, 1024, 128};
  sizes.mode = CellMode::kGru;
  sizes.num_threads = 8;
  const OperandPlan r =
      Plans(sizes, Vectors(ElementType::kFloat)).forward.recurrent_weights;
  ASSERT_EQ(r.route, kPackedInTurn);
  EXPECT_EQ(r.places.count, sizes.H / 16);  // units of a panel
}

TEST(PlanTest, SmallOperandsAreMultipliedByFewRowsAtATime) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  const int64_t columns = 4 * 64;
  const int64_t bytes = kCoreCacheBytes / speed::kSmallOperandShare;
  const int64_t depth = bytes / columns / floats.operand_bytes;
  const auto input = [&](int64_t input_size, int64_t cache = kCoreCacheBytes) {
    return Plans({100, 40, input_size, 64}, floats, cache)
        .forward.input_weights.first;
  };
  EXPECT_TRUE(input(depth).is_small);
  EXPECT_FALSE(input(depth + 1).is_small);
  const int64_t row_bytes = floats.depth_block * floats.operand_bytes;
  EXPECT_EQ(input(depth + 1).cached_rows,
            static_cast<int64_t>(kCoreCacheBytes * speed::kLeftOperandShare) /
                row_bytes);
  EXPECT_EQ(input(depth, /*cache=*/4096).cached_rows, speed::kRowBlock);
}

TEST(PlanTest, KerasRowsAreReadInPlaceAndBackwardAsColumns) {
  Sizes sizes{1, 4, 64, 64};
  sizes.order = WeightOrder::kKeras;
  const KernelShape floats = Vectors(ElementType::kFloat);
  ExpectRoutes("small", sizes, floats, {kRows, kRows, kColumns, kColumns});
  sizes.B = bits::kMaxSmallCallRows;
  ExpectRoutes("the largest small one", sizes, floats,
               {kRows, kRows, kColumns, kColumns});
  sizes.B = bits::kMaxSmallCallRows + 1;
  ExpectRoutes("not small", sizes, floats,
               {kPackedInTurn, kPacked, kPackedInTurn, kPackedInTurn});
  sizes.T = bits::kMaxStepsInPlace;
  sizes.B = 1;
  sizes.H = UnitsOf(bits::kMaxQuicklyPackedBytes, sizeof(float));
  ExpectRoutes("some steps of a small R", sizes, floats,
               {kRows, kPacked, kColumns, kPacked});
  sizes.H += 16;
  ExpectRoutes("some steps", sizes, floats, {kRows, kRows, kColumns, kColumns});
  // Small calls of more steps pack R if it is not large.
  sizes.T = bits::kMaxStepsInPlace + 1;
  sizes.H = UnitsOf(bits::kMaxPackedBytes, sizeof(float));
  ExpectRoutes("more steps", sizes, floats,
               {kRows, kPacked, kColumns, kPacked});
  sizes.H += 16;
  ExpectRoutes("more steps, R as large as backward leaves it in place", sizes,
               floats, {kRows, kPacked, kColumns, kColumns});
  sizes.H = UnitsOf(bits::kMaxPackedKerasBytes, sizeof(float));
  ExpectRoutes("more steps, R as large as forward packs it", sizes, floats,
               {kRows, kPacked, kColumns, kColumns});
  sizes.H += 16;
  ExpectRoutes("more steps of a large R", sizes, floats,
               {kRows, kRows, kColumns, kColumns});
}

TEST(PlanTest, RowsOfALargeRAreReadWhole) {
  Sizes sizes{1, 1, 64, UnitsOf(speed::kMinWholeRowsBytes, sizeof(float)) + 16};
  sizes.order = WeightOrder::kKeras;
  const auto is_read_whole = [](const Sizes& s) {
    return Plans(s, Vectors(ElementType::kFloat)).forward.reads_whole_rows;
  };
  EXPECT_TRUE(is_read_whole(sizes));
  Sizes other = sizes;
  other.H -= 32;
  EXPECT_FALSE(is_read_whole(other)) << "a smaller one";
  other = sizes;
  other.order = WeightOrder::kParams;
  EXPECT_FALSE(is_read_whole(other)) << "columns";
  other = sizes;
  other.B = bits::kMaxSmallCallRows + 1;
  EXPECT_FALSE(is_read_whole(other)) << "packed";
  other = sizes;
  other.H *= 2;
  other.mode = CellMode::kTanh;
  EXPECT_FALSE(is_read_whole(other)) << "of one gate";
}

// Bits do not depend on how long sequences are, so neither does the route.
TEST(PlanTest, BackwardReadsKerasColumnsInPlaceByTheShapeOfACall) {
  Sizes sizes{bits::kMaxStepsInPlace + 1, 1, 64, 64};
  sizes.order = WeightOrder::kKeras;
  sizes.lengths = {1};
  EXPECT_EQ(Plans(sizes, Vectors(ElementType::kFloat))
                .backward.recurrent_weights.route,
            kPackedInTurn);
}

TEST(PlanTest, HalfIsPackedAlways) {
  ExpectRoutes("one row", {1, 1, 64, 64}, Vectors(ElementType::kHalf),
               {kPackedInTurn, kPackedInTurn, kPackedInTurn, kPackedInTurn});
}

TEST(PlanTest, PairsAreReadInPlaceIfRowsAreWholeSteps) {
  const KernelShape pairs = Vectors(ElementType::kBFloat16);
  ExpectRoutes("even", {1, 1, 64, 64}, pairs,
               {kColumns, kColumns, kRows, kRows});
  ExpectRoutes("odd input", {1, 1, 63, 64}, pairs,
               {kPackedInTurn, kColumns, kRows, kRows});
  ExpectRoutes("odd units", {1, 1, 64, 63}, pairs,
               {kPackedInTurn, kPackedInTurn, kRows, kRows});
  // A gate's piece of a column, too.
  for (CellMode mode : {CellMode::kLstm, CellMode::kGru}) {
    Sizes keras{1, 1, 64, 64};
    keras.mode = mode;
    keras.order = WeightOrder::kKeras;
    EXPECT_EQ(Plans(keras, pairs).backward.input_weights.first.route, kColumns);
    EXPECT_EQ(Plans(keras, pairs).backward.recurrent_weights.route, kColumns);
    keras.H = 63;
    EXPECT_EQ(Plans(keras, pairs).backward.input_weights.first.route,
              kPackedInTurn);
    EXPECT_EQ(Plans(keras, pairs).backward.recurrent_weights.route,
              kPackedInTurn);
  }
}

// Rows of pairs are woven into steps by each tile of rows that reads them.
TEST(PlanTest, ManyRowsPackPairs) {
  const KernelShape pairs = Vectors(ElementType::kBFloat16);
  const int64_t rows = speed::kMaxLeftRowsInPlaceOfPairs;
  ExpectRoutes("few", {1, rows, 64, 64}, pairs,
               {kColumns, kColumns, kRows, kRows});
  ExpectRoutes("more", {1, rows + 1, 64, 64}, pairs,
               {kColumns, kColumns, kPackedInTurn, kPackedInTurn});
  Sizes keras{1, rows, 64, 64};
  keras.order = WeightOrder::kKeras;
  EXPECT_EQ(Plans(keras, pairs).forward.input_weights.first.route, kRows);
  ++keras.B;
  EXPECT_EQ(Plans(keras, pairs).forward.input_weights.first.route,
            kPackedInTurn);
  EXPECT_EQ(Plans(keras, pairs).backward.input_weights.first.route, kColumns)
      << "columns are not woven";
}

// There rows in place would have other bits than packed ones.
TEST(PlanTest, TilesPackPairs) {
  const KernelShape tiles = Tiles(ElementType::kBFloat16);
  ExpectRoutes("params", {1, 1, 64, 64}, tiles,
               {kColumns, kColumns, kPackedInTurn, kPackedInTurn});
  Sizes keras{1, 1, 64, 64};
  keras.order = WeightOrder::kKeras;
  ExpectRoutes("Keras", keras, tiles,
               {kPackedInTurn, kRows, kPackedInTurn, kPackedInTurn});
}

TEST(PlanTest, LargeRIsReadInPlaceInSmallCalls) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  const int64_t T = bits::kMaxStepsInPlace + 1;
  const int64_t H = UnitsOf(bits::kMaxPackedBytes, sizeof(float));
  const int64_t max_batch = bits::kMaxSmallCallRows / T;
  for (int64_t batch : {int64_t{1}, max_batch}) {
    SCOPED_TRACE(testing::Message() << "batch " << batch);
    EXPECT_EQ(Plans({T, batch, 8, H}, floats).forward.recurrent_weights.route,
              kPacked);
    EXPECT_EQ(
        Plans({T, batch, 8, H + 16}, floats).forward.recurrent_weights.route,
        kColumns);
  }
  EXPECT_EQ(Plans({T, max_batch + 1, 8, H + 16}, floats)
                .forward.recurrent_weights.route,
            kPacked);
  EXPECT_EQ(Plans({bits::kMaxSmallCallRows + 1, 1, 8, H + 16}, floats)
                .forward.recurrent_weights.route,
            kPacked);
}

// But for the steps, whose products are of a batch.
TEST(PlanTest, ManyRowsMultiplyInPartsWhereTilesDo) {
  const KernelShape tiles = Tiles(ElementType::kFloat);
  const int64_t B = bits::kMinPartsRows;
  ExpectRoutes("many rows", {3, B, 256, 256}, tiles,
               {kParts, kPacked, kParts, kPacked});
  ExpectRoutes("chunks", {40, B, 256, 256}, tiles,
               {kParts, kPacked, kParts, kPacked});
  ExpectRoutes("narrow input", {3, B, bits::kMinPartsWidth - 1, 256}, tiles,
               {kPacked, kPacked, kPacked, kPacked});
  ExpectRoutes("vectors", {3, B, 256, 256}, Vectors(ElementType::kFloat),
               {kPacked, kPacked, kPacked, kPacked});
  const Plans plans({40, B, 256, 256}, tiles);
  EXPECT_EQ(plans.backward.input_weights_gradient.first.route, kParts);
  EXPECT_EQ(plans.backward.recurrent_weights_gradient.route, kParts);
}

TEST(PlanTest, PartsNeedRowsAndWeightsEnough) {
  const KernelShape tiles = Tiles(ElementType::kFloat);
  const auto is_in_parts = [&](const Sizes& sizes) {
    return IsInParts(Plans(sizes, tiles).forward.input_weights.first.route);
  };
  EXPECT_TRUE(is_in_parts({1, bits::kMinPartsRows, 256, 256}));
  EXPECT_FALSE(is_in_parts({1, bits::kMinPartsRows - 1, 256, 256}));
  const int64_t H = bits::kMinPartsWidth / 4;  // as narrow as may be
  const int64_t I = (bits::kMinPartsElements - 1) / (4 * H) + 1;
  EXPECT_TRUE(is_in_parts({1, bits::kMinPartsRows, I, H}));
  EXPECT_FALSE(is_in_parts({1, bits::kMinPartsRows, I - 1, H}));
  const int64_t exactly = bits::kMinPartsElements / 128;
  EXPECT_TRUE(is_in_parts({1, bits::kMinPartsRows, exactly, 32}));
}

// Sums over rows have about as many chains as these have terms.
TEST(PlanTest, ChainsOfGradientsGrowWithTheRootOfTheRows) {
  const auto chain_of = [](int64_t T, int64_t B) {
    return Plans({T, B, 8, 16}, Vectors(ElementType::kFloat))
        .backward.gradient_chain;
  };
  constexpr int64_t kChain = bits::kMinGradientChain;
  EXPECT_EQ(chain_of(1, 1), kChain);
  EXPECT_EQ(chain_of(kChain, kChain), kChain);
  EXPECT_EQ(chain_of(kChain + 1, kChain), 2 * kChain);
  EXPECT_EQ(chain_of(2 * kChain, 2 * kChain), 2 * kChain);
  // No longer than a block of depth, which has whole ones.
  const int64_t depth_block = Vectors(ElementType::kFloat).depth_block;
  EXPECT_EQ(chain_of(10000, 1000), depth_block);
  EXPECT_EQ(depth_block % kChain, 0);
}

// Calls of all kinds, for all kinds of kernels: call(sizes, kernels).
template <typename Call>
void ForCalls(Call call) {
  for (const KernelShape& kernels :
       {Vectors(ElementType::kFloat), Vectors(ElementType::kHalf),
        Vectors(ElementType::kBFloat16), Tiles(ElementType::kFloat),
        Tiles(ElementType::kBFloat16)}) {
    for (WeightOrder order : {WeightOrder::kParams, WeightOrder::kKeras}) {
      for (int64_t T : {1, 2, 9, 40}) {
        for (int64_t B : {1, 4, 32, 100}) {
          for (int64_t H : {16, 256, 740}) {
            Sizes sizes{T, B, 128, H};
            sizes.order = order;
            for (bool has_lengths : {false, true}) {
              if (has_lengths) {
                for (int64_t row = 0; row < B; ++row) {
                  sizes.lengths.push_back(static_cast<int32_t>(row % (T + 1)));
                }
              }
              SCOPED_TRACE(testing::Message()
                           << kernels.instruction_set << ' '
                           << ElementTypeName(kernels.element_type) << " T "
                           << T << " B " << B << " H " << H << " Keras "
                           << (order == WeightOrder::kKeras) << " lengths "
                           << has_lengths);
              call(sizes, kernels);
            }
          }
        }
      }
    }
  }
}

// One for all routes of these bits, but for the weights of cells.
Route BitsOf(Route route, const KernelShape& kernels) {
  if (route == kRows && kernels.rows_have_bits_of_panels()) return kPacked;
  return WithoutTurn(route);
}

void ExpectSameBits(const Plans& a, const Plans& b,
                    const KernelShape& kernels) {
  const auto expect_same = [&](const OperandPlan& x, const OperandPlan& y) {
    EXPECT_STREQ(RouteName(BitsOf(x.route, kernels)),
                 RouteName(BitsOf(y.route, kernels)));
  };
  expect_same(a.forward.input_weights.first, b.forward.input_weights.first);
  // Cells have one chain for all of the depth.
  EXPECT_STREQ(RouteName(WithoutTurn(a.forward.recurrent_weights.route)),
               RouteName(WithoutTurn(b.forward.recurrent_weights.route)));
  expect_same(a.backward.input_weights.first, b.backward.input_weights.first);
  expect_same(a.backward.recurrent_weights, b.backward.recurrent_weights);
  expect_same(a.backward.input_weights_gradient.first,
              b.backward.input_weights_gradient.first);
  expect_same(a.backward.recurrent_weights_gradient,
              b.backward.recurrent_weights_gradient);
  EXPECT_EQ(a.backward.gradient_chain, b.backward.gradient_chain);
}

// Sums over a chunk's rows of a part of the batch are what gradients of weights
// add up. `a` may take its parts alone.
void ExpectSameChunks(const BackwardPlan& a, const BackwardPlan& b) {
  if (a.parts.empty()) {
    ASSERT_EQ(a.chunks.size(), b.chunks.size());
    for (size_t i = 0; i < a.chunks.size(); ++i) {
      EXPECT_EQ(a.chunks[i].steps.begin, b.chunks[i].steps.begin) << i;
      EXPECT_EQ(a.chunks[i].steps.end, b.chunks[i].steps.end) << i;
    }
    return;
  }
  ASSERT_EQ(static_cast<int>(a.parts.size()), b.num_halves());
  for (const auto& part : a.parts) {
    const int64_t num_steps = part->sequences.num_steps();
    size_t i = 0;
    for (const ChunkPlan& chunk : b.chunks) {
      if (chunk.steps.begin >= num_steps) continue;
      ASSERT_LT(i, part->plan.chunks.size());
      const StepRange& steps = part->plan.chunks[i++].steps;
      EXPECT_EQ(steps.begin, chunk.steps.begin);
      EXPECT_EQ(steps.end, std::min(chunk.steps.end, num_steps));
    }
    EXPECT_EQ(i, part->plan.chunks.size());
  }
}

// The machine decides about speed alone.
TEST(PlanTest, BitsDoNotDependOnTheMachine) {
  ForCalls([](Sizes sizes, const KernelShape& kernels) {
    const Plans reference(sizes, kernels);
    const auto expect_same = [&](int64_t cache) {
      const Plans plans(sizes, kernels, cache);
      ExpectSameBits(plans, reference, kernels);
      ASSERT_EQ(plans.backward.half_begins, reference.backward.half_begins);
      ExpectSameChunks(plans.backward, reference.backward);
    };
    for (int num_threads : {1, 2, 64}) {
      sizes.num_threads = num_threads;
      for (double flops : {1.0, 1e6}) {
        sizes.flops_per_far_byte = sizes.flops_per_passed_value = flops;
        for (int64_t cache : {kMegabyte / 16, 64 * kMegabyte}) {
          expect_same(cache);
        }
      }
      sizes.has_crew = sizes.has_threads_awake = true;
      expect_same(kCoreCacheBytes);
      sizes.has_crew = sizes.has_threads_awake = false;
    }
  });
}

// Nor do a row's depend on how long the others are.
TEST(PlanTest, BitsDoNotDependOnLengths) {
  ForCalls([](Sizes sizes, const KernelShape& kernels) {
    if (sizes.lengths.empty()) return;
    const Plans ragged(sizes, kernels);
    if (ragged.sequences.num_valid_rows() == 0) return;
    sizes.lengths.clear();
    ExpectSameBits(ragged, Plans(sizes, kernels), kernels);
  });
}

// What the passes rely on (route.h): R that steps use again is there before the
// first, and never in parts.
TEST(PlanTest, RIsPackedInItsTurnByOneStepAlone) {
  ForCalls([](const Sizes& sizes, const KernelShape& kernels) {
    const Plans plans(sizes, kernels);
    for (const OperandPlan& r :
         {plans.forward.recurrent_weights, plans.backward.recurrent_weights}) {
      EXPECT_FALSE(IsInParts(r.route));
      if (r.route != kPackedInTurn) continue;
      EXPECT_EQ(plans.sequences.num_steps(), 1);
    }
  });
}

// The rest of it: a pass has no other way for these operands.
TEST(PlanTest, RoutesThatAPassDoesNotKnowNeverCome) {
  ForCalls([](const Sizes& sizes, const KernelShape& kernels) {
    const Plans plans(sizes, kernels);
    const BackwardPlan& backward = plans.backward;
    // In place comes only what lies so.
    const bool is_keras = sizes.order == WeightOrder::kKeras;
    for (const OperandPlan& b :
         {plans.forward.input_weights.first, plans.forward.recurrent_weights}) {
      EXPECT_NE(b.route, is_keras ? kColumns : kRows);
    }
    for (const OperandPlan& b :
         {backward.input_weights.first, backward.recurrent_weights}) {
      EXPECT_NE(b.route, is_keras ? kRows : kColumns);
      EXPECT_NE(b.route, Route::kDotPanels);
    }
    for (const OperandPlan& b : {backward.input_weights_gradient.first,
                                 backward.recurrent_weights_gradient}) {
      EXPECT_TRUE(b.route == kPacked || b.route == kParts);
    }
    for (const OperandPlan& b :
         {plans.forward.input_weights.first, plans.forward.recurrent_weights,
          backward.input_weights.first, backward.recurrent_weights,
          backward.input_weights_gradient.first,
          backward.recurrent_weights_gradient}) {
      EXPECT_TRUE(!IsInParts(b.route) || kernels.has_parts);
      EXPECT_TRUE(!IsInPlace(b.route) || kernels.operands_are_elements);
    }
  });
}

TEST(PlanTest, ProjectionsArePacked) {
  RnnDescriptor d;
  d.input_size = 128;
  d.hidden_size = 256;
  d.num_proj = 128;
  for (int64_t T : {1, 40}) {
    for (int64_t B : {1, 100}) {
      const Sequences sequences = MakeSequences(T, B, nullptr);
      CallDescription call;
      call.descriptor = d;
      call.sequences = &sequences;
      const Machine machine{1, kCoreCacheBytes};
      const KernelShape kernels = Tiles(ElementType::kFloat);
      ForwardPlan forward;
      ASSERT_TRUE(ForwardPlan::Create(call, /*has_reserve=*/true, machine,
                                      kernels, &forward)
                      .ok());
      EXPECT_EQ(forward.projection.route, kPacked);
      BackwardPlan backward;
      ASSERT_TRUE(BackwardPlan::Create(call, machine, kernels, &backward).ok());
      EXPECT_EQ(backward.projection.route, kPacked);
      EXPECT_FALSE(IsInTurn(backward.projection_gradient.route) ||
                   IsInPlace(backward.projection_gradient.route));
    }
  }
}

// The route that has the bits of dot panels without any.
Route WithoutDotPanels(Route route) {
  return route == Route::kDotPanels ? kColumns : route;
}

TEST(PlanTest, NothingThatIsPreparedBeforeIsPackedInItsTurn) {
  ForCalls([](Sizes sizes, const KernelShape& kernels) {
    const ForwardPlan plan = Plans(sizes, kernels).forward;
    if (plan.chunks.empty()) return;  // no row is valid: nothing is chosen
    sizes.weights_are_prepared = true;
    const ForwardPlan prepared = Plans(sizes, kernels).forward;
    EXPECT_EQ(WithoutDotPanels(prepared.input_weights.first.route),
              WithoutTurn(plan.input_weights.first.route));
    EXPECT_EQ(WithoutDotPanels(prepared.recurrent_weights.route),
              WithoutTurn(plan.recurrent_weights.route));
    const WeightBlocks& blocks = prepared.prepared.first;
    EXPECT_NE(blocks.input.exists(),
              IsInPlace(prepared.input_weights.first.route));
    EXPECT_NE(blocks.recurrent.exists(),
              IsInPlace(prepared.recurrent_weights.route));
    EXPECT_FALSE(blocks.projection.exists());
    EXPECT_TRUE(blocks.biases.exists());
    // They are no part of scratch.
    EXPECT_LE(prepared.scratch_bytes, plan.scratch_bytes);
    EXPECT_EQ(plan.prepared.bytes, 0);
  });
}

TEST(PlanTest, PreparedWeightsOfSmallCallsLieInDotPanels) {
  KernelShape kernels = Vectors(ElementType::kFloat);
  // Of an LSTM.
  const auto routes_of = [&](int64_t B, int64_t I, int64_t H, int64_t T = 1) {
    Sizes sizes{T, B, I, H};
    sizes.weights_are_prepared = true;
    const ForwardPlan plan = Plans(sizes, kernels).forward;
    return std::pair(plan.input_weights.first.route,
                     plan.recurrent_weights.route);
  };
  constexpr Route kDots = Route::kDotPanels;
  EXPECT_EQ(routes_of(1, 100, 97), std::pair(kDots, kDots));
  EXPECT_EQ(routes_of(bits::kMaxSmallCallRows + 1, 100, 97),
            std::pair(kPacked, kPacked));

  // However many bytes they have, and however often steps come back to R.
  EXPECT_EQ(routes_of(1, 5000, 1024), std::pair(kDots, kDots));
  EXPECT_EQ(routes_of(4, 100, 1024, 4), std::pair(kDots, kDots));
  EXPECT_EQ(routes_of(1, 100, 1024, 25), std::pair(kDots, kDots));

  const int64_t few = kernels.dot_rows;
  constexpr int64_t kNarrow = speed::kMinFewRowsPanelColumns / 4;
  EXPECT_EQ(routes_of(few, 100, kNarrow), std::pair(kDots, kDots));
  EXPECT_EQ(routes_of(few, 100, kNarrow - 1), std::pair(kColumns, kColumns));

  constexpr int64_t kWide = speed::kMinManyRowsPanelColumns / 4;
  EXPECT_EQ(routes_of(few + 1, 100, kWide), std::pair(kDots, kDots));
  EXPECT_EQ(routes_of(few + 1, 100, kWide - 1), std::pair(kColumns, kColumns));
  EXPECT_EQ(routes_of(few, 100, kWide - 1), std::pair(kDots, kDots));
  kernels.dot_chains = 1;
  EXPECT_EQ(routes_of(few + 1, 100, kWide), std::pair(kColumns, kColumns));
  EXPECT_EQ(routes_of(few, 100, kWide), std::pair(kDots, kDots));
}

TEST(PlanTest, PreparedWeightsOfPseudoLayersComeOneAfterAnother) {
  const Sequences sequences = MakeSequences(40, 32, nullptr);
  RnnDescriptor d;
  d.input_size = 32;
  d.hidden_size = 64;
  d.num_layers = 3;
  d.num_directions = 2;
  CallDescription call = CallOf<float>(d, sequences);
  call.weights_are_prepared = true;
  const PreparedNetwork prepared = MakeForwardPlan(call).prepared;
  EXPECT_EQ(prepared.offset(0), 0);
  EXPECT_EQ(prepared.offset(1), prepared.first_bytes);
  EXPECT_EQ(prepared.offset(2), 2 * prepared.first_bytes);
  EXPECT_EQ(prepared.offset(5) + prepared.upper_bytes, prepared.bytes);
  // What enters the upper layers is wider.
  EXPECT_LT(prepared.first_bytes, prepared.upper_bytes);
}

TEST(PlanTest, EveryRouteIsTaken) {
  std::set<Route> forward_input, forward_recurrent, backward_input,
      backward_recurrent;
  ForCalls([&](const Sizes& sizes, const KernelShape& kernels) {
    const Plans plans(sizes, kernels);
    forward_input.insert(plans.forward.input_weights.first.route);
    forward_recurrent.insert(plans.forward.recurrent_weights.route);
    backward_input.insert(plans.backward.input_weights.first.route);
    backward_recurrent.insert(plans.backward.recurrent_weights.route);
  });
  EXPECT_EQ(forward_input,
            (std::set<Route>{kPacked, kPackedInTurn, kParts, kRows, kColumns}));
  EXPECT_EQ(forward_recurrent,
            (std::set<Route>{kPacked, kPackedInTurn, kRows, kColumns}));
  EXPECT_EQ(backward_input,
            (std::set<Route>{kPacked, kPackedInTurn, kParts, kRows, kColumns}));
  EXPECT_EQ(backward_recurrent,
            (std::set<Route>{kPacked, kPackedInTurn, kRows, kColumns}));
}

// ---- How steps are shared ---------------------------------------------------

struct Groups {
  int forward;
  int backward;
};

// Of the first chunk, if it is shared.
Groups GroupsOf(int64_t batch, int64_t H, const KernelShape& kernels,
                int num_threads, double flops_per_far_byte,
                int64_t core_cache_bytes = kCoreCacheBytes) {
  const Sequences sequences = MakeSequences(16, batch, nullptr);
  CallDescription call;
  call.descriptor.mode = CellMode::kLstm;
  call.descriptor.input_size = 8;
  call.descriptor.hidden_size = H;
  call.sequences = &sequences;
  call.element_type = kernels.element_type;
  Machine machine;
  machine.num_threads = num_threads;
  machine.core_cache_bytes = core_cache_bytes;
  machine.flops_per_far_byte = flops_per_far_byte;
  const Choices choices(call, bits::kChunkRows, kernels, machine);
  const StepRange steps = ChunkCuts(sequences, bits::kChunkRows).From(0);
  const auto groups_of = [&](Pass pass) {
    return choices.NumRankGroups(steps, Route::kPacked, pass, num_threads);
  };
  return {groups_of(Pass::kForward), groups_of(Pass::kBackward)};
}

int NumGroups(int64_t batch, int64_t H, const KernelShape& kernels,
              int num_threads = 2, double flops_per_far_byte = 1) {
  return GroupsOf(batch, H, kernels, num_threads, flops_per_far_byte).backward;
}

TEST(NumRankGroupsTest, OneThreadTakesAllRowsTogether) {
  EXPECT_EQ(NumGroups(64, 128, Vectors(ElementType::kFloat),
                      /*num_threads=*/1),
            1);
}

TEST(NumRankGroupsTest, EachGroupHasRowsEnough) {
  const int64_t near = kCoreCacheBytes / 4, far = 2 * kCoreCacheBytes;
  struct Case {
    const char* name;
    KernelShape kernels;
    int64_t bytes;
    int64_t min_rows;  // of a group
  };
  const KernelShape floats = Vectors(ElementType::kFloat);
  const KernelShape tiles = Tiles(ElementType::kBFloat16);
  for (const Case& c :
       {Case{"near", floats, near, speed::kFewRowsOfGroup},
        Case{"nearly far", floats, kCoreCacheBytes, speed::kFewRowsOfGroup},
        Case{"far", floats, far, speed::kManyRowsOfGroup},
        Case{"near tiles", tiles,
             static_cast<int64_t>(kCoreCacheBytes * speed::kNearlyFullShare),
             speed::kFewRowsOfTileGroup},
        Case{"nearly far tiles", tiles, kCoreCacheBytes,
             speed::kManyRowsOfGroup},
        Case{"far tiles", tiles, far,
             speed::kTilesOfGroup * tiles.rows_together}}) {
    SCOPED_TRACE(c.name);
    const int64_t H = UnitsOf(c.bytes, c.kernels.operand_bytes);
    EXPECT_EQ(NumGroups(2 * c.min_rows - 2, H, c.kernels), 1);
    EXPECT_EQ(NumGroups(2 * c.min_rows - 1, H, c.kernels), 2)
        << "the larger one has enough";
    EXPECT_EQ(NumGroups(2 * c.min_rows, H, c.kernels), 2);
  }
}

// Groups of as few rows as they may have, one for each of some threads, are as
// good as a step that all share where sharing would take longer.
TEST(NumRankGroupsTest, ThereAreFewerThanThreadsWhereStepsAreShort) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  constexpr int kManyThreads = 16;
  constexpr int64_t kGroups = 8;
  constexpr int64_t kLargeCache = 16 * kMegabyte;
  const int64_t rows = kGroups * speed::kFewRowsOfGroup;
  EXPECT_EQ(NumGroups(rows, 64, floats, kGroups), kGroups);
  EXPECT_EQ(NumGroups(rows, 64, floats, kManyThreads), kGroups);
  EXPECT_EQ(NumGroups(2 * rows, 64, floats, kManyThreads), kManyThreads);
  // Long steps are worth waiting for each other, the sooner forward, where
  // threads need less of what the others made.
  const auto first_shared = [&](int Groups::* groups, int64_t row_elements) {
    int64_t H = 64;
    while (GroupsOf(rows, H, floats, kManyThreads, 1, kLargeCache).*groups >
           1) {
      H += 16;
    }
    const auto group_saves_work = [&](int64_t units) {
      const double work = 2.0 * rows * 4 * units * units;
      const double exchanged = row_elements * units * rows;
      return work * (speed::kFewRowsFactor / kGroups - 1.0 / kManyThreads) <
             speed::kSharedStepWork + speed::kSharedElementWork * exchanged;
    };
    EXPECT_TRUE(group_saves_work(H - 16)) << H;
    EXPECT_FALSE(group_saves_work(H)) << H;
    return H;
  };
  const int64_t forward = first_shared(&Groups::forward, 1);
  const int64_t backward = first_shared(&Groups::backward, 4);
  EXPECT_LT(forward, backward);
  // Each group reads R at each step: it must leave room in the cache.
  const int64_t bytes = 4 * backward * backward * int64_t{sizeof(float)} / 2;
  const auto cache_of = [&](double share) {
    return static_cast<int64_t>(bytes / share);
  };
  const int64_t half = UnitsOf(bytes, sizeof(float));
  EXPECT_GT(GroupsOf(rows, half, floats, kManyThreads, 1,
                     cache_of(speed::kNearlyFullShare))
                .backward,
            1);
  EXPECT_EQ(GroupsOf(rows, half, floats, kManyThreads, 1,
                     cache_of(speed::kNearlyFullShare * 1.2))
                .backward,
            1);
  // One group would leave all but a thread idle.
  EXPECT_EQ(NumGroups(2 * speed::kFewRowsOfGroup - 1, 64, floats, kManyThreads),
            1);
}

// ---- Parts of the batch -----------------------------------------------------

int64_t NumParts(const Sizes& sizes) {
  return static_cast<int64_t>(
      Plans(sizes, Vectors(ElementType::kFloat)).forward.parts.size());
}

TEST(BatchPartsTest, EachThreadHasOneIfItHasRowsAndStepsEnough) {
  Sizes sizes{100, 64, 64, 128};
  EXPECT_EQ(NumParts(sizes), 0) << "of one thread";
  for (int num_threads : {2, 8}) {
    sizes.num_threads = num_threads;
    EXPECT_EQ(NumParts(sizes), num_threads);
  }
  sizes.B = 8 * (speed::kFewRowsOfGroup - 1) + 1;
  EXPECT_EQ(NumParts(sizes), 8);
  --sizes.B;
  EXPECT_EQ(NumParts(sizes), 0) << "some threads would have none";

  constexpr int64_t kBatch = 2 * speed::kFewRowsOfGroup;
  sizes = {2 * speed::kMinBatchPartRows / kBatch, kBatch, 64, 128};
  sizes.num_threads = 2;
  EXPECT_EQ(NumParts(sizes), 2);
  --sizes.T;
  EXPECT_EQ(NumParts(sizes), 0) << "each would have few rows";
  sizes = {speed::kMaxStepsFromFar + 1, 64, 64, 128};
  sizes.num_threads = 2;
  EXPECT_EQ(NumParts(sizes), 2);
  --sizes.T;
  EXPECT_EQ(NumParts(sizes), 0) << "of so few steps";
}

TEST(BatchPartsTest, WeightsOfAllLayersAreInCachesAtOnce) {
  Sizes sizes{100, 64, 1, 128};
  sizes.num_threads = 2;
  const auto weights = static_cast<double>(speed::kMaxBatchPartsWeightBytes);
  const auto features = [&](double share) {
    return static_cast<int64_t>(share * weights / (4 * 128 * sizeof(float)));
  };
  sizes.I = features(0.9);
  EXPECT_EQ(NumParts(sizes), 2);
  sizes.I = features(1.1);
  EXPECT_EQ(NumParts(sizes), 0);
}

TEST(BatchPartsTest, AFewLongRowsAreNoPart) {
  Sizes sizes{2000, 32, 64, 200};
  sizes.num_threads = 2;
  EXPECT_EQ(NumParts(sizes), 2);
  sizes.lengths.assign(sizes.B, 50);
  sizes.lengths[3] = 2000;
  const Plans plans(sizes, Vectors(ElementType::kFloat));
  EXPECT_TRUE(plans.forward.parts.empty()) << "one thread would do all steps";
  EXPECT_TRUE(plans.backward.parts.empty());
  EXPECT_EQ(plans.backward.num_halves(), 2);
  // As long as even as lengths usually are.
  for (int32_t i = 0; i < sizes.B; ++i) sizes.lengths[i] = 2000 - 50 * i;
  EXPECT_EQ(NumParts(sizes), 2);
  static_assert(speed::kMostUnevenParts > 1);
}

TEST(BatchPartsTest, HaveAllRanksAndAboutAsManyRowsEach) {
  Sizes sizes{60, 40, 64, 64};
  sizes.num_threads = 3;
  for (int32_t i = 0; i < sizes.B; ++i) {
    sizes.lengths.push_back(i % 7 == 0 ? 0 : 60 - i);
  }
  for (bool are_prepared : {false, true}) {
    sizes.weights_are_prepared = are_prepared;
    const Plans plans(sizes, Vectors(ElementType::kFloat));
    const ForwardPlan& plan = plans.forward;
    ASSERT_EQ(plan.parts.size(), 3u);
    EXPECT_EQ(plan.scratch.prepared_weights.exists(), !are_prepared);
    int64_t rank = 0;
    for (const auto& part : plan.parts) {
      const Sequences& s = part->sequences;
      EXPECT_EQ(part->plan.sequences, &s);
      EXPECT_EQ(part->plan.num_threads, 1);
      EXPECT_TRUE(part->plan.weights_are_prepared);
      EXPECT_TRUE(part->plan.prepared_routes() == plan.prepared_routes());
      EXPECT_EQ(part->plan.reserve.size(), plan.reserve.size());
      EXPECT_LE(part->plan.max_chunk_rows,
                std::max(bits::kChunkRows / 3, speed::kMinBatchPartChunkRows) *
                        3 / 2 +
                    s.batch());
      EXPECT_NEAR(static_cast<double>(s.num_valid_rows()),
                  static_cast<double>(plans.sequences.num_valid_rows()) / 3,
                  sizes.T);
      for (int64_t i = 0; i < s.batch(); ++i, ++rank) {
        EXPECT_EQ(s.batch_row(i), plans.sequences.batch_row(rank));
      }
    }
    EXPECT_EQ(rank, sizes.B);
  }
}

// Whether gradients are sums of two halves is of the shape, whether two threads
// take one each of the machine.
TEST(BatchPartsTest, BackwardAddsUpHalvesOfABatchThatIsLargeEnough) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  const auto num_halves = [&](const Sizes& sizes) {
    return Plans(sizes, floats).backward.num_halves();
  };
  constexpr int64_t kSteps = bits::kMinHalvedRows / bits::kMinHalvedBatch;
  EXPECT_EQ(num_halves({kSteps, bits::kMinHalvedBatch, 16, 16}),
            bits::kGradientHalves);
  EXPECT_EQ(num_halves({kSteps - 1, bits::kMinHalvedBatch, 16, 16}), 1);
  EXPECT_EQ(num_halves({kSteps * 2, bits::kMinHalvedBatch - 1, 16, 16}), 1);
  const int64_t most = bits::kMaxHalvedParams / (4 * 16);
  EXPECT_EQ(num_halves({kSteps, bits::kMinHalvedBatch, most - 32, 16}),
            bits::kGradientHalves);
  EXPECT_EQ(num_halves({kSteps, bits::kMinHalvedBatch, most, 16}), 1);
  Sizes empty{kSteps, bits::kMinHalvedBatch, 16, 16};
  empty.lengths.assign(bits::kMinHalvedBatch, 0);
  EXPECT_EQ(num_halves(empty), 1);
}

TEST(BatchPartsTest, TwoThreadsTakeAHalfEach) {
  Sizes sizes{60, 40, 64, 64};
  for (int32_t i = 0; i < sizes.B; ++i) {
    sizes.lengths.push_back(i % 7 == 0 ? 0 : 60 - i);
  }
  const KernelShape floats = Vectors(ElementType::kFloat);
  for (int num_threads : {1, 3, 8}) {
    sizes.num_threads = num_threads;
    EXPECT_TRUE(Plans(sizes, floats).backward.parts.empty()) << num_threads;
  }
  sizes.num_threads = 2;
  const Plans plans(sizes, floats);
  const BackwardPlan& plan = plans.backward;
  ASSERT_EQ(plan.parts.size(), 2u);
  int64_t rank = 0;
  for (const auto& part : plan.parts) {
    EXPECT_EQ(part->plan.sequences, &part->sequences);
    EXPECT_EQ(part->plan.num_halves(), 1);
    EXPECT_EQ(part->plan.gradient_chain, plan.gradient_chain);
    EXPECT_EQ(part->sequences.batch_row(0), plans.sequences.batch_row(rank));
    rank += part->sequences.batch();
  }
  EXPECT_EQ(rank, sizes.B);
}

TEST(BatchPartsTest, TheLogSaysSo) {
  Sizes sizes{100, 64, 64, 128};
  sizes.num_threads = 2;
  const Plans plans(sizes, Vectors(ElementType::kFloat));
  EXPECT_NE(Describe(plans.forward).find(" batch_parts=2"), std::string::npos)
      << Describe(plans.forward);
  EXPECT_NE(Describe(plans.backward).find(" batch_parts=2"), std::string::npos)
      << Describe(plans.backward);
}

// ---- Steps ------------------------------------------------------------------

TEST(SharedStepsTest, OnlyLongStepsAreShared) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  struct Shares {
    bool forward;
    bool backward;
    int num_groups;
  };
  const auto shares = [&](int64_t steps, int64_t batch, int64_t H,
                          int num_threads = 2) {
    Sizes sizes{steps, batch, 4096, H};  // other work is enough for helpers
    sizes.num_threads = num_threads;
    const Plans plans(sizes, floats, /*core_cache_bytes=*/16 * kMegabyte);
    const ChunkPlan& forward = plans.forward.chunks.front();
    const ChunkPlan& backward = plans.backward.chunks.front();
    EXPECT_FALSE(forward.shares_steps() && forward.num_rank_groups > 1);
    EXPECT_FALSE(backward.shares_steps() && backward.num_rank_groups > 1);
    return Shares{forward.shares_steps(), backward.shares_steps(),
                  forward.num_rank_groups};
  };
  const int64_t too_few_rows = 2 * speed::kFewRowsOfGroup - 2;  // for groups
  for (int64_t batch : {int64_t{1}, too_few_rows}) {
    SCOPED_TRACE(batch);
    // Of an LSTM: 8 H^2 operations a row.
    const auto rows =
        static_cast<double>(std::max(batch, speed::kLeastProductRows));
    const auto long_enough = static_cast<int64_t>(
        std::ceil(std::sqrt(2 * speed::kMinTaskWork / (8 * rows))));
    EXPECT_TRUE(shares(50, batch, long_enough).forward);
    EXPECT_TRUE(shares(50, batch, long_enough).backward);
    EXPECT_FALSE(shares(50, batch, long_enough - 1).forward);
    EXPECT_FALSE(shares(50, batch, long_enough - 1).backward);
    EXPECT_FALSE(shares(50, batch, long_enough, 1).forward) << "with whom";
  }
  // Groups never wait for each other. (So few steps are not divided into
  // parts.)
  constexpr int64_t kFew = speed::kMaxStepsFromFar;
  const int64_t many_rows = 2 * speed::kManyRowsOfGroup;
  EXPECT_EQ(shares(kFew, too_few_rows, 32).num_groups, 1);
  EXPECT_EQ(shares(kFew, many_rows, 32).num_groups, 2);
}

// The others would wait for each other all the same.
TEST(SharedStepsTest, NoMoreThreadsShareAStepThanItHasTasks) {
  constexpr int64_t kTasks = 5;
  Sizes sizes{50, 1, 4096, 0};
  sizes.num_threads = 16;
  sizes.H = static_cast<int64_t>(std::ceil(std::sqrt(
      kTasks * speed::kMinTaskWork / (8.0 * speed::kLeastProductRows))));
  const KernelShape floats = Vectors(ElementType::kFloat);
  EXPECT_EQ(Plans(sizes, floats).forward.chunks.front().num_step_threads,
            kTasks);
  sizes.num_threads = 3;
  EXPECT_EQ(Plans(sizes, floats).backward.chunks.front().num_step_threads, 3);
}

TEST(SharedStepsTest, LongOnesAreNotTakenInLockstep) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  const auto chunk_of = [&](int64_t steps, double H) {
    Sizes sizes{steps, 1, 4096, std::lround(H)};
    sizes.num_threads = 2;
    return Plans(sizes, floats).forward.chunks.front();
  };
  const double H =
      std::sqrt(2 * speed::kMaxLockstepWork / (8.0 * speed::kLeastProductRows));
  EXPECT_TRUE(chunk_of(20, H - 1).in_lockstep);
  const ChunkPlan longer = chunk_of(20, H + 1);
  EXPECT_FALSE(longer.in_lockstep);
  EXPECT_TRUE(longer.shares_steps());
  const ChunkPlan one_step = chunk_of(1, H - 1);
  EXPECT_FALSE(one_step.in_lockstep);
  EXPECT_TRUE(one_step.shares_steps());
}

// Where the third level is slow, fewer rows than it takes to hide that had
// better share what they read of R.
TEST(NumRankGroupsTest, GroupsAreLargerWhereWeightsComeSlowly) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  const int64_t far = UnitsOf(2 * kCoreCacheBytes, sizeof(float));
  const int64_t near = UnitsOf(kCoreCacheBytes / 4, sizeof(float));
  constexpr double kSlow = 14;
  const auto min_rows =
      static_cast<int64_t>(speed::kRowsOfGroupPerFarFlop * kSlow);
  EXPECT_EQ(NumGroups(2 * min_rows - 2, far, floats, 2, kSlow), 1);
  EXPECT_EQ(NumGroups(2 * min_rows - 1, far, floats, 2, kSlow), 2);
  EXPECT_GT(NumGroups(2 * min_rows - 1, far, floats, 2, 1), 2);
  // R that stays in a core's cache does not come from there.
  EXPECT_GT(NumGroups(2 * min_rows - 1, near, floats, 2, kSlow), 1);
}

TEST(MachineTest, IsMeasuredOnce) {
  const Machine machine = Machine::Here(2);
  std::cout << "flops_per_far_byte=" << machine.flops_per_far_byte << std::endl;
  EXPECT_EQ(machine.num_threads, 2);
  EXPECT_GT(machine.core_cache_bytes, 0);
  EXPECT_GT(machine.flops_per_far_byte, 0);
  if (std::getenv("TF_CUDNN_RNN_MACHINE") == nullptr) {
    // A time that was taken, not what stands for one.
    EXPECT_NE(machine.flops_per_far_byte, Machine().flops_per_far_byte);
  }
  EXPECT_EQ(machine.flops_per_far_byte, Machine::Here(3).flops_per_far_byte);
  // Nobody shares anything with one thread.
  EXPECT_EQ(Machine::Here(1).flops_per_far_byte, Machine().flops_per_far_byte);
}

TEST(MachineTest, TheVariableSetsFields) {
  Machine machine;
  EXPECT_EQ(ParseMachine("", &machine), "");
  EXPECT_EQ(ParseMachine("flops_per_far_byte=13.5", &machine), "");
  EXPECT_EQ(machine.flops_per_far_byte, 13.5);
  EXPECT_EQ(machine.core_cache_bytes, 0);
  EXPECT_EQ(
      ParseMachine("core_cache_bytes=2097152,flops_per_far_byte=2", &machine),
      "");
  EXPECT_EQ(machine.core_cache_bytes, 2097152);
  EXPECT_EQ(machine.flops_per_far_byte, 2);
  EXPECT_EQ(ParseMachine("flops_per_passed_value=1", &machine), "");
  EXPECT_EQ(machine.flops_per_passed_value, 1);
  for (const char* text :
       {"x", "core_cache_bytes", "core_cache_bytes=", "core_cache_bytes=0",
        "core_cache_bytes=1x", "core_cache_bytes=nan", "cores=2",
        "flops_per_far_byte=1e99", "flops_per_far_byte=2;core_cache_bytes=3",
        "flops_per_far_byte=inf", "flops_per_far_byte= 2",
        "flops_per_far_byte=2,5", ",core_cache_bytes=3", "core_cache_bytes=3,",
        "core_cache_bytes=3,,flops_per_far_byte=2", ",",
        "core_cache_bytes=3,core_cache_bytes=3", "flops_per_passed_value=2x",
        "flops_per_passed_value=0.5"}) {
    EXPECT_NE(ParseMachine(text, &machine).find(text), std::string::npos)
        << text;
  }
  EXPECT_EQ(machine.flops_per_passed_value, 1);
}

TEST(MachineTest, TheTextOfAMachineSetsItsFields) {
  Machine machine, other;
  machine.core_cache_bytes = int64_t{1} << 40;
  machine.flops_per_far_byte = 13.7251;
  machine.flops_per_passed_value = 1e6;
  EXPECT_EQ(ParseMachine(MachineVariableText(machine), &other), "");
  EXPECT_EQ(other.core_cache_bytes, machine.core_cache_bytes);
  EXPECT_EQ(other.flops_per_far_byte, machine.flops_per_far_byte);
  EXPECT_EQ(other.flops_per_passed_value, machine.flops_per_passed_value);
}

TEST(MachineTest, NumbersAreWrittenAlikeInEachLocale) {
  const CommaLocale locale;
  Machine machine;
  machine.core_cache_bytes = 2097152;
  machine.flops_per_far_byte = 13.5;
  const std::string text = MachineVariableText(machine);
  Machine other;
  const std::string fault = ParseMachine(text, &other);
  EXPECT_EQ(text,
            "core_cache_bytes=2097152,flops_per_far_byte=13.5,"
            "flops_per_passed_value=150");
  EXPECT_EQ(fault, "");
  EXPECT_EQ(other.flops_per_far_byte, 13.5);
}

TEST(NumRankGroupsTest, StepsAreSplitWhereWeightsOutgrowTheCaches) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  const int64_t H = UnitsOf(speed::kMaxGroupedBytes, sizeof(float));
  EXPECT_GT(NumGroups(96, H, floats), 1);
  EXPECT_EQ(NumGroups(96, H + 64, floats), 1);
}

TEST(PlanTest, TwoDirectionsRunTogetherIfStepsAreShort) {
  Sizes sizes{200, speed::kMaxTogetherBatch, 64, 128};
  sizes.num_directions = 2;
  sizes.num_threads = 2;
  const KernelShape floats = Vectors(ElementType::kFloat);
  EXPECT_TRUE(Plans(sizes, floats).forward.directions_together);
  sizes.num_threads = 1;
  EXPECT_FALSE(Plans(sizes, floats).forward.directions_together);
  sizes.num_threads = 2;
  ++sizes.B;
  EXPECT_FALSE(Plans(sizes, floats).forward.directions_together);
  sizes = {200, 1, 64, UnitsOf(speed::kMaxTogetherBytes, sizeof(float))};
  sizes.num_directions = 2;
  sizes.num_threads = 2;
  EXPECT_TRUE(Plans(sizes, floats).forward.directions_together);
  sizes.H += 16;
  EXPECT_FALSE(Plans(sizes, floats).forward.directions_together);
  // More threads than directions share a step if each gets a task of it.
  sizes.num_threads = 4;
  for (const int64_t H : {64, 128}) {
    sizes.B = speed::kMaxTogetherBatch;
    sizes.H = H;
    const int64_t step_work = 2 * sizes.B * 4 * H * H;
    EXPECT_EQ(Plans(sizes, floats).forward.directions_together,
              step_work < 4 * speed::kMinTaskWork);
  }
}

// Inference of a tanh RNN by one of two threads.
bool WorksAlone(const Sizes& sizes,
                const KernelShape& kernels = Vectors(ElementType::kFloat)) {
  const Sequences sequences = MakeSequences(sizes.T, sizes.B, nullptr);
  CallDescription call;
  call.descriptor.mode = CellMode::kTanh;
  call.descriptor.input_size = sizes.I;
  call.descriptor.hidden_size = sizes.H;
  call.descriptor.num_directions = sizes.num_directions;
  call.sequences = &sequences;
  call.element_type = kernels.element_type;
  call.weight_order = sizes.order;
  Machine machine;
  machine.num_threads = 2;
  machine.core_cache_bytes = kCoreCacheBytes;
  machine.has_crew = sizes.has_crew;
  machine.has_threads_awake = sizes.has_threads_awake;
  ForwardPlan plan;
  EXPECT_TRUE(
      ForwardPlan::Create(call, /*has_reserve=*/false, machine, kernels, &plan)
          .ok());
  return plan.works_alone();
}

// Sizes of which two threads spare each other so many operations: half of
// 2 B (I + 1). They pass next to nothing.
Sizes SizesOfWork(double spared) {
  constexpr int64_t kBatch = 10;
  return {1, kBatch, static_cast<int64_t>(spared / kBatch), 1};
}

Sizes WithInput(Sizes sizes, double times) {
  sizes.I = static_cast<int64_t>(static_cast<double>(sizes.I) * times);
  return sizes;
}

constexpr double kMore = 1.01;
constexpr double kLess = 0.99;

// Of so many features.
void ExpectSharedFrom(const Sizes& sizes) {
  EXPECT_FALSE(WorksAlone(WithInput(sizes, kMore)));
  EXPECT_TRUE(WorksAlone(WithInput(sizes, kLess)));
}

TEST(PlanTest, LittleWorkIsDoneByTheCaller) {
  Sizes sizes{1, 1, 16, 16};
  sizes.num_threads = 8;
  const Plans plans(sizes, Vectors(ElementType::kFloat));
  EXPECT_TRUE(plans.forward.works_alone());
  EXPECT_TRUE(plans.backward.works_alone());
  sizes = {100, 32, 128, 128};
  sizes.num_threads = 8;
  EXPECT_FALSE(
      Plans(sizes, Vectors(ElementType::kFloat)).forward.works_alone());
  ExpectSharedFrom(SizesOfWork(speed::kMinTeamWork));
}

TEST(PlanTest, ForwardHasHelpersIfBackwardDoes) {
  // Backward has twice as many operations.
  Sizes sizes = SizesOfWork(speed::kMinTeamWork / 2);
  sizes.mode = CellMode::kTanh;
  sizes.num_threads = 2;
  const Plans enough(WithInput(sizes, kMore), Vectors(ElementType::kFloat));
  EXPECT_FALSE(enough.forward.works_alone());
  EXPECT_FALSE(enough.backward.works_alone());
  EXPECT_TRUE(WorksAlone(WithInput(sizes, kMore)))
      << "of inference it is too little";
  const Plans too_little(WithInput(sizes, kLess), Vectors(ElementType::kFloat));
  EXPECT_TRUE(too_little.forward.works_alone());
  EXPECT_TRUE(too_little.backward.works_alone());
}

TEST(PlanTest, FewRowsAreAsMuchWorkAsTheirWeightsTakeToCome) {
  const auto features_of = [](int64_t rows) {
    return static_cast<int64_t>(speed::kMinTeamWork /
                                static_cast<double>(rows));
  };
  const int64_t I = features_of(speed::kLeastProductRows);
  for (int64_t B = 1; B <= speed::kLeastProductRows; ++B) {
    SCOPED_TRACE(B);
    ExpectSharedFrom({1, B, I, 1});
  }
  EXPECT_FALSE(WorksAlone({1, speed::kLeastProductRows + 1, I, 1}));

  // W is multiplied once for all steps, R at each of them.
  constexpr int64_t kSteps = 100;
  ExpectSharedFrom({kSteps, 1, features_of(kSteps), 1});
  constexpr int64_t H = 500;
  const auto steps =
      static_cast<int64_t>(speed::kMinTeamWork / (speed::kLeastProductRows * H *
                                                  H));  // T (I + 4 H) H
  EXPECT_FALSE(WorksAlone({steps + 1, 1, 1, H}));
  EXPECT_TRUE(WorksAlone({steps - 1, 1, 1, H}));

  EXPECT_TRUE(WorksAlone({1, 0, 2 * I, 1})) << "no rows, no work";
}

TEST(PlanTest, NarrowNetworksAreOneThreadsAsTheirValuesWouldPass) {
  // Too few rows for parts, and for steps to be shared.
  Sizes sizes{40000, 2 * speed::kFewRowsOfGroup - 2, 1, 1};
  sizes.num_threads = 2;
  const auto plans_of = [&](double H) {
    sizes.I = sizes.H = std::lround(H);
    return Plans(sizes, Vectors(ElementType::kFloat));
  };
  // 2 (4 H) H operations of 5 H values: half of the former are spared, a fourth
  // of the latter pass. In backward three times the former, for the gradients
  // of W, of R and of the input, and kBackwardPassedValues times the latter.
  static_assert(speed::kBackwardPassedValues == 3);
  const double H = Machine().flops_per_passed_value * 5 / 4 / 4;
  EXPECT_TRUE(plans_of(0.9 * H).forward.works_alone());
  EXPECT_TRUE(plans_of(0.9 * H).backward.works_alone());
  EXPECT_FALSE(plans_of(1.1 * H).forward.works_alone());
  EXPECT_FALSE(plans_of(1.1 * H).backward.works_alone());
  // Each of more threads has less to read.
  sizes.num_threads = 8;
  EXPECT_FALSE(plans_of(0.9 * H).forward.works_alone());
  EXPECT_FALSE(plans_of(0.9 * H).backward.works_alone());
}

TEST(PlanTest, NarrowNetworksOfLargeBatchesAreDividedAsPartsPassNothing) {
  Sizes sizes{20000, 64, 4, 4};
  for (int num_threads : {2, 3, 8}) {
    SCOPED_TRACE(num_threads);
    sizes.num_threads = num_threads;
    const Plans plans(sizes, Vectors(ElementType::kFloat));
    EXPECT_EQ(static_cast<int>(plans.forward.parts.size()), num_threads);
    // More threads would pass more than they spare.
    EXPECT_EQ(plans.backward.parts.size(), 2u);
    EXPECT_EQ(plans.backward.num_threads, 2);
  }
}

TEST(PlanTest, NarrowDirectionsAreAThreadsEach) {
  Sizes sizes{20000, 2 * speed::kFewRowsOfGroup - 2, 16, 16};
  EXPECT_TRUE(WorksAlone(sizes));
  sizes.num_directions = 2;
  EXPECT_FALSE(WorksAlone(sizes));
}

// Helpers would have nothing to do.
TEST(PlanTest, ShortStepsAreNoWorkForHelpers) {
  const auto works_alone = [](int64_t steps, int64_t batch,
                              int64_t directions) {
    Sizes sizes{steps, batch, 1, 64};
    sizes.num_directions = directions;
    return WorksAlone(sizes);
  };
  constexpr int64_t kManySteps = 20000;
  EXPECT_TRUE(works_alone(kManySteps, 1, 1));
  EXPECT_FALSE(works_alone(kManySteps, 1, 2)) << "a direction each";
  const Sizes two_groups{1000, 2 * speed::kFewRowsOfGroup, 2, 100};
  EXPECT_FALSE(WorksAlone(two_groups)) << "a group each";
  EXPECT_TRUE(WorksAlone(two_groups, Tiles(ElementType::kBFloat16)))
      << "where groups have more rows";
  // Gradients of R are sums over all steps.
  Sizes sizes{kManySteps, 1, 1, 64};
  sizes.num_threads = 8;
  const KernelShape floats = Vectors(ElementType::kFloat);
  EXPECT_FALSE(Plans(sizes, floats).backward.works_alone());
  // Backward takes one direction after the other.
  sizes = {100, 1, 48, 48};
  sizes.num_threads = 2;
  sizes.num_directions = 2;
  const Plans both(sizes, floats);
  EXPECT_TRUE(both.forward.directions_together);
  EXPECT_TRUE(both.backward.works_alone());
}

TEST(PlanTest, Int8WeightsOfFewRowsComeInTime) {
  // Less than the threshold, and more if it counts as four rows.
  constexpr int64_t H = 2000;
  Sizes sizes{1, 1, static_cast<int64_t>(speed::kMinTeamWork / H) - H - 1, H};
  EXPECT_FALSE(WorksAlone(sizes));
  sizes.order = WeightOrder::kInt8;
  EXPECT_TRUE(WorksAlone(sizes));
  // So it is with steps, of 2 H^2 operations.
  const auto shared_from =
      static_cast<int64_t>(std::ceil(std::sqrt(double{speed::kMinTaskWork})));
  sizes = {20000, 1, 1, shared_from - 1};
  EXPECT_FALSE(WorksAlone(sizes));
  sizes.order = WeightOrder::kInt8;
  EXPECT_TRUE(WorksAlone(sizes));
  ++sizes.H;
  EXPECT_FALSE(WorksAlone(sizes));
}

TEST(PlanTest, ACrewHelpsWithShorterCalls) {
  Sizes sizes = SizesOfWork(speed::kMinCrewWork);
  EXPECT_TRUE(WorksAlone(sizes));
  sizes.has_crew = true;
  ExpectSharedFrom(sizes);
}

TEST(PlanTest, ThreadsThatAreAwakeHelpWithShorterCalls) {
  Sizes sizes = SizesOfWork(speed::kMinAwakeWork);
  EXPECT_TRUE(WorksAlone(sizes));
  sizes.has_threads_awake = true;
  ExpectSharedFrom(sizes);
}

TEST(PlanTest, ChunksHaveAboutAsManyRows) {
  const auto num_chunks = [](int64_t rows) {
    return Plans({rows, 1, 8, 8}, Vectors(ElementType::kFloat))
        .forward.chunks.size();
  };
  const int64_t rows = bits::kChunkRows;
  EXPECT_EQ(num_chunks(rows * 3 / 2 - 1), 1u);
  EXPECT_EQ(num_chunks(rows * 3 / 2), 2u);
  EXPECT_EQ(num_chunks(rows * 5 / 2 - 1), 2u);
  EXPECT_EQ(num_chunks(rows * 5 / 2), 3u);
}

TEST(PlanTest, ChunksCoverAllStepsInTheOrderOfThePass) {
  const Plans plans({1000, 3, 8, 8}, Vectors(ElementType::kFloat));
  ASSERT_GT(plans.forward.chunks.size(), 2u);
  int64_t step = 0;
  for (const ChunkPlan& chunk : plans.forward.chunks) {
    EXPECT_EQ(chunk.steps.begin, step);
    EXPECT_LE(chunk.steps.count() * 3, plans.forward.max_chunk_rows);
    step = chunk.steps.end;
  }
  EXPECT_EQ(step, 1000);
  for (const ChunkPlan& chunk : plans.backward.chunks) {
    EXPECT_EQ(chunk.steps.end, step);
    step = chunk.steps.begin;
  }
  EXPECT_EQ(step, 0);
}

// Of so many rows that products of rows and chunks outgrow 64 bits.
TEST(ChunkCutsTest, ManyRowsAreCutIntoEqualChunks) {
  constexpr int64_t kSteps = int64_t{1} << 18;
  const Sequences sequences = MakeSequences(kSteps, int64_t{1} << 20, nullptr);
  const ChunkCuts cuts(sequences, bits::kChunkRows);
  for (int64_t step : {int64_t{0}, kSteps / 2, kSteps - 1}) {
    for (const StepRange& chunk : {cuts.From(step), cuts.Until(step + 1)}) {
      EXPECT_EQ(chunk.begin, step);
      EXPECT_EQ(chunk.end, step + 1);
    }
  }
}

// ---- What a plan refuses, and says ------------------------------------------

TEST(PlanTest, KerasWeightsAreOfOneLayerWithoutOptions) {
  const Sequences sequences = MakeSequences(2, 3, nullptr);
  RnnDescriptor one_layer;
  one_layer.input_size = one_layer.hidden_size = 4;
  one_layer.num_directions = 2;
  const auto create = [&](const RnnDescriptor& d) {
    CallDescription call = CallOf<float>(d, sequences);
    call.weight_order = WeightOrder::kKeras;
    ForwardPlan plan;
    return ForwardPlan::Create(call, /*has_reserve=*/true, Machine::Here(1),
                               &plan);
  };
  EXPECT_TRUE(create(one_layer).ok());
  RnnDescriptor two_layers = one_layer, projected = one_layer,
                skipped = one_layer;
  two_layers.num_layers = 2;
  projected.num_proj = 3;
  skipped.skip_input = true;
  for (const auto& [d, got] : {std::pair{two_layers, "num_layers = 2"},
                               {projected, "num_proj = 3"},
                               {skipped, "skip_input = 1"}}) {
    const Status status = create(d);
    ASSERT_FALSE(status.ok()) << got;
    EXPECT_NE(std::string(status.message()).find(got), std::string::npos)
        << status.message();
  }
}

// No product of these sizes may wrap around, and none has the memory.
TEST(PlanTest, SizesBeyondAllMemoryAreRefused) {
  const int64_t huge = int64_t{1} << 57, large = int64_t{1} << 30;
  struct Case {
    const char* name;
    int64_t T, B, I, H;
    bool skip_input;
  };
  for (const Case& c : {Case{"I", 1, 64, huge, 1, false},
                        Case{"H and I", 1, 1, huge, huge, true},
                        Case{"H", 1, 1, 8, large, false},
                        Case{"B", 1, int64_t{1} << 20, large, 1, false},
                        Case{"T", int64_t{1} << 20, 1, large, 1, false}}) {
    SCOPED_TRACE(c.name);
    const Sequences sequences = MakeSequences(c.T, c.B, nullptr);
    RnnDescriptor d;
    d.mode = CellMode::kRelu;
    d.input_size = c.I;
    d.hidden_size = c.H;
    d.skip_input = c.skip_input;
    const CallDescription call = CallOf<float>(d, sequences);
    ForwardPlan forward;
    for (bool has_reserve : {false, true}) {
      const Status status =
          ForwardPlan::Create(call, has_reserve, Machine::Here(1), &forward);
      ASSERT_FALSE(status.ok());
      EXPECT_FALSE(status.message().empty());
    }
    BackwardPlan backward;
    EXPECT_FALSE(BackwardPlan::Create(call, Machine::Here(1), &backward).ok());
  }
}

// The largest that are not have scratch of a size that can be counted.
TEST(PlanTest, SizesUpToThatDoNotOverflow) {
  const int64_t most = int64_t{1} << 46;
  struct Case {
    const char* name;
    int64_t B, I, H;
  };
  for (const Case& c : {Case{"I", 1, most / 2, 1}, Case{"H", 1, 8, 1 << 22},
                        Case{"B and I", 1 << 20, 1 << 26, 1},
                        Case{"B and H", 1 << 23, 8, 1 << 22}}) {
    for (ElementType type : {ElementType::kFloat, ElementType::kDouble,
                             ElementType::kHalf, ElementType::kBFloat16}) {
      SCOPED_TRACE(testing::Message()
                   << c.name << ' ' << ElementTypeName(type));
      Sizes sizes{1, c.B, c.I, c.H};
      sizes.mode = CellMode::kRelu;
      for (const KernelShape& kernels : {Vectors(type), Tiles(type)}) {
        const Plans plans(sizes, kernels);
        // Of all that lies there, what enters the layer is the least.
        EXPECT_GT(plans.forward.scratch_bytes, c.B * 8);
        EXPECT_GT(plans.backward.scratch_bytes, c.B * 8);
        EXPECT_LT(plans.forward.scratch_bytes, int64_t{1} << 62);
        EXPECT_LT(plans.backward.scratch_bytes, int64_t{1} << 62);
      }
    }
  }
}

// A plan looks at two layers, for all above are alike: this one would otherwise
// take hours.
TEST(PlanTest, ManyLayersAreNotGoneThroughOneByOne) {
  const Sequences sequences = MakeSequences(1, 1, nullptr);
  RnnDescriptor d;
  d.mode = CellMode::kRelu;
  d.input_size = d.hidden_size = 1;
  d.num_layers = int64_t{1} << 42;
  const CallDescription call = CallOf<float>(d, sequences);
  Machine machine{4, kCoreCacheBytes};
  machine.flops_per_passed_value = 0;
  ForwardPlan forward;
  EXPECT_TRUE(
      ForwardPlan::Create(call, /*has_reserve=*/true, machine, &forward).ok());
  EXPECT_EQ(forward.num_threads, 4);
  BackwardPlan backward;
  EXPECT_TRUE(BackwardPlan::Create(call, machine, &backward).ok());
  EXPECT_EQ(backward.num_threads, 4);
}

TEST(PlanTest, KnowsForWhomItIs) {
  const Sequences sequences = MakeSequences(2, 3, nullptr);
  RnnDescriptor d;
  d.input_size = d.hidden_size = 4;
  const ForwardPlan plan = MakeForwardPlan(CallOf<float>(d, sequences));
  EXPECT_TRUE(plan.is_for(ElementType::kFloat));
  EXPECT_FALSE(plan.is_for(ElementType::kDouble));
  EXPECT_FALSE(Plans({1, 1, 4, 4}, Vectors(ElementType::kFloat))
                   .forward.is_for(ElementType::kFloat));
}

TEST(PlanTest, DescriptionNamesSizesRoutesThreadsAndScratch) {
  const Plans plans({1, 1, 24, 40}, Vectors(ElementType::kFloat));
  const std::string forward = Describe(plans.forward);
  for (const char* part :
       {"training lstm float32 vectors", "T=1 B=1", "I=24 H=40", "L=1 D=1",
        "weights=params", "W=columns_in_place", "R=columns_in_place",
        "threads=1", "scratch_bytes="}) {
    EXPECT_NE(forward.find(part), std::string::npos) << part << ": " << forward;
  }
  const std::string backward = Describe(plans.backward);
  EXPECT_EQ(backward.find("backward lstm"), 0u) << backward;
}

TEST(PlanTest, DescriptionNamesCellsAndOrders) {
  Sizes sizes{1, 1, 24, 40};
  const auto describe = [&] {
    return Describe(Plans(sizes, Vectors(ElementType::kFloat)).forward);
  };
  for (const auto& [mode, begin] :
       {std::pair(CellMode::kRelu, "training relu float32"),
        std::pair(CellMode::kTanh, "training tanh float32"),
        std::pair(CellMode::kGru, "training gru float32")}) {
    sizes.mode = mode;
    EXPECT_EQ(describe().find(begin), 0u) << describe();
  }
  sizes.order = WeightOrder::kKeras;
  EXPECT_NE(describe().find(" weights=keras "), std::string::npos)
      << describe();
}

}  // namespace
}  // namespace rnn
