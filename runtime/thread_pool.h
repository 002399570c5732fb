// Threads of a network's own, for programs that have no pool to lend.
#ifndef RUNTIME_THREAD_POOL_H_
#define RUNTIME_THREAD_POOL_H_

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace rnn_runtime {

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
    std::condition_variable has_news;
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
