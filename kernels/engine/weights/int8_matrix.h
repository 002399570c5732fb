// Operands of products of floats with int8 weights (Int8Kernels).
#ifndef KERNELS_ENGINE_WEIGHTS_INT8_MATRIX_H_
#define KERNELS_ENGINE_WEIGHTS_INT8_MATRIX_H_

#include <cstdint>

#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/plan/scratch.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"

namespace rnn {

inline const Int8Kernels& KernelsOfInt8() {
  return *SelectSimdTarget().int8_kernels;
}

// The right operand B [depth, columns], where the caller keeps it: B[k][j] is
// values[j * depth + k] * scales[j].
struct Int8Matrix {
  const int8_t* values = nullptr;
  const float* scales = nullptr;
  int64_t depth = 0;
  int64_t columns = 0;
};

// The left operand A [rows, depth], as integers.
struct LeftIntegers {
  int16_t* values = nullptr;
  int64_t stride = 0;  // from row to row
  float* scales = nullptr;

  static LeftIntegers In(const ScratchView& scratch, const IntegersBlock& block,
                         int64_t depth) {
    LeftIntegers left;
    left.values = scratch.At<int16_t>(block.values);
    left.stride = LeftIntegersStride(depth);
    left.scales = scratch.At<float>(block.scales);
    return left;
  }

  LeftIntegers From(int64_t row) const {
    return {values + row * stride, stride, scales + row};
  }
};

// left = rows, rounded.
void RoundRows(const float* const* rows, int64_t num_rows, int64_t depth,
               Executor& executor, const LeftIntegers& left);

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_INT8_MATRIX_H_
