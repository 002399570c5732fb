// clang-format off: the vector type comes first.
#define RNN_ISA avx512_amx
#include "kernels/engine/simd/vec_avx512_bf16.h"
#include "kernels/engine/simd/target-inl.h"
#include "kernels/engine/simd/amx-inl.h"
#include "benchmarks/probes-inl.h"
// clang-format on

namespace rnn {
namespace avx512_amx {
namespace {

double MultiplyAddInRegisters(int64_t rounds, float* sink) {
  RegisterShapes shapes;
  shapes.SetRows(kRegisterRows, kRegisterRows);
  Unroll<kFirstB + 1>([](auto i)
                          RNN_ALWAYS_INLINE { ZeroRegister<i.value>(); });
  for (int64_t round = 0; round < rounds; ++round) {
    Unroll<kNumSums>([](auto i) RNN_ALWAYS_INLINE {
      MultiplyAddRegisters<i.value, kFirstA, kFirstB>();
    });
  }
  *sink = 0;
  return 2.0 * kNumSums * kRegisterRows * kRegisterLanes * kRegisterDepth *
         static_cast<double>(rounds);
}

constexpr Probes MakeRegisterProbes() {
  Probes probes = MakeProbes();
  probes.multiply_add_bfloat16 = MultiplyAddInRegisters;
  return probes;
}

}  // namespace
}  // namespace avx512_amx

extern const Probes kProbes_avx512_amx;
const Probes kProbes_avx512_amx = avx512_amx::MakeRegisterProbes();
}  // namespace rnn
