// Plans, and the machine that tests plan for.
#ifndef TESTS_ENGINE_PLANS_H_
#define TESTS_ENGINE_PLANS_H_

#include <cstdlib>

#include "kernels/engine/plan/plan.h"

namespace rnn {

// This machine, but for what would have to be measured, and with threads that
// share even small calls.
inline Machine MachineThatShares(int num_threads) {
  Machine machine;
  machine.num_threads = num_threads;
  machine.core_cache_bytes = CoreCacheBytes();
  machine.has_crew = true;
  machine.flops_per_passed_value = 0;
  return machine;
}

// Of a call that is possible.
inline ForwardPlan MakeForwardPlan(const CallDescription& call,
                                   bool has_reserve = true,
                                   int num_threads = 1) {
  ForwardPlan plan;
  if (!ForwardPlan::Create(call, has_reserve, MachineThatShares(num_threads),
                           &plan)
           .ok()) {
    std::abort();
  }
  return plan;
}
inline BackwardPlan MakeBackwardPlan(const CallDescription& call,
                                     int num_threads = 1) {
  BackwardPlan plan;
  if (!BackwardPlan::Create(call, MachineThatShares(num_threads), &plan).ok()) {
    std::abort();
  }
  return plan;
}

template <typename Element>
CallDescription CallOf(const RnnDescriptor& descriptor,
                       const Sequences& sequences) {
  CallDescription call;
  call.descriptor = descriptor;
  call.sequences = &sequences;
  call.element_type = kElementTypeOf<Element>;
  return call;
}

// Whether gradients of R are sums of products in parts.
inline bool HasRecurrentGradientsInParts(const CallDescription& call) {
  return IsInParts(MakeBackwardPlan(call).recurrent_weights_gradient.route);
}

// The route of a forward product as far as it changes bits.
inline Route WithoutTurn(Route route) {
  return route == Route::kPackedInTurn ? Route::kPacked : route;
}

// Of a backward one, where rows in place have the bits of packed ones.
inline Route WithoutRows(Route route) {
  return route == Route::kRowsInPlace ? Route::kPacked : WithoutTurn(route);
}

// Whether a row of both calls has the same bits, but for gradients of weights.
inline bool ComputeRowsAlike(const CallDescription& a,
                             const CallDescription& b) {
  const auto same = [](Route x, Route y) {
    return WithoutTurn(x) == WithoutTurn(y);
  };
  const ForwardPlan forward_a = MakeForwardPlan(a);
  const ForwardPlan forward_b = MakeForwardPlan(b);
  const BackwardPlan backward_a = MakeBackwardPlan(a);
  const BackwardPlan backward_b = MakeBackwardPlan(b);
  const auto same_backward = [](Route x, Route y) {
    return WithoutRows(x) == WithoutRows(y);
  };
  return same(forward_a.recurrent_weights.route,
              forward_b.recurrent_weights.route) &&
         same(forward_a.input_weights.first.route,
              forward_b.input_weights.first.route) &&
         same(forward_a.input_weights.upper.route,
              forward_b.input_weights.upper.route) &&
         same_backward(backward_a.recurrent_weights.route,
                       backward_b.recurrent_weights.route) &&
         same_backward(backward_a.input_weights.first.route,
                       backward_b.input_weights.first.route) &&
         same_backward(backward_a.input_weights.upper.route,
                       backward_b.input_weights.upper.route);
}

}  // namespace rnn

#endif  // TESTS_ENGINE_PLANS_H_
