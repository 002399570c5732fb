// clang-format off: the vector type comes first.
#define RNN_ISA scalar
#include "kernels/engine/simd/vec_scalar.h"
#include "kernels/engine/simd/target-inl.h"
// clang-format on

namespace rnn {
extern const SimdTarget kSimdTarget_scalar;
const SimdTarget kSimdTarget_scalar =
    scalar::MakeTarget("scalar", &scalar::kKernels<float>,
                       &scalar::kKernels<double>, &scalar::kInt8Kernels);
}  // namespace rnn
