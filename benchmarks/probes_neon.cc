// clang-format off: the vector type comes first.
#define RNN_ISA neon
#include "kernels/engine/simd/vec_neon.h"
#include "benchmarks/probes-inl.h"
// clang-format on

namespace rnn {
extern const Probes kProbes_neon;
const Probes kProbes_neon = neon::MakeProbes();
}  // namespace rnn
