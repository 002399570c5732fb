#include "kernels/engine/threads/lockstep.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "kernels/engine/threads/backoff.h"

namespace rnn {

namespace {

// More threads leave their shares to these.
constexpr int kMaxMembers = 64;

// Cores may fetch two cache lines at a time.
constexpr size_t kTwoCacheLines = 128;

// The Run()s of all steps in turn have ascending numbers; a step has so many at
// most.
constexpr int64_t kMaxRunsOfStep = int64_t{1} << 16;
constexpr int64_t kNoRun = -1;

class Lockstep {
 public:
  Lockstep(const Executor& executor, int num_members, int64_t num_steps,
           FunctionRef<void(Executor&, int64_t)> step)
      : executor_(executor),
        num_members_(num_members),
        num_steps_(num_steps),
        step_(step) {}

  // All that one member does, on some thread. Members that come after others
  // are done find nothing to do.
  void Take(int member) {
    const bool may_leave = std::this_thread::get_id() != caller_;
    for (int64_t i = FirstStep(); i < num_steps_; ++i) {
      Member executor(*this, member, i * kMaxRunsOfStep);
      step_(executor, i);
      if (may_leave && executor_.HasTooManyThreads() && TakesTurnToLeave(i)) {
        break;
      }
    }
    SetIsHere(shares_[member], false);
  }

 private:
  // What a member has of each Run().
  struct Share {
    // The last Run() of which somebody has taken it. As long as its member is
    // done in time, no other thread looks here.
    alignas(kTwoCacheLines) std::atomic<int64_t> taken{kNoRun};
    // The last Run() of which it is done. Others wait for it here.
    alignas(kTwoCacheLines) std::atomic<int64_t> done{kNoRun};
    // Whether they wait a while before they take it themselves.
    std::atomic<bool> is_here{false};
  };

  class Member : public Executor {
   public:
    Member(Lockstep& lockstep, int member, int64_t first_run)
        : lockstep_(lockstep),
          member_(member),
          run_(first_run),
          end_(first_run + kMaxRunsOfStep) {}

    int num_threads() const override { return lockstep_.num_members_; }

    void Run(int num_tasks, Order order, FunctionRef<void(int)> task) override {
      if (run_ == end_) std::abort();
      lockstep_.Run(member_, run_++, num_tasks, order, task);
    }

   private:
    Lockstep& lockstep_;
    const int member_;
    int64_t run_;
    const int64_t end_;
  };

  // One member leaves at a time: it takes a while until it counts no longer.
  bool TakesTurnToLeave(int64_t step) {
    int64_t last = last_step_left_.load(std::memory_order_relaxed);
    return last < step && last_step_left_.compare_exchange_strong(
                              last, step, std::memory_order_relaxed);
  }

  // All before it are done.
  int64_t FirstStep() const {
    int64_t last_run = 0;
    for (int i = 0; i < num_members_; ++i) {
      last_run =
          std::max(last_run, shares_[i].done.load(std::memory_order_acquire));
    }
    return last_run / kMaxRunsOfStep;
  }

  void Run(int member, int64_t run, int num_tasks, Order order,
           FunctionRef<void(int)> task) {
    // A single task is the first member's, who is mostly the caller.
    const auto first_task = [&](int i) {
      return static_cast<int>((int64_t{num_tasks} * i + num_members_ - 1) /
                              num_members_);
    };
    const auto try_share = [&](int i) {
      if (!TryTake(shares_[i], run)) return false;
      if (i == member) SetIsHere(shares_[i], true);
      const int begin = first_task(i);
      const int end = first_task(i + 1);
      for (int j = begin; j < end; ++j) {
        task(order == Order::kAscending ? j : begin + end - 1 - j);
      }
      shares_[i].done.store(run, std::memory_order_release);
      return true;
    };
    // The own share first; it may be another thread's by now.
    for (int j = 0; j < num_members_; ++j) {
      const int i = (member + j) % num_members_;
      if (first_task(i) == first_task(i + 1)) continue;
      Share& share = shares_[i];
      if (i == member && try_share(i)) continue;
      for (Backoff backoff; share.done.load(std::memory_order_acquire) < run;) {
        if (backoff.yields()) SetIsHere(share, false);
        const bool is_here = share.is_here.load(std::memory_order_relaxed);
        if (!is_here && try_share(i)) break;
        backoff.Wait();
      }
    }
  }

  // Others wait for what lies in the same line: it is written if need be only.
  static void SetIsHere(Share& share, bool is_here) {
    if (share.is_here.load(std::memory_order_relaxed) != is_here) {
      share.is_here.store(is_here, std::memory_order_relaxed);
    }
  }

  static bool TryTake(Share& share, int64_t run) {
    int64_t taken = share.taken.load(std::memory_order_relaxed);
    return taken < run && share.taken.compare_exchange_strong(
                              taken, run, std::memory_order_acquire,
                              std::memory_order_relaxed);
  }

  const Executor& executor_;
  const std::thread::id caller_ = std::this_thread::get_id();
  const int num_members_;
  const int64_t num_steps_;
  const FunctionRef<void(Executor&, int64_t)> step_;
  std::atomic<int64_t> last_step_left_{-1};
  Share shares_[kMaxMembers];
};

}  // namespace

void RunInLockstep(Executor& executor, int num_threads, int64_t num_steps,
                   FunctionRef<void(Executor&, int64_t)> step) {
  const int num_members = std::min(num_threads, kMaxMembers);
  Lockstep lockstep(executor, num_members, num_steps, step);
  executor.Run(num_members, Order::kAscending,
               [&](int member) { lockstep.Take(member); });
  // Helpers may have taken all members' places, and left.
  lockstep.Take(0);
}

}  // namespace rnn
