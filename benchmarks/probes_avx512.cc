// clang-format off: the vector type comes first.
#define RNN_ISA avx512
#include "kernels/engine/simd/vec_avx512.h"
#include "benchmarks/probes-inl.h"
// clang-format on

namespace rnn {
extern const Probes kProbes_avx512;
const Probes kProbes_avx512 = avx512::MakeProbes();
}  // namespace rnn
