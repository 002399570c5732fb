#include "kernels/thread_pool_executor.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/util/work_sharder.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::thread::ThreadPool;

// Of each pool the threads that calls have taken, where there are any.
std::mutex taken_mutex;
std::map<ThreadPool*, int>& Taken() {
  static auto* taken = new std::map<ThreadPool*, int>;
  return *taken;
}

ThreadPool* Pool(tensorflow::OpKernelContext* context) {
  return context->device()->tensorflow_cpu_worker_threads()->workers;
}

// Whoever calls the kernel may have lowered the limit for its own thread.
int MaxThreads(tensorflow::OpKernelContext* context) {
  return std::min(
      context->device()->tensorflow_cpu_worker_threads()->num_threads,
      tensorflow::GetPerThreadMaxParallelism());
}

}  // namespace

ThreadReservation::ThreadReservation(ThreadPool* pool, int wanted)
    : pool_(pool) {
  std::lock_guard<std::mutex> lock(taken_mutex);
  int& taken = Taken()[pool];
  num_threads_ = std::max(1, std::min(wanted, pool->NumThreads() - taken));
  taken += num_threads_;
}

ThreadReservation::~ThreadReservation() {
  std::lock_guard<std::mutex> lock(taken_mutex);
  const auto taken = Taken().find(pool_);
  taken->second -= num_threads_;
  if (taken->second == 0) Taken().erase(taken);
}

ThreadPoolExecutor::ThreadPoolExecutor(tensorflow::OpKernelContext* context)
    : ThreadReservation(Pool(context), MaxThreads(context)),
      Team(ThreadReservation::num_threads(),
           [pool = Pool(context)](std::function<void()> work) {
             pool->Schedule(std::move(work));
           }) {}

}  // namespace tf_cudnn_rnn
