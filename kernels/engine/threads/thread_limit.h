// How many threads teams may have together.
#ifndef KERNELS_ENGINE_THREADS_THREAD_LIMIT_H_
#define KERNELS_ENGINE_THREADS_THREAD_LIMIT_H_

#include <atomic>

namespace rnn {

// Counts the threads of the teams that share it. Callers come when they like,
// and count; helpers come while there are fewer threads than the limit, and go
// while there are more.
class ThreadLimit {
 public:
  explicit ThreadLimit(int limit) : limit_(limit) {}

  bool IsExceeded() const { return count() > limit_; }
  int count() const { return count_.load(std::memory_order_relaxed); }

  void Add() { count_.fetch_add(1, std::memory_order_relaxed); }
  void Remove() { count_.fetch_sub(1, std::memory_order_relaxed); }

  // Adds a thread unless the limit is reached.
  bool TryAdd() {
    int count = count_.load(std::memory_order_relaxed);
    while (count < limit_) {
      if (count_.compare_exchange_weak(count, count + 1,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  // Removes a thread if there are more than the limit.
  bool TryRemove() {
    int count = count_.load(std::memory_order_relaxed);
    while (count > limit_) {
      if (count_.compare_exchange_weak(count, count - 1,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

 private:
  const int limit_;
  std::atomic<int> count_{0};
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_THREADS_THREAD_LIMIT_H_
