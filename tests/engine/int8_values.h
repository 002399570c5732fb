// Random weights in int8, and the params that they stand for.
#ifndef TESTS_ENGINE_INT8_VALUES_H_
#define TESTS_ENGINE_INT8_VALUES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "network/descriptor.h"
#include "network/int8_weights.h"
#include "tests/engine/random_values.h"

namespace rnn {

// Buffer<Value>(size) owns memory for `size` values at data().
template <template <typename> class Buffer>
struct Int8Values {
  Int8Values(const RnnDescriptor& d, uint64_t seed)
      : layout(LayoutOf(d)),
        values(layout.num_values()),
        scales(layout.num_scales()),
        biases(layout.num_biases()) {
    RandomValues random(seed);
    for (int64_t i = 0; i < values.size(); ++i) {
      values.data()[i] = static_cast<int8_t>(random.Integer(-127, 127));
    }
    // Rows differ, so that a wrong row's scale shows.
    const double bound =
        3.0 / 127 / std::sqrt(std::max(d.hidden_size, d.input_size));
    for (int64_t i = 0; i < scales.size(); ++i) {
      scales.data()[i] = static_cast<float>(random.Real(0.1 * bound, bound));
    }
    for (int64_t i = 0; i < biases.size(); ++i) {
      biases.data()[i] = static_cast<float>(random.Real(-0.5, 0.5));
    }
  }

  Int8Weights weights() {
    return {values.data(), scales.data(), biases.data()};
  }
  void MakeReadOnly() {
    values.MakeReadOnly();
    scales.MakeReadOnly();
    biases.MakeReadOnly();
  }

  static Int8Layout LayoutOf(const RnnDescriptor& d) {
    Int8Layout result;
    if (!Int8Layout::Create(d, &result).ok()) std::abort();
    return result;
  }

  // The vector of params that they stand for, row by row.
  std::vector<double> Params(const RnnDescriptor& d) {
    std::vector<double> params;
    int64_t row = 0;
    const auto add_rows = [&](int64_t rows, int64_t columns) {
      for (int64_t i = 0; i < rows; ++i, ++row) {
        for (int64_t j = 0; j < columns; ++j) {
          params.push_back(values.data()[params.size()] *
                           static_cast<double>(scales.data()[row]));
        }
      }
    };
    for (int64_t k = 0; k < d.num_pseudo_layers(); ++k) {
      const int64_t layer = d.layer_of(k);
      if (d.has_input_weights(layer)) {
        add_rows(d.gates_size(), d.layer_input_size(layer));
      }
      add_rows(d.gates_size(), d.output_size());
      if (d.has_projection()) add_rows(d.output_size(), d.hidden_size);
    }
    if (row != scales.size() ||
        static_cast<int64_t>(params.size()) != values.size()) {
      std::abort();
    }
    for (int64_t i = 0; i < biases.size(); ++i) {
      params.push_back(biases.data()[i]);
    }
    return params;
  }

  Int8Layout layout;
  Buffer<int8_t> values;
  Buffer<float> scales;
  Buffer<float> biases;
};

}  // namespace rnn

#endif  // TESTS_ENGINE_INT8_VALUES_H_
