// What all pseudo-layers of a forward pass share.
#ifndef KERNELS_ENGINE_PASSES_FORWARD_NETWORK_H_
#define KERNELS_ENGINE_PASSES_FORWARD_NETWORK_H_

#include <cstdint>

#include "kernels/engine/elements/dropout.h"
#include "kernels/engine/elements/elements.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/passes/rows.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/weights/weight_sources.h"

namespace rnn {

template <typename Element, typename Operand>
class ForwardNetwork {
 public:
  ForwardNetwork(const ForwardPlan& plan,
                 const ForwardArguments<Element>& arguments,
                 const ScratchView& scratch)
      : plan_(plan),
        d_(plan.descriptor),
        sequences_(*plan.sequences),
        arguments_(arguments),
        weights_(plan, arguments.weights),
        dropout_{d_.dropout, arguments.dropout_key} {
    for (int i = 0; i < 2; ++i) {
      layer_outputs_[i] = scratch.At<Element>(plan.scratch.layer_outputs[i]);
    }
  }

  // What comes before all layers.
  void Begin(Executor& executor) {
    if (!plan_.repeats_outputs) FillOutputPadding(executor);
  }

  // What comes after all layers.
  void End(Executor& executor) {
    if (plan_.repeats_outputs) FillOutputPadding(executor);
  }

  const ForwardPlan& plan() const { return plan_; }
  const ForwardArguments<Element>& arguments() const { return arguments_; }
  const WeightSources<Element>& weights() const { return weights_; }
  // Of pseudo-layer k, prepared before the pass; if they were.
  WeightsPlace PreparedBefore(int64_t k) const {
    // Nobody writes what was prepared.
    return plan_.prepared.Place(k,
                                const_cast<void*>(arguments_.prepared_weights));
  }

  // What enters `layer`.
  LayerInput<Element, Operand> Input(int64_t layer) const {
    const TimeRows<const Element> source =
        layer == 0 ? TimeRows<const Element>::Padded(sequences_, arguments_.x,
                                                     arguments_.strides.x)
                   : InnerOutputs<const Element>(layer - 1);
    LayerInput<Element, Operand> input(sequences_, source,
                                       d_.layer_input_size(layer));
    if (layer > 0 && arguments_.apply_dropout && DropsOut(d_.dropout)) {
      input.SetDropout(layer - 1, dropout_);
    }
    return input;
  }

  // Where `layer` leaves its outputs, both directions side by side.
  TimeRows<Element> OutputRows(int64_t layer) const {
    return layer == d_.num_layers - 1
               ? TimeRows<Element>::Padded(sequences_, arguments_.y,
                                           arguments_.strides.y)
               : InnerOutputs<Element>(layer);
  }

  // Where pseudo-layer k leaves what backward needs, by step and rank.
  TimeRows<Element> Activations(int64_t k) const {
    return TimeRows<Element>::Kept(
        sequences_, arguments_.reserve + plan_.reserve.ActivationsOffset(k),
        ReservedRowSize(d_));
  }

 private:
  void FillOutputPadding(Executor& executor) {
    FillPadding(sequences_, arguments_.y, arguments_.strides.y,
                d_.layer_output_size(), plan_.repeats_outputs, executor);
  }

  // Of a layer below the last.
  template <typename Value>
  TimeRows<Value> InnerOutputs(int64_t layer) const {
    if (!plan_.has_reserve) {
      return TimeRows<Value>::Dense(sequences_, layer_outputs_[layer % 2],
                                    d_.layer_output_size());
    }
    return TimeRows<Value>::Kept(
        sequences_, arguments_.reserve + plan_.reserve.LayerOutputOffset(layer),
        d_.layer_output_size());
  }

  const ForwardPlan& plan_;
  const RnnDescriptor& d_;
  const Sequences& sequences_;
  const ForwardArguments<Element>& arguments_;
  const WeightSources<Element> weights_;
  const Dropout dropout_;
  Element* layer_outputs_[2];
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_FORWARD_NETWORK_H_
