#include "kernels/thread_pool_executor.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/util/work_sharder.h"

namespace tf_cudnn_rnn {

using ::tensorflow::thread::ThreadPool;

class PoolUse {
 public:
  explicit PoolUse(int size) : size_(size) {}

  // Of a pool that calls use already, or from now on.
  static std::shared_ptr<PoolUse> Of(ThreadPool* pool);

  void Add() { num_threads_.fetch_add(1, std::memory_order_relaxed); }
  void Remove() { num_threads_.fetch_sub(1, std::memory_order_relaxed); }

  // Adds a thread unless all are in use.
  bool TryAdd() {
    int count = num_threads_.load(std::memory_order_relaxed);
    while (count < size_) {
      if (num_threads_.compare_exchange_weak(count, count + 1,
                                             std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

 private:
  const int size_;
  std::atomic<int> num_threads_{0};
};

std::shared_ptr<PoolUse> PoolUse::Of(ThreadPool* pool) {
  static std::mutex mutex;
  static auto* uses = new std::map<ThreadPool*, std::weak_ptr<PoolUse>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<PoolUse>& known = (*uses)[pool];
  std::shared_ptr<PoolUse> use = known.lock();
  if (use == nullptr) {
    use = std::make_shared<PoolUse>(pool->NumThreads());
    known = use;
  }
  return use;
}

namespace {

ThreadPool* Pool(tensorflow::OpKernelContext* context) {
  return context->device()->tensorflow_cpu_worker_threads()->workers;
}

// Whoever calls the kernel may have lowered the limit for its own thread.
int MaxThreads(tensorflow::OpKernelContext* context) {
  return std::max(
      1,
      std::min(context->device()->tensorflow_cpu_worker_threads()->num_threads,
               tensorflow::GetPerThreadMaxParallelism()));
}

}  // namespace

ThreadPoolExecutor::ThreadPoolExecutor(tensorflow::OpKernelContext* context)
    : ThreadPoolExecutor(Pool(context), PoolUse::Of(Pool(context)),
                         MaxThreads(context)) {}

ThreadPoolExecutor::ThreadPoolExecutor(ThreadPool* pool,
                                       std::shared_ptr<PoolUse> use,
                                       int max_threads)
    : Team(max_threads,
           [pool, use](std::function<void()> work) {
             if (!use->TryAdd()) return false;
             pool->Schedule([use, work = std::move(work)] {
               work();
               use->Remove();
             });
             return true;
           }),
      use_(std::move(use)) {
  use_->Add();
}

ThreadPoolExecutor::~ThreadPoolExecutor() { use_->Remove(); }

}  // namespace tf_cudnn_rnn
