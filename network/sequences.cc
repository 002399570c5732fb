#include "network/sequences.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "network/shared_memory.h"

namespace rnn {

namespace {

Status CheckLength(int64_t row, int64_t length, int64_t max_time) {
  if (length >= 0 && length <= max_time) return Status();
  return Status::InvalidArgument(
      "sequence_lengths[" + std::to_string(row) + "] must be in [0, T] = [0, " +
      std::to_string(max_time) + "], got " + std::to_string(length) +
      (length < 0
           ? "."
           : "; a row cannot be longer than the time dimension of input."));
}

// A hash, FNV-1a.
uint64_t Fingerprint(const std::vector<int64_t>& lengths) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int64_t length : lengths) {
    hash ^= static_cast<uint64_t>(length);
    hash *= 0x100000001b3u;
  }
  return hash;
}

}  // namespace

Status Sequences::Create(int64_t max_time, int64_t batch,
                         const int32_t* lengths, Sequences* sequences) {
  Sequences& s = *sequences;
  s.max_time_ = max_time;
  s.batch_ = batch;
  s.lengths_.assign(batch, max_time);  // by row, at first
  if (lengths != nullptr) {
    for (int64_t row = 0; row < batch; ++row) {
      const int64_t length = ReadOnce(lengths + row);
      if (Status status = CheckLength(row, length, max_time); !status.ok()) {
        return status;
      }
      s.lengths_[row] = length;
    }
  }
  s.fingerprint_ = Fingerprint(s.lengths_);
  s.RankRows();
  s.NumberRows();
  return Status();
}

void Sequences::RankRows() {
  batch_rows_.resize(batch_);
  std::iota(batch_rows_.begin(), batch_rows_.end(), int64_t{0});
  const std::greater<int64_t> is_longer;
  if (std::is_sorted(lengths_.begin(), lengths_.end(), is_longer)) return;
  std::stable_sort(batch_rows_.begin(), batch_rows_.end(),
                   [&](int64_t a, int64_t b) {
                     return is_longer(lengths_[a], lengths_[b]);
                   });
  std::sort(lengths_.begin(), lengths_.end(), is_longer);
}

void Sequences::NumberRows() {
  const int64_t num_steps = batch_ == 0 ? 0 : lengths_[0];
  offsets_.assign(num_steps + 1, 0);
  int64_t num_active = batch_;
  for (int64_t step = 0; step < num_steps; ++step) {
    while (lengths_[num_active - 1] <= step) --num_active;
    offsets_[step + 1] = offsets_[step] + num_active;
  }
}

}  // namespace rnn
