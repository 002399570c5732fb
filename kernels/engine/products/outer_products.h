// Sums of outer products, which is what the gradients of matrices are.
#ifndef KERNELS_ENGINE_PRODUCTS_OUTER_PRODUCTS_H_
#define KERNELS_ENGINE_PRODUCTS_OUTER_PRODUCTS_H_

#include <cstdint>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/passes/tensor_rows.h"
#include "kernels/engine/plan/arena.h"
#include "kernels/engine/products/matrix_product.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/weights/packing.h"
#include "kernels/engine/weights/parts.h"

namespace rnn {

// matrix (+)= the sum over rows i of left[i] right[i]^T, which is the product
// of the transpose of `left` with `right`.
template <typename Operand>
class OuterProducts {
 public:
  using F = ComputeType<Operand>;

  // Takes from the arena all the memory that is needed later. shape_rows counts
  // the rows of all steps, as MultipliesInParts() does. Between SetLeft() and
  // the last Multiply() with what it set nobody else may use the memory.
  static OuterProducts Take(Arena& arena, int64_t shape_rows, int64_t max_rows,
                            int64_t max_left_columns,
                            int64_t max_right_columns) {
    OuterProducts products;
    products.shape_rows_ = shape_rows;
    const bool may_split = MultipliesInParts<Operand>(
        shape_rows, max_left_columns, max_right_columns);
    products.right_ = PackedMatrix<Operand>::Take(arena, max_rows,
                                                  max_right_columns, may_split);
    products.left_ = RowBuffer<Operand>::Take(arena, max_left_columns,
                                              PaddedDepth<Operand>(max_rows));
    if (may_split) {
      products.left_parts_ = arena.Take<BFloat16>(
          LeftParts::Size(max_left_columns, PaddedPartsDepth(max_rows)));
    }
    products.matrix_rows_ = arena.Take<F*>(max_left_columns);
    return products;
  }

  // Left operands [rows, columns] of what follows. They are transposed once,
  // when a product needs them.
  void SetLeft(const Operand* const* left, int64_t rows, int64_t columns) {
    source_ = left;
    rows_ = rows;
    columns_ = columns;
    is_transposed_ = is_split_ = false;
  }

  // `matrix` is [left columns, right columns], of which right operands have
  // these pieces.
  void Multiply(const Operand* const* right, const Pieces& pieces,
                bool accumulate, Executor& executor, F* matrix) {
    const bool in_parts =
        MultipliesInParts<Operand>(shape_rows_, columns_, pieces.size());
    right_.SetInParts(in_parts);
    PackRowPieces<Operand>(right, rows_, pieces, executor, &right_);
    for (int64_t i = 0; i < columns_; ++i) {
      matrix_rows_[i] = matrix + i * pieces.size();
    }
    RowsTimesMatrix<Operand> product;
    product.rows = columns_;
    if (in_parts) {
      product.left_parts = TransposedInParts(executor);
    } else {
      product.a = Transposed(executor);
    }
    product.b = &right_;
    product.c = matrix_rows_;
    product.accumulate = accumulate;
    rnn::Multiply(product, executor);
  }

 private:
  const Operand* const* Transposed(Executor& executor) {
    if (is_transposed_) return left_.rows;
    is_transposed_ = true;
    const int64_t row_size = PaddedDepth<Operand>(rows_);
    ParallelFor(
        executor, columns_, rows_ * kMoveWork, [&](int64_t begin, int64_t end) {
          Kernels<Operand>().transpose_rows(source_, rows_, begin, end,
                                            left_.values + begin * row_size,
                                            row_size);
        });
    left_.SetRows(columns_, row_size);
    return left_.rows;
  }

  LeftParts TransposedInParts(Executor& executor) {
    const LeftParts parts = LeftParts::In(left_parts_, PaddedPartsDepth(rows_));
    if constexpr (std::is_same_v<Operand, float>) {
      if (!is_split_) SplitColumns(source_, rows_, columns_, executor, parts);
      is_split_ = true;
    }
    return parts;
  }

  int64_t shape_rows_ = 0;
  const Operand* const* source_ = nullptr;  // [rows_] -> [columns_]
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  bool is_transposed_ = false;
  bool is_split_ = false;
  RowBuffer<Operand> left_;         // [left columns, rows]
  BFloat16* left_parts_ = nullptr;  // the same
  PackedMatrix<Operand> right_;     // [rows, right columns]
  F** matrix_rows_ = nullptr;       // [left columns]
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PRODUCTS_OUTER_PRODUCTS_H_
