#include "kernels/thread_pool_executor.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels/engine/threads/thread_limit.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/util/work_sharder.h"

namespace tf_cudnn_rnn {

using ::rnn::ThreadLimit;
using ::tensorflow::thread::ThreadPool;

namespace {

// Of a pool that calls use already, or from now on.
std::shared_ptr<ThreadLimit> LimitOf(ThreadPool* pool) {
  static std::mutex mutex;
  static auto* limits = new std::map<ThreadPool*, std::weak_ptr<ThreadLimit>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<ThreadLimit>& known = (*limits)[pool];
  std::shared_ptr<ThreadLimit> limit = known.lock();
  if (limit == nullptr) {
    limit = std::make_shared<ThreadLimit>(pool->NumThreads());
    known = limit;
  }
  return limit;
}

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
    : Team(
          MaxThreads(context),
          [pool = Pool(context)](std::function<void()> work) {
            pool->Schedule(std::move(work));
          },
          LimitOf(Pool(context))) {}

}  // namespace tf_cudnn_rnn
