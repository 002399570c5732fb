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

// The longest sums that values are made of, at least 16: cells err, too.
struct SumDepths {
  int64_t outputs;    // y, h_n, c_n
  int64_t gradients;  // dx, dh0, dc0
  int64_t dparams;
};

inline SumDepths SumDepthsOf(const reference::Problem& problem) {
  const RnnDescriptor& d = problem.descriptor;
  SumDepths depths;
  // Products of an input and of a state with the weights of a gate.
  depths.outputs = std::max(
      {d.layer_input_size(0) + d.output_size(),
       d.layer_input_size(d.num_layers - 1) + d.output_size(), int64_t{16}});
  // Products of all gates' gradients with weights. The gates are of outputs,
  // and err as these do.
  depths.gradients = std::max(depths.outputs, d.gates_size());
  // Sums over all rows of such gradients.
  depths.dparams =
      std::max(depths.gradients, problem.max_time * problem.batch());
  return depths;
}

// As parts of the tensors' largest values, or of 1 if that is larger.
struct Tolerances {
  double outputs;    // y, h_n, c_n
  double gradients;  // dx, dh0, dc0
  double dparams;
};

// Of values about as large as MakeProblem() has them in engine_test.cc.
// A sum's rounding errors, each of up to half an epsilon of what is summed so
// far, add up like random numbers: to epsilon * sqrt(depth / 12) in standard
// deviation. Cells of random weights hand on errors as they do values, mostly
// smaller, so that more steps and layers do not make them more: of all cases,
// and on all instruction sets, the largest error is about epsilon *
// sqrt(depth), and 4 times that is allowed.
// 16-bit tensors are rounded where the reference rounds, at times to a
// neighbour, which is up to an epsilon away; the next steps see that, and
// gradients of the gates more so.
template <typename Element>
Tolerances TolerancesOf(const reference::Problem& problem) {
  const auto of_sums = [](int64_t depth) {
    return 4 * Epsilon<ComputeType<Element>>() *
           std::sqrt(static_cast<double>(depth));
  };
  const double neighbour = kElementIsOperand<Element> ? 0 : Epsilon<Element>();
  const SumDepths depths = SumDepthsOf(problem);
  return {of_sums(depths.outputs) + 2 * neighbour,
          of_sums(depths.gradients) + 4 * neighbour,
          of_sums(depths.dparams) + 4 * neighbour};
}

// One for all tensors, of values of any size.
template <typename Element>
double Tolerance(const reference::Problem& problem) {
  return 16 * Epsilon<ComputeType<Element>>() *
             std::sqrt(static_cast<double>(SumDepthsOf(problem).dparams)) +
         (kElementIsOperand<Element> ? 0 : 4 * Epsilon<Element>());
}

}  // namespace rnn

#endif  // TESTS_ENGINE_TOLERANCE_H_
