// The engine's threads: TensorFlow's intra-op pool.
#ifndef KERNELS_THREAD_POOL_EXECUTOR_H_
#define KERNELS_THREAD_POOL_EXECUTOR_H_

#include "kernels/engine/team.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace tf_cudnn_rnn {

// Threads of a pool that calls have taken; returned when this goes out of
// scope.
class ThreadReservation {
 public:
  // Takes up to `wanted` threads, as many as the calls in progress leave of the
  // pool's; at least one, the caller's own.
  ThreadReservation(tensorflow::thread::ThreadPool* pool, int wanted);
  ~ThreadReservation();
  ThreadReservation(const ThreadReservation&) = delete;
  ThreadReservation& operator=(const ThreadReservation&) = delete;

  int num_threads() const { return num_threads_; }

 private:
  tensorflow::thread::ThreadPool* pool_;
  int num_threads_;
};

// The thread that calls the kernel and helpers from the pool, for as long as
// the kernel runs. All calls together have no more threads than the pool; one
// that finds none left works alone.
class ThreadPoolExecutor : private ThreadReservation, public rnn::Team {
 public:
  explicit ThreadPoolExecutor(tensorflow::OpKernelContext* context);

  using Team::num_threads;
};

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_THREAD_POOL_EXECUTOR_H_
