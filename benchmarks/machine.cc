#include "benchmarks/machine.h"

#include <benchmark/benchmark.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <thread>
#include <tuple>
#include <utility>

#include "benchmarks/probes.h"
#include "tests/engine/float_mode.h"
#include "tests/engine/thread_pool.h"

namespace rnn {

namespace {

// The CPUs that the process may use.
int NumCpus() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0
             ? CPU_COUNT(&allowed)
             : std::max(1,
                        static_cast<int>(std::thread::hardware_concurrency()));
}

int& NumThreads() {
  static int num_threads = NumCpus();
  return num_threads;
}

// All threads but the calling one. It lives as long as the program.
ThreadPool& Pool() {
  static auto* const pool = new ThreadPool(NumThreads() - 1, FlushDenormals);
  return *pool;
}

// Of data, respectively unified.
const benchmark::CPUInfo::CacheInfo* FindCache(int level) {
  for (const auto& cache : benchmark::CPUInfo::Get().caches) {
    if (cache.level == level && cache.type != "Instruction") return &cache;
  }
  return nullptr;
}

// Keeps the calling thread on one of the CPUs that it may use: on a machine
// that is not idle, the system would wake a thread where its waker runs.
class OnCpu {
 public:
  explicit OnCpu(int index) {
    if (sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) return;
    const int num_allowed = CPU_COUNT(&allowed_);
    int cpu = 0;
    for (int left = index % num_allowed; left > 0 || !CPU_ISSET(cpu, &allowed_);
         ++cpu) {
      if (CPU_ISSET(cpu, &allowed_)) --left;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    is_set_ = sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~OnCpu() {
    if (is_set_) sched_setaffinity(0, sizeof allowed_, &allowed_);
  }
  OnCpu(const OnCpu&) = delete;
  OnCpu& operator=(const OnCpu&) = delete;

 private:
  cpu_set_t allowed_;
  bool is_set_ = false;
};

template <typename F>
double MeasurePeak(double (*multiply_add)(int64_t, F*), int num_threads) {
  constexpr int64_t kRounds = 500000;  // some milliseconds
  double best = 0;
  for (int repetition = 0; repetition < 5; ++repetition) {
    std::atomic<double> flops{0};
    const double seconds = SecondsOnThreads(num_threads, [&](int) {
      F sink;
      flops = multiply_add(kRounds, &sink);
      benchmark::DoNotOptimize(sink);
    });
    best = std::max(best, flops * num_threads / seconds);
  }
  return best;
}

}  // namespace

void SetNumThreads(int num_threads) { NumThreads() = num_threads; }

std::vector<int> ThreadCounts() {
  if (NumThreads() == 1) return {1};
  return {1, NumThreads()};
}

int64_t CacheBytes(int level) {
  const auto* cache = FindCache(level);
  if (cache != nullptr) return cache->size;
  // Of machines that do not tell.
  constexpr int64_t kUsual[] = {int64_t{32} << 10, int64_t{1} << 20,
                                int64_t{32} << 20};
  return kUsual[level - 1];
}

int ThreadsPerLastLevelCache() {
  const auto* cache = FindCache(3);
  return cache == nullptr ? NumThreads() : std::max(1, cache->num_sharing);
}

Team MakeTeam(int num_threads) {
  return Team(num_threads, Pool().AsSchedule());
}

double SecondsOnThreads(int num_threads, const std::function<void(int)>& task) {
  using Clock = std::chrono::steady_clock;
  std::atomic<int> num_arrived{0}, num_done{0};
  const auto run = [&](int i) {
    {
      const OnCpu on_cpu(i);
      ++num_arrived;
      while (num_arrived < num_threads) std::this_thread::yield();
      task(i);
    }
    ++num_done;
  };
  for (int i = 1; i < num_threads; ++i) Pool().Schedule([&, i] { run(i); });
  const OnCpu on_cpu(0);
  while (num_arrived < num_threads - 1) std::this_thread::yield();
  const auto begin = Clock::now();
  run(0);
  while (num_done < num_threads) std::this_thread::yield();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double PeakFlops(const SimdTarget& target, ElementType type, int num_threads) {
  const Probes& probes = *ProbesOf(target.name);
  const bool has_bfloat16 = probes.multiply_add_bfloat16 != nullptr;
  if (type == ElementType::kHalf ||
      (type == ElementType::kBFloat16 && !has_bfloat16)) {
    type = ElementType::kFloat;
  }
  static auto* const peaks =
      new std::map<std::tuple<const SimdTarget*, ElementType, int>, double>;
  double& peak = (*peaks)[{&target, type, num_threads}];
  if (peak == 0) {
    peak = type == ElementType::kDouble
               ? MeasurePeak(probes.multiply_add_double, num_threads)
           : type == ElementType::kBFloat16
               ? MeasurePeak(probes.multiply_add_bfloat16, num_threads)
               : MeasurePeak(probes.multiply_add_float, num_threads);
  }
  return peak;
}

}  // namespace rnn
