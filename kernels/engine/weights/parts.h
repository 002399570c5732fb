// Operands of products of floats in bfloat16 parts (PartsKernels), where the
// instruction set has them.
#ifndef KERNELS_ENGINE_WEIGHTS_PARTS_H_
#define KERNELS_ENGINE_WEIGHTS_PARTS_H_

#include <cstdint>

#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"
#include "network/element_types.h"

namespace rnn {

inline const PartsKernels& KernelsOfParts() {
  return *SelectSimdTarget().parts_kernels;
}

// The left operand A [rows, depth].
struct LeftParts {
  BFloat16* values = nullptr;
  int64_t stride = 0;  // from row to row

  // In memory of LeftPartsBytes().
  static LeftParts In(BFloat16* values, int64_t padded_depth) {
    return {values, LeftPartsStride(padded_depth)};
  }

  LeftParts From(int64_t row) const { return {values + row * stride, stride}; }
};

// left = rows.
void SplitRows(const float* const* rows, int64_t num_rows,
               const PartsDepth& depth, Executor& executor,
               const LeftParts& left);
// left = the transpose of rows [depth][columns].
void SplitColumns(const float* const* rows, int64_t depth, int64_t columns,
                  Executor& executor, const LeftParts& left);

// Elements of a panel of the right operand.
int64_t PartsPanelSize(int64_t padded_depth);

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_PARTS_H_
