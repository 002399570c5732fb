// Times the engine without TensorFlow:
//
//   Engine/<case>/<inference|forward|backward|training>/<isa>/threads:<n>
//       [/<double|half|bfloat16>][/ragged|/keras_weights|/prepared]
//   Kernel/<kernel>[/<mode>]/<isa>/<type>/<sizes>
//   Peak/multiply_add/<isa>/threads:<n>
//   Bandwidth/<l1|l2|l3|dram>/<isa>/threads:<n>
//
// Flags beside those of Google Benchmark (--benchmark_filter, ...):
//
//   --cases=PATH       the case list; benchmarks/cases.csv by default
//   --max_flops=COUNT  leaves out cases whose forward pass takes more
//   --threads=COUNT    in place of as many as there are CPUs; what is measured
//                      with threads is measured with one, too
//
// The label of an Engine row is its plan, in the words of
// TF_CUDNN_RNN_LOG=plan: of training, the plan of forward, then backward's.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "benchmarks/machine.h"
#include "benchmarks/registration.h"
#include "kernels/engine/plan/machine.h"
#include "tests/engine/float_mode.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

struct Flags {
  std::string cases = "benchmarks/cases.csv";
  double max_flops = std::numeric_limits<double>::infinity();
  int threads = 0;  // 0: not told
};

// Says on stderr what it does not know.
bool ParseFlags(int argc, char** argv, Flags* flags) {
  const auto value_of = [](const std::string& arg, const std::string& flag,
                           std::string* value) {
    const std::string prefix = "--" + flag + "=";
    if (arg.compare(0, prefix.size(), prefix) != 0) return false;
    *value = arg.substr(prefix.size());
    return true;
  };
  for (int i = 1; i < argc; ++i) {
    std::string value;
    if (value_of(argv[i], "cases", &value)) {
      flags->cases = value;
    } else if (value_of(argv[i], "max_flops", &value)) {
      char* end = nullptr;
      flags->max_flops = std::strtod(value.c_str(), &end);
      if (value.empty() || *end != '\0') {
        std::cerr << "`max_flops` must be a number; got \"" << value << "\".\n";
        return false;
      }
    } else if (value_of(argv[i], "threads", &value)) {
      char* end = nullptr;
      const long threads = std::strtol(value.c_str(), &end, 10);
      constexpr int kMost = 1024;
      if (value.empty() || *end != '\0' || threads < 1 || threads > kMost) {
        std::cerr << "`threads` must be a number from 1 to " << kMost
                  << "; got \"" << value << "\".\n";
        return false;
      }
      flags->threads = static_cast<int>(threads);
    } else {
      std::cerr << "Unknown flag " << argv[i]
                << "; there are --cases=PATH, --max_flops=COUNT, "
                   "--threads=COUNT and those of --help.\n";
      return false;
    }
  }
  return true;
}

int Main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  Flags flags;
  if (!ParseFlags(argc, argv, &flags)) return 1;
  if (const std::string fault = MachineVariableFault(); !fault.empty()) {
    std::cerr << fault << '\n';
    return 1;
  }
  std::vector<BenchmarkCase> cases;
  const Status status = ReadBenchmarkCases(flags.cases, &cases);
  if (!status.ok()) {
    std::cerr << status.message() << '\n';
    return 1;
  }

  if (flags.threads > 0) SetNumThreads(flags.threads);
  FlushDenormals();
  std::string isas;
  for (const SimdTarget* target : AllSimdTargets()) {
    isas += (isas.empty() ? "" : " ") + std::string(target->name);
  }
  benchmark::AddCustomContext("isas", isas);
  benchmark::AddCustomContext("engine_isa", SelectSimdTarget().name);
  RegisterMachineBenchmarks();
  RegisterKernelBenchmarks();
  RegisterEngineBenchmarks(cases, flags.max_flops);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace rnn

int main(int argc, char** argv) { return rnn::Main(argc, argv); }
