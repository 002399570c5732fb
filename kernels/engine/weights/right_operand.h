// What a product multiplies from the right: a matrix B [depth, columns],
// prepared along a route of the plan.
#ifndef KERNELS_ENGINE_WEIGHTS_RIGHT_OPERAND_H_
#define KERNELS_ENGINE_WEIGHTS_RIGHT_OPERAND_H_

#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/plan/route.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/weights/int8_matrix.h"
#include "kernels/engine/weights/matrix_source.h"
#include "kernels/engine/weights/packing.h"
#include "kernels/engine/weights/parts.h"

namespace rnn {

// The source must stay as it is for as long as products use the operand, but
// for the routes that Pack() copies it along.
template <typename Element, typename Operand>
class RightOperand {
 public:
  // Use() and Pack().
  void Prepare(const MatrixSource<Element>& source, const OperandPlan& plan,
               void* memory, Executor& executor) {
    Use(source, plan, memory);
    Pack(executor);
  }

  // `source` has the plan's columns, and no more depth. `memory` has
  // plan.Bytes(): for Pack(), or as it left them for such a source. In place,
  // rows of the left operand must need no padding. Aborts if such a source
  // cannot come along the plan's route.
  void Use(const MatrixSource<Element>& source, const OperandPlan& plan,
           void* memory) {
    if (!CanCome(source, plan.route)) std::abort();
    if (IsInTurn(plan.route) && plan.places.count == 0) std::abort();
    source_ = source;
    plan_ = plan;
    plan_.depth = source.depth;
    padded_depth_ = plan_.PaddedDepth(kDepthStep<Operand>);
    memory_ = memory;
  }

  // Of int8 weights, which have the plan's columns and no more depth.
  void Use(const Int8Matrix& matrix, const OperandPlan& plan) {
    if (plan.route != Route::kInt8) std::abort();
    int8_ = matrix;
    plan_ = plan;
    plan_.depth = matrix.depth;
    padded_depth_ = matrix.depth;
  }

  // Packs the source if the plan's route says so: in turn the product does it,
  // and in place nobody.
  void Pack(Executor& executor) const {
    switch (route()) {
      case Route::kPacked:
        PackPanels(source_, executor, panels());
        return;
      case Route::kParts:
        if constexpr (std::is_same_v<Operand, float>) {
          PackPanelsInParts(source_, parts_depth(), executor, parts_panels());
        }
        return;
      case Route::kDotPanels:
        if constexpr (kElementIsOperand<Element, Operand>) {
          PackDotPanels(source_, dot_panels(), executor, panels());
        }
        return;
      case Route::kPackedInTurn:
      case Route::kRowsInPlace:
      case Route::kColumnsInPlace:
      case Route::kInt8:
        return;
    }
  }

  Route route() const { return plan_.route; }
  bool in_parts() const { return IsInParts(route()); }
  const MatrixSource<Element>& source() const { return source_; }
  const Int8Matrix& int8() const { return int8_; }  // along that route

  int64_t columns() const { return plan_.columns; }
  int64_t num_panels() const { return NumPanels<Operand>(columns()); }
  // As deep as the left operand's rows are, and panels.
  int64_t depth() const { return padded_depth_; }
  PartsDepth parts_depth() const { return plan_.parts_depth(); }
  DotPanelShape dot_panels() const {
    const SimdKernels<Operand>& kernels = Kernels<Operand>();
    return DotPanelShape::Of(plan_, kernels.dot_columns, kernels.dot_round);
  }
  // How many rows are multiplied at a time (OperandPlan).
  bool is_small() const { return plan_.is_small; }
  int64_t cached_rows() const { return plan_.cached_rows; }
  // If it is packed in its turn: in the memory at panels().
  const TurnPlaces& places() const { return plan_.places; }

  // Panels as they are packed, or memory for them.
  Operand* panel(int64_t index) const {
    return panels() + index * depth() * Kernels<Operand>().panel_columns;
  }
  BFloat16* parts_panel(int64_t index) const {
    return parts_panels() + index * PartsPanelSize(depth());
  }
  Operand* panels() const { return static_cast<Operand*>(memory_); }

 private:
  // Whether a source of these types, which lies so, can come along it.
  static bool CanCome(const MatrixSource<Element>& source, Route route) {
    constexpr bool kTensorsHoldOperands = kElementIsOperand<Element, Operand>;
    const bool is_at_stride = source.rows == nullptr;
    switch (route) {
      case Route::kPacked:
      case Route::kPackedInTurn:
        return true;
      case Route::kParts:
        return std::is_same_v<Operand, float>;
      case Route::kRowsInPlace:
        return kTensorsHoldOperands && is_at_stride && !source.is_transposed;
      case Route::kColumnsInPlace:
      case Route::kDotPanels:
        return kTensorsHoldOperands && is_at_stride && source.is_transposed;
      case Route::kInt8:
        break;  // it is no such source
    }
    return false;
  }

  BFloat16* parts_panels() const { return static_cast<BFloat16*>(memory_); }

  MatrixSource<Element> source_;
  Int8Matrix int8_;
  OperandPlan plan_;
  int64_t padded_depth_ = 0;
  void* memory_ = nullptr;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_RIGHT_OPERAND_H_
