// What of the machine decides how work is cut up, never what is computed.
#ifndef KERNELS_ENGINE_PLAN_MACHINE_H_
#define KERNELS_ENGINE_PLAN_MACHINE_H_

#include <cstdint>

namespace rnn {

struct Machine {
  int num_threads = 1;           // that a call may have
  int64_t core_cache_bytes = 0;  // of the second level, which a core has alone
  // Whether the other threads wait for calls, as a crew does (threads/team.h).
  bool has_crew = false;

  // This one.
  static Machine Here(int num_threads);
};

// Bytes of this machine's second-level cache.
int64_t CoreCacheBytes();

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_MACHINE_H_
