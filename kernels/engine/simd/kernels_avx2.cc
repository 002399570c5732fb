// clang-format off: the vector type comes first.
#define RNN_ISA avx2
#include "kernels/engine/simd/vec_avx2.h"
#include "kernels/engine/simd/target-inl.h"
// clang-format on

namespace rnn {
extern const SimdTarget kSimdTarget_avx2;
const SimdTarget kSimdTarget_avx2 =
    avx2::MakeTarget("avx2", &avx2::kKernels<float>, &avx2::kKernels<double>,
                     &avx2::kInt8Kernels);
}  // namespace rnn
