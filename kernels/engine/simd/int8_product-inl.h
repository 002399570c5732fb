// Products of floats with int8 weights. Include a vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_INT8_PRODUCT_INL_H_
#define KERNELS_ENGINE_SIMD_INT8_PRODUCT_INL_H_

#include <stdint.h>
#include <string.h>

#include "kernels/engine/simd/conversions-inl.h"
#include "kernels/engine/simd/lanes-inl.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/simd/unroll-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// ---- Left operands ----------------------------------------------------------

// Rows whose largest magnitude is below this are zeros: its inverse times any
// integer is still finite.
constexpr float kLeastRounded = 0x1p-100f;

void RoundRow(const float* row, int64_t depth, int16_t* out, float* scale) {
  // Magnitudes are ordered as their bits are, NaN last.
  uint32_t bits = 0;
  for (int64_t k = 0; k < depth; ++k) {
    const uint32_t magnitude = FloatBits(row[k]) & 0x7fffffffu;
    bits = magnitude > bits ? magnitude : bits;
  }
  const float largest = FloatFromBits(bits);
  const int64_t padded = PaddedInt8Depth(depth);
  const bool is_finite = bits < 0x7f800000u;
  if (!is_finite || largest < kLeastRounded) {
    memset(out, 0, padded * sizeof(int16_t));
    *scale = is_finite ? 0.0f : __builtin_nanf("");
    return;
  }
  const float limit = static_cast<float>(Int8RowLimit(depth));
  *scale = largest / limit;
  const float inverse = limit / largest;
  // Among floats of this size neighbours are 1 apart: the sum is rounded to
  // an integer, to nearest even, and its last bits are that integer's.
  constexpr float kRounds = 0x1.8p23f;
  constexpr uint32_t kRoundsBits = 0x4b400000u;
  for (int64_t k = 0; k < depth; ++k) {
    out[k] = static_cast<int16_t>(FloatBits(row[k] * inverse + kRounds) -
                                  kRoundsBits);
  }
  for (int64_t k = depth; k < padded; ++k) out[k] = 0;
}

// ---- Products ---------------------------------------------------------------

// A tile is so many sums of integers: 4 rows of A or fewer, and 4 or 8 columns
// of B, each a stream of memory.
constexpr int kInt8Rows = kIntegerSums / 4 < 4 ? kIntegerSums / 4 : 4;
constexpr int Int8Columns(int rows) { return 8 * rows <= kIntegerSums ? 8 : 4; }

// c of a row of A and columns [column, column + kColumns), of which there are
// `count`.
template <int kColumns>
inline void StoreInt8(const Int8Product& p, int64_t row, int64_t column,
                      int count, const int32_t (&sums)[kColumns]) {
  float* c = p.c[row] + p.c_offset + column;
  const float* first = p.accumulate        ? c
                       : p.bias != nullptr ? p.bias + column
                                           : nullptr;
  const float row_scale = p.a_scales[row];
  const float* scales = p.b_scales + column;
  const auto store = [&](int columns) RNN_ALWAYS_INLINE {
    if (first == nullptr) {
      for (int j = 0; j < columns; ++j) {
        c[j] = static_cast<float>(sums[j]) * (row_scale * scales[j]);
      }
    } else {
      for (int j = 0; j < columns; ++j) {
        c[j] = first[j] + static_cast<float>(sums[j]) * (row_scale * scales[j]);
      }
    }
  };
  if (count == kColumns) {
    store(kColumns);
  } else {
    store(count);
  }
}

template <int kRows>
inline void MultiplyInt8Tile(const Int8Product& p, int64_t row,
                             int64_t column) {
  constexpr int kColumns = Int8Columns(kRows);
  constexpr int64_t kStep = IntegerSums::kDepth;
  const int64_t left = p.columns - column;
  const int count = left < kColumns ? static_cast<int>(left) : kColumns;
  const int16_t* rows[kRows];
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    rows[m.value] = p.a + (row + m.value) * p.a_stride;
  });
  // A missing column is read as the first one; its sums are not stored.
  const int8_t* columns[kColumns];
  Unroll<kColumns>([&](auto j) RNN_ALWAYS_INLINE {
    columns[j.value] =
        p.b + (column + (j.value < count ? j.value : 0)) * p.depth;
  });
  IntegerSums sums[kRows][kColumns];
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    Unroll<kColumns>([&](auto j) RNN_ALWAYS_INLINE {
      sums[m.value][j.value] = IntegerSums::Zero();
    });
  });
  const auto add = [&](int64_t k, auto load) RNN_ALWAYS_INLINE {
    IntegerSums::Wide a[kRows];
    Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
      a[m.value] = IntegerSums::Load(rows[m.value] + k);
    });
    Unroll<kColumns>([&](auto j) RNN_ALWAYS_INLINE {
      const IntegerSums::Wide b = load(columns[j.value] + k);
      Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
        sums[m.value][j.value].MulAdd(a[m.value], b);
      });
    });
  };
  const auto load_all = [](const int8_t* b)
                            RNN_ALWAYS_INLINE { return IntegerSums::Load(b); };
  // A line of each column at a time, and of the columns of the next tile, which
  // the first rows fetch for all. Behind B nothing is read.
  constexpr int64_t kLine = 64;
  const int64_t ahead = row == 0 ? kColumns * p.depth : 0;
  int64_t k = 0;
  for (; k + kLine <= p.depth; k += kLine) {
    Unroll<kColumns>([&](auto j) RNN_ALWAYS_INLINE {
      __builtin_prefetch(columns[j.value] + ahead + k);
    });
    Unroll<kLine / kStep>(
        [&](auto i) RNN_ALWAYS_INLINE { add(k + i.value * kStep, load_all); });
  }
  for (; k + kStep <= p.depth; k += kStep) add(k, load_all);
  if (k < p.depth) {
    const int64_t rest = p.depth - k;
    add(k, [&](const int8_t* b)
               RNN_ALWAYS_INLINE { return IntegerSums::Load(b, rest); });
  }
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    int32_t totals[kColumns];
    Unroll<kColumns / 4>([&](auto j) RNN_ALWAYS_INLINE {
      IntegerSums::SumLanes(sums[m.value] + 4 * j.value, totals + 4 * j.value);
    });
    StoreInt8(p, row + m.value, column, count, totals);
  });
}

// Rows that are multiplied together stay in L1 while columns come by, and a
// panel of these in L2 while rows do.
void MultiplyInt8(const Int8Product& p) {
  ForEachTile<kInt8Rows>(p.rows, [&](int64_t row, auto row_count) {
    constexpr int kRows = decltype(row_count)::value;
    for (int64_t j = 0; j < p.columns; j += Int8Columns(kRows)) {
      MultiplyInt8Tile<kRows>(p, row, j);
    }
  });
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_INT8_PRODUCT_INL_H_
