// Kernels that instruction sets with AVX-512 have in common: what avx512_bf16
// and avx512_amx add does nothing for floats and doubles, and of
// avx512_bf16's kernels tile registers change only products of bfloat16 with
// packed operands.
#ifndef KERNELS_ENGINE_SIMD_AVX512_KERNELS_H_
#define KERNELS_ENGINE_SIMD_AVX512_KERNELS_H_

#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {

extern const SimdKernels<float> kAvx512FloatKernels;
extern const SimdKernels<double> kAvx512DoubleKernels;
extern const SimdKernels<BFloat16> kAvx512BFloat16Kernels;
extern const Int8Kernels kAvx512Bf16Int8Kernels;

}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_AVX512_KERNELS_H_
