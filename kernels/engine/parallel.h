// Splitting work among an executor's threads. How work is split never changes
// what is computed.
#ifndef KERNELS_ENGINE_PARALLEL_H_
#define KERNELS_ENGINE_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "kernels/engine/executor.h"

namespace rnn {

// Floating-point operations that are worth a task: a few microseconds, some ten
// times what handing it to a team costs.
inline constexpr int64_t kMinTaskWork = int64_t{1} << 18;

// Moving an element from one buffer to another costs about as many.
inline constexpr int64_t kMoveWork = 16;

// The elementwise part of a step costs about so much per hidden unit.
inline constexpr int64_t kCellWork = 64;

// Tasks worth making of `work`. Several per thread, so that a thread that comes
// late, or is taken away for a while, leaves its share to the others.
inline int NumTasks(const Executor& executor, int64_t work) {
  constexpr int kTasksPerThread = 4;
  const int threads = executor.num_threads();
  return static_cast<int>(std::clamp<int64_t>(
      work / kMinTaskWork, 1, threads == 1 ? 1 : threads * kTasksPerThread));
}

// Calls range(begin, end) on disjoint ranges that cover [0, count).
inline void ParallelFor(Executor& executor, int64_t count,
                        int64_t work_per_item,
                        FunctionRef<void(int64_t, int64_t)> range) {
  const int64_t num_tasks = std::min<int64_t>(
      NumTasks(executor, count * work_per_item), std::max<int64_t>(count, 1));
  if (num_tasks == 1) {
    if (count > 0) range(0, count);
    return;
  }
  executor.Run(
      static_cast<int>(num_tasks), TaskOrder::kAscending, [&](int task) {
        range(count * task / num_tasks, count * (task + 1) / num_tasks);
      });
}

// Rows [row_begin, row_end) of a panel.
struct Tile {
  int64_t panel;
  int64_t next_panel;  // what the thread is likely to need then, or kNone
  int64_t row_begin;
  int64_t row_end;

  static constexpr int64_t kNone = -1;
};

// Calls run_tile(tile) on tiles that cover the panels and the rows [first_row,
// last_row). A task's tiles are neighbours, panel by panel, and a thread works
// through its panels in `order`.
template <typename RunTile>
void ParallelTiles(Executor& executor, int64_t num_panels, TaskOrder order,
                   int64_t first_row, int64_t last_row, int64_t work,
                   RunTile run_tile) {
  const int64_t num_rows = last_row - first_row;
  if (num_rows == 0) return;
  const int num_tasks = NumTasks(executor, work);
  int64_t row_blocks = 1;
  if (num_tasks > 1) {
    // Rows are split where there are too few panels, but not below two tiles of
    // the micro-kernels.
    constexpr int64_t kTilesPerTask = 2;
    constexpr int64_t kRowGranule = 12;
    row_blocks = std::clamp<int64_t>(
        (kTilesPerTask * num_tasks + num_panels - 1) / num_panels, 1,
        (num_rows + kRowGranule - 1) / kRowGranule);
  }
  const int64_t num_tiles = num_panels * row_blocks;
  const auto run_tiles = [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const bool ascends = order == TaskOrder::kAscending;
      const int64_t i = ascends ? j : begin + end - 1 - j;
      const int64_t block = i % row_blocks;
      Tile tile;
      tile.panel = i / row_blocks;
      tile.next_panel = tile.panel + (ascends ? 1 : -1);
      if (tile.next_panel == num_panels) {
        tile.next_panel = num_tasks == 1 ? 0 : Tile::kNone;
      }
      tile.row_begin = first_row + num_rows * block / row_blocks;
      tile.row_end = first_row + num_rows * (block + 1) / row_blocks;
      if (tile.row_begin < tile.row_end) run_tile(tile);
    }
  };
  if (num_tasks == 1) {
    run_tiles(0, num_tiles);
    return;
  }
  executor.Run(num_tasks, order, [&](int task) {
    run_tiles(num_tiles * task / num_tasks, num_tiles * (task + 1) / num_tasks);
  });
}

}  // namespace rnn

#endif  // KERNELS_ENGINE_PARALLEL_H_
