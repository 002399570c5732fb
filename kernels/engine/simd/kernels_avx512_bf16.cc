// clang-format off: the vector type comes first.
#define RNN_ISA avx512_bf16
#include "kernels/engine/simd/vec_avx512_bf16.h"
#include "kernels/engine/simd/math_avx512-inl.h"
#include "kernels/engine/simd/target-inl.h"
#include "kernels/engine/simd/avx512_kernels.h"
// clang-format on

namespace rnn {
const SimdKernels<BFloat16> kAvx512BFloat16Kernels =
    avx512_bf16::kKernels<BFloat16>;
const Int8Kernels kAvx512Bf16Int8Kernels = avx512_bf16::kInt8Kernels;
extern const SimdTarget kSimdTarget_avx512_bf16;
const SimdTarget kSimdTarget_avx512_bf16 = avx512_bf16::MakeTarget(
    "avx512_bf16", &kAvx512FloatKernels, &kAvx512DoubleKernels,
    &kAvx512Bf16Int8Kernels, &kAvx512BFloat16Kernels);
}  // namespace rnn
