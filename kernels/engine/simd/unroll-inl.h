// Loops that the compiler must not leave as loops.
#ifndef KERNELS_ENGINE_SIMD_UNROLL_INL_H_
#define KERNELS_ENGINE_SIMD_UNROLL_INL_H_

#define RNN_ALWAYS_INLINE __attribute__((always_inline))
#define RNN_NEVER_INLINE __attribute__((noinline))

namespace rnn {
namespace RNN_ISA {
namespace {

template <int kValue>
struct Constant {
  static constexpr int value = kValue;
};

// function(Constant<0>()) ... function(Constant<kCount - 1>()). Arrays indexed
// by such constants live in registers; GCC leaves those indexed by a loop's
// variable in memory, even when it unrolls the loop.
template <int kCount, typename Function>
RNN_ALWAYS_INLINE inline void Unroll(Function function) {
  if constexpr (kCount > 0) {
    Unroll<kCount - 1>(function);
    function(Constant<kCount - 1>());
  }
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_UNROLL_INL_H_
