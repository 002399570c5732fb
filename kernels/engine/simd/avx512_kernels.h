// Kernels that every instruction set with AVX-512 has in common: what
// avx512_bf16 and avx512_amx add does nothing for these types.
#ifndef KERNELS_ENGINE_SIMD_AVX512_KERNELS_H_
#define KERNELS_ENGINE_SIMD_AVX512_KERNELS_H_

#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {

extern const SimdKernels<float> kAvx512FloatKernels;
extern const SimdKernels<double> kAvx512DoubleKernels;

}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_AVX512_KERNELS_H_
