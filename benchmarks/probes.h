// What the machine itself can do: its rate of multiplications and additions,
// and the bandwidth of its caches. One table per instruction set.
#ifndef BENCHMARKS_PROBES_H_
#define BENCHMARKS_PROBES_H_

#include <stdint.h>

namespace rnn {

struct Probes {
  // Multiplies and adds in registers, `rounds` times as many as there are
  // accumulators. Returns the number of floating-point operations; *sink keeps
  // the compiler from leaving them out.
  double (*multiply_add_float)(int64_t rounds, float* sink);
  double (*multiply_add_double)(int64_t rounds, double* sink);
  // Products of pairs of bfloat16, added to float; nullptr: no such
  // instruction.
  double (*multiply_add_bfloat16)(int64_t rounds, float* sink);

  // Loads all of [data, data + count), count a multiple of kReadGranule.
  void (*read)(const float* data, int64_t count);
};

inline constexpr int64_t kReadGranule = 256;

// Of an instruction set of isa.inc; nullptr if there is none of that name.
const Probes* ProbesOf(const char* isa);

}  // namespace rnn

#endif  // BENCHMARKS_PROBES_H_
