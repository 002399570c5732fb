// clang-format off: the vector type comes first.
#define RNN_ISA avx2
#include "kernels/engine/simd/vec_avx2.h"
#include "benchmarks/probes-inl.h"
// clang-format on

namespace rnn {
extern const Probes kProbes_avx2;
const Probes kProbes_avx2 = avx2::MakeProbes();
}  // namespace rnn
