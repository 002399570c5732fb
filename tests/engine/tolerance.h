// How far the engine's values may be from those of the reference.
#ifndef TESTS_ENGINE_TOLERANCE_H_
#define TESTS_ENGINE_TOLERANCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/engine/elements/elements.h"
#include "tests/engine/element_values.h"
#include "tests/engine/reference_rnn.h"

namespace rnn {

// As a part of the tensor's largest value, or of 1 if that is larger.
// Rounding errors add up like random numbers over the longest sum; 16-bit
// tensors are rounded where the reference rounds, at times to a neighbour.
template <typename Element>
double Tolerance(const reference::Problem& problem) {
  const RnnDescriptor& d = problem.descriptor;
  const int64_t longest = std::max(
      {problem.max_time * problem.batch(), d.gates_size(),
       d.layer_input_size(0) + d.output_size(),
       d.layer_input_size(d.num_layers - 1) + d.output_size(), int64_t{16}});
  return 16 * Epsilon<ComputeType<Element>>() * std::sqrt(longest) +
         (kElementIsOperand<Element> ? 0 : 4 * Epsilon<Element>());
}

}  // namespace rnn

#endif  // TESTS_ENGINE_TOLERANCE_H_
