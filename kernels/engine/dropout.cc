#include "kernels/engine/dropout.h"

#include <algorithm>
#include <cmath>

#include "kernels/engine/elements.h"

namespace rnn {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                   uint64_t key) {
  constexpr int kRounds = 10;
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
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

template <typename Element>
void Dropout::Apply(int64_t layer, int64_t time, int64_t batch_row,
                    int64_t count, const Element* in, Element* out) const {
  using F = ComputeType<Element>;
  const uint64_t threshold = static_cast<uint64_t>(
      std::floor(static_cast<double>(probability) * 0x1p32));
  // With probability 1 nothing is kept, so the scale does not matter.
  const F scale = probability < 1 ? F{1} / (F{1} - F{probability}) : F{0};
  for (int64_t block = 0; 4 * block < count; ++block) {
    const std::array<uint32_t, 4> words = Philox4x32(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(batch_row),
         static_cast<uint32_t>(time), static_cast<uint32_t>(layer)},
        key);
    const int64_t begin = 4 * block;
    const int64_t end = std::min(begin + 4, count);
    for (int64_t j = begin; j < end; ++j) {
      const bool is_kept = words[j - begin] >= threshold;
      if constexpr (kComputesInPlace<Element>) {
        out[j] = is_kept ? in[j] * scale : F{0};
      } else {
        F value;
        Load(in + j, &value, 1);
        value = is_kept ? value * scale : F{0};
        Store(&value, out + j, 1);
      }
    }
  }
}

template void Dropout::Apply(int64_t, int64_t, int64_t, int64_t, const float*,
                             float*) const;
template void Dropout::Apply(int64_t, int64_t, int64_t, int64_t, const double*,
                             double*) const;
template void Dropout::Apply(int64_t, int64_t, int64_t, int64_t,
                             const BFloat16*, BFloat16*) const;

}  // namespace rnn
