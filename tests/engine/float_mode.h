// How the CPU treats floating-point numbers on the calling thread: rounding,
// and whether denormals are flushed to zero.
#ifndef TESTS_ENGINE_FLOAT_MODE_H_
#define TESTS_ENGINE_FLOAT_MODE_H_

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace rnn {

#if defined(__x86_64__)
// Results become zero (FTZ), and so do operands (DAZ).
inline constexpr uint64_t kFlushDenormals = 0x8040;

inline uint64_t FloatMode() {
  // Without the flags that tell which exceptions there have been.
  return _mm_getcsr() & ~uint64_t{0x3f};
}
inline void SetFloatMode(uint64_t mode) {
  _mm_setcsr(static_cast<uint32_t>(mode));
}
#elif defined(__aarch64__)
inline constexpr uint64_t kFlushDenormals = uint64_t{1} << 24;

inline uint64_t FloatMode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void SetFloatMode(uint64_t mode) {
  asm volatile("msr fpcr, %0" : : "r"(mode));
}
#else
inline constexpr uint64_t kFlushDenormals = 0;

inline uint64_t FloatMode() { return 0; }
inline void SetFloatMode(uint64_t) {}
#endif

// What TensorFlow does to the threads that run kernels.
inline void FlushDenormals() { SetFloatMode(FloatMode() | kFlushDenormals); }

}  // namespace rnn

#endif  // TESTS_ENGINE_FLOAT_MODE_H_
