// The cases of cases.csv, which the Python side of the benchmark reads, too.
#ifndef BENCHMARKS_BENCHMARK_CASES_H_
#define BENCHMARKS_BENCHMARK_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "network/descriptor.h"
#include "network/status.h"

namespace rnn {

struct BenchmarkCase {
  std::string name;
  std::vector<std::string> sets;
  RnnDescriptor descriptor;
  int64_t seq_length = 0;  // T
  int64_t batch = 0;       // B

  bool IsIn(const std::string& set) const;
};

// The error names the line, the field and what came.
Status ReadBenchmarkCases(const std::string& path,
                          std::vector<BenchmarkCase>* cases);

// Lengths of a ragged batch: evenly spread from 0.2 T to T in no order, so that
// their mean is 0.6 T but for rounding. A single row has 0.6 T.
std::vector<int32_t> RaggedLengths(const BenchmarkCase& benchmark_case);

// Floating-point operations of a forward pass over `valid_steps` steps of rows:
// those of the matrix products, two for a multiply-add. Backward has twice as
// many.
double ForwardFlops(const RnnDescriptor& descriptor, int64_t valid_steps);

}  // namespace rnn

#endif  // BENCHMARKS_BENCHMARK_CASES_H_
