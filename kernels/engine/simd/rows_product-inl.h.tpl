// Products with rows of memory, for which nothing is packed. Include a
// vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_ROWS_PRODUCT_INL_H_
#define KERNELS_ENGINE_SIMD_ROWS_PRODUCT_INL_H_

#include "kernels/engine/simd/lanes-inl.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/simd/tile-inl.h"
#include "kernels/engine/simd/unroll-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// MultiplyRows() reads B strip by strip, row by row: pieces of memory one after
// another, which the core fetches ahead by itself, as far as FetchesStrips()
// says. The strip's sums of so many rows of A lie in L1, as many vectors in
// all.
constexpr int kStripRows = 32;
constexpr int kStripSums = 512;
constexpr int kMaxTiledStripVectors = 32;
// So many values of A are in registers meanwhile: some rows, some steps.
constexpr int kStripValues = kTileVectors >= 4 ? 16 : 8;
constexpr int kStripTileRows = kStripValues / 4;

// Several tiles want a strip's rows of B to stay in L1. One tile reads them
// once: its strips have up to a page of sums.
template <typename V>
int64_t StripVectors(int64_t num_rows) {
  constexpr int64_t kPageVectors = 4096 / sizeof(V);
  const int64_t max_vectors =
      num_rows <= kStripTileRows ? kPageVectors : kMaxTiledStripVectors;
  return kStripSums / num_rows < max_vectors ? kStripSums / num_rows
                                             : max_vectors;
}

// Whether B is fetched: from beyond a core's cache, as a rule. One tile reads
// it as fast as it comes, but from memory.
template <typename Operand>
bool FetchesStrips(const RowsProduct<Operand>& p, int64_t num_rows) {
  const int64_t min_bytes = int64_t{num_rows <= kStripTileRows ? 8 : 2} << 20;
  return p.depth * p.stride * int64_t{sizeof(Operand)} >= min_bytes;
}

// sums[m * sums_stride + j] += over kSteps steps of depth, a[m] from k on
// times the rows of B that begin at b.
template <bool kFetches, int kRows, int kSteps, typename Operand, typename F>
RNN_ALWAYS_INLINE inline void AddStepsOfStrip(const Operand* const* a,
                                              int64_t k, const Operand* b,
                                              int64_t stride, int64_t columns,
                                              F* sums, int64_t sums_stride) {
  using V = Vec<F>;
  constexpr int64_t kStep = kDepthStep<Operand>;
  Vec<Operand> values[kRows][kSteps];
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    Unroll<kSteps>([&](auto i) RNN_ALWAYS_INLINE {
      values[m.value][i.value] =
          BroadcastStep(a[m.value] + k + i.value * kStep);
    });
  });
  const auto add = [&](int64_t j, auto load_step) RNN_ALWAYS_INLINE {
    V block[kRows];
    Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
      block[m.value] = V::Load(sums + m.value * sums_stride + j);
    });
    Unroll<kSteps>([&](auto i) RNN_ALWAYS_INLINE {
      Vec<Operand> weights = load_step(b + i.value * kStep * stride + j);
      Pin(weights);
      Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
        block[m.value] =
            MulAdd(values[m.value][i.value], weights, block[m.value]);
      });
    });
    Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
      block[m.value].Store(sums + m.value * sums_stride + j);
    });
  };
  int64_t j = 0;
  const auto add_whole = [&]() RNN_ALWAYS_INLINE {
    add(j, [&](const Operand* step) RNN_ALWAYS_INLINE {
      return LoadWholeStep<Operand>(
          [&](int row) { return step + row * stride; });
    });
    j += V::kLanes;
  };
  if constexpr (kFetches) {
    constexpr int64_t kLine = 64 / int64_t{sizeof(Operand)};
    const auto add_lines = [&](int64_t end, int64_t ahead) RNN_ALWAYS_INLINE {
      while (j + kLine <= end) {
        Unroll<kSteps * kStep>([&](auto row) RNN_ALWAYS_INLINE {
          __builtin_prefetch(b + row.value * stride + j + ahead, 0, HINT);
        });
        for (int64_t i = 0; i < kLine; i += V::kLanes) add_whole();
      }
    };
    // A few lines ahead in each row and, where the strip ends, the first ones
    // of the next rows.
    constexpr int64_t kAhead = 8 * kLine;
    add_lines(columns - kAhead, kAhead);
    add_lines(columns, kSteps * kStep * stride - j);
  }
  while (j + V::kLanes <= columns) add_whole();
  if (j == columns) return;
  add(j, [&](const Operand* step) RNN_ALWAYS_INLINE {
    const Operand* rows[kDepthStep<Operand>];
    for (int row = 0; row < kStep; ++row) rows[row] = step + row * stride;
    return LoadStep(rows, kStep, 0, 0, Lanes<Vec<Operand>>{columns - j});
  });
}

// Columns [column, column + columns) of rows [row, row + num_rows).
template <typename F>
struct Strip {
  int64_t row, num_rows;
  int64_t column, columns;
  F* sums;  // [num_rows], sums_stride values apart
  int64_t sums_stride;
  bool is_fetched;
};

// strip.sums += what [k_begin, k_end) of the depth contributes.
template <typename Operand, typename F>
inline void AddBlockOfStrip(const RowsProduct<Operand>& p,
                            const Strip<F>& strip, int64_t k_begin,
                            int64_t k_end) {
  constexpr int64_t kStep = kDepthStep<Operand>;
  // Rows of B stay in L1 while tiles of A come by, of which the first one
  // fetches the next rows.
  const auto add = [&](int64_t k, auto step_count) RNN_ALWAYS_INLINE {
    constexpr int kSteps = decltype(step_count)::value;
    constexpr int kTileRows = kStripValues / kSteps < kStripTileRows
                                  ? kStripValues / kSteps
                                  : kStripTileRows;
    ForEachTile<kTileRows>(strip.num_rows, [&](int64_t first, auto row_count) {
      const auto add_tile = [&](auto fetches) RNN_ALWAYS_INLINE {
        AddStepsOfStrip<decltype(fetches)::value != 0,
                        decltype(row_count)::value, kSteps>(
            p.a + strip.row + first, k, p.b + k * p.stride + strip.column,
            p.stride, strip.columns, strip.sums + first * strip.sums_stride,
            strip.sums_stride);
      };
      if (strip.is_fetched && first == 0) {
        add_tile(Constant<1>());
      } else {
        add_tile(Constant<0>());
      }
    });
  };
  int64_t k = k_begin;
  const auto add_all = [&](auto step_count) {
    constexpr int64_t kSteps = decltype(step_count)::value * kStep;
    for (; k + kSteps <= k_end; k += kSteps) add(k, step_count);
  };
  if (strip.num_rows == 1) add_all(Constant<kStripValues>());
  add_all(Constant<4>());
  add_all(Constant<1>());
}

// In the order of MultiplyPanel(): the same bits.
template <typename Operand>
void MultiplyRows(const RowsProduct<Operand>& p) {
  using F = ComputeType<Operand>;
  using V = Vec<F>;
  alignas(64) F sums[kStripSums * V::kLanes];
  ForEachRowRange<kStripRows>(p.rows, [&](int64_t row, int num_rows) {
    const int64_t width = StripVectors<V>(num_rows) * V::kLanes;
    const bool is_fetched = FetchesStrips(p, num_rows);
    for (int64_t column = 0; column < p.columns; column += width) {
      const int64_t columns =
          p.columns - column < width ? p.columns - column : width;
      Strip<F> strip;
      strip.row = row;
      strip.num_rows = num_rows;
      strip.column = column;
      strip.columns = columns;
      strip.sums = sums;
      strip.sums_stride = width;
      strip.is_fetched = is_fetched;
      ForEachDepthBlock<Operand>(p.depth, [&](int64_t k, int64_t k_end) {
        for (int64_t i = 0; i < num_rows * width; i += V::kLanes) {
          V::Broadcast(0).Store(sums + i);
        }
        AddBlockOfStrip(p, strip, k, k_end);
        for (int m = 0; m < num_rows; ++m) {
          F* c = p.c[row + m] + p.c_offset + column;
          for (int64_t j = 0; j < columns; j += V::kLanes) {
            const Lanes<V> lanes{columns - j};
            V sum = V::Load(sums + m * width + j);
            if (p.accumulate || k > 0) {
              sum = sum + lanes.Load(c + j);
            } else if (p.bias != nullptr) {
              sum = sum + lanes.Load(p.bias + column + j);
            }
            lanes.Store(sum, c + j);
          }
        }
      });
    }
  });
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_ROWS_PRODUCT_INL_H_
