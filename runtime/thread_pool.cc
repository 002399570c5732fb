#include "runtime/thread_pool.h"

#include <unistd.h>

#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace rnn_runtime {

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(num_threads),
      process_(getpid()),
      threads_(std::make_unique<std::vector<std::thread>>()) {
  threads_->reserve(num_threads);
}

ThreadPool::~ThreadPool() {
  if (process_ != getpid()) {
    // They are the parent's, and neither end here nor can be waited for.
    (void)threads_.release();
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  has_news_.notify_all();
  for (std::thread& thread : *threads_) thread.join();
}

void ThreadPool::Schedule(std::function<void()> work) {
  if (process_ != getpid()) throw std::bad_alloc();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    StartThreads();
    queue_.push_back(std::move(work));
  }
  has_news_.notify_one();
}

void ThreadPool::StartThreads() {
  while (static_cast<int>(threads_->size()) < num_threads_) {
    try {
      threads_->emplace_back([this] { RunThread(); });
    } catch (const std::system_error&) {
      if (threads_->empty()) throw std::bad_alloc();
      return;
    }
  }
}

void ThreadPool::RunThread() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    has_news_.wait(lock, [this] { return ends_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace rnn_runtime
