#include "kernels/engine/simd/cpu_features.h"

#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>

#include "kernels/engine/simd/tile_registers.h"
#endif

namespace rnn {

namespace {

constexpr uint32_t Bit(int i) { return uint32_t{1} << i; }

// Compilers' names for these differ.
constexpr uint32_t kFma = Bit(12);  // leaf 1, ecx
constexpr uint32_t kOsXsave = Bit(27);
constexpr uint32_t kAvx = Bit(28);
constexpr uint32_t kF16c = Bit(29);
constexpr uint32_t kAvx2 = Bit(5);  // leaf 7, ebx
constexpr uint32_t kAvx512f = Bit(16);
constexpr uint32_t kAvx512dq = Bit(17);
constexpr uint32_t kAvx512bw = Bit(30);
constexpr uint32_t kAvx512vl = Bit(31);
constexpr uint32_t kAvx512Vnni = Bit(11);  // leaf 7, ecx
constexpr uint32_t kAmxBf16 = Bit(22);     // leaf 7, edx
constexpr uint32_t kAmxTile = Bit(24);
constexpr uint32_t kAvx512Bf16 = Bit(5);  // leaf 7, subleaf 1, eax

// XCR0: the lower and the upper half of YMM; masks and what ZMM has more;
// configuration and data of tiles.
constexpr uint64_t kYmmState = Bit(1) | Bit(2);
constexpr uint64_t kZmmState = Bit(5) | Bit(6) | Bit(7);
constexpr uint64_t kTileState = Bit(17) | Bit(18);

constexpr bool HasAll(uint64_t word, uint64_t flags) {
  return (word & flags) == flags;
}

}  // namespace

CpuFeatures CpuFeatures::Here() {
  CpuFeatures cpu;
#if defined(__x86_64__)
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx)) {
    cpu.is_amd = ebx == signature_AMD_ebx && ecx == signature_AMD_ecx &&
                 edx == signature_AMD_edx;
  }
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) cpu.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
    const uint32_t last_subleaf = eax;
    cpu.leaf7_ebx = ebx;
    cpu.leaf7_ecx = ecx;
    cpu.leaf7_edx = edx;
    if (last_subleaf >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) {
      cpu.leaf7_1_eax = eax;
    }
  }
  if (HasAll(cpu.leaf1_ecx, kOsXsave)) {  // otherwise this would be illegal
    asm volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    cpu.xcr0 = uint64_t{edx} << 32 | eax;
  }
  cpu.request_tile_registers = RequestTileRegisters;
#if defined(RNN_EMULATED_AVX512)
  // By AVX2: as if all that HasAvx512Bf16() looks for were there.
  if (cpu.HasAvx2()) {
    cpu.leaf7_ebx |= kAvx512f | kAvx512dq | kAvx512bw | kAvx512vl;
    cpu.leaf7_ecx |= kAvx512Vnni;
    cpu.leaf7_1_eax |= kAvx512Bf16;
    cpu.xcr0 |= kZmmState;
  }
#endif
#if defined(RNN_EMULATED_TILE_REGISTERS)
  cpu.leaf7_edx |= kAmxTile | kAmxBf16;
  cpu.xcr0 |= kTileState;
#endif
#endif
  return cpu;
}

bool CpuFeatures::HasAvx2() const {
  return HasAll(leaf1_ecx, kOsXsave | kAvx | kFma | kF16c) &&
         HasAll(leaf7_ebx, kAvx2) && HasAll(xcr0, kYmmState);
}

bool CpuFeatures::HasAvx512() const {
  return HasAvx2() &&
         HasAll(leaf7_ebx, kAvx512f | kAvx512dq | kAvx512bw | kAvx512vl) &&
         HasAll(xcr0, kZmmState);
}

bool CpuFeatures::HasAvx512Bf16() const {
  return HasAvx512() && HasAll(leaf7_ecx, kAvx512Vnni) &&
         HasAll(leaf7_1_eax, kAvx512Bf16);
}

bool CpuFeatures::HasFastAvx512Bf16() const {
  return HasAvx512Bf16() && is_amd;
}

bool CpuFeatures::HasAmx() const {
  return HasAvx512Bf16() && HasAll(leaf7_edx, kAmxTile | kAmxBf16) &&
         HasAll(xcr0, kTileState) && request_tile_registers != nullptr &&
         request_tile_registers();
}

}  // namespace rnn
