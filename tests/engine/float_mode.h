// How the CPU treats floating-point numbers on the calling thread: rounding,
// and whether denormals are flushed to zero.
#ifndef TESTS_ENGINE_FLOAT_MODE_H_
#define TESTS_ENGINE_FLOAT_MODE_H_

#include <cstdint>

#include "kernels/engine/threads/float_mode.h"

namespace rnn {

inline uint64_t FloatMode() {
#if defined(__x86_64__)
  // Without the flags that tell which exceptions there have been.
  return ReadFloatMode() & ~uint64_t{0x3f};
#else
  return ReadFloatMode();
#endif
}
inline void SetFloatMode(uint64_t mode) { WriteFloatMode(mode); }

// What TensorFlow does to the threads that run kernels.
inline void FlushDenormals() { SetFloatMode(FloatMode() | kFlushDenormals); }

}  // namespace rnn

#endif  // TESTS_ENGINE_FLOAT_MODE_H_
