#include "kernels/engine/threads/lockstep.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/threads/team.h"
#include "kernels/engine/threads/thread_limit.h"
#include "tests/engine/deadline.h"
#include "tests/engine/thread_pool.h"
#include "tests/engine/threads_in_turn.h"

namespace rnn {
namespace {

// Waits until it is so; returns false if it is not in a minute.
bool ComesTrue(const std::function<bool()>& is_so) {
  for (const auto deadline = In60Seconds(); !is_so();) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Steps whose values follow from all values of the step before: a task that is
// left out, run twice, or run before its time, changes what comes after it.
class Recurrence {
 public:
  explicit Recurrence(int num_values)
      : num_values_(num_values),
        values_(num_values, 1),
        sums_(num_values),
        counts_(num_values) {}

  // Two Run()s, the second of another number of tasks.
  void Step(Executor& executor, int64_t step) {
    const Order order = step % 2 == 0 ? Order::kAscending : Order::kDescending;
    executor.Run(num_values_, order, [&](int i) {
      sums_[i] = i + 1;
      for (int j = 0; j < num_values_; ++j) sums_[i] += values_[j] * (i + j);
      ++counts_[i];
    });
    const int num_tasks = static_cast<int>(step % (num_values_ + 1));
    executor.Run(num_tasks, order, [&](int task) {
      for (int i = task; i < num_values_; i += num_tasks) {
        values_[i] = values_[i] * 3 + sums_[num_values_ - 1 - i];
      }
    });
  }

  std::vector<uint64_t> values() const { return values_; }
  void ExpectEachTaskRan(int times) const {
    for (int i = 0; i < num_values_; ++i) ASSERT_EQ(counts_[i], times) << i;
  }

 private:
  const int num_values_;
  std::vector<uint64_t> values_;
  std::vector<uint64_t> sums_;
  std::vector<std::atomic<int>> counts_;
};

std::vector<uint64_t> ValuesAlone(int num_values, int num_steps) {
  Recurrence recurrence(num_values);
  SerialExecutor alone;
  for (int step = 0; step < num_steps; ++step) recurrence.Step(alone, step);
  return recurrence.values();
}

void ExpectAsAlone(Executor& executor, int num_threads, int num_values,
                   int num_steps) {
  SCOPED_TRACE(num_values);
  Recurrence together(num_values);
  RunInLockstep(executor, num_threads, num_steps,
                [&](Executor& own, int64_t step) {
                  EXPECT_EQ(own.num_threads(), num_threads);
                  together.Step(own, step);
                });
  together.ExpectEachTaskRan(num_steps);
  EXPECT_EQ(together.values(), ValuesAlone(num_values, num_steps));
}

TEST(LockstepTest, EachStepFollowsTheOneBefore) {
  ThreadPool pool(6);
  for (int num_threads : {1, 2, 3, 7}) {
    SCOPED_TRACE(num_threads);
    Team team(num_threads, pool.AsSchedule());
    for (int round = 0; round < 20; ++round) {
      for (int num_values : {1, 2, 5, 28}) {
        ExpectAsAlone(team, num_threads, num_values, 100);
      }
    }
  }
}

TEST(LockstepTest, FewerThreadsThanTheExecutorHas) {
  ThreadPool pool(4);
  Team team(5, pool.AsSchedule());
  for (int round = 0; round < 20; ++round) ExpectAsAlone(team, 2, 9, 100);
}

TEST(LockstepTest, NeedsNoOtherThread) {
  Team team(3, [](const std::function<void()>&) {});
  ExpectAsAlone(team, 3, 7, 50);
}

// Whoever comes when all is done finds nothing to do.
TEST(LockstepTest, ThreadsMayComeOneAfterAnother) {
  ThreadsInTurn executor(4);
  ExpectAsAlone(executor, 4, 7, 50);
}

TEST(LockstepTest, OnAPoolThatIsBusyAllTheTime) {
  BusyThreadPool pool(3);
  Team team(4, pool.AsSchedule());
  for (int round = 0; round < 20; ++round) ExpectAsAlone(team, 4, 9, 100);
}

TEST(LockstepTest, AThreadTakesItsTasksInOrder) {
  Team team(1, [](const std::function<void()>&) {});
  std::vector<int> tasks;
  RunInLockstep(team, 1, 2, [&](Executor& own, int64_t step) {
    own.Run(3, step == 0 ? Order::kAscending : Order::kDescending,
            [&](int task) { tasks.push_back(task); });
  });
  EXPECT_EQ(tasks, (std::vector<int>{0, 1, 2, 2, 1, 0}));
}

// As the system may do with any thread at any time.
TEST(LockstepTest, AThreadThatIsTakenAwayLeavesItsShare) {
  constexpr int kSteps = 200;
  ThreadPool pool(1);
  Team team(2, pool.AsSchedule());
  const auto caller = std::this_thread::get_id();
  std::atomic<int> num_done{0};
  std::atomic<bool> helper_came{false};
  RunInLockstep(team, 2, kSteps, [&](Executor& own, int64_t step) {
    if (std::this_thread::get_id() == caller) {
      EXPECT_TRUE(step != 50 || ComesTrue([&] { return helper_came.load(); }));
    } else {
      helper_came = true;
      EXPECT_TRUE(ComesTrue([&] { return num_done == 2 * kSteps; }));
    }
    own.Run(2, Order::kAscending, [&](int) { ++num_done; });
  });
  EXPECT_EQ(num_done, 2 * kSteps);
  EXPECT_TRUE(helper_came);
}

// Its share of a step, which another thread has taken by then, is not run
// twice, and the next one not before that is done.
TEST(LockstepTest, AThreadThatComesBackTakesItsShareAgain) {
  constexpr int kSteps = 400;
  ThreadPool pool(1);
  Team team(2, pool.AsSchedule());
  const auto caller = std::this_thread::get_id();
  Recurrence together(8);
  RunInLockstep(team, 2, kSteps, [&](Executor& own, int64_t step) {
    // Either is away at times, for longer than others wait for it.
    const bool is_caller = std::this_thread::get_id() == caller;
    if (step % 7 == (is_caller ? 2 : 5)) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    together.Step(own, step);
  });
  together.ExpectEachTaskRan(kSteps);
  EXPECT_EQ(together.values(), ValuesAlone(8, kSteps));
}

// A thread whose share another one has taken does not go on before that is
// done.
TEST(LockstepTest, AThreadWaitsForItsShareThatAnotherHasTaken) {
  ThreadPool pool(1);
  Team team(2, pool.AsSchedule());
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> helper_came{false};
  std::atomic<bool> is_taken{false};
  std::atomic<int64_t> step_of_caller{0};
  RunInLockstep(team, 2, 100, [&](Executor& own, int64_t step) {
    if (std::this_thread::get_id() != caller) {
      helper_came = true;
    } else {
      step_of_caller = step;
      EXPECT_TRUE(step != 40 || ComesTrue([&] { return helper_came.load(); }));
      EXPECT_TRUE(step != 50 || ComesTrue([&] { return is_taken.load(); }));
    }
    own.Run(2, Order::kAscending, [&](int task) {
      // Whoever has task 0 may be either thread.
      if (step != 50 || std::this_thread::get_id() == caller) return;
      is_taken = is_taken || task == 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(step_of_caller, 50);
    });
  });
}

TEST(LockstepTest, AHelperLeavesWhereThereAreThreadsTooMany) {
  ThreadPool pool(1);
  auto limit = std::make_shared<ThreadLimit>(2);
  Team team(2, pool.AsSchedule(), limit);
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> helper_came{false};
  std::atomic<bool> is_one_too_many{false};
  std::atomic<int> num_steps_too_many{0};
  std::unique_ptr<Team> other;
  Recurrence together(8);
  RunInLockstep(team, 2, 100, [&](Executor& own, int64_t step) {
    if (std::this_thread::get_id() != caller) {
      helper_came = true;
      if (is_one_too_many) ++num_steps_too_many;
    } else if (step == 50) {
      EXPECT_TRUE(ComesTrue([&] { return helper_came.load(); }));
      other = std::make_unique<Team>(2, pool.AsSchedule(), limit);
      is_one_too_many = true;
    } else if (step == 70) {
      EXPECT_TRUE(ComesTrue([&] { return limit->count() == 2; }));
    }
    together.Step(own, step);
  });
  EXPECT_EQ(together.values(), ValuesAlone(8, 100));
  EXPECT_LE(num_steps_too_many, 1);  // that it was at
}

// Runs each task on a thread of its own, which is one too many.
class ThreadsTooMany : public Executor {
 public:
  explicit ThreadsTooMany(int num_threads) : num_threads_(num_threads) {}
  int num_threads() const override { return num_threads_; }
  void Run(int num_tasks, Order /*order*/,
           FunctionRef<void(int)> task) override {
    std::vector<std::thread> threads;
    for (int i = 0; i < num_tasks; ++i)
      threads.emplace_back([&, i] { task(i); });
    for (std::thread& thread : threads) thread.join();
  }
  bool HasTooManyThreads() const override { return true; }

 private:
  const int num_threads_;
};

TEST(LockstepTest, TheCallerTakesWhatAllOthersLeave) {
  ThreadsTooMany executor(3);
  ExpectAsAlone(executor, 3, 7, 50);
}

// One that is gone counts no longer, but not at once.
TEST(LockstepTest, OneThreadLeavesAtAStep) {
  constexpr int kThreads = 4;
  ThreadsTooMany executor(kThreads);
  std::mutex mutex;
  std::map<int64_t, int> num_threads_of_step;
  RunInLockstep(executor, kThreads, 20, [&](Executor& own, int64_t step) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      ++num_threads_of_step[step];
    }
    // All that are there come to each step.
    own.Run(kThreads, Order::kAscending, [](int) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    });
  });
  EXPECT_LE(num_threads_of_step[0], kThreads + 1);
  for (int64_t step = 1; step < 20; ++step) {
    EXPECT_GE(num_threads_of_step[step] + 1, num_threads_of_step[step - 1])
        << step;
  }
}

TEST(LockstepTest, MoreThreadsThanHavePlaces) {
  ThreadsInTurn executor(200);
  Recurrence together(7);
  RunInLockstep(executor, 200, 10, [&](Executor& own, int64_t step) {
    EXPECT_LT(own.num_threads(), 200);
    together.Step(own, step);
  });
  EXPECT_EQ(together.values(), ValuesAlone(7, 10));
}

// What is a single task is done by one thread all the same.
TEST(LockstepTest, SmallLoopsRunOnce) {
  ThreadPool pool(2);
  Team team(3, pool.AsSchedule());
  std::atomic<int> num_ranges{0};
  std::atomic<int> num_panels{0};
  constexpr int kSteps = 100;
  RunInLockstep(team, 3, kSteps, [&](Executor& own, int64_t) {
    ParallelFor(own, /*count=*/3, /*work_per_item=*/1,
                [&](int64_t, int64_t) { ++num_ranges; });
    AllPanels panels;
    panels.count = 1;
    panels.row_end = 1;
    ParallelPanels(own, panels, [&](const PanelRows&) { ++num_panels; });
  });
  EXPECT_EQ(num_ranges, kSteps);
  EXPECT_EQ(num_panels, kSteps);
}

}  // namespace
}  // namespace rnn
