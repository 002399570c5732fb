#include "kernels/engine/threads/team.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/engine/threads/backoff.h"
#include "kernels/engine/thresholds.h"

namespace rnn {

namespace {

constexpr size_t kCacheLine = 64;

}  // namespace

// What all threads of a team see. It outlives the team for late helpers.
class Team::Job {
 public:
  Job(int num_threads, std::shared_ptr<ThreadLimit> limit)
      : limit_(std::move(limit)), shares_(num_threads), is_here_(num_threads) {
    sharers_.reserve(num_threads);
    is_here_[kCaller].store(true, std::memory_order_relaxed);
  }

  // Has all threads run task(0) .. task(num_tasks - 1), and takes part.
  // `recruit` may call more helpers, who begin while others are being called.
  void Run(int num_tasks, Order order, FunctionRef<void(int)> task,
           FunctionRef<void()> recruit) {
    task_ = &task;
    num_done_.store(0, std::memory_order_relaxed);
    FindSharers(num_tasks);
    const auto num_threads = static_cast<int>(sharers_.size());
    for (int i = 0; i < num_threads; ++i) {
      const int64_t begin = int64_t{num_tasks} * i / num_threads;
      const int64_t end = int64_t{num_tasks} * (i + 1) / num_threads;
      Share& share = shares_[sharers_[i]];
      share.mirror = order == Order::kDescending ? begin + end - 1 : kNoMirror;
      share.range.store(Range::Pack(begin, end), std::memory_order_release);
    }
    generation_.store(
        Generation::After(generation_.load(std::memory_order_relaxed),
                          /*has_more_tasks=*/num_tasks > num_threads),
        std::memory_order_release);
    recruit();
    // Those of helpers that are away as well.
    for (const int member : sharers_) {
      RunTasks(shares_[member], /*is_helper=*/false);
    }
    for (Backoff backoff;
         num_done_.load(std::memory_order_acquire) < num_tasks;) {
      backoff.Wait();
    }
  }

  bool IsFor(int num_threads, const ThreadLimit* limit) const {
    return num_threads == num_places() && limit == limit_.get();
  }

  // Keeps a place for one more helper, who is to call Help(); or returns false,
  // if there is none now.
  bool TryRecruit() {
    // Whoever made place has left the team.
    const int num_recruited = num_recruited_.load(std::memory_order_acquire);
    if (num_recruited + 1 >= num_places() || !limit_->TryAdd()) return false;
    num_recruited_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  // Gives the place back, of a helper who will not come.
  void Unrecruit() {
    num_recruited_.fetch_sub(1, std::memory_order_release);
    limit_->Remove();
  }

  // All that a helper does whom `caller` asked.
  void Help(std::thread::id caller) {
    // A pool that is full may run what it is given at once, on the caller.
    const bool is_other_thread = std::this_thread::get_id() != caller;
    const bool is_recalled = is_other_thread && HelpUntilIdle();
    num_recruited_.fetch_sub(1, std::memory_order_release);
    if (!is_recalled) limit_->Remove();
  }

  void Dismiss() { dismissed_.store(true, std::memory_order_relaxed); }

 private:
  // The tasks [next, end) that are left of a share, in one word.
  struct Range {
    static uint64_t Pack(int64_t next, int64_t end) {
      return static_cast<uint64_t>(end) << 32 | static_cast<uint64_t>(next);
    }
    static uint32_t Next(uint64_t range) {
      return static_cast<uint32_t>(range);
    }
    static uint32_t End(uint64_t range) {
      return static_cast<uint32_t>(range >> 32);
    }
  };

  // What tells a Run() from the one before: odd if it has more tasks than
  // threads, so that these may help each other.
  struct Generation {
    static uint32_t After(uint32_t generation, bool has_more_tasks) {
      return (generation | 1) + (has_more_tasks ? 2 : 1);
    }
    static bool HasMoreTasks(uint32_t generation) {
      return generation % 2 == 1;
    }
  };

  static constexpr int kCaller = 0;  // of the members

  static constexpr int64_t kNoMirror = -1;

  struct alignas(kCacheLine) Share {
    std::atomic<uint64_t> range{0};
    int64_t mirror = kNoMirror;  // or the sum of a task and what it stands for
  };

  int num_places() const { return static_cast<int>(shares_.size()); }

  // Members that are here, the caller first, but no more than there are tasks.
  void FindSharers(int num_tasks) {
    sharers_.clear();
    for (int member = kCaller; member < num_places(); ++member) {
      if (static_cast<int>(sharers_.size()) == num_tasks) return;
      if (is_here_[member].load(std::memory_order_relaxed)) {
        sharers_.push_back(member);
      }
    }
  }

  // Of helpers alone. One that leaves counts no longer.
  bool LeavesIfRecalled() { return limit_->TryRemove(); }

  // Returns whether it was recalled before, and counts no longer.
  bool HelpUntilIdle() {
    if (dismissed_.load(std::memory_order_relaxed)) return false;
    if (LeavesIfRecalled()) return true;
    // No more are recruited than there are places.
    int member = kCaller + 1;
    while (is_here_[member].exchange(true, std::memory_order_relaxed)) {
      member = member + 1 == num_places() ? kCaller + 1 : member + 1;
    }
    uint32_t seen = generation_.load(std::memory_order_relaxed) - 1;
    bool is_recalled = false;
    for (Backoff backoff; !is_recalled &&
                          !dismissed_.load(std::memory_order_relaxed) &&
                          backoff.count() < speed::kPatience;) {
      const uint32_t generation = generation_.load(std::memory_order_acquire);
      if (generation == seen) {
        backoff.Wait();
        is_recalled = LeavesIfRecalled();
        continue;
      }
      seen = generation;
      is_recalled = Work(member, Generation::HasMoreTasks(generation));
      backoff = Backoff();
    }
    is_here_[member].store(false, std::memory_order_relaxed);
    return is_recalled;
  }

  // A helper runs what is left of its own share, and of the others' if it is to
  // help them, which takes their shares out of the caches where they are.
  // Returns whether it stopped because it was recalled.
  bool Work(int member, bool helps_others) {
    bool is_recalled = RunTasks(shares_[member], /*is_helper=*/true);
    for (int i = 1; helps_others && !is_recalled && i < num_places(); ++i) {
      is_recalled = RunTasks(shares_[(member + i) % num_places()],
                             /*is_helper=*/true);
    }
    return is_recalled;
  }

  // Runs what is left of a share, and says so at once: the caller may be
  // waiting for no more than that. Returns whether it stopped because the
  // helper was recalled.
  bool RunTasks(Share& share, bool is_helper) {
    bool is_recalled = false;
    int num_done = 0;
    while (!is_recalled) {
      const uint64_t left = share.range.load(std::memory_order_relaxed);
      if (Range::Next(left) >= Range::End(left)) break;
      // Whoever takes a task holds up its Run(), so that task_ and the mirror
      // are those the task belongs to, even if a thread comes here late, from a
      // Run() that has returned.
      const uint64_t taken =
          share.range.fetch_add(1, std::memory_order_acquire);
      if (Range::Next(taken) >= Range::End(taken)) break;
      const int64_t next = Range::Next(taken);
      (*task_)(static_cast<int>(
          share.mirror == kNoMirror ? next : share.mirror - next));
      ++num_done;
      is_recalled = is_helper && LeavesIfRecalled();
    }
    if (num_done > 0) num_done_.fetch_add(num_done, std::memory_order_release);
    return is_recalled;
  }

  const std::shared_ptr<ThreadLimit> limit_;
  alignas(kCacheLine) std::atomic<uint32_t> generation_{0};
  const FunctionRef<void(int)>* task_ = nullptr;
  alignas(kCacheLine) std::atomic<int> num_done_{0};
  // Helpers that are here, and those who are still to come.
  alignas(kCacheLine) std::atomic<int> num_recruited_{0};
  std::atomic<bool> dismissed_{false};
  std::vector<Share> shares_;
  // Whether a member is, by its place. It seldom changes, so all may read it.
  std::vector<std::atomic<bool>> is_here_;
  // The caller's: members that have a share now.
  alignas(kCacheLine) std::vector<int> sharers_;
};

Team::Crew::~Crew() {
  if (job_) job_->Dismiss();
}

Team::Team(int num_threads, Schedule schedule,
           std::shared_ptr<ThreadLimit> limit, Crew* crew)
    : num_threads_(num_threads),
      schedule_(std::move(schedule)),
      limit_(std::move(limit)),
      crew_(crew != nullptr ? *crew : own_crew_) {
  limit_->Add();
}

Team::Team(int num_threads, Schedule schedule)
    : Team(num_threads, std::move(schedule),
           std::make_shared<ThreadLimit>(num_threads)) {}

Team::~Team() { limit_->Remove(); }

void Team::Run(int num_tasks, Order order, FunctionRef<void(int)> task) {
  if (num_threads_ <= 1 || num_tasks <= 1 || !MakeJob()) {
    SerialExecutor().Run(num_tasks, order, task);
    return;
  }
  crew_.job_->Run(num_tasks, order, task, [this] { Recruit(); });
}

// Unless there is one; returns whether there is one now.
bool Team::MakeJob() {
  std::shared_ptr<Job>& job = crew_.job_;
  try {
    if (!job) job = std::make_shared<Job>(num_threads_, limit_);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (!job->IsFor(num_threads_, limit_.get())) std::abort();  // another crew's
  return true;
}

void Team::Recruit() {
  const std::shared_ptr<Job>& job = crew_.job_;
  // As often as there are places: one that came may be gone already.
  for (int i = 1; i < num_threads_ && job->TryRecruit(); ++i) {
    try {
      schedule_(
          [job, caller = std::this_thread::get_id()] { job->Help(caller); });
    } catch (...) {
      // Helpers may be at tasks already, which must not outlive their Run().
      job->Unrecruit();
      return;
    }
  }
}

}  // namespace rnn
