// Between params and the weights of a Keras layer.
#ifndef KERNELS_ENGINE_WEIGHTS_KERAS_WEIGHTS_H_
#define KERNELS_ENGINE_WEIGHTS_KERAS_WEIGHTS_H_

#include <cstdint>

#include "kernels/engine/threads/executor.h"
#include "kernels/engine/weights/packing.h"
#include "network/cell.h"
#include "network/descriptor.h"
#include "network/keras_order.h"

namespace rnn {

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

#endif  // KERNELS_ENGINE_WEIGHTS_KERAS_WEIGHTS_H_
