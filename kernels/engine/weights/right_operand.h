// What a product multiplies from the right: a matrix B [depth, columns],
// prepared along a route of the plan.
#ifndef KERNELS_ENGINE_WEIGHTS_RIGHT_OPERAND_H_
#define KERNELS_ENGINE_WEIGHTS_RIGHT_OPERAND_H_

#include <cstdint>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/operand_sizes.h"
#include "kernels/engine/plan/route.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/weights/matrix_source.h"
#include "kernels/engine/weights/packing.h"
#include "kernels/engine/weights/parts.h"

namespace rnn {

// The source must stay as it is for as long as products use the operand, but
// for the routes kPacked and kParts, which copy it.
template <typename Element, typename Operand>
class RightOperand {
 public:
  // Packs `source` if the route says so. `memory` has OperandShape::Bytes() of
  // that shape. In place is possible only if Element is Operand, and if rows
  // of the left operand need no padding. `depth_pieces` is how many pieces the
  // depth of parts has.
  void Prepare(const MatrixSource<Element>& source, Route route,
               int depth_pieces, void* memory, Executor& executor) {
    source_ = source;
    shape_ = {route, source.depth, source.columns, depth_pieces};
    memory_ = memory;
    if (route == Route::kPacked) {
      PackPanels(source, executor, panels());
    } else if (route == Route::kParts) {
      if constexpr (std::is_same_v<Operand, float>) {
        PackPanelsInParts(source, parts_depth(), executor, parts_panels());
      }
    }
  }

  Route route() const { return shape_.route; }
  bool in_parts() const { return IsInParts(route()); }
  const MatrixSource<Element>& source() const { return source_; }

  int64_t columns() const { return shape_.columns; }
  int64_t num_panels() const { return NumPanels<Operand>(columns()); }
  // As deep as the left operand's rows are, and panels.
  int64_t depth() const {
    return in_parts() ? parts_depth().padded()
                      : PaddedDepth<Operand>(shape_.depth);
  }
  PartsDepth parts_depth() const { return shape_.parts_depth(); }
  // Bytes that one more row of depth adds to a column.
  int64_t element_bytes() const {
    return in_parts() ? kNumParts * sizeof(BFloat16) : sizeof(Operand);
  }

  // Panels as they are packed, or memory for them.
  Operand* panel(int64_t index) const {
    return panels() + index * depth() * Kernels<Operand>().panel_columns;
  }
  BFloat16* parts_panel(int64_t index) const {
    return parts_panels() + index * PartsPanelSize(depth());
  }
  Operand* panels() const { return static_cast<Operand*>(memory_); }

 private:
  BFloat16* parts_panels() const { return static_cast<BFloat16*>(memory_); }

  MatrixSource<Element> source_;
  OperandShape shape_;
  void* memory_ = nullptr;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_RIGHT_OPERAND_H_
