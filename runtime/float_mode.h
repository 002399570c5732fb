// How a thread computes with floating-point numbers while it is in a call.
#ifndef RUNTIME_FLOAT_MODE_H_
#define RUNTIME_FLOAT_MODE_H_

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace rnn_runtime {

// Denormals are zeros, rounding is to nearest, and nothing traps, as in
// TensorFlow's kernels: results have the bits of the ops, whatever mode the
// caller and the helpers of a call are in. The mode from before comes back at
// the end.
class ScopedFloatMode {
 public:
  ScopedFloatMode() : before_(Mode()) { SetMode(kOfCalls); }
  ~ScopedFloatMode() { SetMode(before_); }
  ScopedFloatMode(const ScopedFloatMode&) = delete;
  ScopedFloatMode& operator=(const ScopedFloatMode&) = delete;

 private:
#if defined(__x86_64__)
  // FTZ, all exceptions masked, DAZ.
  static constexpr uint64_t kOfCalls = 0x8000 | 0x1f80 | 0x40;

  static uint64_t Mode() { return _mm_getcsr(); }
  static void SetMode(uint64_t mode) {
    _mm_setcsr(static_cast<uint32_t>(mode));
  }
#elif defined(__aarch64__)
  // FZ; not FZ16, for denormals of float16 count as numbers.
  static constexpr uint64_t kOfCalls = uint64_t{1} << 24;

  static uint64_t Mode() {
    uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void SetMode(uint64_t mode) {
    asm volatile("msr fpcr, %0" : : "r"(mode) : "memory");
  }
#else
  static constexpr uint64_t kOfCalls = 0;

  static uint64_t Mode() { return 0; }
  static void SetMode(uint64_t) {}
#endif

  const uint64_t before_;
};

}  // namespace rnn_runtime

#endif  // RUNTIME_FLOAT_MODE_H_
