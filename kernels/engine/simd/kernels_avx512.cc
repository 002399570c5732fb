#define RNN_ISA avx512
#include "kernels/engine/simd/vec_avx512.h"
// The vector type comes first.
#include "kernels/engine/simd/product-inl.h"
//
#include "kernels/engine/simd/math-inl.h"
//
#include "kernels/engine/simd/cells-inl.h"
#include "kernels/engine/simd/conversions-inl.h"
#include "kernels/engine/simd/target-inl.h"

namespace rnn {
extern const SimdTarget kSimdTarget_avx512;
const SimdTarget kSimdTarget_avx512 = avx512::MakeTarget("avx512");
}  // namespace rnn
