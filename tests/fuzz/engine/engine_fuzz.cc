// Forward and Backward of any small call: all memory between guard pages,
// inputs read-only, values against the reference. On the instruction set that
// TF_CUDNN_RNN_ISA allows; the plan is one for any number of threads and any
// caches. As the program ends, it says which routes ran, and how often.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/engine/engine.h"
#include "kernels/engine/plan/route.h"
#include "tests/engine/element_values.h"
#include "tests/engine/engine_call.h"
#include "tests/engine/guard_pages.h"
#include "tests/engine/guarded.h"
#include "tests/engine/keras_order.h"
#include "tests/engine/random_values.h"
#include "tests/engine/reference_rnn.h"
#include "tests/engine/simd_targets.h"
#include "tests/engine/tolerance.h"
#include "tests/engine/unused.h"
#include "tests/fuzz/engine/fuzz.h"
#include "tests/fuzz/engine/input.h"

namespace rnn {
namespace fuzz {
namespace {

// ---- Cases ------------------------------------------------------------------

// Tasks one after another, as if for so many threads, the last or another one
// first.
class TurnedExecutor : public Executor {
 public:
  TurnedExecutor(int num_threads, int first, bool descends)
      : num_threads_(num_threads), first_(first), descends_(descends) {}

  int num_threads() const override { return num_threads_; }
  void Run(int num_tasks, Order /*order*/,
           FunctionRef<void(int)> task) override {
    for (int i = 0; i < num_tasks; ++i) {
      const int turned = (i + first_) % num_tasks;
      task(descends_ ? num_tasks - 1 - turned : turned);
    }
  }

 private:
  const int num_threads_;
  const int first_;
  const bool descends_;
};

// What inputs are.
enum class Values {
  kUsual,
  kZero,
  kTiny,
  kLarge,    // of x and states; activations saturate
  kSpecial,  // infinities, NaN, denormals among them: nothing to compare
};

struct Case {
  EngineSizes sizes;
  ElementType element;
  Values values;
  uint64_t seed;
  int num_threads, first_task;
  bool descends;
  int64_t core_cache_bytes;
  GuardedSide side;
};

// Sizes beside those of vectors and panels come up often.
int64_t AnyFeatures(Input& input) {
  const int kind = input.Byte();
  if (kind < 216) return 1 + kind % 36;
  constexpr int kBeside[] = {47, 48, 49,  63,  64,  65,  66,  80,
                             96, 97, 127, 128, 129, 130, 150, 257};
  return kBeside[kind % 16];
}

// Multiply-adds of forward in the reference.
int64_t Work(const EngineSizes& sizes) {
  const RnnDescriptor& d = sizes.descriptor;
  const int64_t P = d.output_size();
  const int64_t inputs =
      d.input_size + (d.num_layers - 1) * d.num_directions * P;
  return (sizes.max_time * sizes.batch + 1) * d.num_directions *
         (d.gates_size() * (inputs + d.num_layers * P) +
          (d.has_projection() ? d.num_layers * P * d.hidden_size : 0));
}

Case AnyCase(Input& input) {
  Case c;
  EngineSizes& sizes = c.sizes;
  RnnDescriptor& d = sizes.descriptor;
  d.mode = static_cast<CellMode>(input.Between(0, kNumCellModes - 1));
  c.element = static_cast<ElementType>(input.Between(0, 3));
  const int flags = input.Byte();
  sizes.time_major = flags & 1;
  sizes.training = (flags & 6) != 0;
  sizes.keras_bias = flags & 8;
  c.side = flags & 16 ? GuardedSide::kBegin : GuardedSide::kEnd;
  c.descends = flags & 32;
  d.hidden_size = AnyFeatures(input);
  d.input_size = AnyFeatures(input);
  const int shape = input.Byte();
  d.num_layers = 1 + (shape % 8 < 3 ? shape % 8 : 0);
  d.num_directions = 1 + shape / 8 % 2;
  d.skip_input = shape / 16 % 8 == 0;
  if (d.skip_input) d.input_size = d.hidden_size;
  if (d.mode == CellMode::kLstm && input.Byte() % 4 == 0) {
    d.num_proj = input.Between(0, std::min<int64_t>(d.hidden_size, 255));
  }
  sizes.keras_weights =
      d.num_layers == 1 && !d.has_projection() && !d.skip_input && flags >= 128;
  d.dropout = input.OneOf({0.0f, 0.0f, 0.3f, 1.0f});
  // The first is what inputs that have ended give.
  sizes.max_time =
      input.OneOf({3, 0, 1, 1, 2, 2, 4, 5, 6, 7, 8, 9, 10, 12, 17, 24, 33, 50});
  sizes.batch = input.OneOf(
      {2, 0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 33, 40});
  // A few inputs in a hundred may be larger.
  const int64_t max_work = input.Byte() < 8 ? 1 << 20 : 1 << 15;
  while (sizes.batch > 1 && Work(sizes) > max_work) sizes.batch /= 2;
  while (sizes.max_time > 1 && Work(sizes) > max_work) sizes.max_time /= 2;
  while (d.num_proj == 0 && Work(sizes) > max_work) {
    d.hidden_size = (d.hidden_size + 1) / 2;
    d.input_size = d.skip_input ? d.hidden_size : (d.input_size + 1) / 2;
  }
  const int lengths = input.Byte() % 4;
  for (int64_t b = 0; lengths > 0 && b < sizes.batch; ++b) {
    sizes.lengths.push_back(static_cast<int32_t>(
        lengths == 1 ? 0 : input.Between(0, sizes.max_time)));
  }
  c.num_threads = input.OneOf({1, 1, 2, 2, 3, 4, 8, 16});
  c.first_task = input.Byte();
  c.core_cache_bytes = int64_t{1} << input.Byte() % 24;
  constexpr Values kMostly[] = {Values::kUsual, Values::kUsual,  Values::kUsual,
                                Values::kUsual, Values::kZero,   Values::kTiny,
                                Values::kLarge, Values::kSpecial};
  c.values = input.OneOf(kMostly);
  c.seed = input.Any<uint32_t>();
  // Inputs that were kept before these came have none of them.
  const int steps = input.Byte();
  if (steps & 1) {
    const int64_t valid_of_eight = input.Between(0, 8);
    RandomValues random(c.seed);
    for (int64_t i = 0; i < sizes.max_time * sizes.batch; ++i) {
      sizes.mask.push_back(random.Integer(0, 7) < valid_of_eight);
    }
  }
  sizes.go_backwards = steps & 2;
  sizes.repeats_outputs = (steps & 4) && d.num_directions == 1;
  if (steps & 8) {
    sizes.int8_weights = true;
    sizes.keras_weights = sizes.training = false;
    c.element = ElementType::kFloat;
  }
  if (steps & 16) {
    sizes.prepared_weights = true;
    sizes.training = false;
  }
  return c;
}

void SetCase(const Case& c) {
  const RnnDescriptor& d = c.sizes.descriptor;
  std::snprintf(
      guarded_case, sizeof guarded_case,
      "%s %s %s T=%d B=%d I=%d H=%d num_proj=%d L=%d D=%d skip_input=%d "
      "dropout=%g training=%d time_major=%d keras=%d int8=%d prepared=%d "
      "mask=%d "
      "backwards=%d repeats=%d values=%d threads=%d core_cache=%d",
      kModeNames[static_cast<int>(d.mode)], ElementTypeName(c.element),
      SelectSimdTarget().name, static_cast<int>(c.sizes.max_time),
      static_cast<int>(c.sizes.batch), static_cast<int>(d.input_size),
      static_cast<int>(d.hidden_size), static_cast<int>(d.num_proj),
      static_cast<int>(d.num_layers), static_cast<int>(d.num_directions),
      d.skip_input, static_cast<double>(d.dropout), c.sizes.training,
      c.sizes.time_major, c.sizes.keras_weights, c.sizes.int8_weights,
      c.sizes.prepared_weights, !c.sizes.mask.empty(), c.sizes.go_backwards,
      c.sizes.repeats_outputs, static_cast<int>(c.values), c.num_threads,
      static_cast<int>(c.core_cache_bytes));
}

// ---- Routes -----------------------------------------------------------------

using Counts = std::map<std::string, int64_t>;

void PrintCounts();

Counts& RoutesTaken() {
  static Counts* const counts = [] {
    std::atexit(PrintCounts);
    return new Counts;
  }();
  return *counts;
}

void PrintCounts() {
  for (const auto& [route, count] : RoutesTaken()) {
    std::fprintf(stderr, "route %s %s: %lld\n", SelectSimdTarget().name,
                 route.c_str(), static_cast<long long>(count));
  }
}

void Count(const char* pass, const char* what, const char* how) {
#ifdef RNN_UNINSTRUMENTED_STREAMS
  return;  // strings of the standard library are not watched either
#endif
  char key[128];
  std::snprintf(key, sizeof key, "%s %s=%s", pass, what, how);
  ++RoutesTaken()[key];
}

// As Describe() names them.
template <typename Plan>
void CountShared(const char* pass, const Plan& plan) {
  const std::vector<ChunkPlan>& chunks =
      plan.parts.empty() ? plan.chunks : plan.parts.front()->plan.chunks;
  if (chunks.empty()) return;
  if (!plan.parts.empty()) Count(pass, "batch_parts", "several");
  if (plan.descriptor.has_input_weights(0)) {
    Count(pass, "W", RouteName(plan.input_weights.first.route));
  }
  Count(pass, "R", RouteName(plan.recurrent_weights.route));
  Count(pass, "chunks", chunks.size() > 1 ? "several" : "1");
  Count(pass, "threads", plan.num_threads > 1 ? "several" : "1");
  Count(pass, "rank_groups",
        chunks.front().num_rank_groups > 1 ? "several" : "1");
  Count(pass, "shared_steps", StepSharingName(chunks.front()));
}

void CountRoutes(const ForwardPlan& plan) {
  const char* const pass = plan.has_reserve ? "training" : "inference";
  CountShared(pass, plan);
  if (plan.directions_together) Count(pass, "directions", "together");
}
void CountRoutes(const BackwardPlan& plan) {
  CountShared("backward", plan);
  if (plan.sequences->num_valid_rows() == 0) return;
  Count("backward", "dR", RouteName(plan.recurrent_weights_gradient.route));
}

// ---- Calls ------------------------------------------------------------------

template <typename Element>
void SetValues(Values kind, uint64_t seed, Element* values, int64_t count,
               bool is_weight) {
  RandomValues random(seed);
  for (int64_t i = 0; i < count; ++i) {
    double value = ToDouble(values[i]);
    switch (kind) {
      case Values::kUsual:
        return;
      case Values::kZero:
        value = 0;
        break;
      case Values::kTiny:
        value *= 0x1p-10;
        break;
      case Values::kLarge:
        if (!is_weight) value *= 16;
        break;
      case Values::kSpecial:
        switch (random.Integer(0, 20)) {
          case 0:
            value = std::numeric_limits<double>::infinity();
            break;
          case 1:
            value = -std::numeric_limits<double>::infinity();
            break;
          case 2:
            value = std::numeric_limits<double>::quiet_NaN();
            break;
          case 3:
            value = 1e-40;
            break;
          case 4:
            value = 1e38;
            break;
        }
    }
    values[i] = FromDouble<Element>(value);
  }
}

template <GuardedSide kSide>
struct BufferOf {
  template <typename Value>
  using type = GuardedValues<Value, kSide>;
};

// A step of a row, valid or not.
struct Step {
  int64_t row;
  int64_t place;  // in x
  int64_t turn;   // in y: how many steps are taken before it
  bool is_valid;
  // Of the valid step whose output y has here, how many valid ones come before
  // it; -1: y has zeros.
  int64_t source;
};

// Calls function(Step) for all of them, row by row in the order in which they
// are taken.
template <typename Function>
void ForEachStep(const EngineSizes& sizes, Function function) {
  const int64_t T = sizes.max_time;
  for (int64_t b = 0; b < sizes.batch; ++b) {
    const int64_t length = sizes.lengths.empty() ? T : sizes.lengths[b];
    int64_t num_valid = 0;
    for (int64_t turn = 0; turn < T; ++turn) {
      const int64_t place = sizes.go_backwards ? T - 1 - turn : turn;
      const bool is_valid =
          place < length &&
          (sizes.mask.empty() || sizes.mask[place * sizes.batch + b] != 0);
      num_valid += is_valid;
      const bool has_output = is_valid || sizes.repeats_outputs;
      function(Step{b, place, turn, is_valid, has_output ? num_valid - 1 : -1});
    }
  }
}

// The reference knows lengths alone: there the valid steps of a row come first.
// From a tensor [T, B, .] of the call to that of the reference, or back. What
// has several sources is their sum.
enum class Way { kToReference, kFromReference };
reference::Vector Moved(Way way, const EngineSizes& sizes, bool is_output,
                        const reference::Vector& values) {
  reference::Vector result(values.size());
  if (values.empty()) return result;
  const int64_t features = values.size() / (sizes.max_time * sizes.batch);
  ForEachStep(sizes, [&](const Step& step) {
    if (is_output ? step.source < 0 : !step.is_valid) return;
    int64_t from = is_output ? step.turn : step.place;
    int64_t to = step.source;
    if (way == Way::kFromReference) std::swap(from, to);
    for (int64_t j = 0; j < features; ++j) {
      result[(to * sizes.batch + step.row) * features + j] +=
          values[(from * sizes.batch + step.row) * features + j];
    }
  });
  return result;
}

// [outer, B, features] as numbers, from either layout.
template <typename Buffer>
reference::Vector Dense(Buffer& values, bool outer_major, int64_t outer,
                        int64_t batch) {
  reference::Vector dense(values.size());
  if (dense.empty()) return dense;
  const int64_t features = values.size() / (outer * batch);
  const Strides strides = Strides::Of(outer_major, outer, batch, features);
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t j = 0; j < features; ++j) {
        dense[(i * batch + b) * features + j] =
            ToDouble(values[i * strides.outer + b * strides.batch + j]);
      }
    }
  }
  return dense;
}

template <typename Call>
reference::Problem ProblemOf(const Case& c, Call& call) {
  using Element = std::remove_reference_t<decltype(call.x[0])>;
  const EngineSizes& sizes = c.sizes;
  reference::Problem p;
  p.descriptor = sizes.descriptor;
  p.max_time = sizes.max_time;
  p.lengths.resize(sizes.batch);
  ForEachStep(sizes,
              [&](const Step& step) { p.lengths[step.row] += step.is_valid; });
  const auto dense = [&](auto& values, int64_t outer) {
    return Dense(values, sizes.time_major, outer, sizes.batch);
  };
  const int64_t states = sizes.descriptor.num_pseudo_layers();
  const auto sequence = [&](auto& values, bool is_output) {
    return Moved(Way::kToReference, sizes, is_output,
                 dense(values, sizes.max_time));
  };
  p.x = sequence(call.x, /*is_output=*/false);
  p.h0 = dense(call.h0, states);
  p.c0 = dense(call.c0, states);
  // Without training there are none, and nobody looks at what they give.
  const int64_t P = sizes.descriptor.output_size();
  p.dy.resize(sizes.max_time * sizes.batch * sizes.descriptor.num_directions *
              P);
  p.dh_n.resize(p.h0.size());
  p.dc_n.resize(p.c0.size());
  if (sizes.training) {
    p.dy = sequence(call.dy, /*is_output=*/true);
    p.dh_n = dense(call.dh_n, states);
    p.dc_n = dense(call.dc_n, states);
  }
  if (sizes.keras_weights) {
    ParamsLayout layout;
    FUZZ_REQUIRE(ParamsLayout::Create(sizes.descriptor, &layout).ok());
    p.params.resize(layout.size());
    ForEachKerasWeight(
        sizes.descriptor, [&](int tensor, int64_t index, int64_t place) {
          if (tensor == 2 && !sizes.keras_bias) return;
          p.params[place] = ToDouble((tensor == 0   ? call.kernel
                                      : tensor == 1 ? call.recurrent_kernel
                                                    : call.bias)[index]);
        });
  } else if (call.int8) {
    p.params = call.int8->Params(sizes.descriptor);
  } else {
    for (int64_t i = 0; i < call.params.size(); ++i) {
      p.params.push_back(ToDouble(call.params[i]));
    }
  }
  p.apply_dropout = sizes.training && sizes.descriptor.dropout > 0;
  p.dropout_key = Call::kDropoutKey;
  if constexpr (!kElementIsOperand<Element>) {
    p.round = [](double value) { return ToDouble(FromDouble<Element>(value)); };
  }
  return p;
}

// The largest absolute value, or 1 if that is larger.
double Scale(const reference::Vector& values) {
  double largest = 1;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// `scale` is that of the terms that values are sums of, if these are larger.
void RequireNear(const char* name, const reference::Vector& values,
                 const reference::Vector& expected, double tolerance,
                 double scale = 1) {
  FUZZ_REQUIRE(values.size() == expected.size());
  const double largest = std::max(scale, Scale(expected));
  for (size_t i = 0; i < values.size(); ++i) {
    // Written so that NaN fails.
    if (std::abs(values[i] - expected[i]) <= tolerance * largest) continue;
    std::fprintf(stderr, "%s\n%s[%d]: %.17g instead of %.17g, tolerance %g\n",
                 guarded_case, name, static_cast<int>(i), values[i],
                 expected[i], tolerance * largest);
    FUZZ_REQUIRE(!"values agree with the reference");
  }
}

// What overflows is infinite or NaN, depending on the order of sums.
bool AreFinite(std::initializer_list<const reference::Vector*> tensors) {
  for (const reference::Vector* values : tensors) {
    for (double value : *values) {
      if (!std::isfinite(value)) return false;
    }
  }
  return true;
}

template <typename Element, typename Call>
void CompareWithReference(const Case& c, Call& call,
                          const reference::Problem& problem) {
  const EngineSizes& sizes = c.sizes;
  const reference::Result expected = reference::Run(problem);
  // Of products with int8, left operands are rounded to steps of 2^-14 of their
  // largest value, or finer.
  const double tolerance =
      sizes.int8_weights ? 2e-3 * std::max(Scale(problem.x), Scale(problem.h0))
                         : Tolerance<Element>(problem);
  const auto compare = [&](const char* name, auto& values, int64_t outer,
                           const reference::Vector& wanted, double scale = 1) {
    RequireNear(name, Dense(values, sizes.time_major, outer, sizes.batch),
                wanted, tolerance, scale);
  };
  const reference::Outputs& outputs = expected.outputs;
  if (!AreFinite({&outputs.y, &outputs.h_n, &outputs.c_n})) return;
  const int64_t states = sizes.descriptor.num_pseudo_layers();
  compare("y", call.y, sizes.max_time,
          Moved(Way::kFromReference, sizes, /*is_output=*/true, outputs.y));
  compare("h_n", call.h_n, states, outputs.h_n);
  compare("c_n", call.c_n, states, outputs.c_n);
  if (!sizes.training) return;
  // Where the derivative jumps, rounding decides between two right ones.
  if (outputs.nearest_kink <= tolerance * Scale(outputs.y)) return;
  const reference::Gradients& gradients = expected.gradients;
  if (!AreFinite({&gradients.dx, &gradients.dh0, &gradients.dc0,
                  &gradients.dparams})) {
    return;
  }
  // A saturated gate g keeps few digits of 1 - g, and a saturated tanh of its
  // derivative. For the gate's gradient that is multiplied with what comes in,
  // and with h or c where there are several gates; for a weight's, that with x
  // or h.
  double gates = 1;
  if (sizes.descriptor.mode != CellMode::kRelu) {
    for (const auto* incoming : {&problem.dy, &problem.dh_n, &problem.dc_n}) {
      gates = std::max(gates, Scale(*incoming));
    }
  }
  if (NumGates(sizes.descriptor.mode) > 1) {
    gates *= std::max(Scale(problem.h0), Scale(problem.c0));
  }
  const double weights =
      gates > 1 ? gates * std::max(Scale(problem.x), Scale(problem.h0)) : 1;
  compare("dx", call.dx, sizes.max_time,
          Moved(Way::kFromReference, sizes, /*is_output=*/false, gradients.dx),
          gates);
  compare("dh0", call.dh0, states, gradients.dh0, gates);
  compare("dc0", call.dc0, states, gradients.dc0, gates);
  reference::Vector dparams;
  if (sizes.keras_weights) {
    dparams.resize(gradients.dparams.size());
    reference::Vector wanted(dparams.size());
    ForEachKerasWeight(
        sizes.descriptor, [&](int tensor, int64_t index, int64_t place) {
          if (tensor == 2 && !sizes.keras_bias) return;
          wanted[place] = gradients.dparams[place];
          dparams[place] = ToDouble((tensor == 0   ? call.dkernel
                                     : tensor == 1 ? call.drecurrent_kernel
                                                   : call.dbias)[index]);
        });
    RequireNear("dweights", dparams, wanted, tolerance, weights);
    return;
  }
  for (int64_t i = 0; i < call.dparams.size(); ++i) {
    dparams.push_back(ToDouble(call.dparams[i]));
  }
  RequireNear("dparams", dparams, gradients.dparams, tolerance, weights);
}

template <typename Element, GuardedSide kSide>
void RunCase(const Case& c) {
  const EngineSizes& sizes = c.sizes;
  EngineCall<Element, BufferOf<kSide>::template type> call(sizes,
                                                           /*seed=*/c.seed);
  uint64_t seed = c.seed;
  for (auto* values : call.Inputs()) {
    const bool is_weight = values == &call.params || values == &call.kernel ||
                           values == &call.recurrent_kernel ||
                           values == &call.bias;
    SetValues(c.values, ++seed, values->data(), values->size(), is_weight);
  }
  const reference::Problem problem = ProblemOf(c, call);
  const int64_t outputs =
      sizes.descriptor.num_directions * sizes.descriptor.output_size();
  const auto poison = [&](auto& values, int64_t features, int64_t step,
                          int64_t b) {
    if (values.size() == 0) return;
    const Strides strides =
        Strides::Of(sizes.time_major, sizes.max_time, sizes.batch, features);
    FillUnused(values.data() + step * strides.outer + b * strides.batch,
               kPoison, features * int64_t{sizeof(Element)});
  };
  ForEachStep(sizes, [&](const Step& step) {
    if (!step.is_valid) {
      poison(call.x, sizes.descriptor.input_size, step.place, step.row);
    }
    if (step.source < 0) poison(call.dy, outputs, step.turn, step.row);
  });
  for (auto* values : call.Inputs()) values->MakeReadOnly();
  if (call.int8) call.int8->MakeReadOnly();
  for (auto* values : call.Outputs()) {
    FillUnused(values->data(), kPoison,
               values->size() * int64_t{sizeof(Element)});
  }
  call.FillScratchWith(kPoison);
  call.PlanForCoreCaches(c.core_cache_bytes);
  TurnedExecutor executor(c.num_threads, c.first_task, c.descends);
  call.Forward(executor);
  CountRoutes(call.forward_plan());
  if (sizes.training) {
    call.y.MakeReadOnly();
    call.reserve.MakeReadOnly();
    call.Backward(executor);
    CountRoutes(call.backward_plan());
  }
  if (c.values != Values::kSpecial) {
    CompareWithReference<Element>(c, call, problem);
  }
}

template <typename Element>
void RunOnSide(const Case& c) {
  if (c.side == GuardedSide::kBegin) {
    RunCase<Element, GuardedSide::kBegin>(c);
  } else {
    RunCase<Element, GuardedSide::kEnd>(c);
  }
}

void Run(Input input) {
  const Case c = AnyCase(input);
  SetCase(c);
  switch (c.element) {
    case ElementType::kFloat:
      return RunOnSide<float>(c);
    case ElementType::kDouble:
      return RunOnSide<double>(c);
    case ElementType::kHalf:
      return RunOnSide<Half>(c);
    case ElementType::kBFloat16:
      return RunOnSide<BFloat16>(c);
  }
}

}  // namespace
}  // namespace fuzz
}  // namespace rnn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rnn::fuzz::Run(rnn::fuzz::Input(data, size));
  return 0;
}
