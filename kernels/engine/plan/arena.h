// Hands out pieces of one scratch block. Run once on nullptr to learn the size,
// then on the block: the plan and its use are the same code.
#ifndef KERNELS_ENGINE_PLAN_ARENA_H_
#define KERNELS_ENGINE_PLAN_ARENA_H_

#include <algorithm>
#include <cstdint>
#include <limits>

namespace rnn {

class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<char*>(base)) {}

  // Room for `count` values, aligned to a cache line, uninitialised.
  template <typename Value>
  Value* Take(int64_t count) {
    constexpr int64_t kAlignment = 64;
    constexpr int64_t kMaxBytes = std::numeric_limits<int64_t>::max() / 4;
    if (overflow_ || count > kMaxBytes / int64_t{sizeof(Value)} ||
        bytes_ > kMaxBytes) {
      overflow_ = true;
      return nullptr;
    }
    char* piece = base_ == nullptr ? nullptr : base_ + bytes_;
    const int64_t size = count * int64_t{sizeof(Value)};
    bytes_ += (size + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<Value*>(piece);
  }

  // Calls `takes`, which take pieces. If `in_one_place`, those of each lie
  // where those of the others do, and only one of them may be in use at a time.
  template <typename... Takes>
  void TakeInOnePlace(bool in_one_place, const Takes&... takes) {
    const int64_t begin = bytes_;
    int64_t end = begin;
    const auto call = [&](const auto& take) {
      if (in_one_place) bytes_ = begin;
      take();
      end = std::max(end, bytes_);
    };
    (call(takes), ...);
    bytes_ = end;
  }

  // Taken so far; -1 if the sum overflowed.
  int64_t bytes() const { return overflow_ ? -1 : bytes_; }

 private:
  char* base_;
  int64_t bytes_ = 0;
  bool overflow_ = false;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_ARENA_H_
