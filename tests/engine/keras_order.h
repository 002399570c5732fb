// The weights of a Keras layer and those of params, one by one.
#ifndef TESTS_ENGINE_KERAS_ORDER_H_
#define TESTS_ENGINE_KERAS_ORDER_H_

#include <cstdint>
#include <cstdlib>

#include "network/descriptor.h"
#include "network/params_layout.h"
#include "network/weights.h"
#include "tests/engine/keras_tensors.h"
#include "tests/engine/reference_rnn.h"

namespace rnn {

// Calls weight(tensor, place in it, place in params) for the weights of a layer
// as Keras keeps them, in the tensors of keras_tensors.h.
template <typename Weight>
void ForEachKerasWeight(const RnnDescriptor& d, Weight weight) {
  ParamsLayout layout;
  if (!ParamsLayout::Create(d, &layout).ok()) std::abort();
  const int64_t H = d.hidden_size, gates_size = d.gates_size();
  for (int64_t direction = 0; direction < d.num_directions; ++direction) {
    const auto begin = [&](int tensor) {
      return direction * KerasTensorSize(d, tensor);
    };
    for (int64_t row = 0; row < gates_size; ++row) {
      const int64_t column = KerasGate(d.mode, row / H) * H + row % H;
      const auto each_input = [&](int tensor, const Region& w) {
        for (int64_t k = 0; k < w.columns; ++k) {
          weight(tensor, begin(tensor) + k * gates_size + column,
                 w.offset + row * w.columns + k);
        }
      };
      each_input(0, layout.InputWeights(direction));
      each_input(1, layout.RecurrentWeights(direction));
      weight(2, begin(2) + column, layout.InputBias(direction).offset + row);
      if (d.mode == CellMode::kGru) {
        weight(2, begin(2) + gates_size + column,
               layout.RecurrentBias(direction).offset + row);
      }
    }
  }
}

// Zero in place of the values of params that Keras' weights do not have.
inline reference::Vector WhatKerasHas(const RnnDescriptor& d,
                                      const reference::Vector& params) {
  reference::Vector result(params.size());
  ForEachKerasWeight(
      d, [&](int, int64_t, int64_t place) { result[place] = params[place]; });
  return result;
}

}  // namespace rnn

#endif  // TESTS_ENGINE_KERAS_ORDER_H_
