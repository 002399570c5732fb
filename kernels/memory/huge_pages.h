// Large pages: the system hands memory out page by page, and clears each one.
#ifndef KERNELS_MEMORY_HUGE_PAGES_H_
#define KERNELS_MEMORY_HUGE_PAGES_H_

#include <cstdint>

namespace tf_cudnn_rnn {

inline constexpr int64_t kHugePageBytes = int64_t{1} << 21;

// Asks the system for large pages where [memory, memory + bytes) has room for
// whole ones. It may decline, and some systems have none; what has been touched
// stays as it is.
void PreferHugePages(void* memory, int64_t bytes);

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_MEMORY_HUGE_PAGES_H_
