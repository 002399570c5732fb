// Memory that notices writes beyond its ends, and makes reads there show.
#ifndef TESTS_ENGINE_GUARDED_H_
#define TESTS_ENGINE_GUARDED_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace rnn {

// All ones: NaN as float, double, binary16 and bfloat16, and no valid pointer.
inline constexpr unsigned char kPoison = 0xff;

// `size` values aligned to a cache line, between two guards. Values and guards
// begin as poison.
template <typename Value>
class Guarded {
 public:
  explicit Guarded(int64_t size)
      : size_(size), bytes_(size_bytes() + 2 * kGuard + kAlignment, kPoison) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data()) + kGuard;
    begin_ = kGuard + (kAlignment - address % kAlignment) % kAlignment;
  }
  explicit Guarded(const std::vector<Value>& values)
      : Guarded(static_cast<int64_t>(values.size())) {
    std::copy(values.begin(), values.end(), data());
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  Value* data() { return reinterpret_cast<Value*>(bytes_.data() + begin_); }
  const Value* data() const {
    return reinterpret_cast<const Value*>(bytes_.data() + begin_);
  }
  Value& operator[](int64_t i) { return data()[i]; }
  int64_t size() const { return size_; }

  std::vector<Value> values() const { return {data(), data() + size_}; }

  // Whether nobody wrote beyond the values.
  bool intact() const {
    const auto is_poison = [](unsigned char byte) { return byte == kPoison; };
    return std::all_of(bytes_.begin(), bytes_.begin() + begin_, is_poison) &&
           std::all_of(bytes_.begin() + begin_ + size_bytes(), bytes_.end(),
                       is_poison);
  }

 private:
  static constexpr int64_t kAlignment = 64;
  static constexpr int64_t kGuard = 256;

  int64_t size_bytes() const { return size_ * int64_t{sizeof(Value)}; }

  int64_t size_;
  std::vector<unsigned char> bytes_;
  int64_t begin_;
};

template <typename Value>
bool IsPoison(const Value& value) {
  unsigned char poison[sizeof value];
  std::memset(poison, kPoison, sizeof poison);
  return std::memcmp(&value, poison, sizeof poison) == 0;
}

// Equal bit for bit: NaN equals itself, and +0 differs from -0.
template <typename Value>
bool SameBits(const std::vector<Value>& a, const std::vector<Value>& b) {
  return a.size() == b.size() &&
         (a.empty() ||
          std::memcmp(a.data(), b.data(), a.size() * sizeof(Value)) == 0);
}
template <typename Value>
bool SameBits(const Value& a, const Value& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace rnn

#endif  // TESTS_ENGINE_GUARDED_H_
