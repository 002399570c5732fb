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
      shared_(std::make_unique<Shared>()) {
  shared_->threads.reserve(num_threads);
}

ThreadPool::~ThreadPool() {
  if (process_ != getpid()) {
    // A forked child has none of the threads. They can't be joined, and a
    // condition variable would wait for those that slept at the fork.
    (void)shared_.release();
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->ends = true;
  }
  shared_->has_news.NotifyAll();
  for (std::thread& thread : shared_->threads) thread.join();
}

void ThreadPool::Schedule(std::function<void()> work) {
  if (process_ != getpid()) throw std::bad_alloc();
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    StartThreads();
    shared_->queue.push_back(std::move(work));
  }
  shared_->has_news.NotifyOne();
}

void ThreadPool::StartThreads() {
  std::vector<std::thread>& threads = shared_->threads;
  while (static_cast<int>(threads.size()) < num_threads_) {
    try {
      threads.emplace_back(RunThread, shared_.get());
    } catch (const std::system_error&) {
      if (threads.empty()) throw std::bad_alloc();
      return;
    }
  }
}

void ThreadPool::RunThread(Shared* shared) {
  std::unique_lock<std::mutex> lock(shared->mutex);
  while (true) {
    while (!shared->ends && shared->queue.empty()) shared->has_news.Wait(lock);
    if (shared->queue.empty()) return;
    const std::function<void()> work = std::move(shared->queue.front());
    shared->queue.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace rnn_runtime
