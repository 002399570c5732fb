// The bits of a float. Threads that take tiny numbers for 0, as TensorFlow's
// do, compare -1e-45 as if it were 0; its bits tell.
#ifndef NETWORK_FLOAT_BITS_H_
#define NETWORK_FLOAT_BITS_H_

#include <cstdint>
#include <cstring>

namespace rnn {

constexpr uint32_t kMinusZeroBits = 0x80000000;

inline uint32_t BitsOf(float value) {
  uint32_t bits;
  static_assert(sizeof bits == sizeof value);
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace rnn

#endif  // NETWORK_FLOAT_BITS_H_
