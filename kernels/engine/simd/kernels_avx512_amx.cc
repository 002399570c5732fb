// clang-format off: the vector type comes first.
#define RNN_ISA avx512_amx
#include "kernels/engine/simd/vec_avx512_bf16.h"
#include "kernels/engine/simd/math_avx512-inl.h"
#include "kernels/engine/simd/target-inl.h"
#include "kernels/engine/simd/amx-inl.h"
#include "kernels/engine/simd/amx_parts-inl.h"
#include "kernels/engine/simd/avx512_kernels.h"
// clang-format on

namespace rnn {
static constexpr SimdKernels<BFloat16> kRegisterKernels =
    avx512_amx::MakeRegisterKernels();
static constexpr PartsKernels kPartsKernels = avx512_amx::MakePartsKernels();
extern const SimdTarget kSimdTarget_avx512_amx;
const SimdTarget kSimdTarget_avx512_amx = avx512_amx::MakeTarget(
    "avx512_amx", &kAvx512FloatKernels, &kAvx512DoubleKernels,
    &kAvx512Bf16Int8Kernels, &kRegisterKernels, &kPartsKernels);
}  // namespace rnn
