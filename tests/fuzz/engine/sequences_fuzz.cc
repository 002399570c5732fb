// Lengths and masks of any batch: ranks, places, steps and chunks of time,
// against what plain loops say.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/engine/plan/chunks.h"
#include "kernels/engine/thresholds.h"
#include "network/sequences.h"
#include "tests/engine/guard_pages.h"
#include "tests/engine/make_sequences.h"
#include "tests/engine/random_values.h"
#include "tests/fuzz/engine/fuzz.h"
#include "tests/fuzz/engine/input.h"

namespace rnn {
namespace fuzz {
namespace {

std::vector<int32_t> AnyLengths(Input& input, int64_t max_time) {
  std::vector<int32_t> lengths(input.Flag() ? input.Between(0, 255)
                                            : input.Between(0, 8));
  const int kind = input.Byte() % 4;
  int32_t last = 0;
  for (int32_t& length : lengths) {
    if (kind == 0) {
      length = static_cast<int32_t>(max_time);
    } else if (kind == 1) {
      length = static_cast<int32_t>(input.Between(0, max_time));
    } else if (kind == 2) {  // many alike
      length = static_cast<int32_t>(input.Byte() % 3 * max_time / 2);
    } else {
      last = static_cast<int32_t>((last + input.Byte()) % (max_time + 1));
      length = last;
    }
  }
  return lengths;
}

void CheckRanks(const Sequences& s, const std::vector<int32_t>& lengths) {
  const auto batch = static_cast<int64_t>(lengths.size());
  FUZZ_REQUIRE(s.batch() == batch);
  std::vector<bool> is_seen(lengths.size());
  int64_t sum = 0;
  for (int64_t rank = 0; rank < batch; ++rank) {
    const int64_t row = s.batch_row(rank);
    FUZZ_REQUIRE(row >= 0 && row < batch && !is_seen[row]);
    is_seen[row] = true;
    FUZZ_REQUIRE(s.length(rank) == lengths[row]);
    sum += lengths[row];
    if (rank == 0) continue;
    FUZZ_REQUIRE(s.length(rank) <= s.length(rank - 1));
    // Those alike stay in their order.
    if (s.length(rank) == s.length(rank - 1)) {
      FUZZ_REQUIRE(row > s.batch_row(rank - 1));
    }
  }
  FUZZ_REQUIRE(s.num_valid_rows() == sum);
  FUZZ_REQUIRE(s.num_steps() == (batch == 0 ? 0 : s.length(0)));
}

void CheckSteps(const Sequences& s, const std::vector<int32_t>& lengths) {
  int64_t offset = 0;
  for (int64_t step = 0; step < s.num_steps(); ++step) {
    const int64_t active =
        std::count_if(lengths.begin(), lengths.end(),
                      [&](int32_t length) { return length > step; });
    FUZZ_REQUIRE(s.active(step) == active);
    FUZZ_REQUIRE(s.offset(step) == offset);
    offset += active;
    for (int64_t rank : {int64_t{0}, active / 2, active - 1}) {
      FUZZ_REQUIRE(s.time(0, step, rank) == step);
      const int64_t time = s.time(1, step, rank);
      FUZZ_REQUIRE(time == lengths[s.batch_row(rank)] - 1 - step);
      FUZZ_REQUIRE(time >= 0);
    }
  }
  FUZZ_REQUIRE(s.offset(s.num_steps()) == offset);
}

void CheckChunks(const Sequences& s) {
  const ChunkCuts cuts(s, bits::kChunkRows);
  const auto check = [&](StepRange chunk) {
    FUZZ_REQUIRE(chunk.begin < chunk.end);
    FUZZ_REQUIRE(s.offset(chunk.end) - s.offset(chunk.begin) <=
                 cuts.max_rows());
  };
  int64_t count = 0;
  for (StepRange chunk{0, 0}; chunk.end < s.num_steps(); ++count) {
    const int64_t end = chunk.end;
    chunk = cuts.From(end);
    FUZZ_REQUIRE(chunk.begin == end && chunk.end <= s.num_steps());
    check(chunk);
  }
  int64_t backward_count = 0;
  for (StepRange chunk{s.num_steps(), 0}; chunk.begin > 0; ++backward_count) {
    const int64_t begin = chunk.begin;
    chunk = cuts.Until(begin);
    FUZZ_REQUIRE(chunk.end == begin && chunk.begin >= 0);
    check(chunk);
  }
  if (cuts.is_single()) {
    FUZZ_REQUIRE(count <= 1 && backward_count <= 1);
  }
}

// What a mask makes of a row: places of valid steps, as they are taken.
using Places = std::vector<int64_t>;

void CheckPlaces(const Sequences& s, const std::vector<Places>& rows,
                 bool go_backwards) {
  for (int64_t rank = 0; rank < s.batch(); ++rank) {
    const Places& places = rows[s.batch_row(rank)];
    const auto length = static_cast<int64_t>(places.size());
    FUZZ_REQUIRE(s.length(rank) == length);
    // Each place has the valid one before it, as they are taken.
    std::vector<int64_t> before(s.max_time(), -2);
    int64_t last = -1, next = 0;
    for (int64_t i = 0; i < s.max_time(); ++i) {
      const int64_t place = go_backwards ? s.max_time() - 1 - i : i;
      if (next < length && places[next] == place) {
        FUZZ_REQUIRE(s.place(next, rank) == place);
        last = place;
        ++next;
      } else {
        before[place] = last;
      }
    }
    int64_t num_gaps = 0;
    s.ForEachGap(rank, [&](const StepGap& gap, int64_t place) {
      for (int64_t i = gap.begin; i < gap.end; ++i, ++num_gaps) {
        FUZZ_REQUIRE(before[i] == place);
      }
    });
    FUZZ_REQUIRE(num_gaps == s.max_time() - length);
    for (int64_t time = 0; time < length; ++time) {
      const StepGap gap = s.GapAfter(time, rank);
      FUZZ_REQUIRE(gap.begin >= 0 && gap.begin <= gap.end &&
                   gap.end <= s.max_time());
      FUZZ_REQUIRE(gap.end - gap.begin ==
                   std::count(before.begin(), before.end(), places[time]));
      for (int64_t i = gap.begin; i < gap.end; ++i) {
        FUZZ_REQUIRE(before[i] == places[time]);
      }
    }
  }
}

// The mask lies between pages that nobody may touch.
void CheckMask(Input& input, int64_t max_time,
               const std::vector<int32_t>& lengths) {
  const auto batch = static_cast<int64_t>(lengths.size());
  const bool time_major = input.Flag(), go_backwards = input.Flag();
  const int64_t valid_of_eight = input.Between(0, 8);
  RandomValues random(input.Any<uint32_t>());
  EndGuarded<uint8_t> mask(max_time * batch);
  ValidSteps steps;
  steps.lengths = lengths.data();
  steps.mask = mask.data();
  steps.mask_time = time_major ? batch : 1;
  steps.mask_batch = time_major ? 1 : max_time;
  steps.go_backwards = go_backwards;
  std::vector<Places> rows(batch);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < max_time; ++t) {
      const bool is_valid = random.Integer(0, 7) < valid_of_eight;
      // Any number but 0 is true.
      mask[t * steps.mask_time + b * steps.mask_batch] =
          is_valid ? static_cast<uint8_t>(random.Integer(1, 255)) : 0;
      if (is_valid && t < lengths[b]) rows[b].push_back(t);
    }
    if (go_backwards) std::reverse(rows[b].begin(), rows[b].end());
  }
  mask.MakeReadOnly();
  const Sequences s = MakeSequences(max_time, batch, steps);
  CheckPlaces(s, rows, go_backwards);
  std::vector<int32_t> counts;
  bool are_at_front = true;
  for (const Places& places : rows) {
    counts.push_back(static_cast<int32_t>(places.size()));
    for (int64_t place : places) are_at_front &= place < counts.back();
  }
  CheckRanks(s, counts);
  CheckSteps(s, counts);
  CheckChunks(s);
  FUZZ_REQUIRE(
      (s.fingerprint() == MakeSequences(max_time, counts).fingerprint()) ==
      (are_at_front && !go_backwards));
}

void Run(Input input) {
  const int64_t max_time = input.Flag() ? input.Between(0, 2000) : input.Byte();
  const std::vector<int32_t> lengths = AnyLengths(input, max_time);
  const auto batch = static_cast<int64_t>(lengths.size());
  const Sequences s = MakeSequences(max_time, lengths);
  FUZZ_REQUIRE(s.max_time() == max_time);
  FUZZ_REQUIRE(s.shape_rows() == max_time * batch);
  CheckRanks(s, lengths);
  CheckSteps(s, lengths);
  CheckChunks(s);
  if (batch == 0) return;
  // Another length is another batch, and no lengths are full ones.
  std::vector<int32_t> others = lengths;
  int32_t& other = others[input.Byte() % others.size()];
  const int32_t before = other;
  other = static_cast<int32_t>(input.Between(0, max_time));
  const Sequences t = MakeSequences(max_time, others);
  FUZZ_REQUIRE((t.fingerprint() == s.fingerprint()) == (other == before));
  const std::vector<int32_t> full(lengths.size(),
                                  static_cast<int32_t>(max_time));
  FUZZ_REQUIRE(MakeSequences(max_time, batch, nullptr).fingerprint() ==
               MakeSequences(max_time, full).fingerprint());
  // A length that is out of range is refused.
  other =
      static_cast<int32_t>(input.Between(std::numeric_limits<int32_t>::min(),
                                         std::numeric_limits<int32_t>::max()));
  Sequences any;
  FUZZ_REQUIRE(Sequences::Create(max_time, batch, others.data(), &any).ok() ==
               (other >= 0 && other <= max_time));
  if (max_time * batch <= 4096) CheckMask(input, max_time, lengths);
}

}  // namespace
}  // namespace fuzz
}  // namespace rnn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rnn::fuzz::Run(rnn::fuzz::Input(data, size));
  return 0;
}
