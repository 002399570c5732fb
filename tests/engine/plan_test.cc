// Which routes and chunks a plan chooses, what it refuses, and what the log
// says of it.

#include "kernels/engine/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/engine/plan/chunks.h"
#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/thresholds.h"
#include "tests/engine/made_up_plans.h"
#include "tests/engine/make_sequences.h"
#include "tests/engine/plans.h"

namespace rnn {
namespace {

// ---- Routes -----------------------------------------------------------------

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

// ---- Chunks -----------------------------------------------------------------

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

TEST(PlanTest, OutputsAreRepeatedInOneDirectionAlone) {
  const Sequences sequences = MakeSequences(4, {4, 2, 3});
  for (int64_t num_directions : {1, 2}) {
    RnnDescriptor d;
    d.input_size = d.hidden_size = 4;
    d.num_directions = num_directions;
    CallDescription call = CallOf<float>(d, sequences);
    call.repeats_outputs = true;
    ForwardPlan forward;
    BackwardPlan backward;
    for (const Status& status :
         {ForwardPlan::Create(call, /*has_reserve=*/false, Machine::Here(1),
                              &forward),
          BackwardPlan::Create(call, Machine::Here(1), &backward)}) {
      EXPECT_EQ(status.ok(), num_directions == 1);
      EXPECT_EQ(
          status.message().find("num_directions = 2") != std::string::npos,
          num_directions == 2)
          << status.message();
    }
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
                        Case{"H times H", 1, 1, 8, 1 << 24, false},
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
