// What the steps of backward multiply by R, and what follows.
#ifndef KERNELS_ENGINE_PRODUCTS_RECURRENT_GRADIENT_H_
#define KERNELS_ENGINE_PRODUCTS_RECURRENT_GRADIENT_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "kernels/engine/plan/plan.h"
#include "kernels/engine/products/matrix_product.h"
#include "kernels/engine/products/step_ranks.h"
#include "kernels/engine/products/step_work.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "kernels/engine/weights/backward_weights.h"
#include "kernels/engine/weights/right_operand.h"
#include "network/descriptor.h"

namespace rnn {

// R of one pseudo-layer after another, transposed: the gates' gradients of a
// step times it are the gradient of the h before that step. Its counterpart is
// RecurrentProduct.
template <typename Element, typename Operand>
class RecurrentGradient {
 public:
  // `weights` must outlive the object, and have R of the pseudo-layer at hand.
  RecurrentGradient(const BackwardPlan& plan,
                    const BackwardWeights<Element, Operand>& weights)
      : d_(plan.descriptor),
        route_(plan.recurrent_weights.route),
        transposed_(weights.recurrent()) {
    // Packed in its turn R is there within Multiply() alone. One step has no
    // other product: no step after it hands a gradient over.
    if (IsInTurn(route_) && plan.sequences->num_steps() > 1) std::abort();
  }

  // All rows of `dgates`, a step's gates' gradients, at once.
  void Multiply(const RowsTimesMatrix<Operand>& dgates,
                Executor& executor) const {
    rnn::Multiply(dgates, transposed_, executor);
  }

  // Of these ranks of a step, the units of h panel by panel: first what the
  // step after hands over, which is none if `dgates` has no rows, then
  // finish(ranks, unit, unit end), on the same thread, for a range of the
  // ranks. Units of a panel of this instruction set are handed over together.
  template <typename Finish>
  void RunPanels(Executor& executor, const StepRanks& ranks,
                 const RowsTimesMatrix<Operand>& dgates, Finish finish) const {
    switch (route_) {
      case Route::kPacked:
      case Route::kPackedInTurn:
        RunPackedPanels(executor, ranks, dgates, finish);
        return;
      case Route::kRowsInPlace:
      case Route::kColumnsInPlace:
        RunFewRanges(executor, ranks, dgates, finish);
        return;
      case Route::kParts:
      case Route::kInt8:
      case Route::kDotPanels:
        break;  // R never comes so, backward
    }
    std::abort();
  }

 private:
  static int64_t panel_columns() { return Kernels<Operand>().panel_columns; }

  // Floating-point operations.
  int64_t StepWork(const StepRanks& ranks,
                   const RowsTimesMatrix<Operand>& dgates) const {
    const int64_t product_rows =
        dgates.rows > 0 ? std::max(ranks.count(), speed::kLeastProductRows) : 0;
    return RecurrentProductWork(d_, product_rows) + CellWork(d_, ranks.count());
  }

  template <typename Finish>
  void FinishPanel(const StepRanks& ranks, int64_t panel, Finish finish) const {
    const int64_t unit = panel * panel_columns();
    finish(ranks, unit, std::min(unit + panel_columns(), d_.output_size()));
  }

  template <typename Finish>
  void RunPackedPanels(Executor& executor, const StepRanks& ranks,
                       const RowsTimesMatrix<Operand>& dgates,
                       Finish finish) const {
    const AllPanels panels =
        PanelsOf(ranks, transposed_.num_panels(), StepWork(ranks, dgates));
    ParallelPanels(executor, panels, [&](const PanelRows& share) {
      PanelRows product = share;
      product.row_end = std::min(share.row_end, dgates.rows);
      if (product.row_begin < product.row_end) {
        MultiplyPanel(dgates, transposed_, product);
      }
      FinishPanel(ranks.Of(share), share.panel, finish);
    });
  }

  // On few ranges of panels, for R had better be read in long pieces.
  template <typename Finish>
  void RunFewRanges(Executor& executor, const StepRanks& ranks,
                    const RowsTimesMatrix<Operand>& dgates,
                    Finish finish) const {
    ParallelFewRanges(
        executor, transposed_.num_panels(), StepWork(ranks, dgates),
        PanelOrder(ranks.step), [&](int64_t begin, int64_t end) {
          ColumnRows share;
          share.column_begin = begin * panel_columns();
          share.column_end = std::min(end * panel_columns(), d_.output_size());
          share.row_begin = ranks.begin;
          share.row_end = std::min(ranks.end, dgates.rows);
          if (share.row_begin < share.row_end) {
            MultiplyColumns(dgates, transposed_, &share);
          }
          for (; begin < end; ++begin) FinishPanel(ranks, begin, finish);
        });
  }

  const RnnDescriptor& d_;
  const Route route_;
  const RightOperand<Element, Operand>& transposed_;  // [G*H, P]
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PRODUCTS_RECURRENT_GRADIENT_H_
