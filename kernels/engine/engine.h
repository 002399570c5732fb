// The engine: forward and backward of a whole recurrent network.
//
// Equations, per pseudo-layer, for step input x, previous h and c (sigma is the
// logistic function, . the elementwise product):
//
//   rnn_relu, rnn_tanh:  h' = act(W x + bW + R h + bR)
//   lstm:  i, f, o = sigma(W x + bW + R h + bR)
//          g = tanh(W x + bW + R h + bR)
//          c' = f.c + i.g     m = o.tanh(c')     h' = m, or Pr m if projecting
//   gru:   r, z = sigma(W x + bW + R h + bR)
//          n = tanh(W_n x + bW_n + r.(R_n h + bR_n))     h' = (1-z).n + z.h
//
// Element is float, double, Half or BFloat16. The result of a row depends
// neither on the other rows of the batch (B and T given) nor on the number of
// threads, bit for bit; padding is never read, and padded outputs and input
// gradients are zero. (But whether all rows start from zeros decides whether an
// infinity or NaN of R comes into the first step.)
//
// A call is planned, and then run:
//
//   ForwardPlan plan;
//   Status status = ForwardPlan::Create(call, has_reserve,
//                                       Machine::Here(num_threads), &plan);
//   ... memory of plan.scratch_bytes ...
//   Forward(plan, arguments, scratch, executor);
//
// Bad input is a Status. Where there is no memory for a plan, or for sequences,
// Create() throws std::bad_alloc or std::length_error. Running a plan throws
// nothing. A broken contract, between parts of the engine or by its caller,
// aborts.
#ifndef KERNELS_ENGINE_ENGINE_H_
#define KERNELS_ENGINE_ENGINE_H_

#include <cstdint>

#include "kernels/engine/observer.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/threads/executor.h"
#include "network/descriptor.h"
#include "network/element_types.h"
#include "network/reserve_layout.h"
#include "network/sequences.h"
#include "network/status.h"
#include "network/weights.h"

namespace rnn {

// Element (i, b, feature) of a tensor lies at i * outer + b * batch + feature,
// where i is the time step or the pseudo-layer.
struct Strides {
  int64_t outer = 0;
  int64_t batch = 0;

  // [outer, B, features], or [B, outer, features]. Without rows there are none
  // to step over, and products of sizes that nothing bounds then.
  static Strides Of(bool outer_major, int64_t outer_size, int64_t batch_size,
                    int64_t features) {
    if (batch_size == 0) return {};
    Strides strides;
    strides.outer = outer_major ? batch_size * features : features;
    strides.batch = outer_major ? features : outer_size * features;
    return strides;
  }
};

// Of the tensors of a call, and of their gradients.
struct CallStrides {
  Strides x, y, h, c;
  // Elements of y before its first time step: there are some if the last one
  // comes first in memory.
  int64_t y_offset = 0;

  // Of tensors without gaps; `reverses_y` if the last step of x is the first of
  // y.
  static CallStrides Of(const RnnDescriptor& d, const PaddedLayout& layout,
                        int64_t max_time, int64_t batch,
                        bool reverses_y = false) {
    const auto of_sequence = [&](int64_t features) {
      return Strides::Of(layout.time_major, max_time, batch, features);
    };
    const auto of_state = [&](int64_t features) {
      return Strides::Of(layout.states_outer_major, d.num_pseudo_layers(),
                         batch, features);
    };
    CallStrides strides;
    strides.x = of_sequence(d.input_size);
    strides.y = of_sequence(d.layer_output_size());
    strides.h = of_state(d.output_size());
    strides.c = of_state(d.hidden_size);
    if (!reverses_y) return strides;
    // Without rows y is empty, and nothing is before its begin.
    if (max_time > 0) strides.y_offset = (max_time - 1) * strides.y.outer;
    strides.y.outer = -strides.y.outer;
    return strides;
  }
};

// No buffer may overlap another. c0 and c_n are used by the LSTM only and may
// be nullptr in other modes.
template <typename Element>
struct ForwardArguments {
  const Element* x = nullptr;  // [T, B, I]
  // [L*D, B, P]. If [B, P] of a pseudo-layer is zero, so is its
  // product with R, whatever R holds; and, if T is 1, the gradient of R.
  const Element* h0 = nullptr;
  const Element* c0 = nullptr;     // [L*D, B, H]
  Weights<const Element> weights;  // in the plan's order
  // If the plan's weights are prepared: as PrepareWeights() left them.
  const void* prepared_weights = nullptr;
  // [T, B, D*P]; in memory strides.y_offset elements may come before the first.
  Element* y = nullptr;
  Element* h_n = nullptr;  // [L*D, B, P]
  Element* c_n = nullptr;  // [L*D, B, H]
  // [ReserveLayout::size()], if the plan has one.
  Element* reserve = nullptr;

  CallStrides strides;
  PaddedLayout layout{};  // that gave the strides; noted in the reserve

  // Whether dropout acts, and its key. It does in training only, and always if
  // there is a reserve: backward takes it that it did.
  bool apply_dropout = false;
  uint64_t dropout_key = 0;

  Observer* observer = nullptr;  // nullptr: nobody watches
};

// Inputs of Forward, its outputs, their gradients; all `d` fields below the
// line are written. Strides hold for a tensor and its gradient alike.
template <typename Element>
struct BackwardArguments {
  const Element* x = nullptr;
  const Element* h0 = nullptr;
  const Element* c0 = nullptr;
  Weights<const Element> weights;  // in the plan's order
  const Element* y = nullptr;
  // As Forward left it, and the key in its header, which CheckReserve() read.
  const Element* reserve = nullptr;
  uint64_t dropout_key = 0;
  const Element* dy = nullptr;
  const Element* dh_n = nullptr;
  const Element* dc_n = nullptr;
  // ---
  Element* dx = nullptr;
  Element* dh0 = nullptr;
  Element* dc0 = nullptr;
  Weights<Element> dweights;  // in the plan's order

  CallStrides strides;

  Observer* observer = nullptr;  // nullptr: nobody watches
};

// Prepares the weights of all pseudo-layers for this plan, whose weights are to
// be prepared, and for each of the same network and type that has its
// prepared_routes(): `memory` has plan.prepared.bytes, and is aligned to 64
// bytes. Where plan.prepared.bytes is 0, nothing need be prepared; nor where
// plan.weights_are_prepared is not set, whatever they are. Calls go on
// reading those of `weights` that are multiplied in place.
template <typename Element>
void PrepareWeights(const ForwardPlan& plan,
                    const Weights<const Element>& weights, void* memory,
                    Executor& executor);

// `scratch` has plan.scratch_bytes and is aligned to 64 bytes; its contents do
// not matter. The plan is one for Element and the micro-kernels that run here;
// with any other memory would be overrun, so the process is aborted. It should
// be one for as many threads as the executor has; with another number results
// are the same, but come later.
template <typename Element>
void Forward(const ForwardPlan& plan,
             const ForwardArguments<Element>& arguments, void* scratch,
             Executor& executor);
// `arguments.reserve` has passed CheckReserve(). All that is read of it after
// that are numbers to compute with.
template <typename Element>
void Backward(const BackwardPlan& plan,
              const BackwardArguments<Element>& arguments, void* scratch,
              Executor& executor);

// Compares a reserve of `size` elements with what Backward expects for this
// descriptor and these sequences, `layout` being that of their reserve. On
// success `dropout_key` is the forward call's, and the caller may run Backward.
// Others may write the reserve meanwhile: its header is read once.
template <typename Element>
Status CheckReserve(const RnnDescriptor& descriptor, const Sequences& sequences,
                    const ReserveLayout& layout,
                    const PaddedLayout& padded_layout, const Element* reserve,
                    int64_t size, uint64_t* dropout_key);

// What dropout multiplied the outputs of all layers but the last by: masks
// [L-1, T, B, D*P], padding included; nothing if there is no dropout. F is what
// elements are computed in, float or double. Gradients of second order draw it
// again.
template <typename F>
void DrawDropoutMasks(const RnnDescriptor& descriptor,
                      const Sequences& sequences, uint64_t dropout_key,
                      F* masks, Executor& executor);

}  // namespace rnn

#endif  // KERNELS_ENGINE_ENGINE_H_
