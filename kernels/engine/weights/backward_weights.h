// The weights of a pseudo-layer as the products of backward want them.
#ifndef KERNELS_ENGINE_WEIGHTS_BACKWARD_WEIGHTS_H_
#define KERNELS_ENGINE_WEIGHTS_BACKWARD_WEIGHTS_H_

#include <cstdint>

#include "kernels/engine/plan/plan.h"
#include "kernels/engine/plan/scratch.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/weights/right_operand.h"
#include "kernels/engine/weights/weight_sources.h"

namespace rnn {

// Weights of one pseudo-layer after another, transposed, along the routes of
// the plan. Its counterpart is ForwardWeights.
template <typename Element, typename Operand>
class BackwardWeights {
 public:
  // All of these must outlive the object.
  BackwardWeights(const BackwardPlan& plan,
                  const WeightSources<Element>& sources,
                  const BackwardScratch::PseudoLayer& blocks,
                  const ScratchView& scratch)
      : plan_(plan), sources_(sources), blocks_(blocks), scratch_(scratch) {}

  // W of pseudo-layer k, [G*H, in].
  void PrepareInput(int64_t k, Executor& executor) {
    input_.Prepare(sources_.Input(k).Transposed(),
                   plan_.input_weights.of_layer(plan_.descriptor.layer_of(k)),
                   scratch_.At<void>(blocks_.input_weights), executor);
  }
  // R, [G*H, P], and the projection, [P, H].
  void PrepareRecurrent(int64_t k, Executor& executor) {
    recurrent_.Prepare(sources_.Recurrent(k).Transposed(),
                       plan_.recurrent_weights,
                       scratch_.At<void>(blocks_.recurrent_weights), executor);
    if (!plan_.descriptor.has_projection()) return;
    projection_.Prepare(sources_.Projection(k).Transposed(), plan_.projection,
                        scratch_.At<void>(blocks_.projection), executor);
  }

  const RightOperand<Element, Operand>& input() const { return input_; }
  const RightOperand<Element, Operand>& recurrent() const { return recurrent_; }
  const RightOperand<Element, Operand>& projection() const {
    return projection_;
  }

 private:
  const BackwardPlan& plan_;
  const WeightSources<Element>& sources_;
  const BackwardScratch::PseudoLayer& blocks_;
  const ScratchView& scratch_;
  RightOperand<Element, Operand> input_;       // [G*H, in]
  RightOperand<Element, Operand> recurrent_;   // [G*H, P]
  RightOperand<Element, Operand> projection_;  // [P, H]
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_BACKWARD_WEIGHTS_H_
