#define RNN_ISA scalar
#include "kernels/engine/simd/vec_scalar.h"
// The vector type comes first.
#include "kernels/engine/simd/product-inl.h"
//
#include "kernels/engine/simd/math-inl.h"
//
#include "kernels/engine/simd/cells-inl.h"
#include "kernels/engine/simd/conversions-inl.h"
#include "kernels/engine/simd/target-inl.h"

namespace rnn {
extern const SimdTarget kSimdTarget_scalar;
const SimdTarget kSimdTarget_scalar = scalar::MakeTarget("scalar");
}  // namespace rnn
