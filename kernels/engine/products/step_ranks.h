// The rows of a step that are worked on together.
#ifndef KERNELS_ENGINE_PRODUCTS_STEP_RANKS_H_
#define KERNELS_ENGINE_PRODUCTS_STEP_RANKS_H_

#include <cstdint>

#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"

namespace rnn {

// Ranks [begin, end) of a step.
struct StepRanks {
  int64_t step = 0;
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
  // The ranks of a share of the step's panels.
  StepRanks Of(const PanelRows& share) const {
    StepRanks ranks;
    ranks.step = step;
    ranks.begin = share.row_begin;
    ranks.end = share.row_end;
    return ranks;
  }
};

// Steps use the same panels, so every other one begins with those that the one
// before has left in the cache.
inline Order PanelOrder(int64_t step) {
  return step % 2 == 0 ? Order::kAscending : Order::kDescending;
}

// All `count` panels of a matrix for these ranks; `work` in floating-point
// operations.
inline AllPanels PanelsOf(const StepRanks& ranks, int64_t count, int64_t work) {
  AllPanels panels;
  panels.count = count;
  panels.order = PanelOrder(ranks.step);
  panels.row_begin = ranks.begin;
  panels.row_end = ranks.end;
  panels.work = work;
  return panels;
}

}  // namespace rnn

#endif  // KERNELS_ENGINE_PRODUCTS_STEP_RANKS_H_
