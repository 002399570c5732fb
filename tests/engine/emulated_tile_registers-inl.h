// In place of kernels/engine/simd/tile_registers-inl.h: tile registers in plain
// memory, so that machines without AMX, but with AVX-512 BF16, can test what is
// written for it. Bazel's configuration "emulated_amx" builds with it.
//
// Source: Intel, "Intel 64 and IA-32 Architectures Software Developer's
// Manual", volume 2, LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TDPBF16PS.
#ifndef TESTS_ENGINE_EMULATED_TILE_REGISTERS_INL_H_
#define TESTS_ENGINE_EMULATED_TILE_REGISTERS_INL_H_

#include <immintrin.h>
#include <stdint.h>

#include "kernels/engine/simd/tile_configuration-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

constexpr int kRegisterRowBytes = 64;

struct EmulatedRegisters {
  alignas(64) uint8_t rows[kNumRegisters][kRegisterRows][kRegisterRowBytes];
  RegisterConfiguration configuration;
};
static thread_local EmulatedRegisters emulated_registers;

// A use of registers that have no shape is an error of the program.
inline int NumRowsOf(int tile) {
  const RegisterConfiguration& c = emulated_registers.configuration;
  if (c.palette != 1 || c.row_bytes[tile] != kRegisterRowBytes) {
    __builtin_trap();
  }
  return c.rows[tile];
}

template <int kRegister>
inline void ZeroRegister() {
  NumRowsOf(kRegister);
  __builtin_memset(emulated_registers.rows[kRegister], 0,
                   sizeof emulated_registers.rows[kRegister]);
}

// Rows beyond the register's become zeros.
template <int kRegister>
inline void LoadRegister(const void* rows, int64_t stride_bytes) {
  ZeroRegister<kRegister>();
  for (int i = 0; i < NumRowsOf(kRegister); ++i) {
    __builtin_memcpy(emulated_registers.rows[kRegister][i],
                     static_cast<const char*>(rows) + i * stride_bytes,
                     kRegisterRowBytes);
  }
}

template <int kRegister>
inline void StoreRegister(void* rows, int64_t stride_bytes) {
  for (int i = 0; i < NumRowsOf(kRegister); ++i) {
    __builtin_memcpy(static_cast<char*>(rows) + i * stride_bytes,
                     emulated_registers.rows[kRegister][i], kRegisterRowBytes);
  }
}

// Of each row of sums: the first values of all pairs are a chain of
// multiply-adds from zero, the second another, and the sum of both is added.
template <int kSums, int kA, int kB>
inline void MultiplyAddRegisters() {
  constexpr unsigned kZeroDenormalsAndRoundToNearest = 0x9fc0;
  const unsigned control = _mm_getcsr();
  _mm_setcsr(kZeroDenormalsAndRoundToNearest);
  asm volatile("" : : : "memory");  // keeps arithmetic between both changes
  for (int m = 0; m < NumRowsOf(kSums); ++m) {
    uint16_t a[2 * kRegisterRows];
    __builtin_memcpy(a, emulated_registers.rows[kA][m], sizeof a);
    __m512 chains[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (int k = 0; k < NumRowsOf(kB); ++k) {
      const __m512i b = _mm512_load_si512(emulated_registers.rows[kB][k]);
      const auto multiply_add = [&](int half, __m512i values) {
        const __m512i factor = _mm512_set1_epi32(
            static_cast<int32_t>(uint32_t{a[2 * k + half]} << 16));
        chains[half] =
            _mm512_fmadd_ps(_mm512_castsi512_ps(factor),
                            _mm512_castsi512_ps(values), chains[half]);
      };
      multiply_add(0, _mm512_slli_epi32(b, 16));
      multiply_add(1, _mm512_and_si512(
                          b, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
    }
    void* sums = emulated_registers.rows[kSums][m];
    _mm512_store_ps(sums, _mm512_add_ps(_mm512_load_ps(sums),
                                        _mm512_add_ps(chains[0], chains[1])));
  }
  asm volatile("" : : : "memory");
  _mm_setcsr(control);
}

inline void ConfigureRegisters(const RegisterConfiguration& configuration) {
  emulated_registers.configuration = configuration;
}

inline void ReleaseRegisters() { emulated_registers.configuration = {}; }

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // TESTS_ENGINE_EMULATED_TILE_REGISTERS_INL_H_
