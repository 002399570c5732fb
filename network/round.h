// Division and multiples that round up. Not for files that are compiled for one
// instruction set: what is not inlined there would be linked for all.
#ifndef NETWORK_ROUND_H_
#define NETWORK_ROUND_H_

#include <cstdint>

namespace rnn {

// value / divisor, rounded up; of numbers that are not negative.
constexpr int64_t DivideUp(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

// The least multiple that is not below `value`.
constexpr int64_t RoundUp(int64_t value, int64_t multiple) {
  return DivideUp(value, multiple) * multiple;
}

}  // namespace rnn

#endif  // NETWORK_ROUND_H_
