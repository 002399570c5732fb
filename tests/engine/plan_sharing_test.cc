// How many threads a plan has share a call, and what of it they share:
// directions, steps, or the rows of steps.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/engine/plan/choices.h"
#include "kernels/engine/plan/chunks.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/thresholds.h"
#include "tests/engine/made_up_plans.h"
#include "tests/engine/make_sequences.h"

namespace rnn {
namespace {

// ---- Groups of a step's rows ------------------------------------------------

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

TEST(NumRankGroupsTest, StepsAreSplitWhereWeightsOutgrowTheCaches) {
  const KernelShape floats = Vectors(ElementType::kFloat);
  const int64_t H = UnitsOf(speed::kMaxGroupedBytes, sizeof(float));
  EXPECT_GT(NumGroups(96, H, floats), 1);
  EXPECT_EQ(NumGroups(96, H + 64, floats), 1);
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

// ---- Directions -------------------------------------------------------------

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

// ---- Calls ------------------------------------------------------------------

// Inference of a tanh RNN by one of two threads.
bool WorksAlone(Sizes sizes,
                const KernelShape& kernels = Vectors(ElementType::kFloat)) {
  sizes.mode = CellMode::kTanh;
  sizes.num_threads = 2;
  sizes.flops_per_far_byte = Machine().flops_per_far_byte;
  const Sequences sequences = SequencesOf(sizes);
  const CallDescription call = CallOf(sizes, kernels, sequences);
  const Machine machine = MachineOf(sizes);
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

TEST(PlanTest, Int8WeightsOfFewRowsMayComeInTime) {
  const KernelShape slow = Vectors(ElementType::kFloat);
  KernelShape fast = slow;
  fast.int8_keeps_up = true;
  // Less than the threshold, and more if it counts as four rows.
  constexpr int64_t H = 2000;
  Sizes sizes{1, 1, static_cast<int64_t>(speed::kMinTeamWork / H) - H - 1, H};
  EXPECT_FALSE(WorksAlone(sizes, fast));
  sizes.order = WeightOrder::kInt8;
  EXPECT_TRUE(WorksAlone(sizes, fast));
  EXPECT_FALSE(WorksAlone(sizes, slow));
  // So it is with steps, of 2 H^2 operations.
  const auto shared_from =
      static_cast<int64_t>(std::ceil(std::sqrt(double{speed::kMinTaskWork})));
  sizes = {20000, 1, 1, shared_from - 1};
  EXPECT_FALSE(WorksAlone(sizes, fast));
  sizes.order = WeightOrder::kInt8;
  EXPECT_TRUE(WorksAlone(sizes, fast));
  EXPECT_FALSE(WorksAlone(sizes, slow));
  ++sizes.H;
  EXPECT_FALSE(WorksAlone(sizes, fast));
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

}  // namespace
}  // namespace rnn
