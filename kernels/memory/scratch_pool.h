// Scratch memory that one call hands on to the next: memory fresh from the
// system is cleared page by page when it is first touched, which took up to a
// fifth of a call.
#ifndef KERNELS_MEMORY_SCRATCH_POOL_H_
#define KERNELS_MEMORY_SCRATCH_POOL_H_

#include <cstdint>
#include <mutex>
#include <vector>

namespace tf_cudnn_rnn {

// Keeps as many blocks as there have been calls at once, and of what they
// needed no more than kMaxKeptBytes. A block that was far too large for many
// calls in a row goes back to the system, and so do all of them where it has
// none left. All functions may be called from any thread.
class ScratchPool {
 public:
  static constexpr int64_t kMaxKeptBytes = int64_t{512} << 20;
  // Far too large is a block that has so many times what a call asks for, and
  // many calls are so many.
  static constexpr int64_t kFarTooLarge = 4;
  static constexpr int kManyCalls = 64;

  struct Block {
    void* memory = nullptr;  // aligned to its pages, huge ones if it has any
    int64_t bytes = 0;
    int calls_too_large = 0;  // the last so many
  };

  ScratchPool() = default;
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  // The one of this process, which is never destroyed. A forked child has a new
  // one: some thread of its parent's may have been changing the other.
  static ScratchPool& OfProcess();

  // A block of at least `bytes` bytes, whose contents do not matter; its memory
  // is nullptr if the system has none.
  Block Take(int64_t bytes);
  void Return(Block block);

  // Gives all that is kept back to the system; returns how many bytes that was.
  int64_t Release();

  int64_t kept_bytes() const;

 private:
  // Whether the block is kept; if not, it is the caller's.
  bool TryKeep(const Block& block);

  mutable std::mutex mutex_;
  std::vector<Block> kept_;  // by size, least first
};

// A block for as long as this object lives.
class Scratch {
 public:
  explicit Scratch(int64_t bytes, ScratchPool& pool = ScratchPool::OfProcess())
      : pool_(pool), block_(pool.Take(bytes)) {}
  ~Scratch() { pool_.Return(block_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // nullptr if the system had none.
  void* data() const { return block_.memory; }

 private:
  ScratchPool& pool_;
  const ScratchPool::Block block_;
};

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_MEMORY_SCRATCH_POOL_H_
