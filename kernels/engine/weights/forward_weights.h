// The weights of a pseudo-layer as the products of forward want them.
#ifndef KERNELS_ENGINE_WEIGHTS_FORWARD_WEIGHTS_H_
#define KERNELS_ENGINE_WEIGHTS_FORWARD_WEIGHTS_H_

#include <cstdint>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/plan/scratch.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/weights/cell_panels.h"
#include "kernels/engine/weights/matrix_source.h"
#include "kernels/engine/weights/right_operand.h"
#include "kernels/engine/weights/weight_sources.h"
#include "network/cell.h"

namespace rnn {

// Weights of one pseudo-layer after another, along the routes of the plan: in
// memory where they have to be prepared, or where they were before the pass.
template <typename Element, typename Operand>
class ForwardWeights {
 public:
  // All of these must outlive the object.
  ForwardWeights(const ForwardPlan& plan, const WeightSources<Element>& sources)
      : plan_(plan),
        sources_(sources),
        cell_panels_(plan.descriptor,
                     CellPanelShape::Of(plan.descriptor, plan.kernels)) {}

  // W, R and the projection of pseudo-layer k, prepared into their blocks.
  void PrepareInput(int64_t k, const PreparedWeights& blocks,
                    const Scratch& memory, Executor& executor) {
    input_.Prepare(sources_.Input(k), InputPlan(k),
                   memory.At<void>(blocks.input), executor);
  }
  void PrepareRecurrent(int64_t k, const PreparedWeights& blocks,
                        const Scratch& memory, Executor& executor) {
    UseRecurrent(k, blocks, memory);
    if (plan_.recurrent_weights.route == Route::kPacked) {
      cell_panels_.Pack(recurrent_source_, executor);
    }
    ForEachGateInParts([&](int gate, const MatrixSource<Element>& source) {
      gates_in_parts_[gate].Prepare(source, plan_.recurrent_gate(),
                                    memory.At<void>(blocks.recurrent[gate]),
                                    executor);
    });
    if (!plan_.descriptor.has_projection()) return;
    projection_.Prepare(sources_.Projection(k), plan_.projection,
                        memory.At<void>(blocks.projection), executor);
  }

  // The same of blocks that hold what those left.
  void UseInput(int64_t k, const PreparedWeights& blocks,
                const Scratch& memory) {
    input_.Use(sources_.Input(k), InputPlan(k), memory.At<void>(blocks.input));
  }
  void UseRecurrent(int64_t k, const PreparedWeights& blocks,
                    const Scratch& memory) {
    recurrent_source_ = sources_.Recurrent(k);
    cell_panels_.Use(memory.At<Operand>(blocks.recurrent[0]));
    in_place_.Use(recurrent_source_, plan_.recurrent_weights, nullptr);
    ForEachGateInParts([&](int gate, const MatrixSource<Element>& source) {
      gates_in_parts_[gate].Use(source, plan_.recurrent_gate(),
                                memory.At<void>(blocks.recurrent[gate]));
    });
    if (!plan_.descriptor.has_projection()) return;
    projection_.Use(sources_.Projection(k), plan_.projection,
                    memory.At<void>(blocks.projection));
  }

  const RightOperand<Element, Operand>& input() const { return input_; }
  const RightOperand<Element, Operand>& projection() const {
    return projection_;
  }
  // R [P, G*H]: packed, in place, or in parts a matrix [P, H] for each gate.
  const MatrixSource<Element>& recurrent_source() const {
    return recurrent_source_;
  }
  const CellPanels<Operand>& cell_panels() const { return cell_panels_; }
  const RightOperand<Element, Operand>& recurrent_in_place() const {
    return in_place_;
  }
  const RightOperand<Element, Operand>* recurrent_gates_in_parts() const {
    return gates_in_parts_;
  }

 private:
  const OperandPlan& InputPlan(int64_t k) const {
    return plan_.input_weights.of_layer(k / plan_.descriptor.num_directions);
  }

  // visit(gate, columns of R) if R is in parts.
  template <typename Visit>
  void ForEachGateInParts(Visit visit) const {
    if constexpr (std::is_same_v<Operand, float>) {
      if (!IsInParts(plan_.recurrent_weights.route)) return;
      const int64_t H = plan_.descriptor.hidden_size;
      for (int gate = 0; gate < plan_.descriptor.num_gates(); ++gate) {
        visit(gate, recurrent_source_.ColumnRange(gate * H, H));
      }
    }
  }

  const ForwardPlan& plan_;
  const WeightSources<Element>& sources_;
  RightOperand<Element, Operand> input_;  // [in, G*H]
  MatrixSource<Element> recurrent_source_;
  CellPanels<Operand> cell_panels_;
  RightOperand<Element, Operand> in_place_;
  RightOperand<Element, Operand> gates_in_parts_[kMaxGates];
  RightOperand<Element, Operand> projection_;  // [H, P]
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_FORWARD_WEIGHTS_H_
