// What all pseudo-layers of a backward pass share.
#ifndef KERNELS_ENGINE_PASSES_BACKWARD_NETWORK_H_
#define KERNELS_ENGINE_PASSES_BACKWARD_NETWORK_H_

#include <cstdint>

#include "kernels/engine/elements/dropout.h"
#include "kernels/engine/elements/elements.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/passes/chunk_rows.h"
#include "kernels/engine/passes/rows.h"
#include "kernels/engine/passes/weight_gradients.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/thresholds.h"
#include "kernels/engine/weights/weight_sources.h"

namespace rnn {

template <typename Element, typename Operand>
class BackwardNetwork {
 public:
  using F = ComputeType<Element>;

  // `sums` are those of the plan's halves.
  BackwardNetwork(const BackwardPlan& plan,
                  const BackwardArguments<Element>& arguments,
                  const Weights<F>* sums, const ScratchView& scratch)
      : plan_(plan),
        d_(plan.descriptor),
        sequences_(*plan.sequences),
        arguments_(arguments),
        weights_(plan, arguments.weights),
        weight_gradients_(plan, scratch),
        sums_(sums),
        dropout_{d_.dropout, arguments.dropout_key},
        input_gradient_(scratch.At<F>(plan.scratch.input_gradient)) {
    for (int i = 0; i < 2; ++i) {
      layer_gradients_[i] = scratch.At<F>(plan.scratch.layer_gradients[i]);
    }
  }

  // What comes before all layers.
  void Begin(Executor& executor) {
    FillPadding(sequences_, arguments_.dx, arguments_.strides.x, d_.input_size,
                /*repeats=*/false, executor);
  }

  // What comes after the pseudo-layers of `layer`: the dropout between it and
  // the layer below.
  void EndLayer(int64_t layer, Executor& executor) {
    if (layer == 0 || !DropsOut(d_.dropout)) return;
    const TimeRows<F> gradient = InputGradientRows(layer);
    AllRows().ParallelForRanges(
        executor, d_.layer_output_size() * speed::kMoveWork,
        [&](const StepRange& times) {
          RowsToDrop<F> rows(dropout_, layer - 1, d_.layer_output_size());
          AllRows().ForEachOf(times, [&](int64_t, int64_t time, int64_t rank) {
            rows.Add(time, sequences_.batch_row(rank),
                     gradient.Row(time, rank));
          });
        });
  }

  // What comes after all layers.
  void End(Executor& executor) {
    if constexpr (kRoundsResults<Element>) StoreInputGradient(executor);
  }

  const BackwardPlan& plan() const { return plan_; }
  const BackwardArguments<Element>& arguments() const { return arguments_; }
  const WeightSources<Element>& weights() const { return weights_; }
  // Adds what rows of a chunk of a pseudo-layer, all of one half of the batch,
  // contribute to gradients of weights.
  void AddWeightGradients(
      int half, int64_t layer, int direction,
      const typename WeightGradients<Element, Operand>::Rows& rows,
      Executor& executor) {
    weight_gradients_.Add(sums_[half], layer, d_.pseudo_layer(layer, direction),
                          rows, executor);
  }

  // What entered `layer`.
  LayerInput<Element, Operand> Input(int64_t layer) const {
    const TimeRows<const Element> source =
        layer == 0 ? TimeRows<const Element>::Padded(sequences_, arguments_.x,
                                                     arguments_.strides.x)
                   : OutputRows(layer - 1);
    LayerInput<Element, Operand> input(sequences_, source,
                                       d_.layer_input_size(layer));
    if (layer > 0 && DropsOut(d_.dropout)) {
      input.SetDropout(layer - 1, dropout_);
    }
    return input;
  }

  // What `layer` emitted, both directions side by side.
  TimeRows<const Element> OutputRows(int64_t layer) const {
    return layer == d_.num_layers - 1
               ? TimeRows<const Element>::Padded(sequences_, arguments_.y,
                                                 arguments_.strides.y)
               : TimeRows<const Element>::Kept(
                     sequences_,
                     arguments_.reserve +
                         plan_.reserve.LayerOutputOffset(layer),
                     d_.layer_output_size());
  }

  // What forward left of pseudo-layer k, by step and rank.
  TimeRows<const Element> Activations(int64_t k) const {
    return TimeRows<const Element>::Kept(
        sequences_, arguments_.reserve + plan_.reserve.ActivationsOffset(k),
        ReservedRowSize(d_));
  }

  // The gradient of what enters `layer`.
  TimeRows<F> InputGradientRows(int64_t layer) const {
    if (layer > 0) {
      return TimeRows<F>::Dense(sequences_, layer_gradients_[(layer - 1) % 2],
                                d_.layer_output_size());
    }
    if constexpr (kRoundsResults<Element>) {
      return TimeRows<F>::Dense(sequences_, input_gradient_, d_.input_size);
    } else {
      return TimeRows<F>::Padded(sequences_, arguments_.dx,
                                 arguments_.strides.x);
    }
  }

 private:
  ChunkRows AllRows() const {
    return ChunkRows(sequences_, {0, sequences_.num_steps()});
  }

  void StoreInputGradient(Executor& executor) {
    const TimeRows<F> source = InputGradientRows(0);
    const auto target = TimeRows<Element>::Padded(sequences_, arguments_.dx,
                                                  arguments_.strides.x);
    AllRows().ParallelForEach(executor, d_.input_size * speed::kMoveWork,
                              [&](int64_t, int64_t time, int64_t rank) {
                                Store(source.Row(time, rank),
                                      target.Row(time, rank), d_.input_size);
                              });
  }

  const BackwardPlan& plan_;
  const RnnDescriptor& d_;
  const Sequences& sequences_;
  const BackwardArguments<Element>& arguments_;
  const WeightSources<Element> weights_;
  WeightGradients<Element, Operand> weight_gradients_;
  const Weights<F>* const sums_;  // where they add up, by half of the batch
  const Dropout dropout_;
  F* layer_gradients_[2];
  F* input_gradient_;  // if it is rounded in the end
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_BACKWARD_NETWORK_H_
