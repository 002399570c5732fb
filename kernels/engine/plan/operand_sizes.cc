#include "kernels/engine/plan/operand_sizes.h"

#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {

int64_t PartsDepth::padded_width() const { return PaddedPartsDepth(width); }

int64_t OperandShape::PaddedDepth(const KernelShape& kernels) const {
  return IsInParts(route) ? parts_depth().padded() : kernels.PaddedDepth(depth);
}

int64_t OperandShape::ElementBytes(const KernelShape& kernels) const {
  return IsInParts(route) ? kNumParts * int64_t{sizeof(BFloat16)}
                          : kernels.operand_bytes;
}

int64_t OperandShape::Bytes(const KernelShape& kernels) const {
  if (IsInPlace(route)) return 0;
  return kernels.NumPanels(columns) * kernels.panel_columns *
         PaddedDepth(kernels) * ElementBytes(kernels);
}

int64_t LeftPartsStride(int64_t padded_depth) {
  // An odd number of cache lines: rows do not drive each other out.
  constexpr int64_t kLine = 64 / sizeof(BFloat16);
  return (padded_depth * kNumParts / kLine | 1) * kLine;
}

int64_t LeftPartsBytes(int64_t rows, int64_t padded_depth) {
  return (rows + kPartsRows - 1) / kPartsRows * kPartsRows *
         LeftPartsStride(padded_depth) * int64_t{sizeof(BFloat16)};
}

}  // namespace rnn
