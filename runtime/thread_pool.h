// Threads of a network's own, for programs that have no pool to lend.
#ifndef RUNTIME_THREAD_POOL_H_
#define RUNTIME_THREAD_POOL_H_

#include <pthread.h>
#include <sys/types.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace rnn_runtime {

// std::condition_variable, whose wait() libstdc++ 3.4.30 has under a name that
// older systems lack.
class Condition {
 public:
  Condition() = default;
  ~Condition() { pthread_cond_destroy(&condition_); }
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  void NotifyOne() { pthread_cond_signal(&condition_); }
  void NotifyAll() { pthread_cond_broadcast(&condition_); }
  void Wait(std::unique_lock<std::mutex>& lock) {
    pthread_cond_wait(&condition_, lock.mutex()->native_handle());
  }

 private:
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

// Starts its threads when it first gets work, so that a network whose calls are
// small never has any.
class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);
  // Waits for what has been scheduled.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Runs `work` on one of its threads. Throws std::bad_alloc where there is no
  // memory for it or no thread: in a forked child, too, which has none of its
  // parent's.
  void Schedule(std::function<void()> work);

 private:
  // What its threads use.
  struct Shared {
    std::mutex mutex;
    Condition has_news;
    std::deque<std::function<void()>> queue;
    bool ends = false;
    std::vector<std::thread> threads;
  };

  void StartThreads();
  static void RunThread(Shared* shared);

  const int num_threads_;
  const pid_t process_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace rnn_runtime

#endif  // RUNTIME_THREAD_POOL_H_
