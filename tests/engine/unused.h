#ifndef TESTS_ENGINE_UNUSED_H_
#define TESTS_ENGINE_UNUSED_H_

#include <cstdint>
#include <cstring>

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define RNN_HAS_MEMORY_SANITIZER
#endif
#endif

namespace rnn {

// Fills memory whose contents nobody may use before writing to it.
// MemorySanitizer, where it is, watches over that.
inline void FillUnused(void* memory, int byte, int64_t bytes) {
  if (bytes == 0) return;
  std::memset(memory, byte, bytes);
#ifdef RNN_HAS_MEMORY_SANITIZER
  __msan_poison(memory, bytes);
#endif
}

}  // namespace rnn

#endif  // TESTS_ENGINE_UNUSED_H_
