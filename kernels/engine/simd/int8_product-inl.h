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

// A tile is so many sums of integers: 4 rows of A or fewer, and one group of
// columns of B or two, each column a stream of memory.
constexpr int kInt8Group = 4;  // columns whose sums are stored together
constexpr int kInt8Rows =
    kIntegerSums / kInt8Group < 4 ? kIntegerSums / kInt8Group : 4;
constexpr int Int8Columns(int rows) {
  return (2 * kInt8Group * rows <= kIntegerSums ? 2 : 1) * kInt8Group;
}

// c of a row of A and the group of columns from `column` on, or of the `count`
// columns that are left, if they are fewer. It is computed of copies, which
// nothing overlaps, and of a whole group, so that it is a vector.
inline void StoreInt8(const Int8Product& p, int64_t row, int64_t column,
                      int64_t count, const int32_t (&sums)[kInt8Group]) {
  float* c = p.c[row] + p.c_offset + column;
  const float* scales = p.b_scales + column;
  const float* first = p.accumulate        ? c
                       : p.bias != nullptr ? p.bias + column
                                           : nullptr;
  const bool is_whole = count >= kInt8Group;
  const auto copy = [&](const float* from, float* to) RNN_ALWAYS_INLINE {
    if (is_whole) {
      memcpy(to, from, kInt8Group * sizeof(float));
    } else {
      memcpy(to, from, count * sizeof(float));
    }
  };
  float values[kInt8Group] = {};
  copy(scales, values);
  const float row_scale = p.a_scales[row];
  for (int j = 0; j < kInt8Group; ++j) {
    values[j] = static_cast<float>(sums[j]) * (row_scale * values[j]);
  }
  if (first != nullptr) {
    float firsts[kInt8Group] = {};
    copy(first, firsts);
    for (int j = 0; j < kInt8Group; ++j) values[j] = firsts[j] + values[j];
  }
  copy(values, c);
}

// Adds the products of a step's depth. Column j starts at b + offsets[j]; if
// kIsLast, it has only `left` values.
template <bool kIsLast, int kRows, int kColumns>
RNN_ALWAYS_INLINE inline void AddInt8Step(
    const int16_t* a, int64_t stride, const int8_t* b,
    const int64_t (&offsets)[kColumns], int64_t left,
    IntegerSums (&sums)[kRows][kColumns]) {
  IntegerSums::Wide rows[kRows];
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    rows[m.value] = IntegerSums::Load(a + m.value * stride);
  });
  Unroll<kColumns>([&](auto j) RNN_ALWAYS_INLINE {
    const int8_t* values = b + offsets[j.value];
    const IntegerSums::Wide column =
        kIsLast ? IntegerSums::Load(values, left) : IntegerSums::Load(values);
    Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
      sums[m.value][j.value].MulAdd(rows[m.value], column);
    });
  });
}

// The tile of columns [column, column + count).
template <int kRows>
inline void MultiplyInt8Tile(const Int8Product& p, int64_t row, int64_t column,
                             int64_t count) {
  constexpr int kColumns = Int8Columns(kRows);
  constexpr int64_t kStep = IntegerSums::kDepth;
  const int64_t depth = p.depth;
  const int16_t* a = p.a + row * p.a_stride;
  const int8_t* b = p.b + column * depth;
  int64_t offsets[kColumns];
  Unroll<kColumns>([&](auto j) RNN_ALWAYS_INLINE {
    // A missing column is read as the first one; its sums are not stored.
    offsets[j.value] = j.value < count ? j.value * depth : 0;
    // Else GCC asks for the count in the loops, or has a loop for each count.
    asm("" : "+r"(offsets[j.value]));
  });
  IntegerSums sums[kRows][kColumns];
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    Unroll<kColumns>([&](auto j) RNN_ALWAYS_INLINE {
      sums[m.value][j.value] = IntegerSums::Zero();
    });
  });
  // A line of each column at a time, and of the columns of the next tile, which
  // the first rows fetch for all.
  constexpr int64_t kLine = 64;
  const int64_t ahead = row == 0 ? kColumns * depth : 0;
  int64_t left = depth;
  for (; left >= kLine; left -= kLine) {
    const int8_t* next = b + ahead;
    Unroll<kColumns>([&](auto j) RNN_ALWAYS_INLINE {
      __builtin_prefetch(next + offsets[j.value]);
    });
    Unroll<kLine / kStep>([&](auto i) RNN_ALWAYS_INLINE {
      AddInt8Step<false>(a + i.value * kStep, p.a_stride, b + i.value * kStep,
                         offsets, left, sums);
    });
    a += kLine;
    b += kLine;
  }
  for (; left >= kStep; left -= kStep) {
    AddInt8Step<false>(a, p.a_stride, b, offsets, left, sums);
    a += kStep;
    b += kStep;
  }
  if (left > 0) {
    // What lies behind a column meets A's zeros. Behind B nothing is read.
    const int64_t columns_behind =
        p.columns + p.columns_behind - column - count;
    if (left + columns_behind * depth >= kStep) {
      AddInt8Step<false>(a, p.a_stride, b, offsets, left, sums);
    } else {
      AddInt8Step<true>(a, p.a_stride, b, offsets, left, sums);
    }
  }
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    Unroll<kColumns / kInt8Group>([&](auto group) RNN_ALWAYS_INLINE {
      constexpr int kFirst = group.value * kInt8Group;
      if (kFirst >= count) return;
      int32_t totals[kInt8Group];
      IntegerSums::SumLanes(sums[m.value] + kFirst, totals);
      StoreInt8(p, row + m.value, column + kFirst, count - kFirst, totals);
    });
  });
}

// Rows that are multiplied together stay in L1 while columns come by, and a
// panel of these in L2 while rows do.
void MultiplyInt8(const Int8Product& p) {
  ForEachTile<kInt8Rows>(p.rows, [&](int64_t row, auto row_count) {
    constexpr int kRows = decltype(row_count)::value;
    constexpr int kColumns = Int8Columns(kRows);
    for (int64_t j = 0; j < p.columns; j += kColumns) {
      const int64_t left = p.columns - j;
      MultiplyInt8Tile<kRows>(p, row, j, left < kColumns ? left : kColumns);
    }
  });
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_INT8_PRODUCT_INL_H_
