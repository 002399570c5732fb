#include "kernels/engine/weights/parts.h"

#include <algorithm>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "network/round.h"

namespace rnn {

void SplitRows(const float* const* rows, int64_t num_rows,
               const PartsDepth& depth, Executor& executor,
               const LeftParts& left) {
  ParallelFor(executor, num_rows, depth.size() * speed::kMoveWork,
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  BFloat16* const parts = left.From(i).values;
                  for (int piece = 0; piece < depth.num_pieces; ++piece) {
                    KernelsOfParts().split_row(
                        rows[i] + piece * depth.width, depth.width,
                        parts + piece * depth.padded_width() * kNumParts);
                  }
                }
              });
}

void SplitColumns(const float* const* rows, int64_t depth, int64_t columns,
                  Executor& executor, const LeftParts& left) {
  constexpr int64_t kColumns = speed::kSplitColumns;
  constexpr int64_t kSlice = speed::kSplitDepth;
  static_assert(kSlice % kPartsDepth == 0);
  ParallelFor(executor, DivideUp(columns, kColumns),
              depth * kColumns * speed::kMoveWork,
              [&](int64_t begin, int64_t end) {
                alignas(64) float transposed[kColumns * kSlice];
                const int64_t last = std::min(end * kColumns, columns);
                for (int64_t j = begin * kColumns; j < last; j += kColumns) {
                  const int64_t count = std::min(kColumns, last - j);
                  for (int64_t k = 0; k < depth; k += kSlice) {
                    const int64_t slice = std::min(kSlice, depth - k);
                    Kernels<float>().transpose_rows(
                        rows + k, slice, j, j + count, transposed, kSlice);
                    for (int64_t i = 0; i < count; ++i) {
                      KernelsOfParts().split_row(
                          transposed + i * kSlice, slice,
                          left.values + (j + i) * left.stride + k * kNumParts);
                    }
                  }
                }
              });
}

int64_t PartsPanelSize(int64_t padded_depth) {
  return padded_depth * kNumParts * Kernels<float>().panel_columns;
}

}  // namespace rnn
