// Lengths of any batch: ranks, steps and chunks of time, against what plain
// loops say.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/engine/plan/chunks.h"
#include "network/sequences.h"
#include "tests/engine/make_sequences.h"
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
  const ChunkCuts cuts(s);
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
}

}  // namespace
}  // namespace fuzz
}  // namespace rnn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rnn::fuzz::Run(rnn::fuzz::Input(data, size));
  return 0;
}
