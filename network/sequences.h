// A batch of sequences of unequal length, seen without its padding.
//
// Rows are ranked by length, longest first, so that at each step the active
// rows are ranks 0 .. active(step)-1. A (step, rank) pair with step < length is
// a "valid row"; valid rows are numbered densely, step by step. Every buffer
// the engine keeps has one entry per valid row: work and memory follow the sum
// of the lengths.
#ifndef NETWORK_SEQUENCES_H_
#define NETWORK_SEQUENCES_H_

#include <cstdint>
#include <vector>

#include "network/status.h"

namespace rnn {

// Which dimension comes first in the caller's padded tensors.
struct PaddedLayout {
  bool time_major = true;          // x, y: [T, B, .], else [B, T, .]
  bool states_outer_major = true;  // h, c: [L*D, B, .], else [B, L*D, .]
};

class Sequences {
 public:
  // `lengths` holds B values; nullptr means that every row has max_time steps.
  // Fails unless all are in [0, max_time]. Others may write them meanwhile:
  // each is read once.
  static Status Create(int64_t max_time, int64_t batch, const int32_t* lengths,
                       Sequences* sequences);

  // None yet: Create() makes them.
  Sequences() = default;

  int64_t max_time() const { return max_time_; }  // T
  int64_t batch() const { return batch_; }        // B
  // Steps in which at least one row is active; at most T.
  int64_t num_steps() const {
    return static_cast<int64_t>(offsets_.size()) - 1;
  }
  int64_t num_valid_rows() const { return offsets_.back(); }
  // The same as if no row were short: what decides how a row is computed may
  // depend on it, for it does not on other rows.
  int64_t shape_rows() const { return max_time_ * batch_; }

  int64_t active(int64_t step) const {
    return offsets_[step + 1] - offsets_[step];
  }
  // Number of the valid row (step, rank 0); `step` may equal num_steps().
  int64_t offset(int64_t step) const { return offsets_[step]; }

  int64_t batch_row(int64_t rank) const { return batch_rows_[rank]; }
  int64_t length(int64_t rank) const { return lengths_[rank]; }

  // Time at which `direction` processes `rank` in `step`.
  int64_t time(int direction, int64_t step, int64_t rank) const {
    return direction == 0 ? step : lengths_[rank] - 1 - step;
  }

  // A hash of all (row, length) pairs; differs if any length differs.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  // From lengths by row to rows and lengths by rank; and the offsets of steps.
  void RankRows();
  void NumberRows();

  int64_t max_time_ = 0;
  int64_t batch_ = 0;
  std::vector<int64_t> batch_rows_;  // [B] by rank
  std::vector<int64_t> lengths_;     // [B] by rank, descending
  std::vector<int64_t> offsets_;     // [num_steps + 1]
  uint64_t fingerprint_ = 0;
};

}  // namespace rnn

#endif  // NETWORK_SEQUENCES_H_
