// Forward and Backward as a whole, on the instruction set that
// TF_CUDNN_RNN_ISA allows. BUILD makes one test of each.

#include "kernels/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/kernel_shape.h"
#include "kernels/engine/plan/route.h"
#include "kernels/engine/simd/instruction_set.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "network/params_layout.h"
#include "network/reserve_layout.h"
#include "tests/engine/element_values.h"
#include "tests/engine/guarded.h"
#include "tests/engine/keras_order.h"
#include "tests/engine/keras_tensors.h"
#include "tests/engine/make_sequences.h"
#include "tests/engine/plans.h"
#include "tests/engine/random_values.h"
#include "tests/engine/reference_rnn.h"
#include "tests/engine/simd_targets.h"
#include "tests/engine/thread_pool.h"
#include "tests/engine/tolerance.h"

namespace rnn {
namespace {

const bool kIsaPrinted = [] {
  std::cout << "Instruction set under test: " << SelectSimdTarget().name
            << std::endl;
  return true;
}();

// The variable by which other runs of this test ask for lesser targets.
TEST(EngineTargetTest, IsTheOneAskedFor) {
  const char* name = std::getenv(kSimdTargetVariable);
  if (name == nullptr) name = TestedSimdTargets().front()->name;
  const auto is_it = [&](const SimdTarget* t) {
    return t->name == std::string(name);
  };
  const auto& targets = TestedSimdTargets();
  if (std::any_of(targets.begin(), targets.end(), is_it)) {
    EXPECT_STREQ(SelectSimdTarget().name, name);
  } else {
    EXPECT_TRUE(IsSimdTargetName(name)) << name;
  }
}

// ---- Cases ------------------------------------------------------------------

enum class Lengths { kFull, kRagged, kEmpty };

struct Case {
  const char* name;
  int64_t T, B, I, H;
  int64_t L = 1, D = 1;
  Lengths lengths = Lengths::kFull;
  int64_t num_proj = 0;  // if not 0, for the LSTM only
  bool skip_input = false;
  float dropout = 0;
  // Gradients of R are sums of products in parts, where the instruction set has
  // them (plans.h).
  bool in_parts = false;
  // Threads meet at each step.
  bool shares_steps = false;
};
Case InParts(Case sizes) {
  sizes.in_parts = true;
  return sizes;
}
Case SharingSteps(Case sizes) {
  sizes.shares_steps = true;
  return sizes;
}

// Names say why.
const Case kCases[] = {
    {"one_of_everything", 1, 1, 1, 1},
    {"hidden_one_past_a_vector_of_avx512", 3, 2, 5, 17},
    {"hidden_one_short_of_a_vector_of_avx2", 3, 2, 9, 7},
    {"hidden_one_past_a_panel_of_avx512", 2, 3, 5, 65},
    {"input_one_past_a_panel_of_avx512", 2, 3, 65, 6},
    {"rows_one_past_two_tiles", 2, 13, 4, 9},
    {"input_deeper_than_a_block", 2, 3, 1030, 9},
    {"hidden_deeper_than_a_block", 2, 2, 3, 515},
    {"both_directions", 5, 3, 6, 8, 1, 2},
    {"three_layers", 4, 3, 5, 6, 3, 1},
    {"four_layers_both_directions", 3, 2, 4, 5, 4, 2, Lengths::kRagged},
    {"ragged_with_empty_rows", 6, 9, 5, 7, 2, 2, Lengths::kRagged},
    {"all_rows_empty", 3, 2, 4, 5, 2, 2, Lengths::kEmpty},
    {"no_rows", 3, 0, 4, 5, 2, 2},
    {"several_chunks_of_time", 90, 13, 3, 5, 2, 2, Lengths::kRagged},
    {"one_step_larger_than_a_chunk", 3, 801, 2, 3, 1, 2, Lengths::kRagged},
    {"skip_input", 4, 3, 9, 9, 2, 2, Lengths::kRagged, 0, true},
    {"projection", 4, 3, 6, 9, 2, 2, Lengths::kRagged, 5},
    {"projection_to_one_feature", 3, 2, 5, 7, 2, 1, Lengths::kFull, 1},
    {"projection_to_hidden_size_is_none", 3, 2, 5, 7, 2, 1, Lengths::kFull, 7},
    {"projection_past_a_panel", 3, 3, 5, 130, 1, 2, Lengths::kRagged, 67},
    {"projection_and_skip_input", 3, 2, 7, 7, 2, 1, Lengths::kFull, 3, true},
    {"projection_over_chunks", 50, 12, 3, 6, 1, 2, Lengths::kRagged, 4},
    {"dropout", 5, 4, 6, 9, 3, 2, Lengths::kRagged, 0, false, 0.3f},
    {"dropout_and_projection", 5, 4, 6, 9, 2, 1, Lengths::kFull, 5, false,
     0.6f},
    {"dropout_of_everything", 3, 2, 6, 9, 2, 1, Lengths::kFull, 0, false, 1.0f},
    {"dropout_without_a_layer_to_drop", 3, 2, 6, 9, 1, 2, Lengths::kFull, 0,
     false, 0.5f},
    SharingSteps({"hundreds", 6, 37, 130, 129, 1, 2, Lengths::kRagged}),
    {"hundreds_projected", 5, 37, 70, 150, 1, 1, Lengths::kRagged, 131},
    {"hundreds_in_one_direction", 3, 20, 33, 290},
    InParts({"hundreds_of_many_rows", 3, 67, 98, 258, 1, 1, Lengths::kRagged}),
    // Also in several chunks of time, and in layers.
    InParts({"hundreds_of_many_rows_projected", 3, 66, 70, 264, 1, 1,
             Lengths::kRagged, 131}),
    InParts({"hundreds_of_many_rows_in_chunks", 10, 120, 20, 150, 1, 1,
             Lengths::kFull}),
    // (For most other sizes a ReLU of float16 is at a kink on tile registers.)
    InParts({"hundreds_of_many_rows_and_inputs_in_chunks", 10, 120, 100, 150}),
    InParts({"hundreds_of_many_rows_in_layers", 3, 70, 20, 150, 2, 2,
             Lengths::kRagged}),
    InParts({"hundreds_of_not_so_many_rows", 7, 45, 20, 150, 1, 2,
             Lengths::kRagged}),
    InParts({"hundreds_of_just_so_many_rows_projected", 6, 32, 20, 170, 1, 1,
             Lengths::kFull, 131}),
    // Of one row alone, or of a third of the time, all weights are still
    // packed.
    {"long_rows", 40, 3, 6, 10, 2, 2, Lengths::kRagged},
    {"long_row", 100, 1, 7, 12},
    {"long_rows_in_layers", 100, 3, 6, 9, 3, 1, Lengths::kRagged},
    {"long_rows_projected", 40, 4, 6, 12, 2, 1, Lengths::kRagged, 5},
    // Weights are read where they lie
    // - by one step of up to 32 rows, and just not,
    {"1_step_of_1_row", 1, 1, 20, 48},
    {"1_step_of_1_row_in_layers", 1, 1, 35, 67, 2, 2},
    {"1_step_of_7_rows", 1, 7, 33, 34, 2, 2, Lengths::kRagged},
    {"1_step_of_32_rows", 1, 32, 20, 48, 1, 1, Lengths::kRagged},
    {"1_step_of_32_rows_in_layers", 1, 32, 19, 37, 2, 2},
    {"1_step_of_33_rows", 1, 33, 20, 48},
    // - or packed by the one step that uses them, if panels are enough,
    {"1_step_of_16_rows", 1, 16, 20, 48, 1, 2},
    {"1_step_of_17_rows", 1, 17, 20, 48, 1, 2},
    {"1_step_of_40_rows_in_layers", 1, 40, 33, 200, 2, 2, Lengths::kRagged},
    {"1_step_of_36_rows_projected", 1, 36, 20, 150, 1, 2, Lengths::kRagged,
     131},
    // - by two steps,
    {"2_steps_of_1_row", 2, 1, 20, 48, 1, 1},
    {"2_steps_of_5_rows_in_layers", 2, 5, 18, 70, 2, 2, Lengths::kRagged},
    {"2_steps_of_16_rows", 2, 16, 20, 48, 1, 1, Lengths::kRagged},
    {"2_steps_of_17_rows", 2, 17, 20, 48, 1, 1, Lengths::kRagged},
    // - by up to 8 steps of up to 32 rows in all, W by more steps, too,
    {"4_steps_of_2_rows", 4, 2, 20, 48, 1, 1, Lengths::kRagged},
    {"8_steps_of_1_row_in_layers", 8, 1, 18, 34, 2, 2},
    {"3_steps_of_3_rows", 3, 3, 20, 48, 1, 1, Lengths::kRagged},
    {"9_steps_of_1_row_in_layers", 9, 1, 18, 34, 2, 2},
    {"4_steps_of_8_rows", 4, 8, 20, 48, 1, 1, Lengths::kRagged},
    {"8_steps_of_4_rows", 8, 4, 20, 53, 1, 1, Lengths::kRagged},
    {"9_steps_of_3_rows", 9, 3, 20, 53, 1, 1, Lengths::kRagged},
    {"32_steps_of_1_row_in_layers", 32, 1, 19, 21, 2, 2},
    {"3_steps_of_11_rows", 3, 11, 20, 48, 1, 1, Lengths::kRagged},
    {"33_steps_of_1_row_in_layers", 33, 1, 18, 34, 2, 2},
    // - of a wider R, too, which Keras' order has in place backward,
    {"2_steps_of_16_rows_of_wider_weights", 2, 16, 20, 96, 1, 1,
     Lengths::kRagged},
    {"4_steps_of_8_rows_of_wider_weights", 4, 8, 20, 160},
    // - and R by more steps if it is large.
    {"9_steps_of_2_rows_of_large_weights", 9, 2, 20, 420},
    // (For most other sizes a ReLU of float16 is at a kink on tile registers.)
    {"33_steps_of_1_row_of_large_weights", 33, 1, 24, 430},
    {"12_steps_of_3_rows_of_large_weights", 12, 3, 20, 430, 1, 1,
     Lengths::kRagged},
    {"9_steps_of_4_rows_of_large_weights", 9, 4, 20, 430, 1, 1,
     Lengths::kRagged},
    {"4_steps_of_2_rows_skip_input", 4, 2, 34, 34, 2, 2, Lengths::kRagged, 0,
     true},
    {"1_step_of_9_rows_skip_input", 1, 9, 35, 35, 1, 2, Lengths::kFull, 0,
     true},
    {"4_steps_of_2_rows_projected", 4, 2, 18, 38, 2, 2, Lengths::kRagged, 22},
    {"2_steps_of_4_rows_projected", 2, 4, 17, 67, 1, 2, Lengths::kFull, 33},
    {"2_steps_of_4_rows_dropout", 2, 4, 18, 34, 3, 2, Lengths::kRagged, 0,
     false, 0.4f},
    {"2_steps_of_2_rows_input_deeper_than_blocks", 2, 2, 2060, 6, 1, 2},
};

struct Draw {
  Case sizes;
  CellMode mode;
  ElementType element;
  bool keras_weights = false;

  // Takes long, and another draw goes the same ways: large layers of tanh go
  // where those of ReLU do, and many rows, where none of their steps is in
  // parts, where those of a GRU in float do.
  bool is_spared() const {
    if (sizes.H >= 400) return mode == CellMode::kTanh;
    const KernelShape kernels = KernelShape::Of(element);
    if (!sizes.in_parts || sizes.num_proj != 0 || kernels.has_parts) {
      return false;
    }
    const bool is_converted_to_float =
        kernels.element_bytes == 2 && kernels.operand_bytes == 4;
    return mode != CellMode::kGru || is_converted_to_float;
  }
  // Whether Keras has such layers. Large ones take long.
  bool may_be_keras() const {
    return sizes.L == 1 && sizes.num_proj == 0 && !sizes.skip_input &&
           sizes.H < 500;
  }
  std::string name() const {
    return std::string(kModeNames[static_cast<int>(mode)]) + "_" +
           ElementName(element) + "_" + sizes.name +
           (keras_weights ? "_keras" : "");
  }
};
void PrintTo(const Draw& draw, std::ostream* out) {
  const Case& c = draw.sizes;
  *out << draw.name() << ": T " << c.T << ", B " << c.B << ", I " << c.I
       << ", H " << c.H << ", L " << c.L << ", D " << c.D << ", num_proj "
       << c.num_proj << ", skip_input " << c.skip_input << ", dropout "
       << c.dropout << ", on " << SelectSimdTarget().name;
}

std::vector<Draw> DrawsWhere(const std::function<bool(const Draw&)>& wanted) {
  std::vector<Draw> draws;
  for (const Case& sizes : kCases) {
    for (CellMode mode : kModes) {
      if (sizes.num_proj != 0 && mode != CellMode::kLstm) continue;
      for (ElementType element : kElementTypes) {
        Draw draw{sizes, mode, element};
        if (draw.is_spared()) continue;
        if (!wanted(draw)) continue;
        draws.push_back(draw);
        draw.keras_weights = true;
        if (draw.may_be_keras()) draws.push_back(draw);
      }
    }
  }
  return draws;
}

// ---- Problems ---------------------------------------------------------------

// Without weights where those of another problem are to be taken.
template <typename Element>
reference::Problem MakeProblem(const Case& sizes, CellMode mode, uint64_t seed,
                               bool with_weights = true) {
  reference::Problem p;
  RnnDescriptor& d = p.descriptor;
  d.mode = mode;
  d.num_layers = sizes.L;
  d.num_directions = sizes.D;
  d.input_size = sizes.I;
  d.hidden_size = sizes.H;
  d.num_proj = sizes.num_proj;
  d.skip_input = sizes.skip_input;
  d.dropout = sizes.dropout;
  p.max_time = sizes.T;
  p.apply_dropout = sizes.dropout > 0;
  p.dropout_key = 0x0123456789abcdef + seed;

  RandomValues random(seed);
  for (int64_t b = 0; b < sizes.B; ++b) {
    switch (sizes.lengths) {
      case Lengths::kFull:
        p.lengths.push_back(sizes.T);
        break;
      case Lengths::kEmpty:
        p.lengths.push_back(0);
        break;
      case Lengths::kRagged:  // an empty row and a full one if there is room
        p.lengths.push_back(b == 1   ? 0
                            : b == 2 ? sizes.T
                                     : random.Integer(0, sizes.T));
        break;
    }
  }
  if constexpr (!kElementIsOperand<Element>) {
    p.round = [](double value) { return ToDouble(FromDouble<Element>(value)); };
  }
  const auto values = [&](int64_t count, double bound) {
    return ToDoubles(FromDoubles<Element>(random.Reals(count, -bound, bound)));
  };
  ParamsLayout layout;
  EXPECT_TRUE(ParamsLayout::Create(d, &layout).ok());
  const int64_t P = d.output_size();
  const int64_t states = d.num_pseudo_layers() * sizes.B;
  const int64_t c_size = mode == CellMode::kLstm ? states * sizes.H : 0;
  p.x = values(sizes.T * sizes.B * sizes.I, 1);
  p.h0 = values(states * P, 1);
  p.c0 = values(c_size, 1);
  p.dy = values(sizes.T * sizes.B * sizes.D * P, 1);
  p.dh_n = values(states * P, 1);
  p.dc_n = values(c_size, 1);
  if (!with_weights) return p;
  p.params.resize(layout.size());
  // Sums of any depth come out about equally large.
  const auto fill = [&](const Region& region) {
    const double bound =
        region.columns == 1 ? 0.5 : 1.5 / std::sqrt(region.columns);
    const reference::Vector weights = values(region.size(), bound);
    std::copy(weights.begin(), weights.end(), p.params.begin() + region.offset);
  };
  for (int64_t k = 0; k < d.num_pseudo_layers(); ++k) {
    for (const Region& region :
         {layout.InputWeights(k), layout.RecurrentWeights(k),
          layout.Projection(k), layout.InputBias(k), layout.RecurrentBias(k)}) {
      fill(region);
    }
  }
  return p;
}

// Parts of [outer, B, features]: some of the outer index, or one batch row.
reference::Vector OuterRange(const reference::Vector& values,
                             int64_t outer_size, int64_t begin, int64_t end) {
  const int64_t row =
      outer_size == 0 ? 0 : static_cast<int64_t>(values.size()) / outer_size;
  return {values.begin() + begin * row, values.begin() + end * row};
}
template <typename Value>
std::vector<Value> BatchRow(const std::vector<Value>& values,
                            int64_t outer_size, int64_t batch, int64_t b) {
  const int64_t features =
      static_cast<int64_t>(values.size()) / (outer_size * batch);
  std::vector<Value> row;
  for (int64_t i = 0; i < outer_size; ++i) {
    const auto begin = values.begin() + (i * batch + b) * features;
    row.insert(row.end(), begin, begin + features);
  }
  return row;
}

template <typename Value>
void CopyBatchRow(const std::vector<Value>& from, int64_t outer_size,
                  int64_t batch, int64_t b, std::vector<Value>* to) {
  const int64_t features =
      static_cast<int64_t>(from.size()) / (outer_size * batch);
  for (int64_t i = 0; i < outer_size; ++i) {
    const int64_t begin = (i * batch + b) * features;
    std::copy_n(from.begin() + begin, features, to->begin() + begin);
  }
}

// ---- Running the engine -----------------------------------------------------

// The caller and threads of its own, which take the tasks as they come. No task
// may call Run().
class ThreadsExecutor : public Executor {
 public:
  explicit ThreadsExecutor(int num_threads)
      : num_threads_(num_threads), helpers_(num_threads - 1) {}

  int num_threads() const override { return num_threads_; }

  void Run(int num_tasks, Order order, FunctionRef<void(int)> task) override {
    if (num_tasks <= 1) {
      SerialExecutor().Run(num_tasks, order, task);
      return;
    }
    ++runs_;
    std::atomic<int> next{0};
    const auto work = [&] {
      for (int i = next++; i < num_tasks; i = next++) task(i);
    };
    std::atomic<int> num_working{helpers_.num_threads()};
    for (int i = 0; i < helpers_.num_threads(); ++i) {
      helpers_.Schedule([&] {
        work();
        --num_working;
      });
    }
    work();
    while (num_working > 0) std::this_thread::yield();
  }

  int64_t runs() const { return runs_; }

 private:
  const int num_threads_;
  ThreadPool helpers_;
  int64_t runs_ = 0;
};

// The other extreme: seven "threads" one after another, last task first.
class ReverseExecutor : public Executor {
 public:
  int num_threads() const override { return 7; }
  void Run(int num_tasks, Order /*order*/,
           FunctionRef<void(int)> task) override {
    for (int i = num_tasks - 1; i >= 0; --i) task(i);
  }
};

struct RunOptions {
  bool time_major = true;
  bool inference = false;         // Forward alone, and without reserve
  bool prepared_weights = false;  // before Forward
  int backward_runs = 1;
};

// Dense, time-major and with gradients of params, whatever the options.
template <typename Element>
struct Results {
  std::vector<Element> y, h_n, c_n;
  std::vector<Element> dx, dh0, dc0, dparams;
  std::vector<Element> reserve;
};

// The weights of a problem, and of all others that have the same: converting
// them can take longer than a run.
template <typename Element>
class EngineWeights {
 public:
  // With `keras_weights`, in place of params; what they do not have is zero in
  // the problem.
  EngineWeights(const reference::Problem& problem, bool keras_weights)
      : params_(FromDoubles<Element>(problem.params)),
        keras_weights_(keras_weights),
        descriptor_(problem.descriptor),
        keras_{MakeKeras(0), MakeKeras(1), MakeKeras(2)} {
    if (!keras_weights) return;
    ForEachKerasWeight(problem.descriptor,
                       [&](int tensor, int64_t index, int64_t place) {
                         keras_[tensor][index] = params_[place];
                       });
  }

  Weights<const Element> values() const {
    Weights<const Element> weights;
    if (keras_weights_) {
      SetKeras<const Element>(descriptor_, keras_[0].data(), keras_[1].data(),
                              keras_[2].data(), weights.keras);
    } else {
      weights.params = params_.data();
    }
    return weights;
  }
  bool keras_weights() const { return keras_weights_; }
  int64_t params_size() const { return params_.size(); }
  int64_t keras_size(int tensor) const { return keras_[tensor].size(); }

 private:
  Guarded<Element> MakeKeras(int tensor) const {
    return Guarded<Element>(keras_weights_
                                ? descriptor_.num_directions *
                                      KerasTensorSize(descriptor_, tensor)
                                : 0);
  }

  Guarded<Element> params_;
  const bool keras_weights_;
  const RnnDescriptor descriptor_;
  Guarded<Element> keras_[kKerasTensors];
};

template <typename Element>
class EngineRun {
 public:
  EngineRun(const reference::Problem& problem,
            const EngineWeights<Element>& weights, RunOptions options)
      : p_(problem),
        d_(problem.descriptor),
        weights_(weights),
        options_(options),
        lengths_(problem.lengths.begin(), problem.lengths.end()),
        sequences_(MakeSequences(problem.max_time, lengths_)),
        x_strides_(StridesOf(p_.max_time, d_.input_size)),
        y_strides_(StridesOf(p_.max_time, y_features())),
        h_strides_(StridesOf(d_.num_pseudo_layers(), d_.output_size())),
        c_strides_(StridesOf(d_.num_pseudo_layers(), d_.hidden_size)),
        // No value of the padding may matter: NaN.
        x_(Padded(p_.x, d_.input_size, x_strides_)),
        dy_(Padded(p_.dy, y_features(), y_strides_)),
        h0_(Arranged(p_.h0, h_features(), h_strides_)),
        c0_(Arranged(p_.c0, c_features(), c_strides_)),
        dh_n_(Arranged(p_.dh_n, h_features(), h_strides_)),
        dc_n_(Arranged(p_.dc_n, c_features(), c_strides_)),
        y_(x_rows() * y_features()),
        h_n_(h0_.size()),
        c_n_(c0_.size()),
        dx_(x_.size()),
        dh0_(h0_.size()),
        dc0_(c0_.size()),
        dparams_(weights_.params_size()),
        keras_gradients_{Guarded<Element>(weights_.keras_size(0)),
                         Guarded<Element>(weights_.keras_size(1)),
                         Guarded<Element>(weights_.keras_size(2))},
        reserve_(ReserveSize()) {}

  Results<Element> Run(Executor& executor) {
    Forward(executor);
    Results<Element> results;
    results.y = Dense(y_, p_.max_time, y_features(), y_strides_);
    results.h_n = Dense(h_n_, d_.num_pseudo_layers(), h_features(), h_strides_);
    results.c_n = Dense(c_n_, d_.num_pseudo_layers(), c_features(), c_strides_);
    ExpectPaddingIsZero(results.y, y_features());
    if (options_.inference) return results;

    results.reserve = reserve_.values();
    // Backward may not rely on the zeros there.
    ForEachPadding([&](int64_t t, int64_t b) {
      std::memset(static_cast<void*>(&y_[Index(t, b, y_strides_)]), kPoison,
                  y_features() * sizeof(Element));
    });
    const std::vector<Element> y = y_.values();
    Backward(executor);
    for (int run = 1; run < options_.backward_runs; ++run) {
      for (Guarded<Element>* out : Gradients()) {  // as they were before
        std::memset(static_cast<void*>(out->data()), kPoison,
                    out->size() * sizeof(Element));
      }
      Backward(executor);
    }
    EXPECT_TRUE(SameBits(y_.values(), y)) << "Backward wrote to y";
    EXPECT_TRUE(SameBits(reserve_.values(), results.reserve))
        << "Backward wrote to reserve";
    results.dx = Dense(dx_, p_.max_time, d_.input_size, x_strides_);
    results.dh0 = Dense(dh0_, d_.num_pseudo_layers(), h_features(), h_strides_);
    results.dc0 = Dense(dc0_, d_.num_pseudo_layers(), c_features(), c_strides_);
    if (weights_.keras_weights()) {
      results.dparams.resize(weights_.params_size());
      ForEachKerasWeight(d_, [&](int tensor, int64_t index, int64_t place) {
        results.dparams[place] = keras_gradients_[tensor][index];
      });
    } else {
      results.dparams = dparams_.values();
    }
    ExpectPaddingIsZero(results.dx, d_.input_size);
    return results;
  }

 private:
  bool has_c() const { return d_.mode == CellMode::kLstm; }
  int64_t x_rows() const { return p_.max_time * p_.batch(); }
  int64_t y_features() const { return d_.layer_output_size(); }
  int64_t h_features() const { return d_.output_size(); }
  int64_t c_features() const { return has_c() ? d_.hidden_size : 0; }
  Strides StridesOf(int64_t outer_size, int64_t features) const {
    return Strides::Of(options_.time_major, outer_size, p_.batch(), features);
  }
  static int64_t Index(int64_t outer, int64_t b, Strides strides) {
    return outer * strides.outer + b * strides.batch;
  }

  std::vector<Guarded<Element>*> Gradients() {
    std::vector<Guarded<Element>*> gradients = {&dx_, &dh0_, &dc0_, &dparams_};
    for (Guarded<Element>& values : keras_gradients_) {
      gradients.push_back(&values);
    }
    return gradients;
  }

  int64_t ReserveSize() const {
    if (options_.inference) return 0;
    ReserveLayout layout;
    EXPECT_TRUE(ReserveLayout::Create(d_, sequences_, &layout).ok());
    return layout.size();
  }

  // [outer, B, features] in the layout of this run.
  std::vector<Element> Arranged(const reference::Vector& dense,
                                int64_t features, Strides strides) const {
    const std::vector<Element> values = FromDoubles<Element>(dense);
    std::vector<Element> result(values.size());
    const int64_t rows =
        features == 0 ? 0 : static_cast<int64_t>(values.size()) / features;
    for (int64_t row = 0; row < rows; ++row) {
      std::copy_n(
          values.begin() + row * features, features,
          result.begin() + Index(row / p_.batch(), row % p_.batch(), strides));
    }
    return result;
  }
  std::vector<Element> Padded(const reference::Vector& dense, int64_t features,
                              Strides strides) const {
    std::vector<Element> result = Arranged(dense, features, strides);
    ForEachPadding([&](int64_t t, int64_t b) {
      std::memset(static_cast<void*>(&result[Index(t, b, strides)]), kPoison,
                  features * sizeof(Element));
    });
    return result;
  }
  std::vector<Element> Dense(Guarded<Element>& values, int64_t outer_size,
                             int64_t features, Strides strides) const {
    std::vector<Element> result;
    result.reserve(values.size());
    for (int64_t i = 0; i < outer_size; ++i) {
      for (int64_t b = 0; b < p_.batch(); ++b) {
        const Element* row = values.data() + Index(i, b, strides);
        result.insert(result.end(), row, row + features);
      }
    }
    return result;
  }

  template <typename Function>
  void ForEachPadding(Function function) const {
    for (int64_t b = 0; b < p_.batch(); ++b) {
      for (int64_t t = p_.lengths[b]; t < p_.max_time; ++t) function(t, b);
    }
  }
  void ExpectPaddingIsZero(const std::vector<Element>& dense,
                           int64_t features) const {
    const Element zero = FromDouble<Element>(0);
    ForEachPadding([&](int64_t t, int64_t b) {
      for (int64_t j = 0; j < features; ++j) {
        ASSERT_TRUE(SameBits(dense[(t * p_.batch() + b) * features + j], zero))
            << "padding of batch row " << b << " at time " << t;
      }
    });
  }

  CallDescription Description() const {
    CallDescription call = CallOf<Element>(d_, sequences_);
    if (weights_.keras_weights()) call.weight_order = WeightOrder::kKeras;
    return call;
  }

  void Forward(Executor& executor) {
    ForwardArguments<Element> a{};
    a.x = x_.data();
    a.h0 = h0_.data();
    a.c0 = has_c() ? c0_.data() : nullptr;
    a.weights = weights_.values();
    a.y = y_.data();
    a.h_n = h_n_.data();
    a.c_n = has_c() ? c_n_.data() : nullptr;
    a.reserve = options_.inference ? nullptr : reserve_.data();
    a.strides = {x_strides_, y_strides_, h_strides_, c_strides_};
    a.apply_dropout = p_.apply_dropout;
    a.dropout_key = p_.dropout_key;
    CallDescription call = Description();
    call.weights_are_prepared = options_.prepared_weights;
    const ForwardPlan plan =
        MakeForwardPlan(call, !options_.inference, executor.num_threads());
    Guarded<unsigned char> prepared(plan.prepared.bytes);
    PrepareWeights(plan, a.weights, prepared.data(), executor);
    EXPECT_TRUE(prepared.intact());
    a.prepared_weights = prepared.data();
    Guarded<unsigned char> scratch(plan.scratch_bytes);
    rnn::Forward(plan, a, scratch.data(), executor);
    EXPECT_TRUE(scratch.intact());
    EXPECT_TRUE(reserve_.intact());
    for (const Guarded<Element>* out : {&y_, &h_n_, &c_n_}) {
      EXPECT_TRUE(out->intact());
    }
    if (options_.inference) return;
    const Status status =
        CheckReserve(d_, sequences_, plan.reserve, a.layout, reserve_.data(),
                     reserve_.size(), &dropout_key_);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  void Backward(Executor& executor) {
    BackwardArguments<Element> a{};
    a.x = x_.data();
    a.h0 = h0_.data();
    a.c0 = has_c() ? c0_.data() : nullptr;
    a.weights = weights_.values();
    if (weights_.keras_weights()) {
      SetKeras(d_, keras_gradients_[0].data(), keras_gradients_[1].data(),
               keras_gradients_[2].data(), a.dweights.keras);
    } else {
      a.dweights.params = dparams_.data();
    }
    a.y = y_.data();
    a.reserve = reserve_.data();
    a.dropout_key = dropout_key_;
    a.dy = dy_.data();
    a.dh_n = dh_n_.data();
    a.dc_n = has_c() ? dc_n_.data() : nullptr;
    a.dx = dx_.data();
    a.dh0 = dh0_.data();
    a.dc0 = has_c() ? dc0_.data() : nullptr;
    a.strides = {x_strides_, y_strides_, h_strides_, c_strides_};
    const BackwardPlan plan =
        MakeBackwardPlan(Description(), executor.num_threads());
    Guarded<unsigned char> scratch(plan.scratch_bytes);
    rnn::Backward(plan, a, scratch.data(), executor);
    EXPECT_TRUE(scratch.intact());
    for (const Guarded<Element>* out : Gradients()) {
      EXPECT_TRUE(out->intact());
    }
  }

  const reference::Problem& p_;
  const RnnDescriptor& d_;
  const EngineWeights<Element>& weights_;
  const RunOptions options_;
  const std::vector<int32_t> lengths_;
  const Sequences sequences_;
  const Strides x_strides_, y_strides_, h_strides_, c_strides_;
  Guarded<Element> x_, dy_, h0_, c0_, dh_n_, dc_n_;
  Guarded<Element> y_, h_n_, c_n_, dx_, dh0_, dc0_, dparams_;
  Guarded<Element> keras_gradients_[kKerasTensors];
  Guarded<Element> reserve_;
  uint64_t dropout_key_ = 0;  // from the reserve
};

template <typename Element>
Results<Element> RunEngine(const reference::Problem& problem,
                           const EngineWeights<Element>& weights,
                           Executor& executor, RunOptions options = {}) {
  return EngineRun<Element>(problem, weights, options).Run(executor);
}
template <typename Element>
Results<Element> RunEngine(const reference::Problem& problem,
                           const EngineWeights<Element>& weights,
                           RunOptions options = {}) {
  SerialExecutor executor;
  return RunEngine(problem, weights, executor, options);
}
// With params.
template <typename Element>
Results<Element> RunEngine(const reference::Problem& problem,
                           Executor& executor, RunOptions options = {}) {
  const EngineWeights<Element> weights(problem, /*keras_weights=*/false);
  return RunEngine(problem, weights, executor, options);
}
template <typename Element>
Results<Element> RunEngine(const reference::Problem& problem,
                           RunOptions options = {}) {
  SerialExecutor executor;
  return RunEngine<Element>(problem, executor, options);
}

// ---- Comparing --------------------------------------------------------------

double ScaleOf(const reference::Vector& values) {
  double largest = 1;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

template <typename Element>
void ExpectNear(const char* name, const std::vector<Element>& values,
                const reference::Vector& expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size()) << name;
  const double scale = ScaleOf(expected);
  const reference::Vector numbers = ToDoubles(values);
  for (size_t i = 0; i < numbers.size(); ++i) {
    // Written so that NaN fails.
    ASSERT_LE(std::abs(numbers[i] - expected[i]), tolerance * scale)
        << name << '[' << i << "]: " << numbers[i] << " instead of "
        << expected[i];
  }
}

// What is compared where a ReLU's derivative jumps: there rounding decides
// between two right gradients.
enum class AtKinks { kAll, kOutputsOnly };

template <typename Element>
void ExpectAgreesWithReference(const reference::Problem& problem,
                               const Results<Element>& results,
                               bool keras_weights = false,
                               AtKinks at_kinks = AtKinks::kAll) {
  auto [outputs, gradients] = reference::Run(problem);
  if (keras_weights) {
    gradients.dparams = WhatKerasHas(problem.descriptor, gradients.dparams);
  }
  const Tolerances tolerances = TolerancesOf<Element>(problem);
  ExpectNear("y", results.y, outputs.y, tolerances.outputs);
  ExpectNear("h_n", results.h_n, outputs.h_n, tolerances.outputs);
  ExpectNear("c_n", results.c_n, outputs.c_n, tolerances.outputs);
  if (at_kinks == AtKinks::kOutputsOnly &&
      outputs.nearest_kink <= tolerances.outputs * ScaleOf(outputs.y)) {
    return;
  }
  ExpectNear("dx", results.dx, gradients.dx, tolerances.gradients);
  ExpectNear("dh0", results.dh0, gradients.dh0, tolerances.gradients);
  ExpectNear("dc0", results.dc0, gradients.dc0, tolerances.gradients);
  ExpectNear("dparams", results.dparams, gradients.dparams, tolerances.dparams);
}

template <typename Element>
void ExpectSameOutputs(const Results<Element>& a, const Results<Element>& b) {
  EXPECT_TRUE(SameBits(a.y, b.y));
  EXPECT_TRUE(SameBits(a.h_n, b.h_n));
  EXPECT_TRUE(SameBits(a.c_n, b.c_n));
}
template <typename Element>
void ExpectSameResults(const Results<Element>& a, const Results<Element>& b) {
  ExpectSameOutputs(a, b);
  EXPECT_TRUE(SameBits(a.dx, b.dx));
  EXPECT_TRUE(SameBits(a.dh0, b.dh0));
  EXPECT_TRUE(SameBits(a.dc0, b.dc0));
  EXPECT_TRUE(SameBits(a.dparams, b.dparams));
  EXPECT_TRUE(SameBits(a.reserve, b.reserve));
}

// The same bits; or nearly the same values, each within the tolerance of what
// is exact, if weights were packed for the one and not for the other.
template <typename Element>
void ExpectSameOrNear(const char* name, const std::vector<Element>& a,
                      const std::vector<Element>& b, bool same,
                      double tolerance) {
  SCOPED_TRACE(name);
  if (same) {
    EXPECT_TRUE(SameBits(a, b));
  } else {
    ExpectNear(name, a, ToDoubles(b), 2 * tolerance);
  }
}

// ---- Every case -------------------------------------------------------------

class EngineTest : public testing::TestWithParam<Draw> {
 protected:
  // The body, as a function of Element{}, the draw's problem and its weights.
  template <typename Body>
  static void ForDraw(Body body) {
    const Draw& draw = GetParam();
    WithElement(draw.element, [&](auto element) {
      auto problem =
          MakeProblem<decltype(element)>(draw.sizes, draw.mode, /*seed=*/1);
      if (draw.keras_weights) {
        problem.params = WhatKerasHas(problem.descriptor, problem.params);
      }
      const EngineWeights<decltype(element)> weights(problem,
                                                     draw.keras_weights);
      body(element, problem, weights);
    });
  }

  // Whether rows of both problems have the same bits, as far as they depend on
  // the route that weights take.
  static bool WeightsComeAlike(const reference::Problem& a,
                               const reference::Problem& b) {
    const Sequences sequences_a = MakeSequences(a.max_time, a.batch(), nullptr);
    const Sequences sequences_b = MakeSequences(b.max_time, b.batch(), nullptr);
    CallDescription call_a, call_b;
    call_a.descriptor = call_b.descriptor = a.descriptor;
    call_a.element_type = call_b.element_type = GetParam().element;
    call_a.weight_order = call_b.weight_order =
        GetParam().keras_weights ? WeightOrder::kKeras : WeightOrder::kParams;
    call_a.sequences = &sequences_a;
    call_b.sequences = &sequences_b;
    return ComputeRowsAlike(call_a, call_b);
  }
};
std::string DrawName(const testing::TestParamInfo<Draw>& info) {
  return info.param.name();
}
INSTANTIATE_TEST_SUITE_P(
    All, EngineTest,
    testing::ValuesIn(DrawsWhere([](const Draw&) { return true; })), DrawName);

TEST_P(EngineTest, AgreesWithTheReference) {
  ForDraw([](auto /*element*/, const auto& problem, const auto& weights) {
    ExpectAgreesWithReference(problem, RunEngine(problem, weights),
                              GetParam().keras_weights);
  });
}

// ---- Some cases -------------------------------------------------------------

// Whether the draw shows how work is cut in a way that no other does. Where
// bfloat16 is multiplied as float, float16 goes the same ways: they differ in
// how values are converted, which is compared with the reference.
bool IsCutAsNoOther(const Draw& draw) {
  return draw.element != ElementType::kHalf ||
         SelectSimdTarget().bfloat16_kernels != nullptr;
}

class EngineWaysTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(All, EngineWaysTest,
                         testing::ValuesIn(DrawsWhere(IsCutAsNoOther)),
                         DrawName);

// Each run differs from the first in what its trace says.
TEST_P(EngineWaysTest, EveryWayToRunGivesTheSameBits) {
  ForDraw([](auto element, const auto& problem, const auto& weights) {
    using Element = decltype(element);
    const Results<Element> expected = RunEngine(problem, weights);
    for (int num_threads : {2, 3}) {
      SCOPED_TRACE(testing::Message() << num_threads << " threads");
      ThreadsExecutor executor(num_threads);
      ExpectSameResults(RunEngine(problem, weights, executor), expected);
      // Or this would show nothing.
      if (GetParam().sizes.shares_steps) {
        EXPECT_GT(executor.runs(), problem.max_time);
      }
    }
    {
      SCOPED_TRACE("seven threads, the last task first");
      ReverseExecutor executor;
      ExpectSameResults(RunEngine(problem, weights, executor), expected);
    }
    {
      SCOPED_TRACE("batch-major tensors, and Backward twice");
      RunOptions options;
      options.time_major = false;
      options.backward_runs = 2;
      ExpectSameResults(RunEngine(problem, weights, options), expected);
    }
    RunOptions prepared;
    prepared.prepared_weights = true;
    {
      SCOPED_TRACE("prepared weights");
      ExpectSameResults(RunEngine(problem, weights, prepared), expected);
    }
    {
      SCOPED_TRACE("weights prepared and used by 3 threads");
      ThreadsExecutor executor(3);
      ExpectSameResults(RunEngine(problem, weights, executor, prepared),
                        expected);
    }
    {
      SCOPED_TRACE("inference");
      RunOptions inference;
      inference.inference = true;
      ExpectSameOutputs(RunEngine(problem, weights, inference), expected);
    }
  });
}

// A step that starts from zeros leaves its product out. From -0 it does not,
// and sums of products with zeros are +0 whatever the signs.
TEST_P(EngineWaysTest, StartingFromZerosGivesTheBitsOfTheProduct) {
  ForDraw([](auto element, const auto& problem, const auto& weights) {
    using Element = decltype(element);
    reference::Problem zeros = problem;
    std::fill(zeros.h0.begin(), zeros.h0.end(), 0.0);
    reference::Problem negative_zeros = problem;
    std::fill(negative_zeros.h0.begin(), negative_zeros.h0.end(), -0.0);
    for (int num_threads : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << num_threads << " threads");
      ThreadsExecutor executor(num_threads);
      Results<Element> left_out = RunEngine(zeros, weights, executor);
      Results<Element> multiplied =
          RunEngine(negative_zeros, weights, executor);
      // Rows of no step hand on what they got.
      for (Results<Element>* results : {&left_out, &multiplied}) {
        for (Element& value : results->h_n) {
          if (ToDouble(value) == 0) value = Element{};
        }
      }
      ExpectSameResults(left_out, multiplied);
    }
  });
}

class EngineRowsTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(SeveralRows, EngineRowsTest,
                         testing::ValuesIn(DrawsWhere([](const Draw& draw) {
                           return draw.sizes.B > 1 && IsCutAsNoOther(draw);
                         })),
                         DrawName);

TEST_P(EngineRowsTest, NeitherValuesNorLengthsOfOtherRowsMatter) {
  ForDraw([](auto element, const auto& problem, const auto& weights) {
    using Element = decltype(element);
    const Results<Element> before = RunEngine(problem, weights);
    const int64_t T = problem.max_time;
    const int64_t B = problem.batch();
    const int64_t LD = problem.descriptor.num_pseudo_layers();
    Case sizes = GetParam().sizes;
    sizes.lengths = Lengths::kRagged;
    const reference::Problem other = MakeProblem<Element>(
        sizes, GetParam().mode, /*seed=*/2, /*with_weights=*/false);
    reference::Problem p = other;
    p.params = problem.params;
    p.dropout_key = problem.dropout_key;
    const auto copy_row = [&](const reference::Problem& from, int64_t b) {
      CopyBatchRow(from.x, T, B, b, &p.x);
      CopyBatchRow(from.dy, T, B, b, &p.dy);
      CopyBatchRow(from.h0, LD, B, b, &p.h0);
      CopyBatchRow(from.c0, LD, B, b, &p.c0);
      CopyBatchRow(from.dh_n, LD, B, b, &p.dh_n);
      CopyBatchRow(from.dc_n, LD, B, b, &p.dc_n);
    };
    const std::vector<int64_t> empty(B, 0), full(B, T);
    for (const auto* lengths : {&empty, &other.lengths, &full}) {
      for (int64_t b : std::set<int64_t>{0, B / 2, B - 1}) {
        SCOPED_TRACE(testing::Message()
                     << "batch row " << b << ", lengths of others "
                     << testing::PrintToString(*lengths));
        p.lengths = *lengths;
        p.lengths[b] = problem.lengths[b];
        copy_row(problem, b);
        const Results<Element> after = RunEngine(p, weights);
        copy_row(other, b);
        const auto expect_same_row = [&](const char* name, const auto& now,
                                         const auto& then, int64_t outer_size) {
          EXPECT_TRUE(SameBits(BatchRow(now, outer_size, B, b),
                               BatchRow(then, outer_size, B, b)))
              << name;
        };
        expect_same_row("y", after.y, before.y, T);
        expect_same_row("h_n", after.h_n, before.h_n, LD);
        expect_same_row("c_n", after.c_n, before.c_n, LD);
        expect_same_row("dx", after.dx, before.dx, T);
        expect_same_row("dh0", after.dh0, before.dh0, LD);
        expect_same_row("dc0", after.dc0, before.dc0, LD);
      }
    }
  });
}

// One row that starts from anything else is enough for a product.
TEST_P(EngineRowsTest, RowsFromZerosAmongOthersAgreeWithTheReference) {
  ForDraw([](auto element, const auto& problem, const auto& weights) {
    using Element = decltype(element);
    const int64_t B = problem.batch();
    const int64_t LD = problem.descriptor.num_pseudo_layers();
    const int64_t P = problem.descriptor.output_size();
    for (int64_t other : {int64_t{0}, B - 1}) {
      SCOPED_TRACE(testing::Message() << "all but batch row " << other);
      reference::Problem zeros = problem;
      for (int64_t i = 0; i < LD * B; ++i) {
        if (i % B == other) continue;
        std::fill_n(zeros.h0.begin() + i * P, P, 0.0);
      }
      const Results<Element> results = RunEngine(zeros, weights);
      // Draws are far from kinks with other states only.
      ExpectAgreesWithReference(zeros, results, GetParam().keras_weights,
                                AtKinks::kOutputsOnly);
    }
  });
}

// Masks depend on the batch row, which is another one here.
class EngineRowTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(SeveralRows, EngineRowTest,
                         testing::ValuesIn(DrawsWhere([](const Draw& draw) {
                           return draw.sizes.B > 1 && draw.sizes.dropout == 0 &&
                                  IsCutAsNoOther(draw);
                         })),
                         DrawName);

TEST_P(EngineRowTest, ARowAloneGivesTheSameBitsIfWeightsComeAlike) {
  ForDraw([](auto element, const auto& problem, const auto& weights) {
    using Element = decltype(element);
    const Results<Element> all = RunEngine(problem, weights);
    const int64_t T = problem.max_time;
    const int64_t B = problem.batch();
    const int64_t LD = problem.descriptor.num_pseudo_layers();
    const Tolerances tolerances = TolerancesOf<Element>(problem);
    reference::Problem row = problem;
    for (int64_t b : std::set<int64_t>{0, B / 2, B - 1}) {
      SCOPED_TRACE(testing::Message() << "batch row " << b);
      row.lengths = {problem.lengths[b]};
      row.x = BatchRow(problem.x, T, B, b);
      row.dy = BatchRow(problem.dy, T, B, b);
      row.h0 = BatchRow(problem.h0, LD, B, b);
      row.c0 = BatchRow(problem.c0, LD, B, b);
      row.dh_n = BatchRow(problem.dh_n, LD, B, b);
      row.dc_n = BatchRow(problem.dc_n, LD, B, b);
      const Results<Element> alone = RunEngine(row, weights);
      const bool same = WeightsComeAlike(row, problem);
      const auto expect_row = [&](const char* name, const auto& a,
                                  const auto& of_all, int64_t outer_size,
                                  double tolerance) {
        ExpectSameOrNear(name, a, BatchRow(of_all, outer_size, B, b), same,
                         tolerance);
      };
      expect_row("y", alone.y, all.y, T, tolerances.outputs);
      expect_row("h_n", alone.h_n, all.h_n, LD, tolerances.outputs);
      expect_row("c_n", alone.c_n, all.c_n, LD, tolerances.outputs);
      expect_row("dx", alone.dx, all.dx, T, tolerances.gradients);
      expect_row("dh0", alone.dh0, all.dh0, LD, tolerances.gradients);
      expect_row("dc0", alone.dc0, all.dc0, LD, tolerances.gradients);
    }
  });
}

// A backward direction cannot be cut, masks depend on the time, and 16-bit
// types round c on its way.
class EngineSplitTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(OneDirection, EngineSplitTest,
                         testing::ValuesIn(DrawsWhere([](const Draw& draw) {
                           return draw.sizes.T > 1 && draw.sizes.D == 1 &&
                                  draw.sizes.dropout == 0 &&
                                  (draw.element == ElementType::kFloat ||
                                   draw.element == ElementType::kDouble);
                         })),
                         DrawName);

TEST_P(EngineSplitTest, TwoPartsInTurnGiveTheSameBitsIfWeightsComeAlike) {
  ForDraw([](auto element, const auto& problem, const auto& weights) {
    using Element = decltype(element);
    const Results<Element> whole = RunEngine(problem, weights);
    const int64_t T = problem.max_time;
    const int64_t T1 = T / 3 + 1;
    const auto part = [&](int64_t begin, int64_t end) {
      reference::Problem p = problem;
      p.max_time = end - begin;
      for (int64_t& length : p.lengths) {
        length = std::clamp(length - begin, int64_t{0}, p.max_time);
      }
      p.x = OuterRange(problem.x, T, begin, end);
      p.dy = OuterRange(problem.dy, T, begin, end);
      return p;
    };
    // Forward from left to right, then backward from right to left.
    reference::Problem first = part(0, T1);
    reference::Problem second = part(T1, T);
    Results<Element> first_results = RunEngine(first, weights);
    second.h0 = ToDoubles(first_results.h_n);
    second.c0 = ToDoubles(first_results.c_n);
    const Results<Element> second_results = RunEngine(second, weights);
    first.dh_n = ToDoubles(second_results.dh0);
    first.dc_n = ToDoubles(second_results.dc0);
    first_results = RunEngine(first, weights);

    const auto joined = [](std::vector<Element> a,
                           const std::vector<Element>& b) {
      a.insert(a.end(), b.begin(), b.end());
      return a;
    };
    const bool same =
        WeightsComeAlike(first, problem) && WeightsComeAlike(second, problem);
    const auto expect_whole = [&](const char* name, const auto& a,
                                  const auto& of_whole, double tolerance) {
      ExpectSameOrNear(name, a, of_whole, same, tolerance);
    };
    const Tolerances tolerances = TolerancesOf<Element>(problem);
    expect_whole("y", joined(first_results.y, second_results.y), whole.y,
                 tolerances.outputs);
    expect_whole("h_n", second_results.h_n, whole.h_n, tolerances.outputs);
    expect_whole("c_n", second_results.c_n, whole.c_n, tolerances.outputs);
    expect_whole("dx", joined(first_results.dx, second_results.dx), whole.dx,
                 tolerances.gradients);
    expect_whole("dh0", first_results.dh0, whole.dh0, tolerances.gradients);
    expect_whole("dc0", first_results.dc0, whole.dc0, tolerances.gradients);
    reference::Vector dparams = ToDoubles(first_results.dparams);
    for (size_t i = 0; i < dparams.size(); ++i) {
      dparams[i] += ToDouble(second_results.dparams[i]);
    }
    ExpectNear("dparams", whole.dparams, dparams,
               Epsilon<Element>() * 4 *
                   std::sqrt(static_cast<double>(T * problem.batch() + 1)));
  });
}

// Or the cases that are made for it would show nothing.
TEST(EngineCasesTest, ManyRowsAreMultipliedInParts) {
  if (SelectSimdTarget().parts_kernels == nullptr) {
    GTEST_SKIP() << SelectSimdTarget().name << " multiplies no parts";
  }
  for (const Case& sizes : kCases) {
    if (!sizes.in_parts) continue;
    const auto problem = MakeProblem<float>(sizes, CellMode::kLstm, 1);
    const Sequences sequences =
        MakeSequences(problem.max_time, problem.batch(), nullptr);
    EXPECT_TRUE(HasRecurrentGradientsInParts(
        CallOf<float>(problem.descriptor, sequences)))
        << sizes.name;
  }
}

// No route is there whose values nothing compares (plan_test.cc has all).
TEST(EngineCasesTest, TakeEveryRoute) {
  std::set<Route> forward_input, forward_recurrent, backward_input,
      backward_recurrent, prepared_input, prepared_recurrent;
  for (const Draw& draw : DrawsWhere([](const Draw&) { return true; })) {
    const auto problem = MakeProblem<float>(draw.sizes, draw.mode, /*seed=*/1,
                                            /*with_weights=*/false);
    const std::vector<int32_t> lengths(problem.lengths.begin(),
                                       problem.lengths.end());
    const Sequences sequences =
        MakeSequences(problem.max_time, problem.batch(), lengths.data());
    if (sequences.num_valid_rows() == 0) continue;
    CallDescription call;
    call.descriptor = problem.descriptor;
    call.sequences = &sequences;
    call.element_type = draw.element;
    call.weight_order =
        draw.keras_weights ? WeightOrder::kKeras : WeightOrder::kParams;
    const ForwardPlan forward = MakeForwardPlan(call);
    const BackwardPlan backward = MakeBackwardPlan(call);
    forward_input.insert(forward.input_weights.first.route);
    forward_recurrent.insert(forward.recurrent_weights.route);
    backward_input.insert(backward.input_weights.first.route);
    backward_recurrent.insert(backward.recurrent_weights.route);
    call.weights_are_prepared = true;
    const ForwardPlan prepared = MakeForwardPlan(call);
    prepared_input.insert(prepared.input_weights.first.route);
    prepared_recurrent.insert(prepared.recurrent_weights.route);
  }
  std::set<Route> of_input{Route::kPacked, Route::kPackedInTurn,
                           Route::kRowsInPlace, Route::kColumnsInPlace};
  std::set<Route> of_recurrent = of_input;
  if (KernelShape::Of(ElementType::kFloat).has_parts) {
    of_input.insert(Route::kParts);
  }
  EXPECT_EQ(forward_input, of_input);
  EXPECT_EQ(forward_recurrent, of_recurrent);
  EXPECT_EQ(backward_input, of_input);
  EXPECT_EQ(backward_recurrent, of_recurrent);
  EXPECT_TRUE(prepared_input.count(Route::kDotPanels));
  EXPECT_TRUE(prepared_recurrent.count(Route::kDotPanels));
}

// ---- Beyond the cases -------------------------------------------------------

// In small calls of more steps than read any R in place; behind projections and
// layers, too. Of the very large ones backward does so, too.
template <typename Element>
void ExpectLargeRInPlaceAgrees(const Case& sizes, CellMode mode) {
  SCOPED_TRACE(sizes.name);
  const auto problem = MakeProblem<Element>(sizes, mode, /*seed=*/1);
  const Results<Element> results = RunEngine<Element>(problem);
  ExpectAgreesWithReference(problem, results);
  // Steps take prepared weights from either end in turn.
  RunOptions prepared;
  prepared.prepared_weights = true;
  for (int num_threads : {1, 2, 3}) {
    ThreadsExecutor executor(num_threads);
    ExpectSameResults(RunEngine<Element>(problem, executor, prepared), results);
  }
}
TEST(EngineLargeWeightsTest, SmallCallsAgreeWithTheReference) {
  ExpectLargeRInPlaceAgrees<float>({"lstm", 16, 2, 3, 430}, CellMode::kLstm);
  ExpectLargeRInPlaceAgrees<double>({"gru", 32, 1, 3, 301}, CellMode::kGru);
  ExpectLargeRInPlaceAgrees<float>({"tanh", 31, 1, 5, 730}, CellMode::kTanh);
  ExpectLargeRInPlaceAgrees<BFloat16>({"bfloat16", 32, 1, 4, 520},
                                      CellMode::kLstm);
  ExpectLargeRInPlaceAgrees<BFloat16>({"odd input", 32, 1, 5, 520},
                                      CellMode::kLstm);
  ExpectLargeRInPlaceAgrees<float>(
      {"projection", 16, 2, 7, 700, 1, 1, Lengths::kRagged, 210},
      CellMode::kLstm);
  ExpectLargeRInPlaceAgrees<float>(
      {"layers", 10, 3, 5, 425, 2, 2, Lengths::kRagged}, CellMode::kLstm);
  ExpectLargeRInPlaceAgrees<float>({"very large", 9, 3, 5, 900},
                                   CellMode::kLstm);
  ExpectLargeRInPlaceAgrees<float>({"very large GRU", 9, 3, 5, 860},
                                   CellMode::kGru);
  ExpectLargeRInPlaceAgrees<float>(
      {"very large, projected", 5, 2, 7, 1100, 1, 1, Lengths::kRagged, 500},
      CellMode::kLstm);
  ExpectLargeRInPlaceAgrees<BFloat16>({"very large bfloat16", 4, 1, 6, 1040},
                                      CellMode::kLstm);
}

TEST(EngineRandomTest, AnyCombinationAgreesWithTheReference) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    RandomValues random(seed);
    Case sizes{"random", random.Integer(1, 7), random.Integer(0, 8),
               random.Integer(1, 20), random.Integer(1, 20)};
    sizes.L = random.Integer(1, 4);
    sizes.D = random.Integer(1, 2);
    sizes.lengths =
        random.Integer(0, 2) == 0 ? Lengths::kFull : Lengths::kRagged;
    const auto mode = static_cast<CellMode>(random.Integer(0, 3));
    if (mode == CellMode::kLstm && random.Integer(0, 1) == 0) {
      sizes.num_proj = random.Integer(1, sizes.H);
    }
    sizes.skip_input = random.Integer(0, 3) == 0;
    if (sizes.skip_input) sizes.I = sizes.H;
    if (random.Integer(0, 2) == 0) sizes.dropout = 0.4f;
    const ElementType element = kElementTypes[random.Integer(0, 3)];
    SCOPED_TRACE(testing::Message()
                 << "seed " << seed << ": "
                 << testing::PrintToString(Draw{sizes, mode, element}));
    WithElement(element, [&](auto type) {
      using Element = decltype(type);
      const auto problem = MakeProblem<Element>(sizes, mode, seed);
      RunOptions options;
      options.time_major = random.Integer(0, 1) == 0;
      ExpectAgreesWithReference(problem, RunEngine<Element>(problem, options));
    });
    if (testing::Test::HasFailure()) return;
  }
}

// Large enough for all that is split among threads to be split, the movements
// of 16-bit values and of weights included.
template <typename Element>
void ExpectSameBitsOfThreadsAtLargeSizes() {
  const Case sizes{"large", 25, 16, 100, 561};
  const auto problem = MakeProblem<Element>(sizes, CellMode::kLstm, 1);
  ThreadsExecutor executor(3);
  ExpectSameResults(RunEngine<Element>(problem, executor),
                    RunEngine<Element>(problem));
  EXPECT_GT(executor.runs(), sizes.T);
}
TEST(EngineThreadsTest, BitsDoNotDependOnThreadsAtLargeSizes) {
  ExpectSameBitsOfThreadsAtLargeSizes<Half>();
  ExpectSameBitsOfThreadsAtLargeSizes<BFloat16>();
}

// Large enough for products and steps to be split, with weights where they lie.
template <typename Element>
void ExpectSameBitsOfThreadsWhereForwardPacksNothing() {
  const auto expect_same_bits = [&](int64_t T, int64_t B, CellMode mode,
                                    bool keras_weights, int64_t H = 400) {
    SCOPED_TRACE(testing::Message()
                 << kModeNames[static_cast<int>(mode)] << ", T " << T << ", B "
                 << B << ", H " << H << ", Keras " << keras_weights);
    const Case sizes{"", T, B, 384, H};
    auto problem = MakeProblem<Element>(sizes, mode, 1);
    if (keras_weights) {
      problem.params = WhatKerasHas(problem.descriptor, problem.params);
    }
    const EngineWeights<Element> weights(problem, keras_weights);
    const Results<Element> serial = RunEngine(problem, weights);
    for (int num_threads : {2, 3, 7}) {
      ThreadsExecutor executor(num_threads);
      ExpectSameResults(RunEngine(problem, weights, executor), serial);
      EXPECT_GT(executor.runs(), T);  // products, and the steps
    }
  };
  for (CellMode mode : kModes) {
    for (bool keras_weights : {false, true}) {
      expect_same_bits(2, 4, mode, keras_weights);
      expect_same_bits(1, 16, mode, keras_weights);
      expect_same_bits(1, 32, mode, keras_weights);
      expect_same_bits(4, 2, mode, keras_weights);
    }
  }
  // More steps: in Keras' order backward alone packs nothing.
  expect_same_bits(9, 2, CellMode::kLstm, /*keras_weights=*/true, /*H=*/420);
  // One row reads the rows of such an R whole.
  for (CellMode mode : {CellMode::kLstm, CellMode::kGru}) {
    expect_same_bits(3, 1, mode, /*keras_weights=*/true, /*H=*/1030);
  }
}
TEST(EngineThreadsTest, BitsDoNotDependOnThreadsWhereForwardPacksNothing) {
  ExpectSameBitsOfThreadsWhereForwardPacksNothing<float>();
  ExpectSameBitsOfThreadsWhereForwardPacksNothing<BFloat16>();
}

// With two threads each runs a direction; with more, long steps are split.
TEST(EngineThreadsTest, NorDoThoseOfDirectionsAtOnce) {
  for (int64_t batch : {1, 7, 16}) {
    Case sizes{"directions", 160, batch, 40, 90, 3, 2, Lengths::kRagged};
    sizes.dropout = 0.3f;
    for (int mode = 0; mode < kNumCellModes; ++mode) {
      SCOPED_TRACE(testing::Message()
                   << "batch " << batch << ", mode " << mode);
      auto problem = MakeProblem<float>(sizes, static_cast<CellMode>(mode), 1);
      const auto results = RunEngine<float>(problem);
      for (int num_threads : {2, 3}) {
        ThreadsExecutor executor(num_threads);
        ExpectSameResults(RunEngine<float>(problem, executor), results);
        EXPECT_GT(executor.runs(), 0);
      }
      // Without a reserve, layers hand their outputs on elsewhere.
      RunOptions inference;
      inference.inference = true;
      problem.apply_dropout = false;
      ThreadsExecutor executor(2);
      ExpectSameOutputs(RunEngine<float>(problem, executor, inference),
                        RunEngine<float>(problem, inference));
    }
  }
}

TEST(EngineDropoutTest, ActsInTrainingOnly) {
  Case sizes{"", 4, 3, 5, 6, 3, 2, Lengths::kRagged, 0, false, 0.5f};
  auto problem = MakeProblem<float>(sizes, CellMode::kGru, 1);
  RunOptions inference;
  inference.inference = true;
  problem.apply_dropout = false;
  const auto without = RunEngine<float>(problem, inference);
  problem.descriptor.dropout = 0;
  ExpectSameOutputs(RunEngine<float>(problem, inference), without);
  problem.descriptor.dropout = 0.5f;
  problem.apply_dropout = true;
  EXPECT_FALSE(SameBits(RunEngine<float>(problem, inference).y, without.y));
}

TEST(EngineDropoutTest, AnotherKeyGivesAnotherMask) {
  Case sizes{"", 4, 3, 5, 6, 2, 1, Lengths::kFull, 0, false, 0.5f};
  auto problem = MakeProblem<float>(sizes, CellMode::kTanh, 1);
  const auto results = RunEngine<float>(problem);
  problem.dropout_key += uint64_t{1} << 63;
  EXPECT_FALSE(SameBits(RunEngine<float>(problem).y, results.y));
}

TEST(EngineEmptyTest, EmptyRowsPassTheirStatesThrough) {
  Case sizes{"", 3, 2, 4, 5, 2, 2, Lengths::kEmpty};
  const auto problem = MakeProblem<double>(sizes, CellMode::kLstm, 1);
  const auto results = RunEngine<double>(problem);
  EXPECT_EQ(results.h_n, problem.h0);
  EXPECT_EQ(results.c_n, problem.c0);
  EXPECT_EQ(results.dh0, problem.dh_n);
  EXPECT_EQ(results.dc0, problem.dc_n);
  EXPECT_EQ(results.dparams, std::vector<double>(problem.params.size()));
}

// What is wrong with one row stays with it.
TEST(EngineNanTest, NanInARowReachesNoOther) {
  for (int mode = 0; mode < kNumCellModes; ++mode) {
    SCOPED_TRACE(kModeNames[mode]);
    const Case sizes{"", 4, 5, 6, 9, 2, 2, Lengths::kFull};
    auto problem = MakeProblem<float>(sizes, static_cast<CellMode>(mode), 1);
    const auto healthy = RunEngine<float>(problem);
    constexpr int64_t kSick = 2;
    problem.x[(1 * 5 + kSick) * 6 + 3] = std::nan("");
    const auto results = RunEngine<float>(problem);
    for (int64_t b = 0; b < 5; ++b) {
      const auto row = BatchRow(results.y, 4, 5, b);
      const auto dx = BatchRow(results.dx, 4, 5, b);
      if (b == kSick) {
        EXPECT_TRUE(std::isnan(row.back()));
      } else {
        EXPECT_TRUE(SameBits(row, BatchRow(healthy.y, 4, 5, b)));
        EXPECT_TRUE(SameBits(dx, BatchRow(healthy.dx, 4, 5, b)));
      }
    }
  }
}

// Rows of one step that start from zeros need no R.
TEST(EngineZeroStatesTest, OneStepDoesNotReadRecurrentWeights) {
  for (int mode = 0; mode < kNumCellModes; ++mode) {
    SCOPED_TRACE(kModeNames[mode]);
    for (int64_t batch : {1, 5, 64, 600}) {  // up to two halves
      SCOPED_TRACE(testing::Message() << "B = " << batch);
      const Case sizes{"", 1, batch, 6, 9, 2, 2, Lengths::kFull};
      auto problem = MakeProblem<float>(sizes, static_cast<CellMode>(mode), 1);
      std::fill(problem.h0.begin(), problem.h0.end(), 0.0);
      const auto healthy = RunEngine<float>(problem);
      ParamsLayout layout;
      ASSERT_TRUE(ParamsLayout::Create(problem.descriptor, &layout).ok());
      for (int64_t k = 0; k < problem.descriptor.num_pseudo_layers(); ++k) {
        const Region r = layout.RecurrentWeights(k);
        std::fill_n(problem.params.begin() + r.offset, r.rows * r.columns,
                    std::nan(""));
      }
      const auto results = RunEngine<float>(problem);
      ExpectSameOutputs(results, healthy);
      EXPECT_TRUE(SameBits(results.dx, healthy.dx));
      EXPECT_TRUE(SameBits(results.dparams, healthy.dparams));
      for (int64_t k = 0; k < problem.descriptor.num_pseudo_layers(); ++k) {
        const Region r = layout.RecurrentWeights(k);
        for (int64_t i = 0; i < r.rows * r.columns; ++i) {
          ASSERT_EQ(results.dparams[r.offset + i], 0) << k << ", " << i;
        }
      }
    }
  }
}

// Wherever it is: in the first row or the last, at either end of it.
TEST(EngineZeroStatesTest, OneElementThatIsNotZeroIsSeen) {
  constexpr int64_t B = 5, H = 9;
  for (int mode = 0; mode < kNumCellModes; ++mode) {
    for (int64_t T : {1, 3}) {
      for (int64_t place : {int64_t{0}, H - 1, (B - 1) * H, B * H - 1}) {
        SCOPED_TRACE(testing::Message() << kModeNames[mode] << ", T " << T
                                        << ", element " << place);
        const Case sizes{"", T, B, 6, H, 2, 2, Lengths::kFull};
        auto problem =
            MakeProblem<float>(sizes, static_cast<CellMode>(mode), 1);
        std::fill(problem.h0.begin(), problem.h0.end(), 0.0);
        for (int64_t k = 0; k < problem.descriptor.num_pseudo_layers(); ++k) {
          problem.h0[k * B * H + place] = 0.75;
        }
        ExpectAgreesWithReference(problem, RunEngine<float>(problem));
      }
    }
  }
}

// Plans alone, instead of a wrapped number.
TEST(EngineScratchTest, SizesPastTheAddressSpaceAreRefused) {
  RnnDescriptor d;
  d.mode = CellMode::kLstm;
  d.input_size = 1;
  d.hidden_size = int64_t{1} << 33;
  const Sequences sequences = MakeSequences(2, 3, nullptr);
  ForwardPlan forward;
  BackwardPlan backward;
  EXPECT_FALSE(ForwardPlan::Create(CallOf<float>(d, sequences),
                                   /*has_reserve=*/true, Machine::Here(1),
                                   &forward)
                   .ok());
  EXPECT_FALSE(BackwardPlan::Create(CallOf<float>(d, sequences),
                                    Machine::Here(1), &backward)
                   .ok());
  d.hidden_size = int64_t{1} << 18;
  const Sequences packing = MakeSequences(20, 40, nullptr);
  const CallDescription call = CallOf<float>(d, packing);
  EXPECT_GT(MakeForwardPlan(call).scratch_bytes, int64_t{1} << 38);
  EXPECT_GT(MakeBackwardPlan(call).scratch_bytes, int64_t{1} << 38);
}

}  // namespace
}  // namespace rnn
