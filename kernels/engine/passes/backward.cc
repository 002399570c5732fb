// Backward: parts of the batch, layers and chunks of time in reverse.
#include <cstdint>
#include <cstdlib>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/passes/backward_network.h"
#include "kernels/engine/passes/backward_pseudo_layer.h"
#include "kernels/engine/passes/batch_parts.h"
#include "kernels/engine/passes/weight_gradients.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/threads/executor.h"

namespace rnn {

namespace {

template <typename Element, typename Operand>
class BackwardPass {
 public:
  // `sums`: where gradients of weights add up, of each of the plan's halves.
  BackwardPass(const BackwardPlan& plan,
               const BackwardArguments<Element>& arguments,
               const Weights<ComputeType<Element>>* sums, void* scratch)
      : plan_(plan),
        scratch_(scratch),
        network_(plan, arguments, sums, scratch_),
        pseudo_layer_(network_, plan.scratch.pseudo_layer, scratch_) {}

  void Run(Executor& executor) {
    network_.Begin(executor);
    for (int64_t layer = plan_.descriptor.num_layers - 1; layer >= 0; --layer) {
      RunLayer(layer, executor);
    }
    network_.End(executor);
  }

 private:
  void RunLayer(int64_t layer, Executor& executor) {
    const int num_directions =
        static_cast<int>(plan_.descriptor.num_directions);
    for (int direction = 0; direction < num_directions; ++direction) {
      pseudo_layer_.Run(layer, direction, executor);
    }
    network_.EndLayer(layer, executor);
  }

  const BackwardPlan& plan_;
  const ScratchView scratch_;
  BackwardNetwork<Element, Operand> network_;
  BackwardPseudoLayer<Element, Operand> pseudo_layer_;
};

template <typename Element, typename Operand>
void RunBackward(const BackwardPlan& plan,
                 const BackwardArguments<Element>& arguments, void* scratch,
                 Executor& executor) {
  using Pass = BackwardPass<Element, Operand>;
  const ScratchView memory(scratch);
  const GradientSums<Element> sums(plan, arguments.dweights, memory);
  if (plan.parts.empty()) {
    Pass(plan, arguments, sums.from(0), scratch).Run(executor);
  } else {
    RunBatchParts(
        plan, memory, executor,
        [&](int half, const BackwardPlan& half_plan, void* half_scratch,
            Executor& alone) {
          Pass(half_plan, arguments, sums.from(half), half_scratch).Run(alone);
        });
  }
  sums.Finish(executor);
}

}  // namespace

template <typename Element>
void Backward(const BackwardPlan& plan,
              const BackwardArguments<Element>& arguments, void* scratch,
              Executor& executor) {
  if (!plan.is_for(kElementTypeOf<Element>)) std::abort();
  SerialExecutor alone;
  WithOperand<Element>([&](auto operand) {
    RunBackward<Element, decltype(operand)>(
        plan, arguments, scratch, plan.works_alone() ? alone : executor);
  });
}

#define RNN_INSTANTIATE(Element)              \
  template void Backward(const BackwardPlan&, \
                         const BackwardArguments<Element>&, void*, Executor&);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(double)
RNN_INSTANTIATE(Half)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

}  // namespace rnn
