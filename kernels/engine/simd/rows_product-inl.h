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

// MultiplyRows() reads B strip by strip, some rows of it at a time, for so many
// rows of A. Their sums of a strip take so many bytes, about a first-level
// cache, and those of one tile up to half of it; a row's less if several tiles
// come by, for B's rows had better stay in that cache meanwhile.
constexpr int kStripRows = 32;
constexpr int64_t kStripSumBytes = 32 << 10;
constexpr int64_t kMaxTiledStripBytes = 2 << 10;
constexpr int64_t kMaxStripBytes = 16 << 10;
// So many rows of A make a tile, which takes so many steps at a time: their
// values are in registers meanwhile.
constexpr int kStripTileRows = kTileVectors >= 4 ? 4 : 2;
constexpr int kStripSteps = 4;
// One row takes more, for then its sums are read less often; but not from
// beyond a core's cache, whose rows may all fall on the same lines of L1.
constexpr int kOneRowSteps = 8;

template <typename V>
int64_t StripVectors(int64_t num_rows, int64_t columns) {
  const int64_t max_bytes = num_rows <= kStripTileRows
                                ? kMaxStripBytes / num_rows
                                : kMaxTiledStripBytes;
  const int64_t bytes = kStripSumBytes / num_rows;
  const int64_t most =
      (bytes < max_bytes ? bytes : max_bytes) / int64_t{sizeof(V)};
  const int64_t all = (columns + V::kLanes - 1) / V::kLanes;
  return all < most ? all : most;
}

// Whether B is fetched: from beyond a core's cache, as a rule, whose size this
// does not ask. A strip is a short piece of each row, of which the core knows
// nothing until it begins.
template <typename Operand>
bool FetchesStrips(const RowsProduct<Operand>& p) {
  constexpr int64_t kMinBytes = 2 << 20;
  // So many rows are fetched before a strip begins.
  constexpr int64_t kMinDepth = 2 * kStripSteps * kDepthStep<Operand>;
  return p.depth >= kMinDepth &&
         p.depth * p.stride * int64_t{sizeof(Operand)} >= kMinBytes;
}

// sums[m * sums_stride + j] += over kSteps steps of depth, a[m] from k on
// times the rows of B that begin at b. Rows from `ahead` on, of kFetched steps,
// are fetched into L2. As part of a larger function it would have no registers
// for its pointers.
template <int kFetched, int kRows, int kSteps, typename Operand, typename F>
RNN_NEVER_INLINE void AddStepsOfStrip(const Operand* const* a, int64_t k,
                                      const Operand* b, const Operand* ahead,
                                      int64_t stride, int64_t columns, F* sums,
                                      int64_t sums_stride) {
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
  if constexpr (kFetched > 0) {
    constexpr int64_t kLine = 64 / int64_t{sizeof(Operand)};
    while (j + kLine <= columns) {
      Unroll<kFetched * kStep>([&](auto row) RNN_ALWAYS_INLINE {
        __builtin_prefetch(ahead + row.value * stride + j, /*rw=*/0,
                           /*locality=*/2);
      });
      for (int64_t i = 0; i < kLine; i += V::kLanes) add_whole();
    }
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
  bool is_fetched, is_last;
};

// strip.sums += what [k_begin, k_end) of the depth contributes.
template <typename Operand, typename F>
inline void AddBlockOfStrip(const RowsProduct<Operand>& p,
                            const Strip<F>& strip, int64_t k_begin,
                            int64_t k_end) {
  constexpr int64_t kStep = kDepthStep<Operand>;
  const Operand* const b = p.b + strip.column;
  const int64_t num_tiles =
      (strip.num_rows + kStripTileRows - 1) / kStripTileRows;
  const auto add_tile = [&](int64_t first, int64_t k, auto row_count,
                            auto step_count, auto fetched_count,
                            const Operand* ahead) RNN_ALWAYS_INLINE {
    constexpr int kRows = decltype(row_count)::value;
    constexpr int kSteps = decltype(step_count)::value;
    AddStepsOfStrip<fetched_count.value, kRows, kSteps>(
        p.a + strip.row + first, k, b + k * p.stride, ahead, p.stride,
        strip.columns, strip.sums + first * strip.sums_stride,
        strip.sums_stride);
  };
  // Rows of B stay in L1 while tiles of A come by. The first of these, up to
  // four, share the fetching of the rows that come next but one; a single tile
  // fetches the next. Behind the last whole block are those that the next strip
  // begins with.
  const auto add_tiles = [&](int64_t k, auto step_count) RNN_ALWAYS_INLINE {
    constexpr int kSteps = decltype(step_count)::value;
    constexpr int64_t kDepth = kSteps * kStep;
    static_assert(kSteps == 1 || kSteps % 2 == 0, "halves are fetched");
    const int64_t next = k + (num_tiles == 1 ? 1 : 2) * kDepth;
    const int64_t end = p.depth / kDepth * kDepth;
    const Operand* const ahead =
        next < end ? b + next * p.stride
                   : b + strip.columns + (next - end) * p.stride;
    const bool has_ahead = next < end || !strip.is_last;
    int64_t num_fetched = strip.is_fetched && has_ahead ? 0 : kSteps;
    ForEachTile<kStripTileRows>(
        strip.num_rows, [&](int64_t first, auto row_count) {
          const auto add = [&](auto fetched_count) RNN_ALWAYS_INLINE {
            add_tile(first, k, row_count, step_count, fetched_count,
                     ahead + num_fetched * kStep * p.stride);
            num_fetched += fetched_count.value;
          };
          if (num_fetched == kSteps) {
            add(Constant<0>());
          } else if (num_tiles >= kSteps) {
            add(Constant<1>());
          } else if (num_tiles == 1) {
            add(Constant<kSteps>());
          } else {
            add(Constant<kSteps / 2>());
          }
        });
  };
  int64_t k = k_begin;
  const auto for_steps = [&](auto step_count, auto add) RNN_ALWAYS_INLINE {
    constexpr int64_t kSteps = decltype(step_count)::value * kStep;
    for (; k + kSteps <= k_end; k += kSteps) add(k, step_count);
  };
  if (strip.num_rows == 1 && !strip.is_fetched) {
    for_steps(Constant<kOneRowSteps>(), [&](int64_t k, auto step_count) {
      add_tile(0, k, Constant<1>(), step_count, Constant<0>(), p.b);
    });
  }
  for_steps(Constant<kStripSteps>(), add_tiles);
  for_steps(Constant<1>(), add_tiles);
}

// In the order of MultiplyPanel(): the same bits.
template <typename Operand>
void MultiplyRows(const RowsProduct<Operand>& p) {
  using F = ComputeType<Operand>;
  using V = Vec<F>;
  alignas(64) F sums[kStripSumBytes / sizeof(F)];
  const bool is_fetched = FetchesStrips(p);
  ForEachRowRange<kStripRows>(p.rows, [&](int64_t row, int num_rows) {
    const int64_t width = StripVectors<V>(num_rows, p.columns) * V::kLanes;
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
      strip.is_last = column + columns == p.columns;
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
