#include "network/sequences.h"

#include <algorithm>
#include <numeric>

namespace rnn {

Sequences::Sequences(int64_t max_time, int64_t batch, const int32_t* lengths)
    : max_time_(max_time),
      batch_(batch),
      batch_rows_(batch),
      lengths_(batch),
      fingerprint_(0xcbf29ce484222325u) {
  const auto length_of = [&](int64_t row) {
    return lengths == nullptr ? max_time : int64_t{lengths[row]};
  };
  for (int64_t row = 0; row < batch; ++row) {  // FNV-1a
    fingerprint_ ^= static_cast<uint64_t>(length_of(row));
    fingerprint_ *= 0x100000001b3u;
  }
  std::iota(batch_rows_.begin(), batch_rows_.end(), int64_t{0});
  std::stable_sort(
      batch_rows_.begin(), batch_rows_.end(),
      [&](int64_t a, int64_t b) { return length_of(a) > length_of(b); });
  for (int64_t rank = 0; rank < batch; ++rank) {
    lengths_[rank] = length_of(batch_rows_[rank]);
  }
  const int64_t num_steps = batch == 0 ? 0 : lengths_[0];
  offsets_.resize(num_steps + 1);
  int64_t num_active = batch;
  for (int64_t step = 0; step < num_steps; ++step) {
    while (lengths_[num_active - 1] <= step) --num_active;
    offsets_[step + 1] = offsets_[step] + num_active;
  }
}

}  // namespace rnn
