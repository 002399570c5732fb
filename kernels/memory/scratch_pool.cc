#include "kernels/memory/scratch_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>
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

}  // namespace

ScratchPool::~ScratchPool() {
  for (const Block& block : kept_) Free(block);
}

ScratchPool& ScratchPool::OfProcess() {
  static auto* const pool = new ScratchPool;
  return *pool;
}

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
  if (block.memory == nullptr) return NewBlock(bytes);
  const bool is_far_too_large = block.bytes / kFarTooLarge > bytes;
  block.calls_too_large = is_far_too_large ? block.calls_too_large + 1 : 0;
  return block;
}

void ScratchPool::Return(Block block) {
  if (block.memory == nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (BytesOf(kept_) + block.bytes <= kMaxKeptBytes &&
        block.calls_too_large < kManyCalls) {
      kept_.insert(
          std::upper_bound(kept_.begin(), kept_.end(), block, IsSmaller),
          block);
      return;
    }
  }
  Free(block);
}

int64_t ScratchPool::kept_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return BytesOf(kept_);
}

}  // namespace tf_cudnn_rnn
