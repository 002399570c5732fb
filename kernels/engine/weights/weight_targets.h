// Where the gradients of weights add up, whatever order they are in.
#ifndef KERNELS_ENGINE_WEIGHTS_WEIGHT_TARGETS_H_
#define KERNELS_ENGINE_WEIGHTS_WEIGHT_TARGETS_H_

#include <cstdint>

#include "kernels/engine/weights/matrix_source.h"
#include "kernels/engine/weights/weight_sources.h"
#include "network/cell.h"
#include "network/descriptor.h"
#include "network/params_layout.h"
#include "network/weights.h"

namespace rnn {

// The gradient of a matrix of gates [G*H, features] or, if the gates are its
// columns (GatesAreColumns()), [features, G*H].
template <typename F>
struct GatesMatrix {
  F* values = nullptr;
  int64_t features = 0;
  // The gates of params as pieces of its columns, if they are.
  Pieces gates;
};

template <typename F>
class WeightTargets {
 public:
  // All of these must outlive the object.
  WeightTargets(const RnnDescriptor& d, const ParamsLayout& layout,
                WeightOrder order)
      : d_(d), layout_(layout), order_(order) {}

  // In `params`, or in Keras' tensors.
  void SetMemory(const Weights<F>& memory) { memory_ = memory; }
  // The tensors that `results` has, one after another in memory of as many
  // values as params have.
  template <typename Element>
  void SetMemoryAs(const Weights<Element>& results, F* values) {
    memory_.params = values;
    for (int64_t k = 0; is_keras() && k < d_.num_pseudo_layers(); ++k) {
      KerasWeights<F>& weights = memory_.keras[k];
      weights.kernel = values;
      weights.recurrent_kernel = weights.kernel + KerasKernelSize(d_);
      values = weights.recurrent_kernel + KerasRecurrentKernelSize(d_);
      weights.bias = nullptr;
      if (results.keras[k].bias == nullptr) continue;
      weights.bias = values;
      values += KerasBiasSize(d_);
    }
  }

  GatesMatrix<F> Input(int64_t k) const {  // of W
    return is_keras() ? OfKernel(memory_.keras[k].kernel, d_.input_size)
                      : OfParams(layout_.InputWeights(k));
  }
  GatesMatrix<F> Recurrent(int64_t k) const {  // of R
    return is_keras()
               ? OfKernel(memory_.keras[k].recurrent_kernel, d_.hidden_size)
               : OfParams(layout_.RecurrentWeights(k));
  }
  F* Projection(int64_t k) const {  // [P, H]
    return memory_.params + layout_.Projection(k).offset;
  }
  // [G*H], the gates as gates() says; nullptr if the weights lack this bias, or
  // if it is a constant.
  F* InputBias(int64_t k) const {
    return is_keras() ? memory_.keras[k].bias
                      : memory_.params + layout_.InputBias(k).offset;
  }
  F* RecurrentBias(int64_t k) const {
    if (!is_keras()) return memory_.params + layout_.RecurrentBias(k).offset;
    F* const biases = memory_.keras[k].bias;
    return biases != nullptr && KerasHasRecurrentBias(d_.mode)
               ? biases + d_.gates_size()
               : nullptr;
  }
  Pieces gates() const { return GatesAsPieces(d_, order_); }

  // Calls tensor(values_of, size) for each tensor that there is;
  // values_of(weights) is the pointer to it in any Weights.
  template <typename Tensor>
  void ForEachTensor(Tensor tensor) const {
    if (!is_keras()) {
      tensor([](auto& weights) { return weights.params; }, layout_.size());
      return;
    }
    for (int64_t k = 0; k < d_.num_pseudo_layers(); ++k) {
      tensor([k](auto& weights) { return weights.keras[k].kernel; },
             KerasKernelSize(d_));
      tensor([k](auto& weights) { return weights.keras[k].recurrent_kernel; },
             KerasRecurrentKernelSize(d_));
      if (memory_.keras[k].bias == nullptr) continue;
      tensor([k](auto& weights) { return weights.keras[k].bias; },
             KerasBiasSize(d_));
    }
  }
  const Weights<F>& memory() const { return memory_; }

 private:
  bool is_keras() const { return order_ == WeightOrder::kKeras; }

  GatesMatrix<F> OfKernel(F* kernel, int64_t features) const {
    GatesMatrix<F> matrix;
    matrix.values = kernel;
    matrix.features = features;
    matrix.gates = gates();
    return matrix;
  }
  GatesMatrix<F> OfParams(const Region& region) const {
    GatesMatrix<F> matrix;
    matrix.values = memory_.params + region.offset;
    matrix.features = region.columns;
    return matrix;
  }

  const RnnDescriptor& d_;
  const ParamsLayout& layout_;
  const WeightOrder order_;
  Weights<F> memory_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_WEIGHT_TARGETS_H_
