// Running the steps of a chunk, each after the one before.
#ifndef KERNELS_ENGINE_PLAN_RECURRENCE_H_
#define KERNELS_ENGINE_PLAN_RECURRENCE_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/cache.h"
#include "kernels/engine/plan/chunks.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/weights/parts.h"
#include "network/descriptor.h"
#include "network/sequences.h"

namespace rnn {

// Floating-point operations of the products of a forward pass.
inline double ForwardWork(const RnnDescriptor& d, const Sequences& sequences) {
  int64_t work = 0;  // of a row in one direction
  for (int64_t layer = 0; layer < d.num_layers; ++layer) {
    const int64_t inputs =
        d.has_input_weights(layer) ? d.layer_input_size(layer) : 0;
    work += 2 * d.gates_size() * (inputs + d.output_size());
    if (d.has_projection()) work += 2 * d.hidden_size * d.output_size();
  }
  return static_cast<double>(work * d.num_directions) *
         static_cast<double>(sequences.num_valid_rows());
}

// Some 50 microseconds: what is less is done before helpers have come.
inline constexpr double kMinTeamWork = 4e6;

// Bytes of R that every step reads.
template <typename Operand>
int64_t RecurrentBytes(const RnnDescriptor& d, bool in_parts) {
  const int64_t bytes =
      in_parts ? kNumParts * sizeof(BFloat16) : sizeof(Operand);
  return d.gates_size() * d.output_size() * bytes;
}

// Packing moves all weights about as often as a few steps or rows read them. It
// changes the order of additions, so that only the shape decides, not lengths.
inline bool PacksInputWeights(const Sequences& sequences) {
  constexpr int64_t kMaxRows = 32;
  return sequences.shape_rows() > kMaxRows;
}

// Directions do not depend on each other: each can be a thread's, without a
// barrier at each step. That pays where a step is too short to be split, as far
// as a thread's own cache holds the weights; where there are rows enough, these
// are split.
template <typename Operand>
bool MayRunDirectionsTogether(const RnnDescriptor& d,
                              const Sequences& sequences) {
  constexpr int64_t kMaxWeightsBytes = int64_t{1} << 20;
  constexpr int64_t kMaxBatch = 16;
  return d.num_directions == 2 && sequences.batch() <= kMaxBatch &&
         RecurrentBytes<Operand>(d, /*in_parts=*/false) <= kMaxWeightsBytes;
}

// More threads than directions are of use where steps can be split.
inline bool RunsDirectionsTogether(const RnnDescriptor& d,
                                   const Sequences& sequences,
                                   int num_threads) {
  const int64_t step_work =
      2 * sequences.batch() * d.gates_size() * d.output_size();
  return num_threads >= 2 &&
         (num_threads == 2 || step_work < num_threads * kMinTaskWork);
}

// Steps use the same panels, so every other one begins with those that the one
// before has left in the cache.
inline Order PanelOrder(int64_t step) {
  return step % 2 == 0 ? Order::kAscending : Order::kDescending;
}

enum class Pass { kForward, kBackward };

// Whether steps multiply floats by their parts. These take half as much memory
// again as floats: the more of R comes from beyond a core's cache, the more
// rows have to share it, most of all backward, where a GRU also splits two
// gradients. A few steps do not pay for splitting R.
template <typename Operand>
bool RecursInParts(const RnnDescriptor& d, const Sequences& sequences,
                   Pass pass) {
  constexpr int64_t kMinWeights = int64_t{1} << 16;
  constexpr int64_t kMinBatch = 2 * kPartsRows;
  constexpr int64_t kManyRows = 4 * kPartsRows;
  const int64_t weights = d.gates_size() * d.output_size();
  int64_t max_weights = std::numeric_limits<int64_t>::max();
  int64_t min_steps = 3;
  if (sequences.batch() < kManyRows) {
    if (pass == Pass::kForward) {
      max_weights = int64_t{1} << 22;
    } else {
      max_weights = d.mode == CellMode::kGru ? 0 : int64_t{1} << 18;
    }
    min_steps = weights <= int64_t{1} << 20 ? 6 : 16;
  }
  return sequences.batch() >= kMinBatch && sequences.max_time() >= min_steps &&
         weights >= kMinWeights && weights <= max_weights &&
         MultipliesInParts<Operand>(sequences.shape_rows(), d.gates_size(),
                                    d.output_size());
}

struct Recurrence {
  template <typename Operand>
  static Recurrence Of(const RnnDescriptor& d, const Sequences& sequences,
                       StepRange chunk, Pass pass) {
    const bool in_parts = RecursInParts<Operand>(d, sequences, pass);
    return {&sequences,
            chunk,
            pass,
            2 * d.gates_size() * d.output_size(),
            RecurrentBytes<Operand>(d, in_parts),
            in_parts ? kPartsRowsTogether : Kernels<Operand>().rows_together,
            in_parts};
  }

  const Sequences* sequences;
  StepRange chunk;
  Pass pass;
  int64_t work_per_row;   // floating-point operations
  int64_t weights_bytes;  // that every step reads
  int64_t rows_together;  // that its products multiply at a time
  bool in_parts;
};

// Ranks are independent of each other within a chunk, so a batch that is large
// enough is split once and its parts never wait for each other. Otherwise, or
// if weights outgrow the caches and each part would fetch all of them at each
// step, the steps themselves are split.
inline int NumRankGroups(const Recurrence& r, const Executor& executor) {
  constexpr int64_t kMaxWeightsBytes = int64_t{14} << 20;
  // A part reads all weights at each step, for at least so many rows; for more,
  // if weights come from beyond the core's own cache or are in parts.
  constexpr int64_t kFewRanks = 8;
  constexpr int64_t kManyRanks = 16;
  const bool is_far = r.weights_bytes > CoreCacheBytes();
  int64_t min_ranks = is_far || r.in_parts ? kManyRanks : kFewRanks;
  int64_t good_ranks = r.in_parts ? r.rows_together : kManyRanks;
  if (!r.in_parts && r.rows_together > kManyRanks) {
    // Tile registers, which multiply faster than weights come.
    good_ranks = 2 * r.rows_together;
    if (is_far) {
      min_ranks = good_ranks;
    } else if (r.weights_bytes > CoreCacheBytes() / 4 * 3) {
      min_ranks = kManyRanks;
    }
  }
  const int64_t rows =
      r.sequences->offset(r.chunk.end) - r.sequences->offset(r.chunk.begin);
  const int64_t ranks = r.sequences->active(r.chunk.begin);
  const int64_t num_tasks = NumTasks(executor, rows * r.work_per_row);
  const int64_t threads = std::min<int64_t>(num_tasks, executor.num_threads());
  if (r.weights_bytes > kMaxWeightsBytes || ranks < threads * min_ranks) {
    return 1;
  }
  // Forward, where panels are many, in parts: their weights come from far more
  // slowly than they are multiplied.
  if (r.in_parts && r.pass == Pass::kForward && is_far) return 1;
  // As many for each thread.
  const int64_t groups_per_thread = std::clamp<int64_t>(
      ranks / (threads * good_ranks), 1, num_tasks / threads);
  return static_cast<int>(threads * groups_per_thread);
}

// First rank of group `group` of `num_groups`: each gets as many valid rows.
inline int64_t FirstRankOfGroup(const Recurrence& r, int64_t group,
                                int64_t num_groups) {
  const int64_t ranks = r.sequences->active(r.chunk.begin);
  const int64_t rows =
      r.sequences->offset(r.chunk.end) - r.sequences->offset(r.chunk.begin);
  int64_t rank = 0;
  for (int64_t before = 0; rank < ranks && before * num_groups < rows * group;
       ++rank) {
    before += std::min(r.sequences->length(rank), r.chunk.end) - r.chunk.begin;
  }
  return rank;
}

// Ranks [begin, end) of a step.
struct StepRanks {
  int64_t step;
  int64_t begin;
  int64_t end;

  int64_t count() const { return end - begin; }
};

// Calls run_step(executor, StepRanks) for all steps of the chunk in the order
// of the pass, on disjoint ranges of ranks that cover the active ones.
template <typename RunStep>
void RunSteps(const Recurrence& r, Executor& executor, RunStep run_step) {
  const auto run = [&](Executor& step_executor, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < r.chunk.end - r.chunk.begin; ++i) {
      const int64_t step =
          r.pass == Pass::kForward ? r.chunk.begin + i : r.chunk.end - 1 - i;
      const StepRanks ranks{step, begin,
                            std::min(end, r.sequences->active(step))};
      if (ranks.count() > 0) run_step(step_executor, ranks);
    }
  };
  const int num_groups = NumRankGroups(r, executor);
  if (num_groups == 1) {
    run(executor, 0, r.sequences->active(r.chunk.begin));
    return;
  }
  executor.Run(num_groups, Order::kAscending, [&](int group) {
    SerialExecutor serial;
    run(serial, FirstRankOfGroup(r, group, num_groups),
        FirstRankOfGroup(r, group + 1, num_groups));
  });
}

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_RECURRENCE_H_
