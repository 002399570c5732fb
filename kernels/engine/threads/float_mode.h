// How a thread computes with floating-point numbers. The engine takes the mode
// that its threads are in; what calls it may set one.
#ifndef KERNELS_ENGINE_THREADS_FLOAT_MODE_H_
#define KERNELS_ENGINE_THREADS_FLOAT_MODE_H_

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace rnn {

// The register that says how the calling thread rounds and traps, and whether
// denormals, of results and of operands, are zeros.
#if defined(__x86_64__)
inline constexpr uint64_t kFlushDenormals = 0x8040;  // FTZ, DAZ
inline constexpr uint64_t kTrapNothing = 0x1f80;

inline uint64_t ReadFloatMode() { return _mm_getcsr(); }
inline void WriteFloatMode(uint64_t mode) {
  _mm_setcsr(static_cast<uint32_t>(mode));
}
#elif defined(__aarch64__)
// FZ; not FZ16, for denormals of float16 count as numbers.
inline constexpr uint64_t kFlushDenormals = uint64_t{1} << 24;
inline constexpr uint64_t kTrapNothing = 0;

inline uint64_t ReadFloatMode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void WriteFloatMode(uint64_t mode) {
  asm volatile("msr fpcr, %0" : : "r"(mode) : "memory");
}
#else
inline constexpr uint64_t kFlushDenormals = 0;
inline constexpr uint64_t kTrapNothing = 0;

inline uint64_t ReadFloatMode() { return 0; }
inline void WriteFloatMode(uint64_t) {}
#endif

// Denormals are zeros, rounding is to nearest, and nothing traps, as in
// TensorFlow's kernels: results have the bits of the ops, whatever mode the
// caller is in. Threads that are started meanwhile inherit this mode. The one
// from before comes back at the end.
class ScopedFloatMode {
 public:
  ScopedFloatMode() : before_(ReadFloatMode()) {
    WriteFloatMode(kFlushDenormals | kTrapNothing);
  }
  ~ScopedFloatMode() { WriteFloatMode(before_); }
  ScopedFloatMode(const ScopedFloatMode&) = delete;
  ScopedFloatMode& operator=(const ScopedFloatMode&) = delete;

 private:
  const uint64_t before_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_THREADS_FLOAT_MODE_H_
