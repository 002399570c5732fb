// clang-format off: the vector type comes first.
#define RNN_ISA avx512
#include "kernels/engine/simd/vec_avx512.h"
#include "kernels/engine/simd/math_avx512-inl.h"
#include "kernels/engine/simd/target-inl.h"
// clang-format on

namespace rnn {
extern const SimdTarget kSimdTarget_avx512;
const SimdTarget kSimdTarget_avx512 = avx512::MakeTarget("avx512");
}  // namespace rnn
