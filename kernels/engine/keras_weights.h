// Between params and the weights of one layer in one direction as Keras keeps
// them: one column per unit of a gate, gates side by side.
//
// Keras' order is that of params but for the GRU, whose update gate comes
// before the reset gate. Its LSTM and simple RNN have one bias; it takes the
// place of the input bias, the recurrent one being zero.
#ifndef KERNELS_ENGINE_KERAS_WEIGHTS_H_
#define KERNELS_ENGINE_KERAS_WEIGHTS_H_

#include <cstdint>

#include "kernels/engine/cell.h"
#include "kernels/engine/descriptor.h"
#include "kernels/engine/executor.h"
#include "kernels/engine/packing.h"

namespace rnn {

// Value is an element type, const or not.
template <typename Value>
struct KerasWeights {
  Value* kernel;            // [I, G*H]
  Value* recurrent_kernel;  // [H, G*H]
  Value* bias;              // [G*H], GRU [2, G*H]; nullptr: none, zeros
};

// The place in Keras' order of the gate that params call `gate`, and the other
// way round.
inline int64_t KerasGate(CellMode mode, int64_t gate) {
  constexpr GruGate kSwapped[] = {kUpdate, kReset, kNew};
  return mode == CellMode::kGru ? int64_t{kSwapped[gate]} : gate;
}

// The gates of params as pieces of a row of Keras' weights.
class KerasGates {
 public:
  explicit KerasGates(const RnnDescriptor& d)
      : count_(d.num_gates()), width_(d.hidden_size) {
    for (int gate = 0; gate < count_; ++gate) {
      begins_[gate] = KerasGate(d.mode, gate) * width_;
    }
  }
  // Refers to this object.
  Pieces pieces() const { return {begins_, count_, width_}; }

 private:
  int count_;
  int64_t width_;
  int64_t begins_[kMaxGates];
};

// Elements of each.
inline int64_t KerasKernelSize(const RnnDescriptor& d) {
  return d.input_size * d.gates_size();
}
inline int64_t KerasRecurrentKernelSize(const RnnDescriptor& d) {
  return d.hidden_size * d.gates_size();
}
inline int64_t KerasBiasSize(const RnnDescriptor& d) {
  return (d.mode == CellMode::kGru ? 2 : 1) * d.gates_size();
}

// `d` has one pseudo-layer and neither projects nor skips its input.
template <typename Element>
void KerasToParams(const RnnDescriptor& d,
                   const KerasWeights<const Element>& weights, Element* params,
                   Executor& executor);

// The adjoint of KerasToParams: what of dparams belongs to which weight. The
// recurrent bias of an LSTM or simple RNN is a constant and gets nothing.
template <typename Element>
void KerasToParamsBackward(const RnnDescriptor& d, const Element* dparams,
                           const KerasWeights<Element>& dweights,
                           Executor& executor);

}  // namespace rnn

#endif  // KERNELS_ENGINE_KERAS_WEIGHTS_H_
