// When a plan divides the batch among threads, and how.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/engine/plan/plan.h"
#include "kernels/engine/thresholds.h"
#include "tests/engine/made_up_plans.h"

namespace rnn {
namespace {

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

}  // namespace
}  // namespace rnn
