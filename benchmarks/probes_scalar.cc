// clang-format off: the vector type comes first.
#define RNN_ISA scalar
#include "kernels/engine/simd/vec_scalar.h"
#include "benchmarks/probes-inl.h"
// clang-format on

namespace rnn {
extern const Probes kProbes_scalar;
const Probes kProbes_scalar = scalar::MakeProbes();
}  // namespace rnn
