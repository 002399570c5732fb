// When a test stops waiting for what must come true.
#ifndef TESTS_ENGINE_DEADLINE_H_
#define TESTS_ENGINE_DEADLINE_H_

#include <chrono>

namespace rnn {

inline std::chrono::steady_clock::time_point In60Seconds() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(60);
}

}  // namespace rnn

#endif  // TESTS_ENGINE_DEADLINE_H_
