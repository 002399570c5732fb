#include "kernels/thread_pool_executor.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/util/work_sharder.h"

namespace tf_cudnn_rnn {
namespace {

void PauseSpinning() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The tasks of one Run(), taken one by one by whoever is free. A pool thread
// that comes when none is left may come after Run() has returned.
class TaskList {
 public:
  TaskList(int num_tasks, rnn::FunctionRef<void(int)> task)
      : num_tasks_(num_tasks), task_(task) {}

  void Work() {
    int num_done = 0;
    for (int i = next_++; i < num_tasks_; i = next_++) {
      task_(i);
      ++num_done;
    }
    if (num_done == 0 || (num_done_ += num_done) < num_tasks_) return;
    std::lock_guard<std::mutex> lock(mutex_);
    all_done_.notify_one();
  }

  void Wait() {
    // Tasks are equal parts of a step, so the others end any moment now: to
    // sleep would cost more than a short step takes.
    constexpr int kSpins = 2000;  // some 20 microseconds
    for (int i = 0; i < kSpins; ++i) {
      if (all_done()) return;
      PauseSpinning();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    all_done_.wait(lock, [this] { return all_done(); });
  }

 private:
  bool all_done() const { return num_done_ == num_tasks_; }

  const int num_tasks_;
  const rnn::FunctionRef<void(int)> task_;
  std::atomic<int> next_{0};
  std::atomic<int> num_done_{0};
  std::mutex mutex_;
  std::condition_variable all_done_;
};

}  // namespace

ThreadPoolExecutor::ThreadPoolExecutor(tensorflow::OpKernelContext* context) {
  const auto* workers = context->device()->tensorflow_cpu_worker_threads();
  pool_ = workers->workers;
  // Whoever calls the kernel may have lowered the limit for its own thread.
  const int limit = tensorflow::GetPerThreadMaxParallelism();
  num_threads_ = std::max(1, std::min(workers->num_threads, limit));
}

void ThreadPoolExecutor::Run(int num_tasks, rnn::FunctionRef<void(int)> task) {
  const int num_helpers = std::min(num_threads_, num_tasks) - 1;
  if (num_helpers <= 0) {
    for (int i = 0; i < num_tasks; ++i) task(i);
    return;
  }
  const auto tasks = std::make_shared<TaskList>(num_tasks, task);
  for (int i = 0; i < num_helpers; ++i) {
    pool_->Schedule([tasks] { tasks->Work(); });
  }
  tasks->Work();
  tasks->Wait();
}

}  // namespace tf_cudnn_rnn
