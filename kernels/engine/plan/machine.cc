#include "kernels/engine/plan/machine.h"

#include <unistd.h>

namespace rnn {

int64_t CoreCacheBytes() {
  constexpr int64_t kUsual = int64_t{1} << 20;
#ifdef _SC_LEVEL2_CACHE_SIZE
  static const int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (bytes > 0) return bytes;
#endif
  return kUsual;  // some systems do not tell
}

Machine Machine::Here(int num_threads) {
  Machine machine;
  machine.num_threads = num_threads;
  machine.core_cache_bytes = CoreCacheBytes();
  return machine;
}

}  // namespace rnn
