// What fuzz targets share. A target is a file that defines
// LLVMFuzzerTestOneInput(); libFuzzer, or replay_main.cc, calls it.
#ifndef TESTS_FUZZ_ENGINE_FUZZ_H_
#define TESTS_FUZZ_ENGINE_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace rnn {
namespace fuzz {

[[noreturn]] inline void Fail(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
  std::abort();
}

}  // namespace fuzz
}  // namespace rnn

// Ends the program, so that the fuzzer keeps the input, unless the condition
// holds.
#define FUZZ_REQUIRE(condition)                          \
  do {                                                   \
    if (!(condition)) {                                  \
      ::rnn::fuzz::Fail(__FILE__, __LINE__, #condition); \
    }                                                    \
  } while (false)

#endif  // TESTS_FUZZ_ENGINE_FUZZ_H_
