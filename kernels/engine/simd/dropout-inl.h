// Dropout of rows. Loops over so many counters at a time, of as many rows as
// have them, that the compiler makes vectors of them. Include a vec_<isa>.h
// first.
#ifndef KERNELS_ENGINE_SIMD_DROPOUT_INL_H_
#define KERNELS_ENGINE_SIMD_DROPOUT_INL_H_

#include <stdint.h>
#include <string.h>

#include "kernels/engine/simd/conversions-inl.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "network/element_types.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// GCC 12 unrolls shorter loops instead.
constexpr int kRandomBlocks = 32;
constexpr int kWordsPerBlock = 4;
constexpr int kRandomWords = kRandomBlocks * kWordsPerBlock;

struct RandomCounters {
  uint32_t block[kRandomBlocks];
  uint32_t batch_row[kRandomBlocks];
  uint32_t time[kRandomBlocks];
};

// Philox4x32-10 of the counters, one after another.
inline void RandomWords(const RandomCounters& counters, uint32_t layer,
                        uint64_t key, uint32_t (&words)[kRandomWords]) {
  constexpr int kRounds = 10;
  uint32_t a[kRandomBlocks], b[kRandomBlocks], c[kRandomBlocks],
      d[kRandomBlocks];
  for (int i = 0; i < kRandomBlocks; ++i) {
    a[i] = counters.block[i];
    b[i] = counters.batch_row[i];
    c[i] = counters.time[i];
    d[i] = layer;
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
void LoadValues(const F* in, F* out, int64_t count) {
  memcpy(out, in, count * sizeof *in);
}
inline void LoadValues(const BFloat16* in, float* out, int64_t count) {
  BFloat16ToFloat(&in->bits, out, count);
}
template <typename F>
void StoreValues(const F* in, F* out, int64_t count) {
  memcpy(out, in, count * sizeof *in);
}
inline void StoreValues(const float* in, BFloat16* out, int64_t count) {
  FloatToBFloat16(in, &out->bits, count);
}

// Blocks of rows, one row after another.
template <typename Operand>
class DroppedBlocks {
 public:
  explicit DroppedBlocks(const DropoutRows<Operand>& d)
      : d_(d),
        blocks_per_row_((d.features + kWordsPerBlock - 1) / kWordsPerBlock) {}

  bool at_end() const { return row_ == d_.count; }

  // Passes the next kRandomBlocks, or those that are left, calling
  // piece(row, its first block, place among those passed, blocks) for each row
  // that has some of them.
  template <typename Piece>
  void Pass(Piece piece) {
    for (int64_t place = 0; place < kRandomBlocks && !at_end();) {
      const int64_t left_of_row = blocks_per_row_ - block_;
      const int64_t room = kRandomBlocks - place;
      const int64_t blocks = left_of_row < room ? left_of_row : room;
      piece(d_.rows[row_], block_, place, blocks);
      place += blocks;
      block_ += blocks;
      if (block_ < blocks_per_row_) continue;
      block_ = 0;
      ++row_;
    }
  }

 private:
  const DropoutRows<Operand>& d_;
  const int64_t blocks_per_row_;
  int64_t row_ = 0;
  int64_t block_ = 0;
};

template <typename Operand>
void DropOut(const DropoutRows<Operand>& d) {
  using F = ComputeType<Operand>;
  if (d.min_kept_word >> 32 != 0) {
    for (int64_t i = 0; i < d.count; ++i) {
      memset(d.rows[i].values, 0, d.features * sizeof(Operand));
    }
    return;
  }
  const uint32_t min_kept_word = static_cast<uint32_t>(d.min_kept_word);
  const auto features_of = [&](int64_t block, int64_t blocks) {
    const int64_t left = d.features - block * kWordsPerBlock;
    const int64_t words = blocks * kWordsPerBlock;
    return left < words ? left : words;
  };
  DroppedBlocks<Operand> loaded(d);
  DroppedBlocks<Operand> stored(d);
  while (!loaded.at_end()) {
    RandomCounters counters = {};
    F values[kRandomWords] = {};
    loaded.Pass([&](const DroppedRow<Operand>& row, int64_t block,
                    int64_t place, int64_t blocks) {
      for (int64_t i = 0; i < blocks; ++i) {
        counters.block[place + i] = static_cast<uint32_t>(block + i);
        counters.batch_row[place + i] = row.batch_row;
        counters.time[place + i] = row.time;
      }
      LoadValues(row.values + block * kWordsPerBlock,
                 values + place * kWordsPerBlock, features_of(block, blocks));
    });
    uint32_t words[kRandomWords];
    RandomWords(counters, d.layer, d.key, words);
    // In one loop the compiler would branch around the product.
    for (int i = 0; i < kRandomWords; ++i) values[i] = values[i] * d.scale;
    for (int i = 0; i < kRandomWords; ++i) {
      values[i] = words[i] >= min_kept_word ? values[i] : F{0};
    }
    stored.Pass([&](const DroppedRow<Operand>& row, int64_t block,
                    int64_t place, int64_t blocks) {
      StoreValues(values + place * kWordsPerBlock,
                  row.values + block * kWordsPerBlock,
                  features_of(block, blocks));
    });
  }
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_DROPOUT_INL_H_
