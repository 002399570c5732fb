// The whole engine on the instruction set that it chooses: once per process, so
// that TF_CUDNN_RNN_ISA has to ask for another.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/aligned_buffer.h"
#include "benchmarks/machine.h"
#include "benchmarks/registration.h"
#include "tests/engine/element_values.h"
#include "tests/engine/engine_call.h"

namespace rnn {

namespace {

// Inference is a forward pass that keeps nothing; kForward keeps what kBackward
// needs; training is both.
enum class Pass { kInference, kForward, kBackward, kTraining };
constexpr Pass kPasses[] = {Pass::kInference, Pass::kForward, Pass::kBackward,
                            Pass::kTraining};
constexpr const char* kPassNames[] = {"inference", "forward", "backward",
                                      "training"};

// Full sequences and weights in the order of params, lengths that differ,
// weights in the order of Keras, or weights that were prepared before.
enum class Variant { kPlain, kRagged, kKerasWeights, kPrepared };
constexpr const char* kVariantNames[] = {"", "/ragged", "/keras_weights",
                                         "/prepared"};

struct EngineBenchmark {
  BenchmarkCase benchmark_case;
  Pass pass;
  ElementType type;
  Variant variant;
  int num_threads;

  std::string Name() const {
    std::string name = "Engine/" + benchmark_case.name + "/" +
                       kPassNames[static_cast<int>(pass)] + "/" +
                       SelectSimdTarget().name +
                       "/threads:" + std::to_string(num_threads);
    if (type != ElementType::kFloat) {
      name += std::string("/") + ElementName(type);
    }
    name += kVariantNames[static_cast<int>(variant)];
    return name;
  }
  // Benchmarks with equal tensors run one after another and share them.
  std::string TensorsName() const {
    return benchmark_case.name + "/" + ElementName(type) +
           kVariantNames[static_cast<int>(variant)] +
           (pass == Pass::kInference ? "/inference" : "");
  }
};

template <typename Element>
using Call = EngineCall<Element, TensorBuffer>;

// The tensors of the benchmark before, if they are the same.
template <typename Element>
Call<Element>& CallOf(const EngineBenchmark& b) {
  static auto* const latest = new std::shared_ptr<Call<Element>>;
  static auto* const name = new std::string;
  if (*name != b.TensorsName()) {
    latest->reset();
    EngineSizes sizes;
    sizes.descriptor = b.benchmark_case.descriptor;
    sizes.max_time = b.benchmark_case.seq_length;
    sizes.batch = b.benchmark_case.batch;
    sizes.training = b.pass != Pass::kInference;
    sizes.keras_weights = b.variant == Variant::kKerasWeights;
    sizes.prepared_weights = b.variant == Variant::kPrepared;
    if (b.variant == Variant::kRagged)
      sizes.lengths = RaggedLengths(b.benchmark_case);
    *latest = std::make_shared<Call<Element>>(sizes);
    (*latest)->PlanForTeams();
    *name = b.TensorsName();
  }
  return **latest;
}

double Flops(const EngineBenchmark& b, const Sequences& sequences) {
  const double forward =
      ForwardFlops(b.benchmark_case.descriptor, sequences.num_valid_rows());
  switch (b.pass) {
    case Pass::kInference:
    case Pass::kForward:
      return forward;
    case Pass::kBackward:
      return 2 * forward;
    case Pass::kTraining:
      return 3 * forward;
  }
  return 0;
}

// Of the passes that ran last.
template <typename Element>
std::string PlanOf(const EngineBenchmark& b, const Call<Element>& call) {
  const bool has_forward = b.pass != Pass::kBackward;
  const bool has_backward =
      b.pass == Pass::kBackward || b.pass == Pass::kTraining;
  std::string plan;
  if (has_forward) plan = Describe(call.forward_plan());
  if (has_forward && has_backward) plan += "; ";
  if (has_backward) plan += Describe(call.backward_plan());
  return plan;
}

template <typename Element>
void Run(benchmark::State& state, const EngineBenchmark& b) {
  using Clock = std::chrono::steady_clock;
  Call<Element>& call = CallOf<Element>(b);
  // As an op does, each pass has a team of its own.
  const auto forward = [&] {
    Team team = MakeTeam(b.num_threads);
    call.Forward(team);
  };
  const auto backward = [&] {
    Team team = MakeTeam(b.num_threads);
    call.Backward(team);
  };
  const auto run_pass = [&] {
    if (b.pass != Pass::kBackward) forward();
    if (b.pass == Pass::kBackward || b.pass == Pass::kTraining) backward();
  };
  const double peak = PeakFlops(SelectSimdTarget(), b.type, b.num_threads);
  forward();
  run_pass();
  const auto begin = Clock::now();
  for (auto _ : state) run_pass();
  const double seconds =
      std::chrono::duration<double>(Clock::now() - begin).count();
  const double rate = Flops(b, call.sequences()) *
                      static_cast<double>(state.iterations()) / seconds;
  state.counters["flops_per_second"] = rate;
  state.counters["share_of_peak"] = rate / peak;
  state.SetLabel(PlanOf(b, call));
}

void Register(const EngineBenchmark& b) {
  benchmark::RegisterBenchmark(b.Name().c_str(), [b](benchmark::State& state) {
    switch (b.type) {
      case ElementType::kFloat:
        return Run<float>(state, b);
      case ElementType::kDouble:
        return Run<double>(state, b);
      case ElementType::kHalf:
        return Run<Half>(state, b);
      case ElementType::kBFloat16:
        return Run<BFloat16>(state, b);
    }
  });
}

bool IsOneKerasLayer(const RnnDescriptor& d) {
  return d.num_pseudo_layers() == 1 && !d.has_projection() && !d.skip_input;
}

void RegisterPasses(const BenchmarkCase& benchmark_case, ElementType type,
                    Variant variant) {
  for (Pass pass : kPasses) {
    if (variant == Variant::kPrepared && pass != Pass::kInference) continue;
    for (int num_threads : ThreadCounts()) {
      Register({benchmark_case, pass, type, variant, num_threads});
    }
  }
}

}  // namespace

void RegisterEngineBenchmarks(const std::vector<BenchmarkCase>& cases,
                              double max_flops) {
  for (const BenchmarkCase& c : cases) {
    if (ForwardFlops(c.descriptor, c.seq_length * c.batch) > max_flops) {
      continue;
    }
    RegisterPasses(c, ElementType::kFloat, Variant::kPlain);
    if (c.IsIn("gate") && c.seq_length > 1) {
      RegisterPasses(c, ElementType::kFloat, Variant::kRagged);
    }
    if (c.IsIn("gate") && IsOneKerasLayer(c.descriptor)) {
      RegisterPasses(c, ElementType::kFloat, Variant::kKerasWeights);
    }
    if (c.IsIn("gate")) {
      RegisterPasses(c, ElementType::kFloat, Variant::kPrepared);
    }
    if (!c.IsIn("quick")) continue;
    for (ElementType type :
         {ElementType::kDouble, ElementType::kHalf, ElementType::kBFloat16}) {
      RegisterPasses(c, type, Variant::kPlain);
    }
  }
}

}  // namespace rnn
