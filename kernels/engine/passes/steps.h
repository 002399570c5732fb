// Running the steps of a chunk, each after the one before.
#ifndef KERNELS_ENGINE_PASSES_STEPS_H_
#define KERNELS_ENGINE_PASSES_STEPS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/engine/plan/plan.h"
#include "kernels/engine/plan/rank_shares.h"
#include "kernels/engine/products/step_ranks.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/lockstep.h"
#include "network/sequences.h"

namespace rnn {

enum class StepOrder { kForward, kBackward };

// Calls run_step(executor, StepRanks) for all steps of the chunk in this order,
// on disjoint ranges of ranks that cover the active ones.
template <typename RunStep>
void RunSteps(const Sequences& sequences, const ChunkPlan& chunk,
              StepOrder order, Executor& executor, RunStep run_step) {
  const auto run = [&](Executor& step_executor, int64_t i, int64_t begin,
                       int64_t end) {
    StepRanks ranks;
    ranks.step = order == StepOrder::kForward ? chunk.steps.begin + i
                                              : chunk.steps.end - 1 - i;
    ranks.begin = begin;
    ranks.end = std::min(end, sequences.active(ranks.step));
    if (ranks.count() > 0) run_step(step_executor, ranks);
  };
  const int64_t num_steps = chunk.steps.count();
  const auto run_all = [&](Executor& step_executor, int64_t begin,
                           int64_t end) {
    for (int64_t i = 0; i < num_steps; ++i) run(step_executor, i, begin, end);
  };
  const int64_t num_ranks = sequences.active(chunk.steps.begin);
  if (chunk.in_lockstep) {
    RunInLockstep(executor, chunk.num_step_threads, num_steps,
                  [&](Executor& step_executor, int64_t i) {
                    run(step_executor, i, 0, num_ranks);
                  });
    return;
  }
  if (chunk.num_rank_groups == 1) {
    SerialExecutor serial;
    Executor& step_executor = chunk.shares_steps() ? executor : serial;
    run_all(step_executor, 0, num_ranks);
    return;
  }
  executor.Run(chunk.num_rank_groups, Order::kAscending, [&](int group) {
    SerialExecutor serial;
    RankShares shares(sequences, chunk.steps, chunk.num_rank_groups);
    const int64_t begin = shares.FirstRank(group);
    run_all(serial, begin, shares.FirstRank(group + 1));
  });
}

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_STEPS_H_
