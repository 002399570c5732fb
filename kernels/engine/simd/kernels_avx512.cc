// clang-format off: the vector type comes first.
#define RNN_ISA avx512
#include "kernels/engine/simd/vec_avx512.h"
#include "kernels/engine/simd/math_avx512-inl.h"
#include "kernels/engine/simd/target-inl.h"
#include "kernels/engine/simd/avx512_kernels.h"
// clang-format on

namespace rnn {
const SimdKernels<float> kAvx512FloatKernels = avx512::kKernels<float>;
const SimdKernels<double> kAvx512DoubleKernels = avx512::kKernels<double>;
extern const SimdTarget kSimdTarget_avx512;
const SimdTarget kSimdTarget_avx512 =
    avx512::MakeTarget("avx512", &kAvx512FloatKernels, &kAvx512DoubleKernels,
                       &avx512::kInt8Kernels);
}  // namespace rnn
