#ifndef TESTS_ENGINE_THREADS_IN_TURN_H_
#define TESTS_ENGINE_THREADS_IN_TURN_H_

#include "kernels/engine/threads/executor.h"

namespace rnn {

// Runs tasks one after another, but as if for so many threads.
class ThreadsInTurn : public Executor {
 public:
  explicit ThreadsInTurn(int num_threads) : num_threads_(num_threads) {}

  int num_threads() const override { return num_threads_; }
  void Run(int num_tasks, Order order, FunctionRef<void(int)> task) override {
    num_tasks_ += num_tasks;
    SerialExecutor().Run(num_tasks, order, task);
  }

  // That it was given so far.
  int num_tasks() const { return num_tasks_; }

 private:
  const int num_threads_;
  int num_tasks_ = 0;
};

}  // namespace rnn

#endif  // TESTS_ENGINE_THREADS_IN_TURN_H_
