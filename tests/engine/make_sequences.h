// Sequences that a test knows to be valid.
#ifndef TESTS_ENGINE_MAKE_SEQUENCES_H_
#define TESTS_ENGINE_MAKE_SEQUENCES_H_

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "network/sequences.h"

namespace rnn {

inline Sequences MakeSequences(int64_t max_time, int64_t batch,
                               const ValidSteps& steps) {
  Sequences sequences;
  if (!Sequences::Create(max_time, batch, steps, &sequences).ok()) {
    std::abort();
  }
  return sequences;
}

// `lengths` may be nullptr, as in Sequences::Create().
inline Sequences MakeSequences(int64_t max_time, int64_t batch,
                               const int32_t* lengths) {
  ValidSteps steps;
  steps.lengths = lengths;
  return MakeSequences(max_time, batch, steps);
}

inline Sequences MakeSequences(int64_t max_time,
                               const std::vector<int32_t>& lengths) {
  return MakeSequences(max_time, static_cast<int64_t>(lengths.size()),
                       lengths.data());
}

}  // namespace rnn

#endif  // TESTS_ENGINE_MAKE_SEQUENCES_H_
