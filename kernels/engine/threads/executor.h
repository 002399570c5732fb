// How the engine gets threads: the caller's. The engine owns none.
#ifndef KERNELS_ENGINE_THREADS_EXECUTOR_H_
#define KERNELS_ENGINE_THREADS_EXECUTOR_H_

#include <cstdint>
#include <type_traits>
#include <utility>

namespace rnn {

template <typename Signature>
class FunctionRef;

// A reference to a callable that outlives the call; unlike std::function it
// never allocates.
template <typename Result, typename... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <typename F, typename = std::enable_if_t<
                            !std::is_same_v<std::decay_t<F>, FunctionRef>>>
  FunctionRef(F&& function)  // NOLINT: implicit by design
      : object_(const_cast<void*>(static_cast<const void*>(&function))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<F>*>(object))(
              std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const {
    return call_(object_, std::forward<Args>(args)...);
  }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

// A thread that has just worked through some memory forwards finds its end in
// its cache, and had better go through it backwards next.
enum class Order { kAscending, kDescending };

class Executor {
 public:
  virtual ~Executor() = default;

  // Threads worth splitting work for, the calling one included; at least 1.
  virtual int num_threads() const = 0;

  // Calls task(0) .. task(num_tasks - 1), each once, in any order and on any
  // thread, and returns when all have returned. Tasks never wait for one that
  // has not begun, so running them one after another is always correct. Tasks
  // must not throw. A thread had better take its tasks in `order`.
  virtual void Run(int num_tasks, Order order, FunctionRef<void(int)> task) = 0;

  // Whether there are too many threads: one of those that are at tasks which
  // others can finish had better return, but for the caller.
  virtual bool HasTooManyThreads() const { return false; }
};

// Runs everything on the calling thread.
class SerialExecutor : public Executor {
 public:
  int num_threads() const override { return 1; }
  void Run(int num_tasks, Order order, FunctionRef<void(int)> task) override {
    for (int i = 0; i < num_tasks; ++i) {
      task(order == Order::kAscending ? i : num_tasks - 1 - i);
    }
  }
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_THREADS_EXECUTOR_H_
