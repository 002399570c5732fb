// What this CPU can do, and what of it the system lets programs use.
#ifndef KERNELS_ENGINE_SIMD_CPU_FEATURES_H_
#define KERNELS_ENGINE_SIMD_CPU_FEATURES_H_

#include <stdint.h>

namespace rnn {

// The facts as they are read; of CPUs other than x86-64 there are none. A flag
// counts only if the system saves the registers that go with it: otherwise
// their instructions are illegal, or lose values when threads take turns.
struct CpuFeatures {
  bool is_amd = false;  // who made it, by leaf 0 of CPUID
  // Words of CPUID; 0 if the CPU does not have that leaf.
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0;
  uint32_t leaf7_ecx = 0;
  uint32_t leaf7_edx = 0;
  uint32_t leaf7_1_eax = 0;
  uint64_t xcr0 = 0;  // which registers the system saves; 0 if it does not say
  // Asks the system for tile registers; returns whether it agreed. Not asked
  // before all else is known to be there.
  bool (*request_tile_registers)() = nullptr;

  static CpuFeatures Here();

  // Each includes those above it: their code is compiled for all of them.
  bool HasAvx2() const;        // FMA and F16C, too
  bool HasAvx512() const;      // F, VL, DQ and BW
  bool HasAvx512Bf16() const;  // products of bfloat16; VNNI, too
  bool HasAmx() const;         // with products of bfloat16; may ask the system

  // Whether the products of HasAvx512Bf16() are faster than those of floats
  // that bfloat16 is widened to: on Zen 4 and later. Intel's run at half the
  // speed of floats (docs/decisions/bfloat16.md). Others are not known.
  bool HasFastAvx512Bf16() const;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_CPU_FEATURES_H_
