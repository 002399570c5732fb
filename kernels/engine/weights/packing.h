// Copying matrices into the panels that micro-kernels multiply by
// (simd_kernels.h). Operand is float, double or, where the instruction set
// multiplies it, BFloat16.
#ifndef KERNELS_ENGINE_WEIGHTS_PACKING_H_
#define KERNELS_ENGINE_WEIGHTS_PACKING_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/thresholds.h"
#include "kernels/engine/weights/matrix_source.h"
#include "network/element_types.h"
#include "network/round.h"

namespace rnn {

template <typename Operand>
int64_t NumPanels(int64_t columns) {
  const int64_t width = Kernels<Operand>().panel_columns;
  return DivideUp(columns, width);
}

// Packs all of the source, of [depth, columns]: panel after panel, each [padded
// depth][panel columns], filled up with zeros.
template <typename Element, typename Operand>
void PackPanels(const MatrixSource<Element>& source, Executor& executor,
                Operand* panels);
// Packs all of the source in parts: panel after panel, each of
// PartsPanelSize(depth.padded()) values.
template <typename Element>
void PackPanelsInParts(const MatrixSource<Element>& source,
                       const PartsDepth& depth, Executor& executor,
                       BFloat16* panels);

// Packs all of the source in dot panels. Its columns are rows of memory, as
// they lie, of whole steps of depth.
template <typename Operand>
void PackDotPanels(const MatrixSource<Operand>& source,
                   const DotPanelShape& shape, Executor& executor,
                   Operand* panels);

// [k_begin, k_end) of the depth of panels [begin, end).
struct PanelBlocks {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t k_begin = 0;  // the first of a step
  int64_t k_end = 0;
};

// Packs `blocks` of the source into `out`, where each panel's begins
// `out_stride` values after the one before.
template <typename Element, typename Operand>
void PackBlocks(const MatrixSource<Element>& source, const PanelBlocks& blocks,
                Operand* out, int64_t out_stride);

static_assert(speed::kRowsPackedTogether % kDepthStep<BFloat16> == 0);

// Rows [k_begin, k_end) of some columns of B, at most
// speed::kRowsPackedTogether.
struct RowBlock {
  int64_t k_begin = 0;
  int64_t k_end = 0;
  int64_t offset = 0;  // where in a row its columns begin
  int64_t columns = 0;
  int64_t padded_columns = 0;  // filled up with zeros
};

// As SimdKernels::pack_rows(), from any element type. row(k) is row k of B.
template <typename Operand, typename Row>
void PackRowsOf(const RowBlock& block, Operand* out, int64_t out_stride,
                Row row) {
  const int64_t num_rows = block.k_end - block.k_begin;
  using Element =
      std::remove_const_t<std::remove_pointer_t<decltype(row(num_rows))>>;
  if constexpr (std::is_same_v<Element, Operand>) {
    const Element* rows[speed::kRowsPackedTogether];
    for (int64_t i = 0; i < num_rows; ++i) {
      rows[i] = row(block.k_begin + i) + block.offset;
    }
    Kernels<Operand>().pack_rows(rows, num_rows, block.columns,
                                 block.padded_columns, out, out_stride);
  } else {
    static_assert(kDepthStep<Operand> == 1);
    for (int64_t k = block.k_begin; k < block.k_end; ++k, out += out_stride) {
      Load(row(k) + block.offset, out, block.columns);
      std::fill(out + block.columns, out + block.padded_columns, Operand{});
    }
  }
}

// [k_begin, k_end) of columns of B.
struct ColumnBlock {
  int64_t columns = 0;
  int64_t k_begin = 0;
  int64_t k_end = 0;
  // Where `k_begin` comes in the depth that is packed: a step may end with one
  // block and begin with the one before.
  int64_t k_out = 0;
};

// As SimdKernels::pack_columns, from any element type; `out` begins with depth
// 0 of what is packed.
template <typename Element, typename Operand>
void PackColumns(const Element* const* rows, const ColumnBlock& block,
                 Operand* out);

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_PACKING_H_
