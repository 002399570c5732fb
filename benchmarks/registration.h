// Where the benchmarks of each kind are added to those to be run.
#ifndef BENCHMARKS_REGISTRATION_H_
#define BENCHMARKS_REGISTRATION_H_

#include <vector>

#include "benchmarks/benchmark_cases.h"

namespace rnn {

// Peak/... and Bandwidth/...
void RegisterMachineBenchmarks();
// Kernel/...
void RegisterKernelBenchmarks();
// Engine/..., but cases whose forward pass takes more than `max_flops`.
void RegisterEngineBenchmarks(const std::vector<BenchmarkCase>& cases,
                              double max_flops);

}  // namespace rnn

#endif  // BENCHMARKS_REGISTRATION_H_
