// The machine under the benchmarks: its threads, caches and peak.
#ifndef BENCHMARKS_MACHINE_H_
#define BENCHMARKS_MACHINE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/team.h"

namespace rnn {

// Before anything is measured: in place of one thread for each CPU that the
// process may use.
void SetNumThreads(int num_threads);

// 1 and, if there are more, all.
std::vector<int> ThreadCounts();

// Bytes of a cache level, 1 to 3.
int64_t CacheBytes(int level);
// Of the largest level, how many of the machine's threads share one.
int ThreadsPerLastLevelCache();

// A team of the benchmarks' threads, which flush denormals.
Team MakeTeam(int num_threads);

// Calls task(0) .. task(num_threads - 1) at once, each on a thread and a CPU of
// its own, and returns the seconds from the moment when all have come to that
// when all are done.
double SecondsOnThreads(int num_threads, const std::function<void(int)>& task);

// Floating-point operations per second that so many threads reach on products
// of this type; measured once. Half is computed in float, and so is bfloat16
// where the instruction set knows no better.
double PeakFlops(const SimdTarget& target, ElementType type, int num_threads);

}  // namespace rnn

#endif  // BENCHMARKS_MACHINE_H_
