#include "kernels/engine/threads/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/engine/threads/thread_limit.h"
#include "tests/engine/deadline.h"
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

// Helpers leave when they like.
void ExpectAllLeave(const ThreadLimit& limit) {
  for (const auto deadline = In60Seconds();
       limit.count() > 0 && std::chrono::steady_clock::now() < deadline;) {
    std::this_thread::yield();
  }
  EXPECT_EQ(limit.count(), 0);
}

TEST(TeamTest, RunsEachTaskOnce) {
  ThreadPool pool(6);
  for (int num_threads : {1, 2, 3, 7}) {
    Team team(num_threads, pool.AsSchedule());
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
  const auto never_runs = [](const std::function<void()>&) {};
  for (int num_threads : {1, 2}) {  // without a share of its own, and with one
    Team team(num_threads, never_runs);
    std::vector<int> tasks;
    const auto note = [&](int task) { tasks.push_back(task); };
    team.Run(4, Order::kAscending, note);
    team.Run(4, Order::kDescending, note);
    EXPECT_EQ(tasks, (std::vector<int>{0, 1, 2, 3, 3, 2, 1, 0}));
  }
}

TEST(TeamTest, HelpersTakePart) {
  ThreadPool pool(2);
  Team team(3, pool.AsSchedule());
  std::set<std::thread::id> threads;
  std::mutex mutex;
  // Three tasks that wait for each other need three threads; until these have
  // come, they do not wait.
  std::atomic<int> meeting{0};
  const auto deadline = In60Seconds();
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
  std::vector<std::function<void()>> helpers;
  auto limit = std::make_shared<ThreadLimit>(4);
  {
    Team team(
        4, [&](std::function<void()> help) { helpers.push_back(help); }, limit);
    for (int round = 0; round < 10; ++round) ExpectRunsEachTaskOnce(team, 9);
    EXPECT_EQ(helpers.size(), 3);  // nobody is asked twice
  }
  // They come when the team is long gone.
  EXPECT_EQ(limit->count(), 3);
  std::thread([&] {
    for (const auto& help : helpers) help();
  }).join();
  EXPECT_EQ(limit->count(), 0);
}

// Who comes need not wait until all have been called.
TEST(TeamTest, HelpersBeginWhileOthersAreCalled) {
  std::atomic<bool> has_helped{false};
  std::vector<std::thread> threads;
  const auto caller = std::this_thread::get_id();
  {
    Team team(3, [&](std::function<void()> work) {
      if (!threads.empty()) {
        const auto deadline = In60Seconds();
        while (!has_helped && std::chrono::steady_clock::now() < deadline) {
          std::this_thread::yield();
        }
      }
      threads.emplace_back(std::move(work));
    });
    team.Run(9, Order::kAscending, [&](int) {
      if (std::this_thread::get_id() != caller) has_helped = true;
    });
  }
  EXPECT_TRUE(has_helped);
  EXPECT_EQ(threads.size(), 2);
  for (std::thread& thread : threads) thread.join();
}

TEST(TeamTest, FinishesIfNobodyCanBeCalled) {
  auto limit = std::make_shared<ThreadLimit>(4);
  Team team(
      4,
      [](std::function<void()>) {
        throw std::system_error(EAGAIN, std::generic_category());
      },
      limit);
  for (int round = 0; round < 3; ++round) ExpectRunsEachTaskOnce(team, 9);
  EXPECT_EQ(limit->count(), 1);  // the caller
}

// As a pool does whose queue is full.
TEST(TeamTest, FinishesIfWorkIsRunAtOnce) {
  int num_calls = 0;
  Team team(4, [&](const std::function<void()>& work) {
    ++num_calls;
    work();
  });
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) ExpectRunsEachTaskOnce(team, 9);
  EXPECT_EQ(num_calls, 3 * kRounds);
}

// What calling a helper takes may be more memory than there is.
TEST(TeamTest, FinishesWithoutHelpersWhoCannotBeCalled) {
  ThreadPool pool(2);
  const auto limit = std::make_shared<ThreadLimit>(3);
  {
    int num_asked = 0;
    Team team(
        3,
        [&](std::function<void()> work) {
          if (++num_asked % 3 != 0) throw std::bad_alloc();
          pool.Schedule(std::move(work));
        },
        limit);
    for (int round = 0; round < 300; ++round) ExpectRunsEachTaskOnce(team, 5);
    EXPECT_GE(num_asked, 2);
  }
  ExpectAllLeave(*limit);
}

// Another caller comes while the team has all the threads there are.
TEST(TeamTest, HelpersMakeWayForCallers) {
  ThreadPool pool(1);
  auto limit = std::make_shared<ThreadLimit>(2);
  Team team(2, pool.AsSchedule(), limit);
  std::set<std::thread::id> threads;
  std::mutex mutex;
  const auto note_thread = [&](int) {
    std::lock_guard<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
  };
  const auto deadline = In60Seconds();
  const auto is_in_time = [&] {
    return std::chrono::steady_clock::now() < deadline;
  };
  while (threads.size() < 2 && is_in_time()) {
    team.Run(64, Order::kAscending, [&](int task) {
      note_thread(task);
      std::this_thread::yield();
    });
  }
  limit->Add();
  while (limit->count() > 2 && is_in_time()) ExpectRunsEachTaskOnce(team, 7);
  ASSERT_EQ(limit->count(), 2);
  threads.clear();
  team.Run(64, Order::kAscending, note_thread);
  EXPECT_EQ(threads, std::set<std::thread::id>{std::this_thread::get_id()});
  EXPECT_EQ(limit->count(), 2);
}

// Whether so many threads are at work at the same time: each waits for the
// others, but for less time than idle helpers take to leave.
bool WorkTogether(Team& team, int num_threads) {
  std::atomic<int> num_at_work{0};
  std::atomic<bool> is_late{false};
  team.Run(num_threads, Order::kAscending, [&](int) {
    ++num_at_work;
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    while (num_at_work < num_threads && !is_late) {
      is_late = std::chrono::steady_clock::now() > deadline;
      std::this_thread::yield();
    }
  });
  return !is_late;
}

// Whoever goes leaves a place among them.
TEST(TeamTest, ThreadsThatAreHereHaveTheTasks) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads - 1);
  const auto deadline = In60Seconds();
  const auto is_in_time = [&] {
    return std::chrono::steady_clock::now() < deadline;
  };
  for (int round = 0; round < 20; ++round) {
    auto limit = std::make_shared<ThreadLimit>(kThreads);
    {
      Team team(kThreads, pool.AsSchedule(), limit);
      while (!WorkTogether(team, kThreads)) ASSERT_TRUE(is_in_time());
      limit->Add();
      while (limit->count() > kThreads) {
        ExpectRunsEachTaskOnce(team, 7);
        ASSERT_TRUE(is_in_time());
      }
      while (!WorkTogether(team, kThreads - 1)) ASSERT_TRUE(is_in_time());
      limit->Remove();
    }
    ExpectAllLeave(*limit);
  }
}

TEST(TeamTest, AsksAgainForHelpersThatWereNotToBeHad) {
  ThreadPool pool(1);
  auto limit = std::make_shared<ThreadLimit>(2);
  limit->Add();
  Team team(2, pool.AsSchedule(), limit);
  for (int round = 0; round < 3; ++round) ExpectRunsEachTaskOnce(team, 4);
  EXPECT_EQ(pool.num_scheduled(), 0);
  limit->Remove();
  ExpectRunsEachTaskOnce(team, 4);
  EXPECT_EQ(pool.num_scheduled(), 1);
}

TEST(TeamTest, FinishesOnABusyPool) {
  BusyThreadPool pool(1);
  Team team(2, pool.AsSchedule());
  for (int round = 0; round < 100; ++round) ExpectRunsEachTaskOnce(team, 5);
}

TEST(TeamTest, TeamsShareAPool) {
  ThreadPool pool(2);
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int call = 0; call < 20; ++call) {
        Team team(3, pool.AsSchedule());
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
  Team team(2, pool.AsSchedule());
  ExpectRunsEachTaskOnce(team, 2);
  EXPECT_EQ(pool.num_scheduled(), 1);
  // The pool's only thread is free again once the helper has left.
  std::atomic<bool> is_free{false};
  pool.Schedule([&] { is_free = true; });
  const auto deadline = In60Seconds();
  while (!is_free && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(is_free);
  ExpectRunsEachTaskOnce(team, 2);
  EXPECT_EQ(pool.num_scheduled(), 3);
}

// Whether a helper has run a task of a new team with this crew.
bool AHelperTakesPart(ThreadPool& pool, std::shared_ptr<ThreadLimit> limit,
                      Team::Crew* crew) {
  Team team(2, pool.AsSchedule(), std::move(limit), crew);
  std::atomic<bool> is_there{false};
  const auto caller = std::this_thread::get_id();
  team.Run(8, Order::kAscending, [&](int) {
    if (std::this_thread::get_id() != caller) is_there = true;
    for (int i = 0; i < 100 && !is_there; ++i) std::this_thread::yield();
  });
  return is_there;
}

void WaitForAHelper(ThreadPool& pool, const std::shared_ptr<ThreadLimit>& limit,
                    Team::Crew* crew) {
  const auto deadline = In60Seconds();
  while (!AHelperTakesPart(pool, limit, crew)) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "no helper came";
  }
}

TEST(TeamTest, TheNextTeamFindsTheCrewAtHand) {
  ThreadPool pool(1);
  const auto limit = std::make_shared<ThreadLimit>(2);
  Team::Crew crew;
  bool found = false;
  // A busy machine may keep the next team waiting until the helper has left.
  for (const auto deadline = In60Seconds();
       !found && std::chrono::steady_clock::now() < deadline;) {
    WaitForAHelper(pool, limit, &crew);
    const int num_scheduled = pool.num_scheduled();
    found = AHelperTakesPart(pool, limit, &crew) &&
            pool.num_scheduled() == num_scheduled;
  }
  EXPECT_TRUE(found);
}

TEST(TeamTest, AnIdleCrewLeaves) {
  ThreadPool pool(1);
  const auto limit = std::make_shared<ThreadLimit>(2);
  Team::Crew crew;
  for (int round = 0; round < 3; ++round) {
    WaitForAHelper(pool, limit, &crew);
    ExpectAllLeave(*limit);
  }
}

TEST(TeamTest, ACrewMayGoBeforeItsHelpersCome) {
  std::vector<std::function<void()>> helpers;
  const auto limit = std::make_shared<ThreadLimit>(3);
  {
    Team::Crew crew;
    for (int call = 0; call < 3; ++call) {
      Team team(
          3, [&](std::function<void()> help) { helpers.push_back(help); },
          limit, &crew);
      ExpectRunsEachTaskOnce(team, 9);
    }
    EXPECT_EQ(helpers.size(), 2);  // nobody is asked twice
  }
  EXPECT_EQ(limit->count(), 2);
  std::thread([&] {
    for (const auto& help : helpers) help();
  }).join();
  EXPECT_EQ(limit->count(), 0);
}

TEST(TeamTest, CrewsOfManyCallersFinish) {
  constexpr int kCallers = 4;
  ThreadPool pool(kCallers);
  const auto limit = std::make_shared<ThreadLimit>(2);
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      Team::Crew crew;
      for (int call = 0; call < 300; ++call) {
        Team team(2, pool.AsSchedule(), limit, &crew);
        ExpectRunsEachTaskOnce(team, 7);
        ExpectRunsEachTaskOnce(team, 7, Order::kDescending);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  ExpectAllLeave(*limit);
}

TEST(TeamTest, TasksSeeWhatEarlierOnesWrote) {
  ThreadPool pool(2);
  Team team(3, pool.AsSchedule());
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
