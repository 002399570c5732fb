// The generator of dropout masks, one counter at a time.
#ifndef TESTS_ENGINE_PHILOX_H_
#define TESTS_ENGINE_PHILOX_H_

#include <array>
#include <cstdint>

namespace rnn {

using Words = std::array<uint32_t, 4>;

// Philox4x32-10 of a counter (Salmon et al., SC 2011). The key's low word is
// key word 0.
inline Words Philox4x32(Words counter, uint64_t key) {
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0,
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1,
               static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace rnn

#endif  // TESTS_ENGINE_PHILOX_H_
