#include "kernels/engine/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/thread_pool.h"

namespace rnn {
namespace {

void ExpectRunsEachTaskOnce(Team& team, int num_tasks,
                            Order order = Order::kAscending) {
  std::vector<std::atomic<int>> counts(num_tasks);
  team.Run(num_tasks, order, [&](int task) { ++counts[task]; });
  for (int i = 0; i < num_tasks; ++i) {
    ASSERT_EQ(counts[i], 1) << i << " of " << num_tasks;
  }
}

TEST(TeamTest, RunsEachTaskOnce) {
  ThreadPool pool(6);
  for (int num_threads : {1, 2, 3, 7}) {
    Team team(num_threads, pool.Recruit());
    EXPECT_EQ(team.num_threads(), num_threads);
    for (int round = 0; round < 300; ++round) {
      for (int num_tasks : {0, 1, 2, 5, 28}) {
        ExpectRunsEachTaskOnce(team, num_tasks, Order::kAscending);
        ExpectRunsEachTaskOnce(team, num_tasks, Order::kDescending);
      }
    }
  }
}

TEST(TeamTest, TakesItsShareInOrder) {
  const auto no_helper = [](const Team::Help&) { return false; };
  for (int num_threads : {1, 2}) {  // without a share of its own, and with one
    Team team(num_threads, no_helper);
    std::vector<int> tasks;
    const auto note = [&](int task) { tasks.push_back(task); };
    team.Run(4, Order::kAscending, note);
    team.Run(4, Order::kDescending, note);
    EXPECT_EQ(tasks, (std::vector<int>{0, 1, 2, 3, 3, 2, 1, 0}));
  }
}

TEST(TeamTest, HelpersTakePart) {
  ThreadPool pool(2);
  Team team(3, pool.Recruit());
  std::set<std::thread::id> threads;
  std::mutex mutex;
  // Three tasks that wait for each other need three threads; until these have
  // come, they do not wait.
  std::atomic<int> meeting{0};
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (threads.size() < 3 && std::chrono::steady_clock::now() < deadline) {
    meeting = 0;
    team.Run(3, Order::kAscending, [&](int) {
      {
        std::lock_guard<std::mutex> lock(mutex);
        threads.insert(std::this_thread::get_id());
      }
      ++meeting;
      for (int i = 0; i < 1000 && meeting < 3; ++i) std::this_thread::yield();
    });
  }
  EXPECT_EQ(threads.size(), 3);
}

TEST(TeamTest, NeedsNoHelper) {
  std::vector<Team::Help> never_called;
  {
    Team team(4, [&](const Team::Help& help) {
      never_called.push_back(help);
      return true;
    });
    for (int round = 0; round < 10; ++round) ExpectRunsEachTaskOnce(team, 9);
    EXPECT_EQ(never_called.size(), 3);  // nobody is asked twice
  }
  // They come when the team is long gone.
  for (const Team::Help& help : never_called) EXPECT_FALSE(help());
}

// As a pool does whose queue is full.
TEST(TeamTest, FinishesIfHelpIsCalledAtOnce) {
  int num_calls = 0;
  Team team(4, [&](const Team::Help& help) {
    ++num_calls;
    EXPECT_FALSE(help());
    return true;
  });
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) ExpectRunsEachTaskOnce(team, 9);
  EXPECT_EQ(num_calls, 3 * kRounds);
}

TEST(TeamTest, HelpersLeaveWhenTheyAreRecalled) {
  ThreadPool pool(1);
  std::atomic<bool> is_recalled{false};
  std::promise<bool> left_because;
  bool may_recruit = true;
  Team team(
      2,
      [&](const Team::Help& help) {
        if (!std::exchange(may_recruit, false)) return false;
        pool.Schedule([&, help] { left_because.set_value(help()); });
        return true;
      },
      [&] { return is_recalled.load(); });
  std::set<std::thread::id> threads;
  std::mutex mutex;
  const auto note_thread = [&](int) {
    std::lock_guard<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
  };
  while (threads.size() < 2) {
    team.Run(64, Order::kAscending, [&](int task) {
      note_thread(task);
      std::this_thread::yield();
    });
  }
  is_recalled = true;
  std::future<bool> left = left_because.get_future();
  while (left.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    ExpectRunsEachTaskOnce(team, 7);
  }
  EXPECT_TRUE(left.get());
  threads.clear();
  team.Run(64, Order::kAscending, note_thread);
  EXPECT_EQ(threads, std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST(TeamTest, AsksAgainForHelpersThatWereNotToBeHad) {
  ThreadPool pool(1);
  bool is_free = false;
  int num_refused = 0;
  Team team(2, [&](const Team::Help& help) {
    if (is_free) {
      pool.Schedule([help] { help(); });
    } else {
      ++num_refused;
    }
    return is_free;
  });
  for (int round = 0; round < 3; ++round) ExpectRunsEachTaskOnce(team, 4);
  EXPECT_EQ(num_refused, 3);
  is_free = true;
  for (int round = 0; round < 3; ++round) ExpectRunsEachTaskOnce(team, 4);
  EXPECT_EQ(pool.num_scheduled(), 1);
}

TEST(TeamTest, FinishesOnABusyPool) {
  ThreadPool pool(1);
  std::atomic<bool> is_over{false};
  pool.Schedule([&] {
    while (!is_over) std::this_thread::yield();
  });
  Team team(2, pool.Recruit());
  for (int round = 0; round < 100; ++round) ExpectRunsEachTaskOnce(team, 5);
  is_over = true;
}

TEST(TeamTest, TeamsShareAPool) {
  ThreadPool pool(2);
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int call = 0; call < 20; ++call) {
        Team team(3, pool.Recruit());
        for (int round = 0; round < 50; ++round) {
          ExpectRunsEachTaskOnce(team, 7);
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(TeamTest, IdleHelpersLeaveAndAreRecruitedAgain) {
  ThreadPool pool(1);
  Team team(2, pool.Recruit());
  ExpectRunsEachTaskOnce(team, 2);
  EXPECT_EQ(pool.num_scheduled(), 1);
  // The pool's only thread is free again once the helper has left.
  std::atomic<bool> is_free{false};
  pool.Schedule([&] { is_free = true; });
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is_free && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(is_free);
  ExpectRunsEachTaskOnce(team, 2);
  EXPECT_EQ(pool.num_scheduled(), 3);
}

TEST(TeamTest, TasksSeeWhatEarlierOnesWrote) {
  ThreadPool pool(2);
  Team team(3, pool.Recruit());
  std::vector<int> values(24, 0);
  for (int round = 0; round < 2000; ++round) {
    // Each from its neighbour's value, into the other half.
    const int from = round % 2 * 12, to = 12 - from;
    const Order order = round % 2 == 0 ? Order::kAscending : Order::kDescending;
    team.Run(12, order, [&](int task) {
      values[to + task] = values[from + (task + 1) % 12] + 1;
    });
    for (int task = 0; task < 12; ++task) {
      ASSERT_EQ(values[to + task], round + 1);
    }
  }
}

}  // namespace
}  // namespace rnn
