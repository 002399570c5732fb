// Forward and Backward finish, with the same bits, on executors of every kind:
// pools of one thread, busy pools, pools that several calls share.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/engine/engine.h"
#include "kernels/engine/threads/team.h"
#include "kernels/engine/threads/thread_limit.h"
#include "tests/engine/engine_call.h"
#include "tests/engine/guard_pages.h"
#include "tests/engine/guarded.h"
#include "tests/engine/thread_pool.h"

namespace rnn {
namespace {

// Directions, parts of the batch, and products over chunks of time are shared.
EngineSizes Sizes(CellMode mode = CellMode::kLstm) {
  EngineSizes sizes;
  sizes.descriptor.mode = mode;
  sizes.descriptor.num_directions = 2;
  sizes.descriptor.input_size = 64;
  sizes.descriptor.hidden_size = 128;
  sizes.max_time = 12;
  sizes.batch = 16;
  return sizes;
}

// Each step is shared in lockstep.
EngineSizes SizesInLockstep() {
  EngineSizes sizes;
  sizes.descriptor.mode = CellMode::kLstm;
  sizes.descriptor.input_size = 64;
  sizes.descriptor.hidden_size = 160;
  sizes.max_time = 60;
  sizes.batch = 1;
  return sizes;
}

using Results = std::vector<std::vector<float>>;

Results RunCall(const EngineSizes& sizes, Executor& executor) {
  EngineCall<float, EndGuarded> call(sizes);
  call.Forward(executor);
  call.Backward(executor);
  Results results;
  for (auto* values : call.Outputs()) results.push_back(values->values());
  return results;
}

Results RunAlone(const EngineSizes& sizes = Sizes()) {
  SerialExecutor executor;
  return RunCall(sizes, executor);
}

void ExpectSame(const Results& a, const Results& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(SameBits(a[i], b[i])) << i;
}

// Counts the threads that work on tasks at the same time, over several teams.
class Gauge {
 public:
  void Enter() {
    const int now = ++num_inside_;
    int most = most_;
    while (now > most && !most_.compare_exchange_weak(most, now)) {
    }
  }
  void Leave() { --num_inside_; }
  int most() const { return most_; }

 private:
  std::atomic<int> num_inside_{0};
  std::atomic<int> most_{0};
};

class GaugedExecutor : public Executor {
 public:
  GaugedExecutor(Executor* executor, Gauge* gauge)
      : executor_(executor), gauge_(gauge) {}
  int num_threads() const override { return executor_->num_threads(); }
  void Run(int num_tasks, Order order, FunctionRef<void(int)> task) override {
    executor_->Run(num_tasks, order, [&](int i) {
      gauge_->Enter();
      task(i);
      gauge_->Leave();
    });
  }
  bool HasTooManyThreads() const override {
    return executor_->HasTooManyThreads();
  }

 private:
  Executor* executor_;
  Gauge* gauge_;
};

TEST(EngineExecutorTest, TheSizesAreTakenInLockstep) {
  ThreadPool pool(1);
  Team team(2, pool.AsSchedule());
  EngineCall<float, EndGuarded> call(SizesInLockstep());
  call.Forward(team);
  call.Backward(team);
  EXPECT_TRUE(call.forward_plan().chunks.front().in_lockstep);
  EXPECT_TRUE(call.backward_plan().chunks.front().in_lockstep);
}

TEST(EngineExecutorTest, OnAPoolOfOneThread) {
  const Results alone = RunAlone();
  std::promise<Results> results;  // outlives the thread that sets it
  // The pool's thread helps a caller from outside, ...
  ThreadPool pool(1);
  Team team(2, pool.AsSchedule());
  ExpectSame(RunCall(Sizes(), team), alone);
  // ... or is the caller, whose helpers cannot come before it is done.
  pool.Schedule([&] {
    Team own_team(2, pool.AsSchedule());
    results.set_value(RunCall(Sizes(), own_team));
  });
  ExpectSame(results.get_future().get(), alone);
}

TEST(EngineExecutorTest, OnAPoolThatIsBusyAllTheTime) {
  const Results alone = RunAlone();
  BusyThreadPool pool(3);
  Team team(4, pool.AsSchedule());
  ExpectSame(RunCall(Sizes(), team), alone);
}

TEST(EngineExecutorTest, WhereNobodyIsToBeHad) {
  ThreadPool pool(7);
  Team team(8, pool.AsSchedule(), std::make_shared<ThreadLimit>(1));
  Gauge gauge;
  GaugedExecutor executor(&team, &gauge);
  ExpectSame(RunCall(Sizes(), executor), RunAlone());
  EXPECT_EQ(gauge.most(), 1);
  EXPECT_EQ(pool.num_scheduled(), 0);
}

// Helpers that come and go in the middle of a call.
void ExpectWhereThreadsComeLateAndLeave(const EngineSizes& sizes) {
  const Results alone = RunAlone(sizes);
  std::atomic<bool> is_over{false};
  std::function<void()> now_and_then;  // outlives the threads that call it
  ThreadPool pool(2);
  now_and_then = [&] {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    if (!is_over) pool.Schedule(now_and_then);
  };
  for (int i = 0; i < pool.num_threads(); ++i) pool.Schedule(now_and_then);
  for (int call = 0; call < 5; ++call) {
    Team team(3, pool.AsSchedule());
    ExpectSame(RunCall(sizes, team), alone);
  }
  is_over = true;
}
TEST(EngineExecutorTest, WhereThreadsComeLateAndLeave) {
  ExpectWhereThreadsComeLateAndLeave(Sizes());
  ExpectWhereThreadsComeLateAndLeave(SizesInLockstep());
}

// More calls than threads, all made by the pool's own threads: nobody waits for
// a thread that waits for somebody.
TEST(EngineExecutorTest, SeveralCallsShareAPool) {
  constexpr int kNumCalls = 12;
  std::vector<Results> alone;
  for (int i = 0; i < kNumCalls; ++i) {
    alone.push_back(RunAlone(Sizes(static_cast<CellMode>(i % kNumCellModes))));
  }
  for (int num_threads : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << num_threads << " threads");
    std::vector<Results> results(kNumCalls);
    {
      ThreadPool pool(num_threads);
      for (int i = 0; i < kNumCalls; ++i) {
        pool.Schedule([&, i] {
          Team team(num_threads, pool.AsSchedule());
          results[i] =
              RunCall(Sizes(static_cast<CellMode>(i % kNumCellModes)), team);
        });
      }
    }
    for (int i = 0; i < kNumCalls; ++i) ExpectSame(results[i], alone[i]);
  }
}

void ExpectTeamsKeepToALimitTheyShare(const EngineSizes& sizes) {
  constexpr int kLimit = 3;
  const Results alone = RunAlone(sizes);
  auto limit = std::make_shared<ThreadLimit>(kLimit);
  ThreadPool pool(8);
  Gauge gauge;
  std::atomic<int> num_come{0};
  std::vector<Results> results(kLimit);
  std::vector<std::thread> callers;
  for (int i = 0; i < kLimit; ++i) {
    callers.emplace_back([&, i] {
      Team team(4, pool.AsSchedule(), limit);
      for (++num_come; num_come < kLimit;) std::this_thread::yield();
      for (int call = 0; call < 4; ++call) {
        GaugedExecutor executor(&team, &gauge);
        results[i] = RunCall(sizes, executor);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const Results& result : results) ExpectSame(result, alone);
  EXPECT_LE(gauge.most(), kLimit);
}
TEST(EngineExecutorTest, TeamsKeepToALimitTheyShare) {
  ExpectTeamsKeepToALimitTheyShare(Sizes());
  ExpectTeamsKeepToALimitTheyShare(SizesInLockstep());
}

// Another call begins while this one has all the threads there are.
void ExpectHelpersMakeWayForACallThatComesLater(const EngineSizes& sizes) {
  const Results alone = RunAlone(sizes);
  auto limit = std::make_shared<ThreadLimit>(2);
  ThreadPool pool(4);
  Team team(2, pool.AsSchedule(), limit);
  Gauge before, after;
  GaugedExecutor with_helper(&team, &before);
  for (int call = 0; call < 1000 && before.most() < 2; ++call) {
    ExpectSame(RunCall(sizes, with_helper), alone);
  }
  ASSERT_EQ(before.most(), 2);
  {
    Team later_team(2, pool.AsSchedule(), limit);
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
    // With its caller and this one the limit is reached once the helper leaves.
    while (limit->count() > 2 && std::chrono::steady_clock::now() < deadline) {
      ExpectSame(RunCall(sizes, team), alone);
    }
    EXPECT_EQ(limit->count(), 2);
    GaugedExecutor without_helper(&team, &after);
    ExpectSame(RunCall(sizes, without_helper), alone);
    EXPECT_EQ(after.most(), 1);
  }
  // And come back afterwards.
  Gauge again;
  GaugedExecutor with_helper_again(&team, &again);
  for (int call = 0; call < 1000 && again.most() < 2; ++call) {
    ExpectSame(RunCall(sizes, with_helper_again), alone);
  }
  EXPECT_EQ(again.most(), 2);
}
TEST(EngineExecutorTest, HelpersMakeWayForACallThatComesLater) {
  ExpectHelpersMakeWayForACallThatComesLater(Sizes());
  ExpectHelpersMakeWayForACallThatComesLater(SizesInLockstep());
}

}  // namespace
}  // namespace rnn
