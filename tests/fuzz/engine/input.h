// The bytes that a fuzzer made, read as numbers. Whoever reads on behind their
// end gets zeros, so that every input is a case.
#ifndef TESTS_FUZZ_ENGINE_INPUT_H_
#define TESTS_FUZZ_ENGINE_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace rnn {
namespace fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  bool Flag() { return Byte() % 2 != 0; }

  // Any value of a type of plain bits.
  template <typename Value>
  Value Any() {
    unsigned char bytes[sizeof(Value)];
    for (unsigned char& byte : bytes) byte = Byte();
    Value value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }

  // In [low, high], of few numbers by one byte.
  int64_t Between(int64_t low, int64_t high) {
    const uint64_t range = static_cast<uint64_t>(high - low) + 1;
    const uint64_t value = range <= 256 ? Byte() : Any<uint32_t>();
    return low + static_cast<int64_t>(value % range);
  }

  template <typename Value, size_t kCount>
  Value OneOf(const Value (&values)[kCount]) {
    static_assert(kCount <= 256);
    return values[Byte() % kCount];
  }

  // A number that somebody may pass for a size: mostly small, at times beside a
  // power of two or a limit of a type, or anything.
  int64_t AnySize() {
    const int kind = Byte();
    if (kind < 160) return kind % 40;
    if (kind < 170) return -(kind - 159);
    if (kind < 220) {
      return (int64_t{1} << (Byte() % 63)) + Byte() % 5 - 2;
    }
    if (kind < 225) return std::numeric_limits<int64_t>::max() - Byte() % 4;
    if (kind < 230) return std::numeric_limits<int64_t>::min() + Byte() % 4;
    if (kind < 243) return Any<uint16_t>();
    if (kind < 250) return Any<int32_t>();
    return Any<int64_t>();
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace fuzz
}  // namespace rnn

#endif  // TESTS_FUZZ_ENGINE_INPUT_H_
