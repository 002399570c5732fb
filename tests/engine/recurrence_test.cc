#include "kernels/engine/plan/recurrence.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/engine/threads_in_turn.h"

namespace rnn {
namespace {

constexpr int64_t kSteps = 20;
constexpr int64_t kVectorRows = 6;
constexpr int64_t kTileRows = 32;

// Into how many groups threads split so many rows.
int NumGroups(int64_t batch, int64_t weights_bytes, int64_t rows_together,
              bool in_parts, Pass pass, int num_threads = 2) {
  const Sequences sequences(kSteps, batch, nullptr);
  const Recurrence recurrence{&sequences,       {0, kSteps},   pass,
                              int64_t{1} << 20, weights_bytes, rows_together,
                              in_parts};
  return NumRankGroups(recurrence, ThreadsInTurn(num_threads));
}

TEST(NumRankGroupsTest, OneThreadTakesAllRowsTogether) {
  EXPECT_EQ(NumGroups(64, 1 << 16, kVectorRows, false, Pass::kForward,
                      /*num_threads=*/1),
            1);
}

TEST(NumRankGroupsTest, EachGroupHasRowsEnough) {
  const int64_t near = CoreCacheBytes() / 4, far = CoreCacheBytes() + 1;
  if (far > int64_t{14} << 20) GTEST_SKIP() << "weights so large are split";
  struct Case {
    int64_t weights_bytes, rows_together;
    bool in_parts;
    int64_t min_batch;  // of two groups
  };
  for (const Case& c :
       {Case{near, kVectorRows, false, 16}, Case{far, kVectorRows, false, 32},
        Case{near, kTileRows, false, 16},
        Case{CoreCacheBytes(), kTileRows, false, 32},
        Case{far, kTileRows, false, 128}, Case{near, kTileRows, true, 32},
        Case{far, kTileRows, true, 32}}) {
    SCOPED_TRACE(testing::Message()
                 << c.weights_bytes << " bytes, " << c.rows_together
                 << " rows together, in parts " << c.in_parts);
    const auto groups = [&](int64_t batch) {
      return NumGroups(batch, c.weights_bytes, c.rows_together, c.in_parts,
                       Pass::kBackward);
    };
    EXPECT_EQ(groups(c.min_batch - 1), 1);
    EXPECT_EQ(groups(c.min_batch), 2);
  }
}

TEST(NumRankGroupsTest, StepsAreSplitWhereWeightsOutgrowTheCaches) {
  constexpr int64_t kHuge = int64_t{1} << 30;
  EXPECT_EQ(NumGroups(512, kHuge, kVectorRows, false, Pass::kForward), 1);
  EXPECT_EQ(NumGroups(512, kHuge, kTileRows, false, Pass::kBackward), 1);
  // Forward in parts as soon as they are beyond a core's own.
  EXPECT_EQ(
      NumGroups(512, CoreCacheBytes() + 1, kTileRows, true, Pass::kForward), 1);
}

}  // namespace
}  // namespace rnn
