// Products of rows with a packed matrix. F is float or double.
#ifndef KERNELS_ENGINE_MATRIX_PRODUCT_H_
#define KERNELS_ENGINE_MATRIX_PRODUCT_H_

#include <cstdint>

#include "kernels/engine/arena.h"
#include "kernels/engine/element_types.h"
#include "kernels/engine/executor.h"

namespace rnn {

// The right operand B [depth, columns], in panels of the width the micro-kernel
// dictates (simd_kernels.h).
template <typename F>
struct PackedMatrix {
  int64_t depth = 0;
  int64_t columns = 0;
  F* panels = nullptr;

  static PackedMatrix Take(Arena& arena, int64_t max_depth,
                           int64_t max_columns);

  int64_t num_panels() const;
  const F* panel(int64_t index) const;
};

// B[k][j] = source[k * stride + j]
template <typename Element>
void Pack(const Element* source, int64_t stride, int64_t depth, int64_t columns,
          Executor& executor, PackedMatrix<ComputeType<Element>>* packed);

// Columns that lie in a source in another order: piece p is the `width` columns
// from begins[p] on.
struct Pieces {
  const int64_t* begins;
  int count;
  int64_t width;

  int64_t columns() const { return count * width; }
};

// B[k][p * width + u] = source[k * stride + begins[p] + u]
template <typename Element>
void PackPieces(const Element* source, int64_t stride, int64_t depth,
                const Pieces& pieces, Executor& executor,
                PackedMatrix<ComputeType<Element>>* packed);

// B[k][p * width + u] = rows[k][begins[p] + u]
template <typename F>
void PackRowPieces(const F* const* rows, int64_t depth, const Pieces& pieces,
                   Executor& executor, PackedMatrix<F>* packed);

// B[p * width + u][j] = source[j * stride + begins[p] + u]
template <typename Element>
void PackTransposedPieces(const Element* source, int64_t stride,
                          const Pieces& pieces, int64_t columns,
                          Executor& executor,
                          PackedMatrix<ComputeType<Element>>* packed);

// B[k][j] = rows[k][j]
template <typename F>
void PackRows(const F* const* rows, int64_t depth, int64_t columns,
              Executor& executor, PackedMatrix<F>* packed);

// B[k][j] = source[j * stride + k]
template <typename Element>
void PackTransposed(const Element* source, int64_t stride, int64_t depth,
                    int64_t columns, Executor& executor,
                    PackedMatrix<ComputeType<Element>>* packed);

// As SimdKernels::transpose_rows, from any element type, without gaps.
template <typename Element>
void TransposeRows(const Element* const* rows, int64_t columns, int64_t k_begin,
                   int64_t k_end, ComputeType<Element>* out);

// The right operand where the caller keeps it, for products of so few rows that
// packing would cost more than it saves. Either transposed,
//   B[k][j] = source[j * stride + k],
// or, if there are pieces, as PackPieces has it, and then their width is a
// multiple of SimdKernels::lanes.
template <typename F>
struct UnpackedMatrix {
  int64_t depth;
  int64_t columns;
  const F* source;
  int64_t stride;
  Pieces pieces = {nullptr, 0, 0};
};

// c[m] (+)= a[m] B + bias, for all rows m.
template <typename F>
struct RowsTimesMatrix {
  int64_t rows = 0;
  const F* const* a = nullptr;  // [rows] -> [depth]
  const PackedMatrix<F>* b = nullptr;
  const UnpackedMatrix<F>* unpacked = nullptr;  // in place of b
  F* const* c = nullptr;                        // [rows] -> [columns]
  const F* bias = nullptr;                      // [columns]
  bool accumulate = false;
};

template <typename F>
void Multiply(const RowsTimesMatrix<F>& product, Executor& executor);

// The part of a product that one panel of B contributes to some rows.
template <typename F>
void MultiplyPanel(const RowsTimesMatrix<F>& product, int64_t panel,
                   int64_t row_begin, int64_t row_end);

}  // namespace rnn

#endif  // KERNELS_ENGINE_MATRIX_PRODUCT_H_
