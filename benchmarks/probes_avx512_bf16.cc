// clang-format off: the vector type comes first.
#define RNN_ISA avx512_bf16
#include "kernels/engine/simd/vec_avx512_bf16.h"
#include "benchmarks/probes-inl.h"
// clang-format on

namespace rnn {
extern const Probes kProbes_avx512_bf16;
const Probes kProbes_avx512_bf16 = avx512_bf16::MakeProbes();
}  // namespace rnn
