#define RNN_ISA avx2
#include "kernels/engine/simd/vec_avx2.h"
// The vector type comes first.
#include "kernels/engine/simd/product-inl.h"
//
#include "kernels/engine/simd/math-inl.h"
//
#include "kernels/engine/simd/cells-inl.h"
#include "kernels/engine/simd/conversions-inl.h"
#include "kernels/engine/simd/target-inl.h"

namespace rnn {
extern const SimdTarget kSimdTarget_avx2;
const SimdTarget kSimdTarget_avx2 = avx2::MakeTarget("avx2");
}  // namespace rnn
