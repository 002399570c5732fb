// clang-format off: the vector type comes first.
#define RNN_ISA avx512_bf16
#include "kernels/engine/simd/vec_avx512_bf16.h"
#include "kernels/engine/simd/math_avx512-inl.h"
#include "kernels/engine/simd/target-inl.h"
// clang-format on

namespace rnn {
static constexpr SimdKernels<BFloat16> kBFloat16Kernels =
    avx512_bf16::MakeKernels<BFloat16>();
extern const SimdTarget kSimdTarget_avx512_bf16;
const SimdTarget kSimdTarget_avx512_bf16 =
    avx512_bf16::MakeTarget("avx512_bf16", &kBFloat16Kernels);
}  // namespace rnn
