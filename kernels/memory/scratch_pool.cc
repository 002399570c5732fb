#include "kernels/memory/scratch_pool.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>
#include <new>
#include <vector>

#include "kernels/memory/huge_pages.h"

namespace tf_cudnn_rnn {

namespace {

using Block = ScratchPool::Block;

// Small blocks are rounded up to this, large ones to whole huge pages.
constexpr int64_t kSmallBytes = int64_t{1} << 16;

Block NewBlock(int64_t bytes) {
  const int64_t unit = bytes < kHugePageBytes ? kSmallBytes : kHugePageBytes;
  if (bytes > std::numeric_limits<int64_t>::max() - 2 * unit) return {};
  const int64_t size = std::max<int64_t>(1, (bytes + unit - 1) / unit) * unit;
  // More than that, of which the ends go back: huge pages are aligned.
  const int64_t slack = unit == kHugePageBytes ? kHugePageBytes : 0;
  void* const mapped = mmap(nullptr, size + slack, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return {};
  char* memory = static_cast<char*>(mapped);
  if (slack > 0) {
    const int64_t before =
        -reinterpret_cast<uintptr_t>(memory) % kHugePageBytes;
    if (before > 0) munmap(memory, before);
    memory += before;
    if (slack > before) munmap(memory + size, slack - before);
    PreferHugePages(memory, size);
  }
  return {memory, size};
}

void Free(const Block& block) {
  if (block.memory != nullptr) munmap(block.memory, block.bytes);
}

int64_t BytesOf(const std::vector<Block>& blocks) {
  int64_t bytes = 0;
  for (const Block& block : blocks) bytes += block.bytes;
  return bytes;
}

bool IsSmaller(const Block& a, const Block& b) { return a.bytes < b.bytes; }

// Made as the library is loaded, and anew in a forked child, whose memory still
// has all that its parent's keeps.
ScratchPool* of_process = new ScratchPool;
[[maybe_unused]] const int kRegistered =
    pthread_atfork(nullptr, nullptr, [] { of_process = new ScratchPool; });

}  // namespace

ScratchPool::~ScratchPool() { Release(); }

ScratchPool& ScratchPool::OfProcess() { return *of_process; }

Block ScratchPool::Take(int64_t bytes) {
  Block block, too_small;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::lower_bound(kept_.begin(), kept_.end(),
                                        Block{nullptr, bytes}, IsSmaller);
    if (found != kept_.end()) {
      block = *found;
      kept_.erase(found);
    } else if (!kept_.empty()) {
      // The new block will be in its place.
      too_small = kept_.back();
      kept_.pop_back();
    }
  }
  Free(too_small);
  if (block.memory == nullptr) {
    block = NewBlock(bytes);
    if (block.memory == nullptr && Release() > 0) block = NewBlock(bytes);
    return block;
  }
  const bool is_far_too_large = block.bytes / kFarTooLarge > bytes;
  block.calls_too_large = is_far_too_large ? block.calls_too_large + 1 : 0;
  return block;
}

void ScratchPool::Return(Block block) {
  if (block.memory != nullptr && !TryKeep(block)) Free(block);
}

bool ScratchPool::TryKeep(const Block& block) {
  if (block.calls_too_large >= kManyCalls) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (BytesOf(kept_) + block.bytes > kMaxKeptBytes) return false;
  try {
    kept_.insert(std::upper_bound(kept_.begin(), kept_.end(), block, IsSmaller),
                 block);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

int64_t ScratchPool::Release() {
  std::vector<Block> released;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    released.swap(kept_);
  }
  for (const Block& block : released) Free(block);
  return BytesOf(released);
}

int64_t ScratchPool::kept_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return BytesOf(kept_);
}

}  // namespace tf_cudnn_rnn
