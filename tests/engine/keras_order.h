// The weights of a Keras layer and those of params, one by one.
#ifndef TESTS_ENGINE_KERAS_ORDER_H_
#define TESTS_ENGINE_KERAS_ORDER_H_

#include <cstdint>
#include <cstdlib>

#include "network/descriptor.h"
#include "network/params_layout.h"
#include "network/weights.h"
#include "tests/engine/reference_rnn.h"

namespace rnn {

// Calls weight(tensor, place in it, place in params) for the weights of a layer
// as Keras keeps them: 0 is the kernel, 1 the recurrent kernel, 2 the bias.
template <typename Weight>
void ForEachKerasWeight(const RnnDescriptor& d, Weight weight) {
  ParamsLayout layout;
  if (!ParamsLayout::Create(d, &layout).ok()) std::abort();
  const int64_t H = d.hidden_size;
  for (int64_t row = 0; row < d.gates_size(); ++row) {
    const int64_t column = KerasGate(d.mode, row / H) * H + row % H;
    const auto each_input = [&](int tensor, const Region& w) {
      for (int64_t k = 0; k < w.columns; ++k) {
        weight(tensor, k * d.gates_size() + column,
               w.offset + row * w.columns + k);
      }
    };
    each_input(0, layout.InputWeights(0));
    each_input(1, layout.RecurrentWeights(0));
    weight(2, column, layout.InputBias(0).offset + row);
    if (d.mode == CellMode::kGru) {
      weight(2, d.gates_size() + column, layout.RecurrentBias(0).offset + row);
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
