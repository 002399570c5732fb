// The orders in which a call may have its weights: that of params
// (params_layout.h), of float or in int8 (int8_weights.h), and that of a Keras
// layer.
//
// Keras keeps one column per unit of a gate, gates side by side. Its order of
// gates is that of params but for the GRU, whose update gate comes before the
// reset gate. Its LSTM and simple RNN have one bias; it takes the place of the
// input bias, the recurrent one being zero.
#ifndef NETWORK_WEIGHTS_H_
#define NETWORK_WEIGHTS_H_

#include <cstdint>

#include "network/cell.h"
#include "network/descriptor.h"
#include "network/int8_weights.h"

namespace rnn {

// In which order the weights of a call are. kInt8 is that of params, for
// inference in float.
enum class WeightOrder { kParams, kKeras, kInt8 };

// As the log of plans names it.
constexpr const char* WeightOrderName(WeightOrder order) {
  switch (order) {
    case WeightOrder::kParams:
      return "params";
    case WeightOrder::kKeras:
      return "keras";
    case WeightOrder::kInt8:
      return "int8";
  }
  return "";
}

// Whether the rows of W and R in memory are features, and hold their weights
// for all gates; otherwise they are the units of gates, and hold theirs for all
// features.
constexpr bool GatesAreColumns(WeightOrder order) {
  return order == WeightOrder::kKeras;
}

// Weights of one layer in one direction. Value is an element type, const or
// not.
template <typename Value>
struct KerasWeights {
  Value* kernel;            // [I, G*H]
  Value* recurrent_kernel;  // [H, G*H]
  Value* bias;              // [G*H], GRU [2, G*H]; nullptr: none, zeros
};

// The weights of a call in one of the orders, or their gradients.
template <typename Value>
struct Weights {
  Value* params = nullptr;         // [ParamsLayout::size()]
  KerasWeights<Value> keras[2]{};  // of each direction
  Int8Weights int8;
};

// The place in Keras' order of the gate that params call `gate`, and the other
// way round.
inline int64_t KerasGate(CellMode mode, int64_t gate) {
  constexpr GruGate kSwapped[] = {kUpdate, kReset, kNew};
  return mode == CellMode::kGru ? int64_t{kSwapped[gate]} : gate;
}

// Whether Keras has both biases; otherwise the recurrent one is zero.
constexpr bool KerasHasRecurrentBias(CellMode mode) {
  return mode == CellMode::kGru;
}

// Elements of each.
inline int64_t KerasKernelSize(const RnnDescriptor& d) {
  return d.input_size * d.gates_size();
}
inline int64_t KerasRecurrentKernelSize(const RnnDescriptor& d) {
  return d.hidden_size * d.gates_size();
}
inline int64_t KerasBiasSize(const RnnDescriptor& d) {
  return (KerasHasRecurrentBias(d.mode) ? 2 : 1) * d.gates_size();
}

}  // namespace rnn

#endif  // NETWORK_WEIGHTS_H_
