// Dropout of a row. Loops over so many counters at a time that the compiler
// makes vectors of them. Include a vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_DROPOUT_INL_H_
#define KERNELS_ENGINE_SIMD_DROPOUT_INL_H_

#include <stdint.h>
#include <string.h>

#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// GCC 12 unrolls shorter loops instead.
constexpr int kRandomBlocks = 32;
constexpr int kWordsPerBlock = 4;
constexpr int kRandomWords = kRandomBlocks * kWordsPerBlock;

// Philox4x32-10 of the counters (first_block + i, counter...), one after
// another.
inline void RandomWords(uint32_t first_block, const uint32_t (&counter)[3],
                        uint64_t key, uint32_t (&words)[kRandomWords]) {
  constexpr int kRounds = 10;
  uint32_t a[kRandomBlocks], b[kRandomBlocks], c[kRandomBlocks],
      d[kRandomBlocks];
  for (int i = 0; i < kRandomBlocks; ++i) {
    a[i] = first_block + static_cast<uint32_t>(i);
    b[i] = counter[0];
    c[i] = counter[1];
    d[i] = counter[2];
  }
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kRandomBlocks; ++i) {
      const uint64_t product0 = uint64_t{0xD2511F53u} * a[i];
      const uint64_t product1 = uint64_t{0xCD9E8D57u} * c[i];
      a[i] = static_cast<uint32_t>(product1 >> 32) ^ b[i] ^ key0;
      b[i] = static_cast<uint32_t>(product1);
      c[i] = static_cast<uint32_t>(product0 >> 32) ^ d[i] ^ key1;
      d[i] = static_cast<uint32_t>(product0);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int i = 0; i < kRandomBlocks; ++i) {
    uint32_t* block = words + i * kWordsPerBlock;
    block[0] = a[i];
    block[1] = b[i];
    block[2] = c[i];
    block[3] = d[i];
  }
}

template <typename F>
void DropOut(const DropoutRow<F>& row) {
  const bool keeps_nothing = row.min_kept_word >> 32 != 0;
  const uint32_t min_kept_word = static_cast<uint32_t>(row.min_kept_word);
  for (int64_t j = 0; j < row.count; j += kRandomWords) {
    const int64_t left = row.count - j;
    const int64_t count = left < kRandomWords ? left : kRandomWords;
    // Apart from `in` and `out`, which may be the same.
    F values[kRandomWords] = {};
    if (!keeps_nothing) {
      uint32_t words[kRandomWords];
      RandomWords(static_cast<uint32_t>((row.first + j) / kWordsPerBlock),
                  row.counter, row.key, words);
      memcpy(values, row.in + j, count * sizeof(F));
      // In one loop the compiler would branch around the product.
      for (int i = 0; i < kRandomWords; ++i) values[i] = values[i] * row.scale;
      for (int i = 0; i < kRandomWords; ++i) {
        values[i] = words[i] >= min_kept_word ? values[i] : F{0};
      }
    }
    memcpy(row.out + j, values, count * sizeof(F));
  }
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_DROPOUT_INL_H_
