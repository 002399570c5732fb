// Ranks divided into shares of about as many valid rows.
#ifndef KERNELS_ENGINE_PLAN_RANK_SHARES_H_
#define KERNELS_ENGINE_PLAN_RANK_SHARES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/engine/plan/step_range.h"
#include "network/sequences.h"

namespace rnn {

// Goes through the ranks that are active in `steps`, from share to share.
class RankShares {
 public:
  RankShares(const Sequences& sequences, const StepRange& steps,
             int64_t num_shares)
      : sequences_(sequences),
        steps_(steps),
        num_shares_(num_shares),
        num_ranks_(steps.count() == 0 ? 0 : sequences.active(steps.begin)),
        num_rows_(sequences.offset(steps.end) - sequences.offset(steps.begin)) {
  }

  // The first rank of `share`, none of which comes before one asked for
  // earlier; of share num_shares the number of ranks.
  int64_t FirstRank(int64_t share) {
    while (rank_ < num_ranks_ &&
           rows_before_ * num_shares_ < num_rows_ * share) {
      rows_before_ +=
          std::min(sequences_.length(rank_), steps_.end) - steps_.begin;
      ++rank_;
    }
    return rank_;
  }

 private:
  const Sequences& sequences_;
  const StepRange steps_;
  const int64_t num_shares_;
  const int64_t num_ranks_;
  const int64_t num_rows_;
  int64_t rank_ = 0;
  int64_t rows_before_ = 0;
};

// The first ranks of so many parts of the batch, and the number of ranks. Rows
// without a step are the last part's.
inline std::vector<int64_t> DivideRanks(const Sequences& sequences,
                                        int64_t num_parts) {
  RankShares shares(sequences, {0, sequences.num_steps()}, num_parts);
  std::vector<int64_t> begins;
  for (int64_t i = 0; i < num_parts; ++i) {
    begins.push_back(shares.FirstRank(i));
  }
  begins.push_back(sequences.batch());
  return begins;
}

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_RANK_SHARES_H_
