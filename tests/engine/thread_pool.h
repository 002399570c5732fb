// A pool as a program has it: some threads, one queue.
#ifndef TESTS_ENGINE_THREAD_POOL_H_
#define TESTS_ENGINE_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/engine/threads/team.h"

namespace rnn {

class ThreadPool {
 public:
  // Each thread begins with `on_start`.
  explicit ThreadPool(
      int num_threads, const std::function<void()>& on_start = [] {}) {
    for (int i = 0; i < num_threads; ++i) {
      threads_.emplace_back([this, on_start] {
        on_start();
        Loop();
      });
    }
  }
  // Runs what is scheduled, then ends the threads.
  ~ThreadPool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_closed_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void Schedule(std::function<void()> work) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      queue_.push(std::move(work));
      ++num_scheduled_;
    }
    changed_.notify_one();
  }
  Team::Schedule AsSchedule() {
    return [this](std::function<void()> work) { Schedule(std::move(work)); };
  }
  int num_scheduled() {
    std::lock_guard<std::mutex> lock(mutex_);
    return num_scheduled_;
  }
  int num_threads() const { return static_cast<int>(threads_.size()); }

 private:
  void Loop() {
    while (true) {
      std::function<void()> work;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return is_closed_ || !queue_.empty(); });
        if (queue_.empty()) return;
        work = std::move(queue_.front());
        queue_.pop();
      }
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::function<void()>> queue_;
  bool is_closed_ = false;
  int num_scheduled_ = 0;
  std::vector<std::thread> threads_;
};

// A pool whose threads are busy with something else until it goes.
class BusyThreadPool {
 public:
  explicit BusyThreadPool(int num_threads) : pool_(num_threads) {
    for (int i = 0; i < num_threads; ++i) {
      pool_.Schedule([this] {
        while (!is_over_) std::this_thread::yield();
      });
    }
  }
  ~BusyThreadPool() { is_over_ = true; }

  Team::Schedule AsSchedule() { return pool_.AsSchedule(); }

 private:
  std::atomic<bool> is_over_{false};  // outlives the threads that read it
  ThreadPool pool_;
};

}  // namespace rnn

#endif  // TESTS_ENGINE_THREAD_POOL_H_
