// Which choices a plan makes: for kernels of the test's own, so that machines
// that this one is not can be asked about.

#include "kernels/engine/plan/plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/thresholds.h"
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
  shape.lanes = 16;
  shape.panel_columns = 64;
  shape.rows_together = 6;
  shape.depth_block = 256;
  for (int64_t& units : shape.cell_units) units = 16;
  shape.rows_have_bits_of_panels = true;
  shape.operands_are_elements = !is_half;
  return shape;
}
// As those of tile registers.
KernelShape Tiles(ElementType type) {
  KernelShape shape = Vectors(type);
  shape.instruction_set = "tiles";
  shape.has_parts = shape.operand_bytes == 4;
  if (type == ElementType::kBFloat16) {
    shape.rows_together = 32;
    shape.rows_have_bits_of_panels = false;
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
};

struct Plans {
  Plans(const Sizes& s, const KernelShape& kernels,
        int64_t core_cache_bytes = kCoreCacheBytes)
      : sequences(s.T, s.B, nullptr) {
    CallDescription call;
    call.descriptor.mode = s.mode;
    call.descriptor.input_size = s.I;
    call.descriptor.hidden_size = s.H;
    call.descriptor.num_directions = s.num_directions;
    call.sequences = &sequences;
    call.element_type = kernels.element_type;
    call.weight_order = s.order;
    const Machine machine{s.num_threads, core_cache_bytes};
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

constexpr Route kPacked = Route::kPacked;
constexpr Route kPackedInTurn = Route::kPackedInTurn;
constexpr Route kParts = Route::kParts;
constexpr Route kPartsInTurn = Route::kPartsInTurn;
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
  ExpectRoutes("as many steps as may be", {steps, 1, 64, 64}, floats,
               {kColumns, kColumns, kRows, kPacked});
  ExpectRoutes("one step more", {steps + 1, 1, 64, 64}, floats,
               {kColumns, kPacked, kRows, kPacked});
  const int64_t two_steps = speed::kMaxBackwardStepsInPlace;
  ExpectRoutes("two steps", {two_steps, 1, 64, 64}, floats,
               {kColumns, kColumns, kRows, kRows});
}

TEST(PlanTest, KerasRowsAreReadInPlaceForwardAlone) {
  Sizes sizes{1, 4, 64, 64};
  sizes.order = WeightOrder::kKeras;
  ExpectRoutes("small", sizes, Vectors(ElementType::kFloat),
               {kRows, kRows, kPackedInTurn, kPackedInTurn});
  sizes.B = 64;
  ExpectRoutes("not small", sizes, Vectors(ElementType::kFloat),
               {kPackedInTurn, kPacked, kPackedInTurn, kPackedInTurn});
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
}

// Rows of pairs are woven into steps by each tile of rows that reads them.
TEST(PlanTest, ManyRowsPackPairs) {
  const KernelShape pairs = Vectors(ElementType::kBFloat16);
  const int64_t rows = speed::kMaxRowsInPlaceOfPairs;
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

TEST(PlanTest, LargeRIsReadInPlaceByFewRows) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  const int64_t T = bits::kMaxSmallCallRows + 1;
  // The greatest H of which R is packed.
  const auto units_of = [](int64_t max_bytes) {
    int64_t H = 64;
    while (4 * (H + 16) * (H + 16) * int64_t{sizeof(float)} <= max_bytes) {
      H += 16;
    }
    return H;
  };
  struct Case {
    int64_t batch;
    int64_t max_bytes;
  };
  for (const Case& c :
       {Case{1, bits::kMaxPackedBytesOfFewRows},
        Case{bits::kFewRows, bits::kMaxPackedBytesOfFewRows},
        Case{bits::kFewRows + 1, bits::kMaxPackedBytesOfOneMore}}) {
    SCOPED_TRACE(testing::Message() << "batch " << c.batch);
    const int64_t H = units_of(c.max_bytes);
    EXPECT_EQ(Plans({T, c.batch, 8, H}, floats).forward.recurrent_weights.route,
              kPacked);
    EXPECT_EQ(
        Plans({T, c.batch, 8, H + 16}, floats).forward.recurrent_weights.route,
        kColumns);
  }
  EXPECT_EQ(Plans({T, bits::kFewRows + 2, 8, 2000}, floats)
                .forward.recurrent_weights.route,
            kPacked);
}

TEST(PlanTest, ManyRowsMultiplyInPartsWhereTilesDo) {
  const KernelShape tiles = Tiles(ElementType::kFloat);
  const int64_t B = bits::kManyPartsBatch;
  ExpectRoutes("many rows", {bits::kMinPartsSteps, B, 256, 256}, tiles,
               {kPartsInTurn, kParts, kPartsInTurn, kParts});
  ExpectRoutes("chunks", {40, B, 256, 256}, tiles,
               {kParts, kParts, kParts, kParts});
  ExpectRoutes("one step less", {bits::kMinPartsSteps - 1, B, 256, 256}, tiles,
               {kPartsInTurn, kPacked, kPartsInTurn, kPacked});
  ExpectRoutes("narrow input",
               {bits::kMinPartsSteps, B, bits::kMinPartsWidth - 1, 256}, tiles,
               {kPackedInTurn, kParts, kPackedInTurn, kParts});
  ExpectRoutes("vectors", {bits::kMinPartsSteps, B, 256, 256},
               Vectors(ElementType::kFloat),
               {kPackedInTurn, kPacked, kPackedInTurn, kPacked});
  const Plans plans({40, B, 256, 256}, tiles);
  EXPECT_EQ(plans.backward.input_gradient.first.route, kParts);
  EXPECT_EQ(plans.backward.recurrent_gradient.route, kParts);
}

// A GRU splits two gradients: of fewer rows only forward recurs in parts.
TEST(PlanTest, FewerRowsOfGrusRecurInPartsForwardAlone) {
  Sizes sizes{bits::kMinPartsStepsOfFewRows, bits::kMinPartsBatch, 256, 256};
  sizes.mode = CellMode::kGru;
  const Plans plans(sizes, Tiles(ElementType::kFloat));
  EXPECT_EQ(plans.forward.recurrent_weights.route, kParts);
  EXPECT_EQ(plans.backward.recurrent_weights.route, kPacked);
}

// The machine decides about speed alone.
TEST(PlanTest, BitsDoNotDependOnTheMachine) {
  for (const KernelShape& kernels :
       {Vectors(ElementType::kFloat), Tiles(ElementType::kFloat),
        Tiles(ElementType::kBFloat16)}) {
    for (int64_t T : {1, 2, 9, 40}) {
      for (int64_t B : {1, 4, 32, 100}) {
        for (int64_t H : {16, 256, 700}) {
          Sizes sizes{T, B, 128, H};
          const Plans reference(sizes, kernels);
          for (int num_threads : {1, 2, 64}) {
            for (int64_t cache : {kMegabyte / 16, 64 * kMegabyte}) {
              sizes.num_threads = num_threads;
              const Plans plans(sizes, kernels, cache);
              EXPECT_EQ(
                  WithoutTurn(plans.forward.input_weights.first.route),
                  WithoutTurn(reference.forward.input_weights.first.route));
              EXPECT_EQ(WithoutTurn(plans.forward.recurrent_weights.route),
                        WithoutTurn(reference.forward.recurrent_weights.route));
              EXPECT_EQ(
                  IsInParts(plans.backward.input_weights.first.route),
                  IsInParts(reference.backward.input_weights.first.route));
              EXPECT_EQ(IsInParts(plans.backward.recurrent_weights.route),
                        IsInParts(reference.backward.recurrent_weights.route));
              ASSERT_EQ(plans.forward.chunks.size(),
                        reference.forward.chunks.size());
            }
          }
        }
      }
    }
  }
}

// ---- How steps are shared ---------------------------------------------------

// H of an LSTM whose R takes about so many bytes.
int64_t UnitsOf(int64_t bytes, int64_t value_bytes) {
  int64_t H = 16;
  while (4 * (H + 16) * (H + 16) * value_bytes <= bytes) H += 16;
  return H;
}

int NumGroups(int64_t batch, int64_t H, const KernelShape& kernels,
              int num_threads = 2) {
  Sizes sizes{4, batch, 8, H};
  sizes.num_threads = num_threads;
  return Plans(sizes, kernels).backward.chunks.front().num_rank_groups;
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
        Case{"far", floats, far, speed::kManyRowsOfGroup},
        Case{"near tiles", tiles, near, speed::kFewRowsOfGroup},
        Case{"nearly far tiles", tiles, kCoreCacheBytes,
             speed::kManyRowsOfGroup},
        Case{"far tiles", tiles, far, 2 * tiles.rows_together}}) {
    SCOPED_TRACE(c.name);
    const int64_t H = UnitsOf(c.bytes, c.kernels.operand_bytes);
    EXPECT_EQ(NumGroups(2 * c.min_rows - 1, H, c.kernels), 1);
    EXPECT_EQ(NumGroups(2 * c.min_rows, H, c.kernels), 2);
  }
}

TEST(NumRankGroupsTest, StepsAreSplitWhereWeightsOutgrowTheCaches) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  const int64_t H = UnitsOf(speed::kMaxGroupedBytes, sizeof(float));
  EXPECT_GT(NumGroups(96, H, floats), 1);
  EXPECT_EQ(NumGroups(96, H + 64, floats), 1);
  // Forward in parts as soon as they are beyond a core's own.
  Sizes sizes{4, 256, 8, UnitsOf(kCoreCacheBytes, 6) + 32};
  sizes.num_threads = 2;
  const Plans plans(sizes, Tiles(ElementType::kFloat));
  EXPECT_EQ(plans.forward.recurrent_weights.route, kParts);
  EXPECT_EQ(plans.forward.chunks.front().num_rank_groups, 1);
  EXPECT_GT(plans.backward.chunks.front().num_rank_groups, 1);
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

// ---- What a plan refuses, and says ------------------------------------------

TEST(PlanTest, KerasWeightsAreOfOneLayerInOneDirection) {
  const Sequences sequences(2, 3, nullptr);
  RnnDescriptor d;
  d.input_size = d.hidden_size = 4;
  d.num_layers = 2;
  CallDescription call = CallOf<float>(d, sequences);
  call.weight_order = WeightOrder::kKeras;
  ForwardPlan plan;
  const Status status =
      ForwardPlan::Create(call, /*has_reserve=*/true, Machine::Here(1), &plan);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find("num_layers = 2"),
            std::string::npos)
      << status.message();
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

}  // namespace
}  // namespace rnn
