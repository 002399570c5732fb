#include "kernels/engine/threads/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/engine/threads/executor.h"
#include "tests/engine/threads_in_turn.h"

namespace rnn {
namespace {

struct Case {
  int num_threads;
  int64_t num_panels;
  int64_t first_row;
  int64_t last_row;
  int64_t work;

  AllPanels PanelsIn(Order order) const {
    return {num_panels, order, first_row, last_row, work};
  }
};

constexpr int64_t kSmall = 1;
constexpr int64_t kLarge = int64_t{1} << 40;
constexpr Case kCases[] = {
    {1, 5, 0, 7, kSmall},  {1, 5, 3, 70, kLarge},  {2, 1, 0, 100, kLarge},
    {2, 40, 0, 3, kLarge}, {3, 7, 11, 60, kLarge}, {2, 3, 0, 1, kLarge},
    {1, 8, 0, 7, kSmall},  {1, 25, 0, 7, kSmall},
};

std::vector<PanelRows> PartsOf(const Case& c, Order order) {
  std::vector<PanelRows> parts;
  ThreadsInTurn executor(c.num_threads);
  ParallelPanels(executor, c.PanelsIn(order),
                 [&](const PanelRows& part) { parts.push_back(part); });
  return parts;
}

TEST(ParallelPanelsTest, CoversEachRowOfEachPanelOnce) {
  for (const Case& c : kCases) {
    for (Order order : {Order::kAscending, Order::kDescending}) {
      std::vector<int> counts(c.num_panels * c.last_row);
      for (const PanelRows& part : PartsOf(c, order)) {
        for (int64_t row = part.row_begin; row < part.row_end; ++row) {
          ++counts[part.panel * c.last_row + row];
        }
      }
      for (int64_t i = 0; i < c.num_panels * c.last_row; ++i) {
        ASSERT_EQ(counts[i], i % c.last_row >= c.first_row ? 1 : 0) << i;
      }
    }
  }
}

TEST(ParallelPanelsTest, PanelsComeInOrderAndTellTheNext) {
  for (const Case& c : kCases) {
    for (Order order : {Order::kAscending, Order::kDescending}) {
      const std::vector<PanelRows> parts = PartsOf(c, order);
      const int64_t step = order == Order::kAscending ? 1 : -1;
      for (size_t i = 1; i < parts.size(); ++i) {
        const int64_t moved = parts[i].panel - parts[i - 1].panel;
        ASSERT_TRUE(moved == 0 || moved == step) << i;
        ASSERT_EQ(parts[i - 1].next_panel,
                  moved == 0 ? PanelRows::kNone : parts[i].panel)
            << i;
      }
      ASSERT_EQ(parts.back().next_panel, PanelRows::kNone);
    }
  }
}

TEST(ParallelPanelsTest, GroupsHaveThePartsInTheirOrder) {
  for (const Case& c : kCases) {
    for (Order order : {Order::kAscending, Order::kDescending}) {
      const std::vector<PanelRows> parts = PartsOf(c, order);
      size_t first = 0;
      ThreadsInTurn executor(c.num_threads);
      ParallelPanelGroups(
          executor, c.PanelsIn(order), [&](const PanelRows* group, int count) {
            ASSERT_GE(count, 1);
            ASSERT_LE(count, speed::kMaxPanelsTogether);
            ASSERT_LE(first + count, parts.size());
            for (int i = 0; i < count; ++i, ++first) {
              ASSERT_EQ(group[i].panel, parts[first].panel);
              ASSERT_EQ(group[i].row_begin, parts[first].row_begin);
            }
          });
      ASSERT_EQ(first, parts.size());
    }
  }
}

TEST(NumTasksTest, EachThreadHasAsManyIfThereAreEnough) {
  const auto num_tasks = [](int num_threads, double tasks) {
    return NumTasks(num_threads, tasks * speed::kMinTaskWork);
  };
  EXPECT_EQ(num_tasks(1, 100), 1);
  EXPECT_EQ(num_tasks(2, 0.5), 1);
  EXPECT_EQ(num_tasks(2, 1.9), 1);
  EXPECT_EQ(num_tasks(2, 2), 2);
  EXPECT_EQ(num_tasks(2, 3.9), 2);
  EXPECT_EQ(num_tasks(2, 4), 4);
  EXPECT_EQ(num_tasks(8, 7), 7);
  EXPECT_EQ(num_tasks(8, 15), 8);
  EXPECT_EQ(num_tasks(8, 1e9), 8 * speed::kTasksPerThread);
}

TEST(NumTasksTest, ThereAreNeverMoreThanTheMost) {
  EXPECT_EQ(MaxTasks(1), 1);
  for (int num_threads : {2, 3, 16}) {
    EXPECT_EQ(MaxTasks(num_threads), NumTasks(num_threads, 1e18));
    EXPECT_EQ(MaxTasks(num_threads), num_threads * speed::kTasksPerThread);
  }
}

TEST(ParallelForTest, EachRangeHasAPlaceToItself) {
  for (int num_threads : {1, 2, 4}) {
    for (int64_t num_places : {1, 3, 100}) {
      ThreadsInTurn executor(num_threads);
      std::vector<int> ranges(num_places);
      int64_t next = 0;
      int num_ranges = 0;
      ParallelForPlaces(executor, /*count=*/50, kLarge, Order::kAscending,
                        num_places,
                        [&](int64_t place, int64_t begin, int64_t end) {
                          ASSERT_LT(place, num_places);
                          EXPECT_EQ(++ranges[place], 1);
                          EXPECT_EQ(begin, next);
                          EXPECT_LT(begin, end);
                          next = end;
                          ++num_ranges;
                        });
      EXPECT_EQ(next, 50);
      EXPECT_EQ(num_ranges,
                std::min<int64_t>(MaxTasks(num_threads), num_places));
    }
  }
}

TEST(ParallelForTest, RangesCoverAllInTheirOrder) {
  const auto expect_covered = [](int64_t count, Order order, auto run) {
    std::vector<int64_t> begins;
    int64_t covered = 0;
    run([&](int64_t begin, int64_t end) {
      EXPECT_LT(begin, end);
      begins.push_back(begin);
      covered += end - begin;
    });
    EXPECT_EQ(covered, count);
    EXPECT_GT(begins.size(), 1u);
    if (order == Order::kDescending) std::reverse(begins.begin(), begins.end());
    EXPECT_TRUE(std::is_sorted(begins.begin(), begins.end()));
    EXPECT_EQ(begins[0], 0);
    return begins.size();
  };
  ThreadsInTurn executor(2);
  for (Order order : {Order::kAscending, Order::kDescending}) {
    expect_covered(100, order, [&](auto range) {
      ParallelFor(executor, 100, kLarge, order, range);
    });
    const size_t few = expect_covered(7, order, [&](auto range) {
      ParallelFewRanges(executor, 7, kLarge, order, range);
    });
    EXPECT_EQ(few, 2u);
  }
}

TEST(ParallelPanelsTest, NoRowsAreNoWork) {
  SerialExecutor executor;
  ParallelPanels(executor, {3, Order::kAscending, 4, 4, kLarge},
                 [](const PanelRows&) { FAIL(); });
}

}  // namespace
}  // namespace rnn
