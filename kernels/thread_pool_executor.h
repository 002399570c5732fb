// The engine's threads: TensorFlow's intra-op pool.
#ifndef KERNELS_THREAD_POOL_EXECUTOR_H_
#define KERNELS_THREAD_POOL_EXECUTOR_H_

#include "kernels/engine/executor.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace tf_cudnn_rnn {

// The calling thread works too and waits only for tasks that have begun, never
// for a free thread: a call from inside a busy pool cannot deadlock.
class ThreadPoolExecutor : public rnn::Executor {
 public:
  explicit ThreadPoolExecutor(tensorflow::OpKernelContext* context);

  int num_threads() const override { return num_threads_; }
  void Run(int num_tasks, rnn::FunctionRef<void(int)> task) override;

 private:
  tensorflow::thread::ThreadPool* pool_;
  int num_threads_;
};

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_THREAD_POOL_EXECUTOR_H_
