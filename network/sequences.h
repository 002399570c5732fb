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
#include <memory>
#include <vector>

#include "network/status.h"

namespace rnn {

// Which dimension comes first in the caller's padded tensors.
struct PaddedLayout {
  bool time_major = true;          // x, y: [T, B, .], else [B, T, .]
  bool states_outer_major = true;  // h, c: [L*D, B, .], else [B, L*D, .]
};

// Which steps of the caller's rows are valid, and in which order they come.
struct ValidSteps {
  // [B]: so many at the front of a row; nullptr: every row has all.
  const int32_t* lengths = nullptr;
  // Of these the ones that are not 0, at time * mask_time + row * mask_batch;
  // nullptr: all.
  const uint8_t* mask = nullptr;
  int64_t mask_time = 0;
  int64_t mask_batch = 0;
  // Whether the last one comes first.
  bool go_backwards = false;
  // What the caller calls `lengths`, and what they are lengths of.
  const char* lengths_name = "sequence_lengths";
  const char* input_name = "input";
};

// Places of a row from `begin` to before `end`.
struct StepGap {
  int64_t begin;
  int64_t end;
};

class Sequences {
 public:
  // `lengths` holds B values; nullptr means that every row has max_time steps.
  // Fails unless all are in [0, max_time]. Others may write them meanwhile:
  // each is read once. As all that makes sequences, throws std::bad_alloc or
  // std::length_error where there is no memory for them.
  static Status Create(int64_t max_time, int64_t batch, const int32_t* lengths,
                       Sequences* sequences);
  // Of rows whose valid steps may be any. Fails unless all lengths are in
  // [0, max_time]; reads each value of `steps` once. "Time" is then a valid
  // step's number in its row, in their order, and place() says where in the row
  // it is.
  static Status Create(int64_t max_time, int64_t batch, const ValidSteps& steps,
                       Sequences* sequences);

  // None yet: Create() makes them.
  Sequences() = default;

  // Those of ranks [begin, end) alone, as a part of the batch, with
  // 0 <= begin <= end <= batch(). Its ranks, steps and offsets are its own.
  // whole_batch(), shape_rows(), row_of_whole(), batch_row() and fingerprint()
  // are of the whole.
  Sequences OfRanks(int64_t begin, int64_t end) const;

  int64_t max_time() const { return max_time_; }  // T
  int64_t batch() const { return batch_; }        // B
  int64_t whole_batch() const { return whole_batch_; }
  // Steps in which at least one row is active; at most T.
  int64_t num_steps() const {
    return static_cast<int64_t>(offsets_.size()) - 1;
  }
  int64_t num_valid_rows() const { return offsets_.back(); }
  // T times B, as if no row were short, of the whole batch: what decides how a
  // row is computed may depend on it, for it does not on other rows.
  int64_t shape_rows() const { return max_time_ * whole_batch_; }

  int64_t active(int64_t step) const {
    return offsets_[step + 1] - offsets_[step];
  }
  // Number of the valid row (step, rank 0); `step` may equal num_steps().
  int64_t offset(int64_t step) const { return offsets_[step]; }
  // Number of the valid row (step, rank) among those of the whole batch.
  int64_t row_of_whole(int64_t step, int64_t rank) const {
    return (offsets_in_whole_.empty() ? offsets_ : offsets_in_whole_)[step] +
           rank;
  }

  int64_t batch_row(int64_t rank) const { return batch_rows_[rank]; }
  int64_t length(int64_t rank) const { return lengths_[rank]; }

  // Time at which `direction` processes `rank` in `step`.
  int64_t time(int direction, int64_t step, int64_t rank) const {
    return direction == 0 ? step : lengths_[rank] - 1 - step;
  }

  // Where in a padded tensor `time` of `rank` is.
  int64_t place(int64_t time, int64_t rank) const {
    if (times_are_places_) return time;
    const int64_t i = go_backwards_ ? lengths_[rank] - 1 - time : time;
    return places_ == nullptr ? i : PlacesOf(rank)[i];
  }
  // The places [begin, end) without a valid step that come after that of
  // `time`, in the order of steps, and before the next valid one.
  StepGap GapAfter(int64_t time, int64_t rank) const {
    const bool is_last = time + 1 == lengths_[rank];
    if (go_backwards_) {
      return {is_last ? 0 : place(time + 1, rank) + 1, place(time, rank)};
    }
    return {place(time, rank) + 1, is_last ? max_time_ : place(time + 1, rank)};
  }
  // Calls gap(StepGap, place) for all places of `rank` without a valid step;
  // `place` is that of the valid step before them, in the order of steps, or
  // -1.
  template <typename Gap>
  void ForEachGap(int64_t rank, Gap gap) const {
    const int64_t length = lengths_[rank];
    int64_t begin = 0;
    const auto until = [&](int64_t end) {
      if (begin < end) gap(StepGap{begin, end}, PlaceBefore({begin, end}));
      begin = end + 1;
    };
    if (places_ == nullptr) {
      begin = length;
    } else {
      for (int64_t i = 0; i < length; ++i) until(PlacesOf(rank)[i]);
    }
    until(max_time_);
  }

  // A hash of all (row, length) pairs, and of places: as good as sure to differ
  // if any of them differs.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  // From what is valid within lengths by row to lengths and places of that.
  void ReadMask(const ValidSteps& steps);
  // From lengths by row to rows and lengths by rank; and the offsets of steps.
  void RankRows();
  void NumberRows();

  const int64_t* PlacesOf(int64_t rank) const {
    return places_->data() + batch_rows_[rank] * max_time_;
  }
  int64_t PlaceBefore(const StepGap& gap) const {
    if (!go_backwards_) return gap.begin - 1;
    return gap.end < max_time_ ? gap.end : -1;
  }

  int64_t max_time_ = 0;
  int64_t batch_ = 0;
  int64_t whole_batch_ = 0;
  bool go_backwards_ = false;
  // Whether place() is the identity.
  bool times_are_places_ = true;
  // [B, T] by row, ascending, as many as it has valid steps; nullptr if they
  // are at the front of all rows.
  std::shared_ptr<const std::vector<int64_t>> places_;
  std::vector<int64_t> batch_rows_;  // [B] by rank
  std::vector<int64_t> lengths_;     // [B] by rank, descending
  std::vector<int64_t> offsets_;     // [num_steps + 1]
  // Of a part: [num_steps], row_of_whole() of rank 0.
  std::vector<int64_t> offsets_in_whole_;
  uint64_t fingerprint_ = 0;
};

}  // namespace rnn

#endif  // NETWORK_SEQUENCES_H_
