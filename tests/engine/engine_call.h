// A call of the engine with all its tensors, for tests that look at memory,
// threads and modes, and for benchmarks. What is computed, engine_test.cc
// compares with a reference.
#ifndef TESTS_ENGINE_ENGINE_CALL_H_
#define TESTS_ENGINE_ENGINE_CALL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/engine.h"
#include "network/params_layout.h"
#include "network/reserve_layout.h"
#include "network/sequences.h"
#include "tests/engine/element_values.h"
#include "tests/engine/int8_values.h"
#include "tests/engine/keras_tensors.h"
#include "tests/engine/make_sequences.h"
#include "tests/engine/plans.h"
#include "tests/engine/random_values.h"
#include "tests/engine/unused.h"

namespace rnn {

struct EngineSizes {
  RnnDescriptor descriptor;
  int64_t max_time = 0;
  int64_t batch = 0;
  std::vector<int32_t> lengths;  // [B]; empty: all are max_time
  // [T, B]: steps within lengths that are valid; empty: all are.
  std::vector<uint8_t> mask;
  bool go_backwards = false;     // y then begins with the last step of x
  bool repeats_outputs = false;  // in padding, of one direction
  bool time_major = true;
  bool training = true;           // else there is no reserve, and no Backward()
  bool keras_weights = false;     // in place of params
  bool keras_bias = true;         // among them
  bool int8_weights = false;      // in place of params; for inference in float
  bool prepared_weights = false;  // before Forward()

  ValidSteps steps() const {
    ValidSteps result;
    if (!lengths.empty()) result.lengths = lengths.data();
    if (!mask.empty()) result.mask = mask.data();
    result.mask_time = batch;
    result.mask_batch = 1;
    result.go_backwards = go_backwards;
    return result;
  }
};

// Buffer<Value>(size) owns memory for `size` values at data(). Inputs are
// random; outputs and scratch begin as Buffer gives them.
template <typename Element, template <typename> class Buffer>
class EngineCall {
 public:
  static constexpr uint64_t kDropoutKey = 0x0123456789abcdef;

  explicit EngineCall(const EngineSizes& sizes, uint64_t seed = 1)
      : sizes_(sizes),
        sequences_(MakeSequences(sizes.max_time, sizes.batch, sizes.steps())),
        x(x_rows() * d_.input_size),
        h0(states() * d_.output_size()),
        c0(c_size()),
        params(sizes.keras_weights || sizes.int8_weights ? 0 : ParamsSize()),
        kernel(keras(0)),
        recurrent_kernel(keras(1)),
        bias(sizes.keras_bias ? keras(2) : 0),
        y(x_rows() * y_features()),
        h_n(h0.size()),
        c_n(c_size()),
        reserve(sizes.training ? ReserveSize() : 0),
        dy(backward(y.size())),
        dh_n(backward(h_n.size())),
        dc_n(backward(c_n.size())),
        dx(backward(x.size())),
        dh0(backward(h0.size())),
        dc0(backward(c0.size())),
        dparams(backward(params.size())),
        dkernel(backward(kernel.size())),
        drecurrent_kernel(backward(recurrent_kernel.size())),
        dbias(backward(bias.size())) {
    RandomValues random(seed);
    for (Buffer<Element>* values : {&x, &h0, &c0, &dy, &dh_n, &dc_n}) {
      Fill(values, random, 1);
    }
    // Sums of any depth come out about equally large.
    const double bound =
        1.5 / std::sqrt(std::max({d_.input_size, d_.hidden_size, int64_t{4}}));
    for (Buffer<Element>* values :
         {&params, &kernel, &recurrent_kernel, &bias}) {
      Fill(values, random, bound);
    }
    if (sizes.int8_weights) int8.emplace(d_, random.Bits());
  }

  void Forward(Executor& executor) {
    ForwardArguments<Element> a{};
    SetShared(&a);
    a.h_n = h_n.data();
    a.c_n = has_c() ? c_n.data() : nullptr;
    a.layout = {sizes_.time_major, sizes_.time_major};
    a.apply_dropout = sizes_.training && d_.dropout > 0;
    a.dropout_key = kDropoutKey;
    const Status status = ForwardPlan::Create(
        Description(), sizes_.training, MachineFor(executor), &forward_plan_);
    if (!status.ok()) std::abort();  // sizes that the caller chose wrongly
    if (sizes_.prepared_weights) {
      // Once for all passes, which take the same routes.
      if (!prepared_) {
        PrepareWeights(forward_plan_, a.weights,
                       Prepare(forward_plan_.prepared.bytes, &prepared_),
                       executor);
        prepared_routes_ = forward_plan_.prepared_routes();
      }
      if (!(prepared_routes_ == forward_plan_.prepared_routes())) std::abort();
      a.prepared_weights = prepared_->data();
    }
    rnn::Forward(forward_plan_, a,
                 Prepare(forward_plan_.scratch_bytes, &forward_scratch_),
                 executor);
  }

  // After Forward().
  void Backward(Executor& executor) {
    BackwardArguments<Element> a{};
    SetShared(&a);
    a.dropout_key = kDropoutKey;
    a.dy = dy.data() + strides().y_offset;
    a.dh_n = dh_n.data();
    a.dc_n = has_c() ? dc_n.data() : nullptr;
    a.dx = dx.data();
    a.dh0 = dh0.data();
    a.dc0 = has_c() ? dc0.data() : nullptr;
    a.dweights.params = dparams.data();
    if (sizes_.keras_weights) {
      SetKeras(d_, dkernel.data(), drecurrent_kernel.data(),
               sizes_.keras_bias ? dbias.data() : nullptr, a.dweights.keras);
    }
    const Status status = BackwardPlan::Create(
        Description(), MachineFor(executor), &backward_plan_);
    if (!status.ok()) std::abort();
    rnn::Backward(backward_plan_, a,
                  Prepare(backward_plan_.scratch_bytes, &backward_scratch_),
                  executor);
  }

  // From now on passes are planned for cores with such caches, not for this
  // machine's.
  void PlanForCoreCaches(int64_t bytes) { core_cache_bytes_ = bytes; }
  // As by ops: for what is measured of this machine, or pinned, and with small
  // calls, which threads share in tests, left to the calling thread.
  void PlanForTeams() { is_planned_for_tests_ = false; }
  // Those of the passes that ran last.
  const ForwardPlan& forward_plan() const { return forward_plan_; }
  const BackwardPlan& backward_plan() const { return backward_plan_; }

  // From now on each pass finds its scratch memory full of these.
  void FillScratchWith(unsigned char byte) { scratch_byte_ = byte; }

  std::vector<Buffer<Element>*> Inputs() {
    return {&x,    &h0, &c0,   &params, &kernel, &recurrent_kernel,
            &bias, &dy, &dh_n, &dc_n};
  }
  // Those of Forward(), then those of Backward().
  std::vector<Buffer<Element>*> Outputs() {
    return {&y,   &h_n,     &c_n,     &reserve,           &dx,   &dh0,
            &dc0, &dparams, &dkernel, &drecurrent_kernel, &dbias};
  }

  const EngineSizes& sizes() const { return sizes_; }
  const Sequences& sequences() const { return sequences_; }

  // For plans.
  CallDescription Description() const {
    CallDescription call;
    call.descriptor = d_;
    call.sequences = &sequences_;
    call.element_type = kElementTypeOf<Element>;
    call.weight_order = sizes_.keras_weights  ? WeightOrder::kKeras
                        : sizes_.int8_weights ? WeightOrder::kInt8
                                              : WeightOrder::kParams;
    call.repeats_outputs = sizes_.repeats_outputs;
    call.weights_are_prepared = sizes_.prepared_weights;
    return call;
  }

 private:
  // First, because the buffers' sizes follow from them.
  const EngineSizes sizes_;
  const RnnDescriptor& d_ = sizes_.descriptor;
  const Sequences sequences_;

 public:
  // Strides of sizes(): [T, B, .] and [L*D, B, .] if time-major, else
  // [B, T, .] and [B, L*D, .]. Those of absent tensors are empty.
  Buffer<Element> x, h0, c0, params, kernel, recurrent_kernel, bias;
  Buffer<Element> y, h_n, c_n, reserve;
  Buffer<Element> dy, dh_n, dc_n;
  Buffer<Element> dx, dh0, dc0, dparams, dkernel, drecurrent_kernel, dbias;
  std::optional<Int8Values<Buffer>> int8;  // in place of params

 private:
  std::optional<int64_t> core_cache_bytes_;
  bool is_planned_for_tests_ = true;
  ForwardPlan forward_plan_;
  BackwardPlan backward_plan_;
  // Of these plans.
  std::optional<Buffer<unsigned char>> forward_scratch_, backward_scratch_;
  std::optional<Buffer<unsigned char>> prepared_;
  PreparedRoutes prepared_routes_;
  int scratch_byte_ = -1;

  bool has_c() const { return d_.mode == CellMode::kLstm; }
  int64_t x_rows() const { return sizes_.max_time * sizes_.batch; }
  int64_t states() const { return d_.num_pseudo_layers() * sizes_.batch; }
  int64_t c_size() const { return has_c() ? states() * d_.hidden_size : 0; }
  CallStrides strides() const {
    return CallStrides::Of(d_, {sizes_.time_major, sizes_.time_major},
                           sizes_.max_time, sizes_.batch, sizes_.go_backwards);
  }
  int64_t y_features() const { return d_.layer_output_size(); }
  int64_t backward(int64_t size) const { return sizes_.training ? size : 0; }
  int64_t keras(int tensor) const {
    return sizes_.keras_weights
               ? d_.num_directions * KerasTensorSize(d_, tensor)
               : 0;
  }

  // Sizes that the caller chose to be possible.
  int64_t ParamsSize() const {
    ParamsLayout layout;
    return ParamsLayout::Create(d_, &layout).ok() ? layout.size() : -1;
  }
  int64_t ReserveSize() const {
    ReserveLayout layout;
    return ReserveLayout::Create(d_, sequences_, &layout).ok() ? layout.size()
                                                               : -1;
  }

  Machine MachineFor(const Executor& executor) const {
    const int num_threads = executor.num_threads();
    Machine machine = is_planned_for_tests_ ? MachineThatShares(num_threads)
                                            : Machine::Here(num_threads);
    if (core_cache_bytes_) machine.core_cache_bytes = *core_cache_bytes_;
    return machine;
  }

  void* Prepare(int64_t bytes, std::optional<Buffer<unsigned char>>* scratch) {
    if (!scratch->has_value() || (*scratch)->size() != bytes) {
      scratch->emplace(bytes);
    }
    if (scratch_byte_ >= 0) {
      FillUnused((*scratch)->data(), scratch_byte_, bytes);
    }
    return (*scratch)->data();
  }

  // What both passes take.
  template <typename Arguments>
  void SetShared(Arguments* a) {
    a->x = x.data();
    a->h0 = h0.data();
    a->c0 = has_c() ? c0.data() : nullptr;
    a->weights.params = params.data();
    if (sizes_.keras_weights) {
      SetKeras<const Element>(d_, kernel.data(), recurrent_kernel.data(),
                              sizes_.keras_bias ? bias.data() : nullptr,
                              a->weights.keras);
    }
    if (int8) a->weights.int8 = int8->weights();
    a->y = y.data() + strides().y_offset;
    a->reserve = sizes_.training ? reserve.data() : nullptr;
    a->strides = strides();
  }

  static void Fill(Buffer<Element>* values, RandomValues& random,
                   double bound) {
    for (int64_t i = 0; i < values->size(); ++i) {
      values->data()[i] = FromDouble<Element>(random.Real(-bound, bound));
    }
  }
};

}  // namespace rnn

#endif  // TESTS_ENGINE_ENGINE_CALL_H_
