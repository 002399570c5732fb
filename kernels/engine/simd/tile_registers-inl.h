// The instructions of AMX's tile registers, and the shapes that they take.
#ifndef KERNELS_ENGINE_SIMD_TILE_REGISTERS_INL_H_
#define KERNELS_ENGINE_SIMD_TILE_REGISTERS_INL_H_

#include <stdint.h>

#include "kernels/engine/simd/tile_configuration-inl.h"
#include "kernels/engine/simd/unroll-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// The compiler does not know that loads read what was stored before: hence
// assembler, which keeps its order, and of which those that touch memory say
// so.
template <int kRegister>
RNN_ALWAYS_INLINE inline void ZeroRegister() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kRegister));
}
template <int kRegister>
RNN_ALWAYS_INLINE inline void LoadRegister(const void* rows,
                                           int64_t stride_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(rows), "r"(stride_bytes), "i"(kRegister)
               : "memory");
}
template <int kRegister>
RNN_ALWAYS_INLINE inline void StoreRegister(void* rows, int64_t stride_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(rows), "r"(stride_bytes), "i"(kRegister)
               : "memory");
}
template <int kSums, int kA, int kB>
RNN_ALWAYS_INLINE inline void MultiplyAddRegisters() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
               :
               : "i"(kSums), "i"(kA), "i"(kB));
}

// A thread has registers from the first call on, until it releases them.
RNN_ALWAYS_INLINE inline void ConfigureRegisters(
    const RegisterConfiguration& configuration) {
  asm volatile("ldtilecfg %0" : : "m"(configuration) : "memory");
}
RNN_ALWAYS_INLINE inline void ReleaseRegisters() {
  asm volatile("tilerelease");
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_TILE_REGISTERS_INL_H_
