// The weights of a call as matrices, whatever order they are in. Together with
// where their gradients go (weight_targets.h) this is what of the passes knows
// Keras' order; the order of gates itself is KerasGate() (network/weights.h).
#ifndef KERNELS_ENGINE_WEIGHTS_WEIGHT_SOURCES_H_
#define KERNELS_ENGINE_WEIGHTS_WEIGHT_SOURCES_H_

#include <algorithm>
#include <cstdint>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/weights/int8_matrix.h"
#include "kernels/engine/weights/matrix_source.h"
#include "network/cell.h"
#include "network/descriptor.h"
#include "network/int8_weights.h"
#include "network/params_layout.h"
#include "network/weights.h"

namespace rnn {

// The gates of params as pieces of a row of memory in this order of weights.
inline Pieces GatesAsPieces(const RnnDescriptor& d, WeightOrder order) {
  Pieces pieces;
  pieces.count = d.num_gates();
  pieces.width = d.hidden_size;
  for (int gate = 0; gate < pieces.count; ++gate) {
    const int64_t place =
        order == WeightOrder::kKeras ? KerasGate(d.mode, gate) : gate;
    pieces.begins[gate] = place * pieces.width;
  }
  return pieces;
}

template <typename Element>
class WeightSources {
 public:
  using F = ComputeType<Element>;

  // All of these must outlive the object.
  WeightSources(const PassPlan& plan, const Weights<const Element>& weights)
      : d_(plan.descriptor),
        layout_(plan.params),
        int8_layout_(plan.int8),
        weights_(weights),
        order_(plan.weight_order) {}

  bool is_int8() const { return order_ == WeightOrder::kInt8; }

  // Matrices of pseudo-layer k, as forward multiplies by them; gates are in the
  // order of params. Unless weights are int8.
  MatrixSource<Element> Input(int64_t k) const {  // W: [in, G*H]
    return is_keras() ? OfKernel(weights_.keras[k].kernel, d_.input_size)
                      : OfParams(layout_.InputWeights(k));
  }
  MatrixSource<Element> Recurrent(int64_t k) const {  // R: [P, G*H]
    return is_keras()
               ? OfKernel(weights_.keras[k].recurrent_kernel, d_.hidden_size)
               : OfParams(layout_.RecurrentWeights(k));
  }
  MatrixSource<Element> Projection(int64_t k) const {  // [H, P]
    return OfParams(layout_.Projection(k));
  }

  // Matrices of pseudo-layer k, [out, depth] in memory; if weights are int8.
  Int8Matrix Int8Input(int64_t k) const {
    return OfInt8(layout_.InputWeights(k), int8_layout_.InputScales(k));
  }
  Int8Matrix Int8Recurrent(int64_t k) const {
    return OfInt8(layout_.RecurrentWeights(k), int8_layout_.RecurrentScales(k));
  }
  Int8Matrix Int8Projection(int64_t k) const {
    return OfInt8(layout_.Projection(k), int8_layout_.ProjectionScales(k));
  }

  // Both biases of pseudo-layer k, [G*H] each.
  void LoadBiases(int64_t k, F* input, F* recurrent) const {
    const int64_t size = d_.gates_size();
    if (is_int8()) {
      const float* biases = weights_.int8.biases;
      std::copy_n(biases + int8_layout_.InputBias(k), size, input);
      std::copy_n(biases + int8_layout_.RecurrentBias(k), size, recurrent);
      return;
    }
    if (!is_keras()) {
      Load(weights_.params + layout_.InputBias(k).offset, input, size);
      Load(weights_.params + layout_.RecurrentBias(k).offset, recurrent, size);
      return;
    }
    std::fill_n(input, size, F{0});
    std::fill_n(recurrent, size, F{0});
    const Element* const biases = weights_.keras[k].bias;
    if (biases == nullptr) return;
    const Pieces gates = GatesAsPieces(d_, order_);
    for (int gate = 0; gate < gates.count; ++gate) {
      const Element* bias = biases + gates.begins[gate];
      Load(bias, input + gate * gates.width, gates.width);
      if (KerasHasRecurrentBias(d_.mode)) {
        Load(bias + size, recurrent + gate * gates.width, gates.width);
      }
    }
  }

 private:
  bool is_keras() const { return order_ == WeightOrder::kKeras; }

  MatrixSource<Element> OfKernel(const Element* kernel, int64_t depth) const {
    return MatrixSource<Element>::Rows(kernel, d_.gates_size(), depth,
                                       GatesAsPieces(d_, order_));
  }
  MatrixSource<Element> OfParams(const Region& region) const {
    return MatrixSource<Element>::Columns(weights_.params + region.offset,
                                          region.columns, region.columns,
                                          region.rows);
  }

  Int8Matrix OfInt8(const Region& region, int64_t first_scale) const {
    Int8Matrix matrix;
    matrix.values = weights_.int8.values + region.offset;
    matrix.scales = weights_.int8.scales + first_scale;
    matrix.depth = region.columns;
    matrix.columns = region.rows;
    return matrix;
  }

  const RnnDescriptor& d_;
  const ParamsLayout& layout_;
  const Int8Layout& int8_layout_;  // if that is the order
  const Weights<const Element>& weights_;
  const WeightOrder order_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_WEIGHT_SOURCES_H_
