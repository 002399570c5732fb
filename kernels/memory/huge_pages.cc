#include "kernels/memory/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace tf_cudnn_rnn {

void PreferHugePages([[maybe_unused]] void* memory,
                     [[maybe_unused]] int64_t bytes) {
#ifdef MADV_HUGEPAGE
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first =
      (begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const uintptr_t end = (begin + bytes) / kHugePageBytes * kHugePageBytes;
  if (first >= end) return;
  // Advice: a failure changes nothing.
  static_cast<void>(
      madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE));
#endif
}

}  // namespace tf_cudnn_rnn
