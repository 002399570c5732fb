// Forward: parts of the batch, layers, directions, chunks of time, steps.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/passes/batch_parts.h"
#include "kernels/engine/passes/forward_network.h"
#include "kernels/engine/passes/forward_pseudo_layer.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/weights/forward_weights.h"
#include "kernels/engine/weights/weight_sources.h"

namespace rnn {

namespace {

template <typename Element, typename Operand>
class ForwardPass {
 public:
  ForwardPass(const ForwardPlan& plan,
              const ForwardArguments<Element>& arguments, void* scratch)
      : plan_(plan),
        scratch_(scratch),
        network_(plan, arguments, scratch_),
        first_(network_, plan.scratch.pseudo_layers[0], scratch_) {
    if (plan.directions_together) {
      second_.emplace(network_, plan.scratch.pseudo_layers[1], scratch_);
    }
  }

  void Run(Executor& executor) {
    network_.Begin(executor);
    for (int64_t layer = 0; layer < plan_.descriptor.num_layers; ++layer) {
      RunLayer(layer, executor);
    }
    network_.End(executor);
  }

 private:
  void RunLayer(int64_t layer, Executor& executor) {
    if (plan_.directions_together) {
      executor.Run(2, Order::kAscending, [&](int direction) {
        SerialExecutor alone;
        (direction == 0 ? first_ : *second_).Run(layer, direction, alone);
      });
      return;
    }
    const int num_directions =
        static_cast<int>(plan_.descriptor.num_directions);
    for (int direction = 0; direction < num_directions; ++direction) {
      first_.Run(layer, direction, executor);
    }
  }

  const ForwardPlan& plan_;
  const ScratchView scratch_;
  ForwardNetwork<Element, Operand> network_;
  ForwardPseudoLayer<Element, Operand> first_;
  std::optional<ForwardPseudoLayer<Element, Operand>> second_;
};

template <typename Element, typename Operand>
void PrepareWeightsOf(const ForwardPlan& plan,
                      const Weights<const Element>& weights, void* memory,
                      Observer* observer, Executor& executor) {
  const RnnDescriptor& d = plan.descriptor;
  const WeightSources<Element> sources(plan, weights);
  ForwardWeights<Element, Operand> prepared(plan, sources);
  for (int64_t k = 0; k < d.num_pseudo_layers(); ++k) {
    const int64_t layer = d.layer_of(k);
    const ObservedPhase phase(observer, Phase::kPackWeights, layer,
                              d.direction_of(k));
    const WeightsPlace place = plan.prepared.Place(k, memory);
    prepared.UseBiases(place);
    prepared.LoadBiases(k);
    if (d.has_input_weights(layer)) {
      prepared.UseInput(k, place);
      prepared.PackInput(executor);
    }
    prepared.UseRecurrent(k, place);
    prepared.PackRecurrent(executor);
    prepared.PackProjection(executor);
  }
}

template <typename Element, typename Operand>
void RunParts(const ForwardPlan& plan, ForwardArguments<Element> arguments,
              void* scratch, Executor& executor) {
  const ScratchView memory(scratch);
  if (!plan.weights_are_prepared) {
    void* const prepared = memory.At<void>(plan.scratch.prepared_weights);
    PrepareWeightsOf<Element, Operand>(plan, arguments.weights, prepared,
                                       arguments.observer, executor);
    arguments.prepared_weights = prepared;
  }
  RunBatchParts(
      plan, memory, executor,
      [&](int, const ForwardPlan& part, void* part_scratch, Executor& alone) {
        ForwardPass<Element, Operand>(part, arguments, part_scratch).Run(alone);
      });
}

template <typename Element>
void WriteReserveHeader(const ForwardPlan& plan,
                        const ForwardArguments<Element>& arguments) {
  const ReserveHeader header(plan.descriptor, *plan.sequences, arguments.layout,
                             arguments.dropout_key);
  ComputeType<Element> values[ReserveHeader::kSize];
  std::copy(header.bytes().begin(), header.bytes().end(), values);
  Store(values, arguments.reserve, ReserveHeader::kSize);
}

}  // namespace

template <typename Element>
void PrepareWeights(const ForwardPlan& plan,
                    const Weights<const Element>& weights, void* memory,
                    Executor& executor) {
  if (!plan.is_for(kElementTypeOf<Element>)) std::abort();
  if (plan.prepared.bytes == 0) return;
  WithOperand<Element>([&](auto operand) {
    PrepareWeightsOf<Element, decltype(operand)>(
        plan, weights, memory, /*observer=*/nullptr, executor);
  });
}

template <typename Element>
void Forward(const ForwardPlan& plan,
             const ForwardArguments<Element>& arguments, void* scratch,
             Executor& executor) {
  if (!plan.is_for(kElementTypeOf<Element>)) std::abort();
  if (plan.has_reserve) WriteReserveHeader(plan, arguments);
  SerialExecutor alone;
  WithOperand<Element>([&](auto operand) {
    using Operand = decltype(operand);
    if (!plan.parts.empty()) {
      RunParts<Element, Operand>(plan, arguments, scratch, executor);
      return;
    }
    ForwardPass<Element, Operand> pass(plan, arguments, scratch);
    pass.Run(plan.works_alone() ? alone : executor);
  });
}

#define RNN_INSTANTIATE(Element)                                              \
  template void PrepareWeights(                                               \
      const ForwardPlan&, const Weights<const Element>&, void*, Executor&);   \
  template void Forward(const ForwardPlan&, const ForwardArguments<Element>&, \
                        void*, Executor&);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(double)
RNN_INSTANTIATE(Half)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

}  // namespace rnn
