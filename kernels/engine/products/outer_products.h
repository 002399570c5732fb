// Sums of outer products, which is what the gradients of matrices are.
#ifndef KERNELS_ENGINE_PRODUCTS_OUTER_PRODUCTS_H_
#define KERNELS_ENGINE_PRODUCTS_OUTER_PRODUCTS_H_

#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/plan/scratch.h"
#include "kernels/engine/products/matrix_product.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "kernels/engine/weights/matrix_source.h"
#include "kernels/engine/weights/parts.h"
#include "kernels/engine/weights/right_operand.h"

namespace rnn {

// matrix (+)= the sum over rows i of left[i] right[i]^T, which is the product
// of the transpose of `left` with `right`.
template <typename Operand>
class OuterProducts {
 public:
  using F = ComputeType<Operand>;

  // `chain`: of the sums over rows (BackwardPlan::gradient_chain).
  OuterProducts(int64_t chain, const BackwardScratch::PseudoLayer& blocks,
                const ScratchView& scratch)
      : chain_(chain),
        right_memory_(scratch.At<void>(blocks.product_right)),
        left_values_(scratch.At<Operand>(blocks.product_left.values)),
        left_rows_(scratch.At<Operand*>(blocks.product_left.rows)),
        left_parts_values_(scratch.At<BFloat16>(blocks.product_left_parts)),
        matrix_rows_(scratch.At<F*>(blocks.product_rows)) {}

  // Values of left operands have changed.
  void ForgetLeft() { source_ = nullptr; }
  // Left operands [rows, columns] of what follows. They are transposed once,
  // when a product needs them. Until the last Multiply() with them nobody else
  // may use the memory.
  void SetLeft(const Operand* const* left, int64_t rows, int64_t columns) {
    if (left == source_ && rows == rows_ && columns == columns_) return;
    source_ = left;
    rows_ = rows;
    columns_ = columns;
    is_transposed_ = is_split_ = false;
  }

  // `matrix` is [left columns, right columns], of which right operands have
  // these pieces.
  void Multiply(const Operand* const* right, const Pieces& pieces,
                const OperandPlan& plan, bool accumulate, Executor& executor,
                F* matrix) {
    RightOperand<Operand, Operand> operand;
    operand.Prepare(MatrixSource<Operand>::RowsAt(right, rows_, pieces), plan,
                    right_memory_, executor);
    for (int64_t i = 0; i < columns_; ++i) {
      matrix_rows_[i] = matrix + i * pieces.size();
    }
    RowsTimesMatrix<Operand> product;
    product.rows = columns_;
    if (operand.in_parts()) {
      product.left_parts = TransposedInParts(executor);
    } else {
      product.a = Transposed(executor);
    }
    product.c = matrix_rows_;
    product.accumulate = accumulate;
    product.chain = chain_;
    rnn::Multiply(product, operand, executor);
  }

 private:
  const Operand* const* Transposed(Executor& executor) {
    if (is_transposed_) return left_rows_;
    is_transposed_ = true;
    const int64_t row_size = PaddedDepth<Operand>(rows_);
    ParallelFor(executor, columns_, rows_ * speed::kMoveWork,
                [&](int64_t begin, int64_t end) {
                  Kernels<Operand>().transpose_rows(
                      source_, rows_, begin, end,
                      left_values_ + begin * row_size, row_size);
                });
    for (int64_t i = 0; i < columns_; ++i) {
      left_rows_[i] = left_values_ + i * row_size;
    }
    return left_rows_;
  }

  LeftParts TransposedInParts(Executor& executor) {
    const LeftParts parts =
        LeftParts::In(left_parts_values_, PaddedPartsDepth(rows_));
    if constexpr (std::is_same_v<Operand, float>) {
      if (!is_split_) SplitColumns(source_, rows_, columns_, executor, parts);
      is_split_ = true;
    } else {
      std::abort();  // nothing is in parts
    }
    return parts;
  }

  const int64_t chain_;
  void* right_memory_;    // [rows, right columns], prepared
  Operand* left_values_;  // [left columns, rows]
  Operand** left_rows_;
  BFloat16* left_parts_values_;  // [left columns, rows] in parts
  F** matrix_rows_;              // [left columns]

  const Operand* const* source_ = nullptr;  // [rows_] -> [columns_]
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  bool is_transposed_ = false;
  bool is_split_ = false;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PRODUCTS_OUTER_PRODUCTS_H_
