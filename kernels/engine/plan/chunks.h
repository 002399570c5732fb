// Time is processed in chunks of whole steps (of about so many valid rows as
// their plan says).
#ifndef KERNELS_ENGINE_PLAN_CHUNKS_H_
#define KERNELS_ENGINE_PLAN_CHUNKS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/engine/plan/step_range.h"
#include "kernels/engine/thresholds.h"
#include "network/round.h"
#include "network/sequences.h"
#include "network/sizes.h"

namespace rnn {

// How the valid rows of a call are cut into chunks: each has as many as the
// others, as far as whole steps allow, for a few rows at the end would cost a
// product with all weights.
class ChunkCuts {
 public:
  ChunkCuts(const Sequences& sequences, int64_t rows_of_chunk)
      : sequences_(sequences),
        rows_(sequences.num_valid_rows()),
        num_chunks_(std::max<int64_t>(
            1, (rows_ + rows_of_chunk / 2) / rows_of_chunk)) {}

  // If so, all rows are one chunk, whichever end chunks are cut from.
  bool is_single() const {
    return sequences_.num_steps() <= 1 || num_chunks_ == 1;
  }

  // At least the valid rows of the largest chunk.
  int64_t max_rows() const {
    if (rows_ == 0) return 0;
    return std::min(rows_, DivideUp(rows_, num_chunks_) + sequences_.active(0));
  }

  // The chunk that begins at `begin`, respectively ends at `end`: up to the
  // step that is nearest to where it should end.
  StepRange From(int64_t begin) const {
    const int64_t limit = Limit(sequences_.offset(begin), 1);
    int64_t end = begin + 1;
    while (end < sequences_.num_steps() &&
           sequences_.offset(end) + sequences_.offset(end + 1) <= 2 * limit) {
      ++end;
    }
    return {begin, end};
  }
  StepRange Until(int64_t end) const {
    const int64_t limit = Limit(sequences_.offset(end), -1);
    int64_t begin = end - 1;
    while (begin > 0 &&
           sequences_.offset(begin) + sequences_.offset(begin - 1) >=
               2 * limit) {
      --begin;
    }
    return {begin, end};
  }

 private:
  // Where the chunk before or after `row` would end, respectively begin, if
  // steps could be cut: the row that many chunks from the nearest such place.
  int64_t Limit(int64_t row, int64_t chunks) const {
    // Rows times chunks may outgrow 64 bits.
    const Wide nearest = (Wide{row} * num_chunks_ + rows_ / 2) / rows_;
    return static_cast<int64_t>(rows_ * (nearest + chunks) / num_chunks_);
  }

  const Sequences& sequences_;
  const int64_t rows_;
  const int64_t num_chunks_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_CHUNKS_H_
