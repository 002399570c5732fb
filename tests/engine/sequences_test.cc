#include "network/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "kernels/engine/plan/chunks.h"
#include "tests/engine/make_sequences.h"
#include "tests/engine/random_values.h"

namespace rnn {
namespace {

TEST(SequencesTest, RanksRowsByLengthLongestFirst) {
  const Sequences s = MakeSequences(9, {2, 0, 5, 2, 3});
  EXPECT_EQ(s.max_time(), 9);
  EXPECT_EQ(s.batch(), 5);
  EXPECT_EQ(s.num_steps(), 5);
  EXPECT_EQ(s.num_valid_rows(), 12);
  const int64_t batch_rows[] = {2, 4, 0, 3, 1};  // equal lengths in row order
  const int64_t lengths[] = {5, 3, 2, 2, 0};
  for (int64_t rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(s.batch_row(rank), batch_rows[rank]) << rank;
    EXPECT_EQ(s.length(rank), lengths[rank]) << rank;
  }
  const int64_t active[] = {4, 4, 2, 1, 1};
  const int64_t offsets[] = {0, 4, 8, 10, 11, 12};
  for (int64_t step = 0; step < 5; ++step) {
    EXPECT_EQ(s.active(step), active[step]) << step;
    EXPECT_EQ(s.offset(step), offsets[step]) << step;
  }
  EXPECT_EQ(s.offset(5), offsets[5]);
}

TEST(SequencesTest, BackwardDirectionBeginsAtARowsOwnEnd) {
  const Sequences s = MakeSequences(9, {2, 5});
  EXPECT_EQ(s.time(0, 1, 0), 1);
  EXPECT_EQ(s.time(1, 0, 0), 4);
  EXPECT_EQ(s.time(1, 4, 0), 0);
  EXPECT_EQ(s.time(1, 0, 1), 1);
  EXPECT_EQ(s.time(1, 1, 1), 0);
}

// A part knows the rows it has, and what of the whole decides about bits and
// places.
TEST(SequencesTest, APartHasSomeRanks) {
  const Sequences whole = MakeSequences(9, {2, 0, 5, 2, 3});  // 5 3 2 2 0
  const Sequences part = whole.OfRanks(1, 4);
  EXPECT_EQ(part.max_time(), 9);
  EXPECT_EQ(part.batch(), 3);
  EXPECT_EQ(part.num_steps(), 3);
  EXPECT_EQ(part.num_valid_rows(), 7);
  EXPECT_EQ(part.shape_rows(), 9 * 5);
  for (int64_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(part.batch_row(rank), whole.batch_row(1 + rank)) << rank;
    EXPECT_EQ(part.length(rank), whole.length(1 + rank)) << rank;
    for (int64_t step = 0; step < part.length(rank); ++step) {
      EXPECT_EQ(part.row_of_whole(step, rank), whole.offset(step) + 1 + rank);
      EXPECT_EQ(part.row_of_whole(step, rank),
                whole.row_of_whole(step, 1 + rank));
    }
  }
  const int64_t active[] = {3, 3, 1};
  for (int64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(part.active(step), active[step]) << step;
  }
  const Sequences nothing = whole.OfRanks(4, 5);
  EXPECT_EQ(nothing.num_steps(), 0);
  EXPECT_EQ(nothing.num_valid_rows(), 0);
}

// Rows of a mask as text, 1 where a step is valid.
Sequences WithMask(const std::vector<std::string>& rows, bool go_backwards,
                   const int32_t* lengths = nullptr) {
  const int64_t max_time = static_cast<int64_t>(rows[0].size());
  std::vector<uint8_t> mask;
  for (const std::string& row : rows) {
    for (char valid : row) mask.push_back(valid == '1');
  }
  ValidSteps steps;
  steps.lengths = lengths;
  steps.mask = mask.data();
  steps.mask_time = 1;
  steps.mask_batch = max_time;
  steps.go_backwards = go_backwards;
  return MakeSequences(max_time, static_cast<int64_t>(rows.size()), steps);
}

// The places of a rank's steps, in their order.
std::vector<int64_t> Places(const Sequences& s, int64_t rank) {
  std::vector<int64_t> places;
  for (int64_t step = 0; step < s.length(rank); ++step) {
    places.push_back(s.place(s.time(/*direction=*/0, step, rank), rank));
  }
  return places;
}

// "begin-end<before" for each gap of a rank.
std::string Gaps(const Sequences& s, int64_t rank) {
  std::string text;
  s.ForEachGap(rank, [&](const StepGap& gap, int64_t before) {
    text += std::to_string(gap.begin) + "-" + std::to_string(gap.end) + "<" +
            std::to_string(before) + " ";
  });
  return text;
}

using Steps = std::vector<int64_t>;

TEST(SequencesTest, ValidStepsMayLieAnywhere) {
  const Sequences s = WithMask({"01001", "11110", "00000"}, false);
  EXPECT_EQ(s.num_valid_rows(), 6);
  EXPECT_EQ(s.batch_row(0), 1);
  EXPECT_EQ(Places(s, 0), (Steps{0, 1, 2, 3}));
  EXPECT_EQ(Places(s, 1), (Steps{1, 4}));
  EXPECT_EQ(Places(s, 2), Steps());
  EXPECT_EQ(Gaps(s, 0), "4-5<3 ");
  EXPECT_EQ(Gaps(s, 1), "0-1<-1 2-4<1 ");
  EXPECT_EQ(Gaps(s, 2), "0-5<-1 ");
  EXPECT_EQ(s.GapAfter(0, 1).begin, 2);
  EXPECT_EQ(s.GapAfter(0, 1).end, 4);
  EXPECT_EQ(s.GapAfter(1, 1).begin, 5);
  EXPECT_EQ(s.GapAfter(1, 1).end, 5);
}

TEST(SequencesTest, TheLastValidStepMayComeFirst) {
  const Sequences s = WithMask({"01001", "11110"}, true);
  EXPECT_EQ(Places(s, 0), (Steps{3, 2, 1, 0}));
  EXPECT_EQ(Places(s, 1), (Steps{4, 1}));
  EXPECT_EQ(Gaps(s, 0), "4-5<-1 ");
  EXPECT_EQ(Gaps(s, 1), "0-1<1 2-4<4 ");
  EXPECT_EQ(s.GapAfter(0, 1).begin, 2);
  EXPECT_EQ(s.GapAfter(0, 1).end, 4);
  EXPECT_EQ(s.GapAfter(1, 1).begin, 0);
  EXPECT_EQ(s.GapAfter(1, 1).end, 1);
}

TEST(SequencesTest, AMaskActsWithinLengths) {
  const int32_t lengths[] = {2, 4};
  const Sequences s = WithMask({"11111", "01101"}, false, lengths);
  EXPECT_EQ(Places(s, 0), (Steps{0, 1}));
  EXPECT_EQ(Places(s, 1), (Steps{1, 2}));
}

TEST(SequencesTest, PaddingIsWhatLengthsSay) {
  const Sequences padding = WithMask({"11100", "10000"}, false);
  EXPECT_EQ(padding.fingerprint(), MakeSequences(5, {3, 1}).fingerprint());
  EXPECT_EQ(Places(padding, 1), Steps{0});
  EXPECT_EQ(Gaps(padding, 1), "1-5<0 ");
}

TEST(SequencesTest, FingerprintsTellPlacesApart) {
  const std::set<uint64_t> fingerprints = {
      WithMask({"0110", "1111"}, false).fingerprint(),
      WithMask({"1010", "1111"}, false).fingerprint(),
      WithMask({"1100", "1111"}, false).fingerprint(),
      WithMask({"0110", "1111"}, true).fingerprint(),
      WithMask({"1100", "1111"}, true).fingerprint()};
  EXPECT_EQ(fingerprints.size(), 5u);
}

TEST(SequencesTest, NoLengthsMeansAllSteps) {
  const Sequences implied = MakeSequences(4, 3, nullptr);
  const Sequences stated = MakeSequences(4, {4, 4, 4});
  EXPECT_EQ(implied.num_valid_rows(), 12);
  EXPECT_EQ(implied.num_steps(), 4);
  EXPECT_EQ(implied.fingerprint(), stated.fingerprint());
  for (int64_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(implied.batch_row(rank), rank);
  }
}

TEST(SequencesTest, NoRowsAndEmptyRows) {
  const Sequences no_rows = MakeSequences(4, {});
  EXPECT_EQ(no_rows.num_steps(), 0);
  EXPECT_EQ(no_rows.num_valid_rows(), 0);
  const Sequences empty_rows = MakeSequences(4, {0, 0});
  EXPECT_EQ(empty_rows.num_steps(), 0);
  EXPECT_EQ(empty_rows.num_valid_rows(), 0);
  EXPECT_EQ(empty_rows.batch_row(1), 1);
}

TEST(SequencesTest, RefusesLengthsThatAreNoneOfTheBatch) {
  const auto message = [](const std::vector<int32_t>& lengths) {
    Sequences sequences;
    const Status status = Sequences::Create(
        4, static_cast<int64_t>(lengths.size()), lengths.data(), &sequences);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(message({4, 0, 5}),
            "sequence_lengths[2] must be in [0, T] = [0, 4], got 5; a row "
            "cannot be longer than the time dimension of input.");
  EXPECT_EQ(message({4, -1, 5}),
            "sequence_lengths[1] must be in [0, T] = [0, 4], got -1.");
  EXPECT_EQ(message({std::numeric_limits<int32_t>::min()}),
            "sequence_lengths[0] must be in [0, T] = [0, 4], got "
            "-2147483648.");
}

TEST(SequencesTest, EveryValidRowIsNumberedOnce) {
  RandomValues random(8);
  for (int draw = 0; draw < 200; ++draw) {
    const int64_t T = random.Integer(1, 12);
    std::vector<int32_t> lengths(random.Integer(1, 12));
    int64_t sum = 0;
    for (int32_t& length : lengths) {
      length = static_cast<int32_t>(random.Integer(0, T));
      sum += length;
    }
    const Sequences s = MakeSequences(T, lengths);
    ASSERT_EQ(s.num_valid_rows(), sum);
    for (int direction : {0, 1}) {
      std::set<std::vector<int64_t>> cells;
      for (int64_t step = 0; step < s.num_steps(); ++step) {
        for (int64_t rank = 0; rank < s.active(step); ++rank) {
          const int64_t time = s.time(direction, step, rank);
          ASSERT_GE(time, 0);
          ASSERT_LT(time, lengths[s.batch_row(rank)]);
          cells.insert({time, s.batch_row(rank)});
        }
      }
      ASSERT_EQ(static_cast<int64_t>(cells.size()), sum);
    }
  }
}

TEST(SequencesTest, FingerprintTellsLengthsApart) {
  std::set<uint64_t> fingerprints;
  int64_t count = 0;
  for (int32_t a = 0; a <= 6; ++a) {
    for (int32_t b = 0; b <= 6; ++b) {
      for (int32_t c = 0; c <= 6; ++c) {
        fingerprints.insert(MakeSequences(6, {a, b, c}).fingerprint());
        ++count;
      }
    }
  }
  EXPECT_EQ(static_cast<int64_t>(fingerprints.size()), count);
  // The same multiset in another order is another batch.
  EXPECT_NE(MakeSequences(6, {1, 2}).fingerprint(),
            MakeSequences(6, {2, 1}).fingerprint());
}

// To within a step at either end, and forward as backward.
TEST(ChunksTest, HaveAboutAsManyRows) {
  for (int64_t batch : {1, 16, 48, 64, 100, 128, 256, 400, 1000}) {
    for (int64_t steps : {1, 2, 25, 26, 50, 120}) {
      SCOPED_TRACE(testing::Message() << "T " << steps << ", B " << batch);
      const Sequences s = MakeSequences(steps, batch, nullptr);
      const int64_t rows = batch * steps;
      const int64_t num_chunks = std::max<int64_t>(
          1, (rows + bits::kChunkRows / 2) / bits::kChunkRows);
      const ChunkCuts cuts(s, bits::kChunkRows);
      for (int64_t begin = 0; begin < steps;) {
        const StepRange chunk = cuts.From(begin);
        const int64_t chunk_rows = s.offset(chunk.end) - s.offset(begin);
        EXPECT_LE(std::abs(chunk_rows - rows / num_chunks), batch);
        const StepRange same = cuts.Until(chunk.end);
        EXPECT_LE(std::abs(same.begin - begin), 1);
        begin = chunk.end;
      }
    }
  }
}

// From the front and from the back, and none is larger than what memory is
// planned for.
TEST(ChunksTest, CoverAllStepsWithinThePlan) {
  RandomValues random(9);
  for (int draw = 0; draw < 200; ++draw) {
    const int64_t T = random.Integer(1, 300);
    std::vector<int32_t> lengths(random.Integer(1, 20) *
                                 (draw % 10 == 0 ? 40 : 1));
    for (int32_t& length : lengths) {
      length = static_cast<int32_t>(random.Integer(0, T));
    }
    const Sequences s = MakeSequences(T, lengths);
    const ChunkCuts cuts(s, bits::kChunkRows);
    const auto expect_fits = [&](StepRange chunk) {
      ASSERT_LT(chunk.begin, chunk.end);
      ASSERT_LE(s.offset(chunk.end) - s.offset(chunk.begin), cuts.max_rows());
    };
    StepRange chunk{0, 0};
    while (chunk.end < s.num_steps()) {
      const int64_t end = chunk.end;
      chunk = cuts.From(end);
      ASSERT_EQ(chunk.begin, end);
      expect_fits(chunk);
    }
    EXPECT_EQ(chunk.end, s.num_steps());
    chunk = {s.num_steps(), s.num_steps()};
    while (chunk.begin > 0) {
      const int64_t begin = chunk.begin;
      chunk = cuts.Until(begin);
      ASSERT_EQ(chunk.end, begin);
      expect_fits(chunk);
    }
    if (cuts.is_single() && s.num_steps() > 0) {
      EXPECT_EQ(cuts.From(0).end, s.num_steps());
      EXPECT_EQ(cuts.Until(s.num_steps()).begin, 0);
    }
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace rnn
