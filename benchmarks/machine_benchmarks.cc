// What the machine can do: the measure of all other benchmarks.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/aligned_buffer.h"
#include "benchmarks/machine.h"
#include "benchmarks/probes.h"
#include "benchmarks/registration.h"
#include "tests/engine/simd_targets.h"

namespace rnn {

namespace {

template <typename F>
void RunMultiplyAdd(benchmark::State& state,
                    double (*multiply_add)(int64_t, F*)) {
  const int num_threads = static_cast<int>(state.range(0));
  constexpr int64_t kRounds = 1000000;  // some milliseconds
  std::vector<double> flops_of_thread(num_threads);
  double seconds = 0, flops = 0;
  for (auto _ : state) {
    seconds += SecondsOnThreads(num_threads, [&](int thread) {
      F sink;
      flops_of_thread[thread] = multiply_add(kRounds, &sink);
      benchmark::DoNotOptimize(sink);
    });
    for (double thread_flops : flops_of_thread) flops += thread_flops;
  }
  state.counters["flops_per_second"] = flops / seconds;
}

// Of a thread's buffer, such that it lies in the level named and no other. Of
// the third level no more than weights fill: in a large one the far end is as
// slow as memory.
int64_t BufferBytes(const std::string& level, int num_threads) {
  if (level == "l1") return CacheBytes(1) / 2;
  if (level == "l2") return std::max(CacheBytes(2) / 2, 2 * CacheBytes(1));
  if (level == "l3") {
    const int sharing = std::min(num_threads, ThreadsPerLastLevelCache());
    return std::clamp(CacheBytes(3) / 2 / sharing, 2 * CacheBytes(2),
                      8 * CacheBytes(2));
  }
  return 4 * CacheBytes(3) / num_threads;
}

// One for each thread, which is the first to touch it: where there are several
// memories, it lies in the nearest.
using ThreadBuffer = AlignedBuffer<float, 4096>;

void RunRead(benchmark::State& state, const Probes& probes,
             const std::string& level) {
  const int num_threads = static_cast<int>(state.range(0));
  const int64_t count = BufferBytes(level, num_threads) /
                        int64_t{sizeof(float)} / kReadGranule * kReadGranule;
  const int64_t bytes = count * int64_t{sizeof(float)};
  // At least some milliseconds at a time.
  const int64_t passes = std::max<int64_t>((int64_t{256} << 20) / bytes, 1);
  std::vector<std::optional<ThreadBuffer>> buffers(num_threads);
  SecondsOnThreads(num_threads, [&](int thread) {
    buffers[thread].emplace(count);
    std::fill_n(buffers[thread]->data(), count, 1.0f);
  });
  double seconds = 0;
  for (auto _ : state) {
    seconds += SecondsOnThreads(num_threads, [&](int thread) {
      for (int64_t pass = 0; pass < passes; ++pass) {
        probes.read(buffers[thread]->data(), count);
      }
    });
  }
  state.counters["bytes_per_second"] =
      static_cast<double>(bytes * passes * num_threads) *
      static_cast<double>(state.iterations()) / seconds;
  state.counters["buffer_bytes"] = static_cast<double>(bytes);
}

void RegisterOnThreads(const std::string& name,
                       const std::function<void(benchmark::State&)>& run) {
  for (int num_threads : ThreadCounts()) {
    benchmark::RegisterBenchmark(name.c_str(), run)
        ->ArgName("threads")
        ->Arg(num_threads);
  }
}

}  // namespace

void RegisterMachineBenchmarks() {
  for (const SimdTarget* target : AllSimdTargets()) {
    const Probes& probes = *ProbesOf(target->name);
    const std::string isa = target->name;
    RegisterOnThreads("Peak/multiply_add/" + isa,
                      [&probes](benchmark::State& state) {
                        RunMultiplyAdd(state, probes.multiply_add_float);
                      });
    RegisterOnThreads("Peak/multiply_add_double/" + isa,
                      [&probes](benchmark::State& state) {
                        RunMultiplyAdd(state, probes.multiply_add_double);
                      });
    if (probes.multiply_add_bfloat16 != nullptr) {
      RegisterOnThreads("Peak/multiply_add_bfloat16/" + isa,
                        [&probes](benchmark::State& state) {
                          RunMultiplyAdd(state, probes.multiply_add_bfloat16);
                        });
    }
    for (const std::string level : {"l1", "l2", "l3", "dram"}) {
      RegisterOnThreads("Bandwidth/" + level + "/" + isa,
                        [&probes, level](benchmark::State& state) {
                          RunRead(state, probes, level);
                        });
    }
  }
}

}  // namespace rnn
