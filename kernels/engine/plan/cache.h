// What the machine's caches are like. It decides how work is cut up, never what
// is computed.
#ifndef KERNELS_ENGINE_PLAN_CACHE_H_
#define KERNELS_ENGINE_PLAN_CACHE_H_

#include <cstdint>

namespace rnn {

// Bytes of the second-level cache, which a core has for itself.
int64_t CoreCacheBytes();

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_CACHE_H_
