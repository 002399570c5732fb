// Products of rows with a right operand. Operand is as in simd_kernels.h, and F
// the type that it is computed in.
#ifndef KERNELS_ENGINE_PRODUCTS_MATRIX_PRODUCT_H_
#define KERNELS_ENGINE_PRODUCTS_MATRIX_PRODUCT_H_

#include <cstdint>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/weights/int8_matrix.h"
#include "kernels/engine/weights/parts.h"
#include "kernels/engine/weights/right_operand.h"

namespace rnn {

// c[m] (+)= a[m] B + bias, for all rows m: all but B.
template <typename Operand>
struct RowsTimesMatrix {
  using F = ComputeType<Operand>;
  int64_t rows = 0;
  const Operand* const* a = nullptr;  // [rows] -> [depth]
  // If B is in parts: memory for those of a or, if `a` is nullptr, a itself.
  LeftParts left_parts;
  // If B is int8: memory for a, rounded, which only Multiply() does itself.
  LeftIntegers left_integers;
  F* const* c = nullptr;    // [rows] -> [columns]
  const F* bias = nullptr;  // [columns]
  bool accumulate = false;
  // As in PanelProduct, where B is packed. B in parts has chains of its own.
  int64_t chain = 0;
};

// All of it. B may have come along any route. How work is split among threads
// does not change bits, nor does packing in turn.
template <typename Element, typename Operand>
void Multiply(const RowsTimesMatrix<Operand>& product,
              const RightOperand<Element, Operand>& b, Executor& executor);

// What one panel of B contributes to some rows, B being packed, in parts or
// int8; aborts if it is not. If it is in parts or int8, so must be the left
// operand.
template <typename Element, typename Operand>
void MultiplyPanel(const RowsTimesMatrix<Operand>& product,
                   const RightOperand<Element, Operand>& b,
                   const PanelRows& share);

// Columns [column_begin, column_end) of rows [row_begin, row_end).
struct ColumnRows {
  static constexpr int64_t kNone = -1;

  int64_t column_begin = 0;
  int64_t column_end = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  // The first that its thread takes up next, or kNone.
  int64_t next_column = kNone;
  // In which dot panels had better be read; whatever else comes ascends.
  Order order = Order::kAscending;
};

// What up to kMaxGates shares of columns of B contribute to the same rows, B
// coming by columns. If it is int8, the left operand must be rounded.
template <typename Element, typename Operand>
void MultiplyColumns(const RowsTimesMatrix<Operand>& product,
                     const RightOperand<Element, Operand>& b,
                     const ColumnRows* shares, int count = 1);

}  // namespace rnn

#endif  // KERNELS_ENGINE_PRODUCTS_MATRIX_PRODUCT_H_
