// The engine's threads: TensorFlow's intra-op pool.
#ifndef KERNELS_THREAD_POOL_EXECUTOR_H_
#define KERNELS_THREAD_POOL_EXECUTOR_H_

#include <memory>

#include "kernels/engine/team.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace tf_cudnn_rnn {

// The threads of a pool that calls in progress have, their own ones included.
class PoolUse;

// The thread that calls the kernel, and helpers from the pool as long as the
// kernel has work for them. All calls together have no more threads than the
// pool; one that finds none left works alone until there is one.
class ThreadPoolExecutor : public rnn::Team {
 public:
  explicit ThreadPoolExecutor(tensorflow::OpKernelContext* context);
  ~ThreadPoolExecutor() override;

 private:
  ThreadPoolExecutor(tensorflow::thread::ThreadPool* pool,
                     std::shared_ptr<PoolUse> use, int max_threads);

  const std::shared_ptr<PoolUse> use_;
};

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_THREAD_POOL_EXECUTOR_H_
