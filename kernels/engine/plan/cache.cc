#include "kernels/engine/plan/cache.h"

#include <unistd.h>

#include <cstdint>

namespace rnn {

int64_t CoreCacheBytes() {
  constexpr int64_t kUsual = int64_t{1} << 20;
#ifdef _SC_LEVEL2_CACHE_SIZE
  static const int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (bytes > 0) return bytes;
#endif
  return kUsual;  // some systems do not tell
}

}  // namespace rnn
