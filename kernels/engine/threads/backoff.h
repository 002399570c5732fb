// Waiting for another thread.
#ifndef KERNELS_ENGINE_THREADS_BACKOFF_H_
#define KERNELS_ENGINE_THREADS_BACKOFF_H_

#include <stdint.h>

#include <thread>

#include "kernels/engine/thresholds.h"

namespace rnn {

// Waits a little longer each time: first for another core, then for a thread
// that shares this one.
class Backoff {
 public:
  void Wait() {
    if (++count_ < speed::kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
  int64_t count() const { return count_; }
  // Whoever is waited for may have lost its core.
  bool yields() const { return count_ >= speed::kSpins; }

 private:
  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  // Of 64 bits: a thread may be stopped for hours.
  int64_t count_ = 0;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_THREADS_BACKOFF_H_
