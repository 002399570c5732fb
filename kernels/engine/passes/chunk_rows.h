// Rows of a chunk by step and rank: the index arithmetic of both passes.
#ifndef KERNELS_ENGINE_PASSES_CHUNK_ROWS_H_
#define KERNELS_ENGINE_PASSES_CHUNK_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/engine/plan/step_range.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "network/sequences.h"

namespace rnn {

// The valid rows of a chunk, numbered step by step from 0.
//
// Tables of rows often have the step before the chunk in front: an entry for
// each rank, then one for each of the chunk's rows.
class ChunkRows {
 public:
  ChunkRows(const Sequences& sequences, const StepRange& steps)
      : sequences_(sequences), steps_(steps) {}

  const StepRange& steps() const { return steps_; }
  int64_t count() const { return RowOf(steps_.end); }
  // The row of (step, rank 0).
  int64_t RowOf(int64_t step) const {
    return sequences_.offset(step) - first();
  }

  // In a table with the step before the chunk: the entry of (step, rank 0), and
  // that of the same rank one step earlier.
  int64_t EntryOf(int64_t step) const {
    return sequences_.batch() + RowOf(step);
  }
  int64_t EntryBefore(int64_t step) const {
    return step == steps_.begin ? 0 : EntryOf(step - 1);
  }

  // Calls row(row, step, rank) for each.
  template <typename Row>
  void ForEach(Row row) const {
    ForEachOf(steps_, row);
  }
  // Calls row(row, step, rank) for each of these steps of the chunk.
  template <typename Row>
  void ForEachOf(const StepRange& steps, Row row) const {
    int64_t i = RowOf(steps.begin);
    for (int64_t step = steps.begin; step < steps.end; ++step) {
      const int64_t active = sequences_.active(step);
      for (int64_t rank = 0; rank < active; ++rank) row(i++, step, rank);
    }
  }
  // Calls range(steps) for ranges that cover the chunk, by all threads, in no
  // order.
  template <typename Range>
  void ParallelForRanges(Executor& executor, int64_t work_per_row,
                         Range range) const {
    if (steps_.count() == 0) return;
    ParallelFor(executor, steps_.count(),
                sequences_.active(steps_.begin) * work_per_row,
                [&](int64_t begin, int64_t end) {
                  range(StepRange{steps_.begin + begin, steps_.begin + end});
                });
  }
  // Calls row(row, step, rank) for each, by all threads, in no order.
  template <typename Row>
  void ParallelForEach(Executor& executor, int64_t work_per_row,
                       Row row) const {
    ParallelForRanges(executor, work_per_row,
                      [&](const StepRange& steps) { ForEachOf(steps, row); });
  }

  // How many rows are of ranks [begin, end), ...
  int64_t CountOfRanks(int64_t begin, int64_t end) const {
    int64_t count = 0;
    ForEachStepOf(begin, end,
                  [&](int64_t first, int64_t last) { count += last - first; });
    return count;
  }
  // ... and what a table of the chunk's rows has of them, in the same order.
  template <typename Row>
  void CopyOfRanks(int64_t begin, int64_t end, const Row* table,
                   Row* selected) const {
    ForEachStepOf(begin, end, [&](int64_t first, int64_t last) {
      selected = std::copy(table + first, table + last, selected);
    });
  }

 private:
  // The first one's number among the valid rows of these sequences.
  int64_t first() const { return sequences_.offset(steps_.begin); }

  // Calls rows(first, last) for the rows of ranks [begin, end) of each step
  // that has some.
  template <typename Rows>
  void ForEachStepOf(int64_t begin, int64_t end, Rows rows) const {
    for (int64_t step = steps_.begin; step < steps_.end; ++step) {
      const int64_t last = std::min(end, sequences_.active(step));
      if (last <= begin) break;
      rows(RowOf(step) + begin, RowOf(step) + last);
    }
  }

  const Sequences& sequences_;
  const StepRange steps_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_CHUNK_ROWS_H_
