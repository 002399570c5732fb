// Memory that begins at a cache line.
#ifndef RUNTIME_ALIGNED_MEMORY_H_
#define RUNTIME_ALIGNED_MEMORY_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace rnn_runtime {

class AlignedMemory {
 public:
  AlignedMemory() = default;
  // Throws std::bad_alloc where there is none.
  explicit AlignedMemory(int64_t bytes)
      : memory_(std::aligned_alloc(kLine, (bytes / kLine + 1) * kLine)) {
    if (memory_ == nullptr) throw std::bad_alloc();
  }

  void* data() const { return memory_.get(); }

 private:
  static constexpr int64_t kLine = 64;

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
};

}  // namespace rnn_runtime

#endif  // RUNTIME_ALIGNED_MEMORY_H_
