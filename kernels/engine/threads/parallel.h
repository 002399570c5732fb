// Splitting work among an executor's threads. How work is split never changes
// what is computed.
#ifndef KERNELS_ENGINE_THREADS_PARALLEL_H_
#define KERNELS_ENGINE_THREADS_PARALLEL_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/engine/threads/executor.h"
#include "kernels/engine/thresholds.h"

namespace rnn {

// Tasks worth making of so many floating-point operations: as many for each
// thread, if there is more than one.
inline int NumTasks(int num_threads, double work) {
  const int num_tasks = static_cast<int>(std::clamp<double>(
      work / speed::kMinTaskWork, 1,
      num_threads == 1 ? 1 : num_threads * speed::kTasksPerThread));
  return num_tasks < num_threads ? num_tasks
                                 : num_tasks - num_tasks % num_threads;
}
inline int NumTasks(const Executor& executor, double work) {
  return NumTasks(executor.num_threads(), work);
}

// The most tasks that are made for so many threads, whatever the work.
inline int MaxTasks(int num_threads) {
  return NumTasks(num_threads, std::numeric_limits<double>::max());
}
// Places that these threads can use at most for `count` items, as below.
inline int64_t NumPlaces(int num_threads, int64_t count) {
  return std::min<int64_t>(MaxTasks(num_threads), count);
}

// Here and below a single task goes through Run(), too: all threads of a
// lockstep come here, and it is one's (lockstep.h).

// Calls range(place, begin, end) on disjoint ranges that cover [0, count), as
// many as `num_places` at most, which is one or more: each range has a place
// below that number to itself. A thread takes its ranges in `order`.
inline void ParallelForPlaces(
    Executor& executor, int64_t count, int64_t work_per_item, Order order,
    int64_t num_places, FunctionRef<void(int64_t, int64_t, int64_t)> range) {
  const int64_t num_tasks = std::min<int64_t>(
      NumTasks(executor, static_cast<double>(count) * work_per_item),
      std::max<int64_t>(std::min(count, num_places), 1));
  if (count == 0) return;
  executor.Run(static_cast<int>(num_tasks), order, [&](int task) {
    range(task, count * task / num_tasks, count * (task + 1) / num_tasks);
  });
}

// Calls range(begin, end) on disjoint ranges that cover [0, count). A thread
// takes its ranges in `order`.
inline void ParallelFor(Executor& executor, int64_t count,
                        int64_t work_per_item, Order order,
                        FunctionRef<void(int64_t, int64_t)> range) {
  ParallelForPlaces(
      executor, count, work_per_item, order, /*num_places=*/count,
      [&](int64_t, int64_t begin, int64_t end) { range(begin, end); });
}

inline void ParallelFor(Executor& executor, int64_t count,
                        int64_t work_per_item,
                        FunctionRef<void(int64_t, int64_t)> range) {
  ParallelFor(executor, count, work_per_item, Order::kAscending, range);
}

// Calls range(begin, end) on few disjoint ranges that cover [0, count), one for
// each thread: rows of B are read in pieces as long as they can be, and what
// each range prepares for itself is prepared seldom.
inline void ParallelFewRanges(Executor& executor, int64_t count, int64_t work,
                              Order order,
                              FunctionRef<void(int64_t, int64_t)> range) {
  const int64_t num_ranges = std::min<int64_t>(count, executor.num_threads());
  ParallelFor(executor, num_ranges, work / num_ranges, order,
              [&](int64_t begin, int64_t end) {
                range(count * begin / num_ranges, count * end / num_ranges);
              });
}

// Into how many blocks rows are split for so many tasks: more than one where
// there are too few panels, but not blocks below min_rows.
inline int64_t NumRowBlocks(int num_tasks, int64_t num_panels, int64_t num_rows,
                            int64_t min_rows) {
  if (num_tasks == 1) return 1;
  return std::clamp<int64_t>(
      (speed::kBlocksPerTask * num_tasks + num_panels - 1) / num_panels, 1,
      (num_rows + min_rows - 1) / min_rows);
}

// Rows [row_begin, row_end) of a panel. Nothing is set by default: arrays of
// them are made at each step.
struct PanelRows {
  static constexpr int64_t kNone = -1;

  int64_t panel;
  int64_t row_begin;
  int64_t row_end;
  int64_t next_panel;  // that its thread takes up after it, or kNone

  // After which comes none.
  static PanelRows Alone(int64_t panel, int64_t row_begin, int64_t row_end) {
    return {panel, row_begin, row_end, kNone};
  }
};

// Rows [row_begin, row_end) of all panels of a matrix.
struct AllPanels {
  int64_t count = 0;
  Order order = Order::kAscending;  // in which a thread works through them
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t work = 0;  // floating-point operations
};

// Calls run(const PanelRows* shares, int count) on shares that cover the
// panels, up to speed::kMaxPanelsTogether at a time. A task's shares are
// neighbours, panel by panel.
template <typename RunShares>
void ParallelPanelGroups(Executor& executor, const AllPanels& panels,
                         RunShares run) {
  const int64_t num_rows = panels.row_end - panels.row_begin;
  if (num_rows == 0) return;
  const int num_tasks = NumTasks(executor, panels.work);
  const int64_t row_blocks =
      NumRowBlocks(num_tasks, panels.count, num_rows, speed::kMinBlockRows);
  const int64_t num_shares = panels.count * row_blocks;
  const bool ascends = panels.order == Order::kAscending;
  // Small steps have a single block, and divisions would be most of their cost.
  const auto panel_of = [&](int64_t share) {
    return row_blocks == 1 ? share : share / row_blocks;
  };
  const auto first_row_of = [&](int64_t block) {
    return panels.row_begin +
           (row_blocks == 1 ? num_rows * block : num_rows * block / row_blocks);
  };
  const auto run_shares = [&](int64_t begin, int64_t end) {
    PanelRows shares[speed::kMaxPanelsTogether];
    int count = 0;
    for (int64_t j = begin; j < end; ++j) {
      const int64_t i = ascends ? j : begin + end - 1 - j;
      const int64_t next = ascends ? i + 1 : i - 1;
      PanelRows& share = shares[count];
      share.panel = panel_of(i);
      share.next_panel =
          next < 0 || next == num_shares || panel_of(next) == share.panel
              ? PanelRows::kNone
              : panel_of(next);
      const int64_t block = i - share.panel * row_blocks;
      share.row_begin = first_row_of(block);
      share.row_end = first_row_of(block + 1);
      if (share.row_begin < share.row_end) ++count;
      if (count == speed::kMaxPanelsTogether || (j + 1 == end && count > 0)) {
        run(shares, count);
        count = 0;
      }
    }
  };
  executor.Run(num_tasks, panels.order, [&](int task) {
    run_shares(num_shares * task / num_tasks,
               num_shares * (task + 1) / num_tasks);
  });
}

// Calls run(PanelRows) on shares that cover the panels. A task's shares are
// neighbours, panel by panel.
template <typename Run>
void ParallelPanels(Executor& executor, const AllPanels& panels, Run run) {
  ParallelPanelGroups(executor, panels,
                      [&](const PanelRows* shares, int count) {
                        for (int i = 0; i < count; ++i) run(shares[i]);
                      });
}

}  // namespace rnn

#endif  // KERNELS_ENGINE_THREADS_PARALLEL_H_
