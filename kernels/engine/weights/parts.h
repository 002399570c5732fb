// Operands of products of floats in bfloat16 parts (PartsKernels), where the
// instruction set has them.
#ifndef KERNELS_ENGINE_WEIGHTS_PARTS_H_
#define KERNELS_ENGINE_WEIGHTS_PARTS_H_

#include <algorithm>
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

// [begin, end) of the padded depth of a panel, whole groups. fill(first k, last
// k, rows) writes that of it, seen without what pads it, into rows [][panel
// columns].
template <typename Fill>
void SplitPanel(const PartsDepth& depth, int64_t begin, int64_t end,
                BFloat16* out, Fill fill) {
  float rows[kPartsDepth * kMaxPartsColumns];
  for (int64_t k = begin; k < end; k += kPartsDepth) {
    const int64_t piece = k / depth.padded_width();
    const int64_t first = k % depth.padded_width();
    const int64_t count = std::min(kPartsDepth, depth.width - first);
    const int64_t k_begin = piece * depth.width + first;
    fill(k_begin, k_begin + count, rows);
    KernelsOfParts().split_group(rows, count, out);
    out += PartsPanelSize(kPartsDepth);
  }
}

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_PARTS_H_
