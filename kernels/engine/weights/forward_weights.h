// The weights of a pseudo-layer as the products of forward want them.
#ifndef KERNELS_ENGINE_WEIGHTS_FORWARD_WEIGHTS_H_
#define KERNELS_ENGINE_WEIGHTS_FORWARD_WEIGHTS_H_

#include <cstdint>
#include <cstdlib>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/plan/route.h"
#include "kernels/engine/plan/scratch.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/weights/cell_panels.h"
#include "kernels/engine/weights/matrix_source.h"
#include "kernels/engine/weights/right_operand.h"
#include "kernels/engine/weights/weight_sources.h"
#include "network/cell.h"
#include "network/descriptor.h"

namespace rnn {

// The biases of a pseudo-layer as forward adds them.
template <typename Element>
class ForwardBiases {
 public:
  using F = ComputeType<Element>;

  explicit ForwardBiases(const RnnDescriptor& d) : d_(d) {}

  // `place` is for what Load() leaves there, or holds what it left: [2, G*H].
  void Use(F* place) { place_ = place; }

  // Of pseudo-layer k.
  void Load(const WeightSources<Element>& sources, int64_t k) const {
    const int64_t H = d_.hidden_size;
    sources.LoadBiases(k, place_, recurrent());
    for (int gate = 0; gate < d_.num_gates(); ++gate) {
      if (HasRecurrentBiasApart(d_.mode, gate)) continue;
      for (int64_t j = gate * H; j < (gate + 1) * H; ++j) {
        place_[j] += recurrent()[j];
      }
    }
  }

  // Both at once, [G*H], but for the GRU's new gate, whose recurrent bias is
  // inside the reset product.
  const F* sums() const { return place_; }
  // That one: [H].
  const F* recurrent_new() const {
    return HasRecurrentBiasApart(d_.mode, kNew)
               ? recurrent() + kNew * d_.hidden_size
               : nullptr;
  }

 private:
  F* recurrent() const { return place_ + d_.gates_size(); }

  const RnnDescriptor& d_;
  F* place_ = nullptr;
};

// Weights of one pseudo-layer after another, along the routes of the plan.
template <typename Element, typename Operand>
class ForwardWeights {
 public:
  // All of these must outlive the object.
  ForwardWeights(const ForwardPlan& plan, const WeightSources<Element>& sources)
      : plan_(plan),
        sources_(sources),
        cell_panels_(plan.descriptor,
                     CellPanelShape::Of(plan.descriptor, plan.kernels)),
        biases_(plan.descriptor) {}

  // Biases of a pseudo-layer. `place` is for what LoadBiases() leaves there, or
  // holds what it left.
  void UseBiases(const WeightsPlace& place) {
    biases_.Use(place.biases<ComputeType<Element>>());
  }
  void LoadBiases(int64_t k) const { biases_.Load(sources_, k); }

  // W of pseudo-layer k; R and the projection. `place` is for what Pack...()
  // leaves there, or holds what it left.
  void UseInput(int64_t k, const WeightsPlace& place) {
    if (sources_.is_int8()) {
      input_.Use(sources_.Int8Input(k), InputPlan(k));
    } else {
      input_.Use(sources_.Input(k), InputPlan(k), place.input());
    }
  }
  void UseRecurrent(int64_t k, const WeightsPlace& place) {
    if (sources_.is_int8()) {
      by_columns_.Use(sources_.Int8Recurrent(k), plan_.recurrent_weights);
      if (plan_.descriptor.has_projection()) {
        projection_.Use(sources_.Int8Projection(k), plan_.projection);
      }
      return;
    }
    recurrent_source_ = sources_.Recurrent(k);
    switch (plan_.recurrent_weights.route) {
      case Route::kPacked:
      case Route::kPackedInTurn:
        cell_panels_.Use(static_cast<Operand*>(place.recurrent()));
        break;
      case Route::kRowsInPlace:
      case Route::kColumnsInPlace:
      case Route::kDotPanels:
        by_columns_.Use(recurrent_source_, plan_.recurrent_weights,
                        place.recurrent());
        break;
      case Route::kParts:
      case Route::kInt8:
        std::abort();  // R never comes so, or is not int8
    }
    if (!plan_.descriptor.has_projection()) return;
    projection_.Use(sources_.Projection(k), plan_.projection,
                    place.projection());
  }

  void PackInput(Executor& executor) const { input_.Pack(executor); }
  void PackRecurrent(Executor& executor) const {
    switch (plan_.recurrent_weights.route) {
      case Route::kPacked:
        cell_panels_.Pack(recurrent_source_, executor);
        return;
      case Route::kRowsInPlace:
      case Route::kColumnsInPlace:
      case Route::kInt8:
      case Route::kDotPanels:
        by_columns_.Pack(executor);
        return;
      case Route::kPackedInTurn:  // the step does it
      case Route::kParts:         // UseRecurrent() has aborted
        return;
    }
  }
  void PackProjection(Executor& executor) const {
    if (plan_.descriptor.has_projection()) projection_.Pack(executor);
  }

  const ForwardBiases<Element>& biases() const { return biases_; }
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
    return plan_.input_weights.of_layer(plan_.descriptor.layer_of(k));
  }

  const ForwardPlan& plan_;
  const WeightSources<Element>& sources_;
  RightOperand<Element, Operand> input_;  // [in, G*H]
  MatrixSource<Element> recurrent_source_;
  CellPanels<Operand> cell_panels_;
  RightOperand<Element, Operand> by_columns_;
  RightOperand<Element, Operand> projection_;  // [H, P]
  ForwardBiases<Element> biases_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_FORWARD_WEIGHTS_H_
