#include "kernels/thread_pool_executor.h"

#include <dirent.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "kernels/engine/threads/float_mode.h"
#include "kernels/engine/threads/thread_limit.h"
#include "kernels/profiler_ranges.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/profiler/lib/traceme.h"
#include "tensorflow/core/util/work_sharder.h"

#ifdef RNN_THREAD_SANITIZER  // --config=tsan
extern "C" {
void __tsan_release(void* address);
void __tsan_acquire(void* address);
}
#endif

namespace tf_cudnn_rnn {

using ::rnn::ThreadLimit;
using ::tensorflow::thread::ThreadPool;
using ::tsl::profiler::TraceMe;

namespace {

// What calls know about the pools that they use.
struct Pools {
  std::mutex mutex;
  std::map<ThreadPool*, std::weak_ptr<ThreadLimit>> limits;
  std::map<ThreadPool*, bool> have_threads;  // in a forked child
};

// Made as the library is loaded, and anew in a forked child: some thread of its
// parent's may have been changing the other.
Pools* pools = new Pools;
bool is_forked = false;
[[maybe_unused]] const int kRegistered = pthread_atfork(nullptr, nullptr, [] {
  pools = new Pools;
  is_forked = true;
});

using Clock = std::chrono::steady_clock;

// When a call of this process last let helpers go. A pool has one of its
// threads look for work about as long before it goes to sleep.
std::atomic<Clock::time_point> last_end{Clock::time_point()};
constexpr std::chrono::microseconds kMoment(100);

// Of a pool that calls use already, or from now on.
std::shared_ptr<ThreadLimit> LimitOf(ThreadPool* pool) {
  const std::lock_guard<std::mutex> lock(pools->mutex);
  std::weak_ptr<ThreadLimit>& known = pools->limits[pool];
  std::shared_ptr<ThreadLimit> limit = known.lock();
  if (limit == nullptr) {
    limit = std::make_shared<ThreadLimit>(pool->NumThreads());
    known = limit;
  }
  return limit;
}

// Of this process; 0 if the system does not tell.
int64_t CountThreads() {
  DIR* const directory = opendir("/proc/self/task");
  if (directory == nullptr) return 0;
  int64_t count = 0;
  while (const dirent* const entry = readdir(directory)) {
    if (entry->d_name[0] != '.') ++count;  // neither "." nor ".."
  }
  closedir(directory);
  return count;
}

// A forked child has the pools of its parent, but none of their threads. Those
// that it makes itself have theirs.
bool HasThreads(ThreadPool* pool) {
  if (!is_forked) return true;
  const std::lock_guard<std::mutex> lock(pools->mutex);
  const auto [known, is_new] = pools->have_threads.try_emplace(pool);
  if (is_new) known->second = CountThreads() > pool->NumThreads();
  return known->second;
}

ThreadPool* Pool(tensorflow::OpKernelContext* context) {
  return context->device()->tensorflow_cpu_worker_threads()->workers;
}

// Whoever calls the kernel may have lowered the limit for its own thread.
int MaxThreads(tensorflow::OpKernelContext* context) {
  if (!HasThreads(Pool(context))) return 1;
  return std::max(
      1,
      std::min(context->device()->tensorflow_cpu_worker_threads()->num_threads,
               tensorflow::GetPerThreadMaxParallelism()));
}

// Work for a pool. ThreadSanitizer does not see the pool's locks, for
// TensorFlow is compiled without it, and is told that work begins after it was
// handed over.
std::function<void()> HandedOver(std::function<void()> work) {
#ifdef RNN_THREAD_SANITIZER
  char* const order = new char;
  // What it holds is read before the order is known.
  std::function<void()> handed_over =
      [order, work = std::move(work)]() __attribute__((no_sanitize("thread"))) {
        __tsan_acquire(order);
        delete order;
        work();
      };
  __tsan_release(order);
  return handed_over;
#else
  return work;
#endif
}

}  // namespace

ThreadPoolExecutor::ThreadPoolExecutor(tensorflow::OpKernelContext* context)
    : Team(
          MaxThreads(context),
          [this, pool = Pool(context)](std::function<void()> work) {
            has_called_helpers_ = true;
            const bool is_recorded = ProfilerRanges::AreRecorded();
            pool->Schedule(HandedOver([is_recorded, work = std::move(work)] {
              // A pool of the program's own need not have TensorFlow's mode.
              const rnn::ScopedFloatMode mode;
              std::optional<TraceMe> range;
              if (is_recorded) {
                range.emplace("tf_cudnn_rnn helper",
                              ::tsl::profiler::TraceMeLevel::kInfo);
              }
              work();
            }));
          },
          LimitOf(Pool(context))) {}

ThreadPoolExecutor::~ThreadPoolExecutor() {
  if (has_called_helpers_) {
    last_end.store(Clock::now(), std::memory_order_relaxed);
  }
}

rnn::Machine ThreadPoolExecutor::MachineOfCall() const {
  rnn::Machine machine = rnn::Machine::Here(num_threads());
  machine.has_threads_awake =
      Clock::now() - last_end.load(std::memory_order_relaxed) < kMoment;
  return machine;
}

}  // namespace tf_cudnn_rnn
