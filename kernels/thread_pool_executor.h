// The engine's threads: TensorFlow's intra-op pool.
#ifndef KERNELS_THREAD_POOL_EXECUTOR_H_
#define KERNELS_THREAD_POOL_EXECUTOR_H_

#include "kernels/engine/engine.h"
#include "kernels/engine/threads/team.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_cudnn_rnn {

// The thread that calls the kernel, and helpers from the pool as long as the
// kernel has work for them. All calls together have no more threads than the
// pool, unless there are more callers: one that finds none left works alone
// until there is one, and a helper of another call leaves for it, once the task
// that it is at is done. In a forked child, which has the pool but not its
// threads, the caller works alone.
class ThreadPoolExecutor : public rnn::Team {
 public:
  explicit ThreadPoolExecutor(tensorflow::OpKernelContext* context);
  ~ThreadPoolExecutor() override;

  // What the call is planned for.
  rnn::Machine MachineOfCall() const;

 private:
  bool has_called_helpers_ = false;
};

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_THREAD_POOL_EXECUTOR_H_
