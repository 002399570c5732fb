// clang-format off: the vector type comes first.
#define RNN_ISA neon
#include "kernels/engine/simd/vec_neon.h"
#include "kernels/engine/simd/target-inl.h"
// clang-format on

namespace rnn {
extern const SimdTarget kSimdTarget_neon;
const SimdTarget kSimdTarget_neon =
    neon::MakeTarget("neon", &neon::kKernels<float>, &neon::kKernels<double>,
                     &neon::kInt8Kernels);
}  // namespace rnn
