// The weights of a pseudo-layer as the products of forward want them.
#ifndef KERNELS_ENGINE_WEIGHTS_FORWARD_WEIGHTS_H_
#define KERNELS_ENGINE_WEIGHTS_FORWARD_WEIGHTS_H_

#include <cstdint>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/plan/scratch.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/weights/cell_panels.h"
#include "kernels/engine/weights/matrix_source.h"
#include "kernels/engine/weights/right_operand.h"
#include "kernels/engine/weights/weight_sources.h"

namespace rnn {

// Weights of one pseudo-layer after another, along the routes of the plan.
template <typename Element, typename Operand>
class ForwardWeights {
 public:
  // All of these must outlive the object.
  ForwardWeights(const ForwardPlan& plan, const WeightSources<Element>& sources)
      : plan_(plan),
        sources_(sources),
        cell_panels_(plan.descriptor,
                     CellPanelShape::Of(plan.descriptor, plan.kernels)) {}

  // W of pseudo-layer k; R and the projection. `place` is for what Pack...()
  // leaves there, or holds what it left.
  void UseInput(int64_t k, const PreparedPlace& place) {
    if (sources_.is_int8()) {
      input_.Use(sources_.Int8Input(k), InputPlan(k));
    } else {
      input_.Use(sources_.Input(k), InputPlan(k), place.input());
    }
  }
  void UseRecurrent(int64_t k, const PreparedPlace& place) {
    if (sources_.is_int8()) {
      by_columns_.Use(sources_.Int8Recurrent(k), plan_.recurrent_weights);
      if (plan_.descriptor.has_projection()) {
        projection_.Use(sources_.Int8Projection(k), plan_.projection);
      }
      return;
    }
    recurrent_source_ = sources_.Recurrent(k);
    if (ComesByColumns(plan_.recurrent_weights.route)) {
      by_columns_.Use(recurrent_source_, plan_.recurrent_weights,
                      place.recurrent());
    } else {
      cell_panels_.Use(static_cast<Operand*>(place.recurrent()));
    }
    if (!plan_.descriptor.has_projection()) return;
    projection_.Use(sources_.Projection(k), plan_.projection,
                    place.projection());
  }

  void PackInput(Executor& executor) const { input_.Pack(executor); }
  void PackRecurrent(Executor& executor) const {
    if (plan_.recurrent_weights.route == Route::kPacked) {
      cell_panels_.Pack(recurrent_source_, executor);
    } else if (ComesByColumns(plan_.recurrent_weights.route)) {
      by_columns_.Pack(executor);
    }
    if (plan_.descriptor.has_projection()) projection_.Pack(executor);
  }

  const RightOperand<Element, Operand>& input() const { return input_; }
  const RightOperand<Element, Operand>& projection() const {
    return projection_;
  }
  // R [P, G*H]. Along its route it is one of the next two: in cells' panels, or
  // by columns.
  const MatrixSource<Element>& recurrent_source() const {
    return recurrent_source_;
  }
  const CellPanels<Operand>& cell_panels() const { return cell_panels_; }
  const RightOperand<Element, Operand>& recurrent_by_columns() const {
    return by_columns_;
  }

 private:
  const OperandPlan& InputPlan(int64_t k) const {
    return plan_.input_weights.of_layer(k / plan_.descriptor.num_directions);
  }

  const ForwardPlan& plan_;
  const WeightSources<Element>& sources_;
  RightOperand<Element, Operand> input_;  // [in, G*H]
  MatrixSource<Element> recurrent_source_;
  CellPanels<Operand> cell_panels_;
  RightOperand<Element, Operand> by_columns_;
  RightOperand<Element, Operand> projection_;  // [H, P]
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_FORWARD_WEIGHTS_H_
