// Matrix products on packed panels. Include a vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_PRODUCT_INL_H_
#define KERNELS_ENGINE_SIMD_PRODUCT_INL_H_

#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// Depth of a product's blocks: 6 rows of A and a panel of B stay in L1 and L2,
// and partial sums keep rounding errors from growing with depth.
constexpr int64_t kDepthBlock = 512;

// A row of memory, seen by the vector that starts at some column: lanes beyond
// the `count` columns left are neither read nor written.
template <typename V>
struct Lanes {
  int64_t count;

  V Load(const typename V::Element* p) const {
    return count >= V::kLanes ? V::Load(p) : V::Load(p, count);
  }
  void Store(V value, typename V::Element* p) const {
    if (count >= V::kLanes) {
      value.Store(p);
    } else {
      value.Store(p, count);
    }
  }
};

template <int kValue>
struct Constant {
  static constexpr int value = kValue;
};

// function(Constant<0>()) ... function(Constant<kCount - 1>()). Arrays indexed
// by such constants live in registers; GCC leaves those indexed by a loop's
// variable in memory, even when it unrolls the loop.
#define RNN_ALWAYS_INLINE __attribute__((always_inline))
template <int kCount, typename Function>
RNN_ALWAYS_INLINE inline void Unroll(Function function) {
  if constexpr (kCount > 0) {
    Unroll<kCount - 1>(function);
    function(Constant<kCount - 1>());
  }
}

// Calls function(Constant<min(count, kMax)>()), count >= 1.
template <int kMax, typename Function>
inline void WithConstant(int64_t count, Function function) {
  if constexpr (kMax > 1) {
    if (count < kMax) return WithConstant<kMax - 1>(count, function);
  }
  function(Constant<kMax>());
}

// Calls tile(first row, Constant<number of rows>()) for tiles of at most
// kMaxRows that cover `rows`: of equal height, for low tiles are slow.
template <int kMaxRows, typename Tile>
inline void ForEachTile(int64_t rows, Tile tile) {
  const int64_t num_tiles = (rows + kMaxRows - 1) / kMaxRows;
  for (int64_t i = 0; i < num_tiles; ++i) {
    const int64_t row = rows * i / num_tiles;
    const int64_t row_end = rows * (i + 1) / num_tiles;
    WithConstant<kMaxRows>(row_end - row,
                           [&](auto row_count) { tile(row, row_count); });
  }
}

// accumulators[m][j] = sum over k < depth of
//     a[m][a_offset + k] * b[k * b_stride + j]
template <int kRows, int kVectors, typename V>
RNN_ALWAYS_INLINE inline void TileProduct(int64_t depth,
                                          const typename V::Element* const* a,
                                          int64_t a_offset,
                                          const typename V::Element* b,
                                          int64_t b_stride,
                                          V (&accumulators)[kRows][kVectors]) {
  const typename V::Element* rows[kRows];
  V sums[kRows][kVectors];
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    rows[m.value] = a[m.value] + a_offset;
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      sums[m.value][j.value] = V::Broadcast(0);
    });
  });
  for (int64_t k = 0; k < depth; ++k) {
    V columns[kVectors];
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      columns[j.value] = V::Load(b + j.value * V::kLanes);
      Pin(columns[j.value]);
    });
    b += b_stride;
    Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
      const V value = V::Broadcast(rows[m.value][k]);
      Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
        sums[m.value][j.value] =
            MulAdd(value, columns[j.value], sums[m.value][j.value]);
      });
    });
  }
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      accumulators[m.value][j.value] = sums[m.value][j.value];
    });
  });
}

// Rows [row, row + kRows) of a panel product, one block of depth.
template <int kRows, int kVectors, typename V, typename F>
inline void MultiplyTile(const PanelProduct<F>& p, int64_t row, int64_t k_begin,
                         int64_t k_depth, int64_t panel_columns) {
  V sums[kRows][kVectors];
  TileProduct(k_depth, p.a + row, k_begin, p.b + k_begin * panel_columns,
              panel_columns, sums);
  const bool add_c = p.accumulate || k_begin > 0;
  for (int m = 0; m < kRows; ++m) {
    F* c = p.c[row + m] + p.c_offset;
    for (int j = 0; j < kVectors; ++j) {
      const int64_t column = j * V::kLanes;
      const Lanes<V> lanes{p.columns - column};
      V sum = sums[m][j];
      if (add_c) {
        sum = sum + lanes.Load(c + column);
      } else if (p.bias != nullptr) {
        sum = sum + lanes.Load(p.bias + column);
      }
      lanes.Store(sum, c + column);
    }
  }
}

template <typename F>
void MultiplyPanel(const PanelProduct<F>& p) {
  using V = Vec<F>;
  constexpr int64_t kPanelColumns = kTileVectors * V::kLanes;
  const int64_t vectors = (p.columns + V::kLanes - 1) / V::kLanes;
  WithConstant<kTileVectors>(vectors, [&](auto vector_count) {
    constexpr int kVectors = decltype(vector_count)::value;
    constexpr int kMaxRows = TileRows(kVectors);
    // An empty sum still writes its result.
    int64_t k = 0;
    do {
      const int64_t depth =
          p.depth - k < kDepthBlock ? p.depth - k : kDepthBlock;
      ForEachTile<kMaxRows>(p.rows, [&](int64_t row, auto row_count) {
        MultiplyTile<decltype(row_count)::value, kVectors, V>(p, row, k, depth,
                                                              kPanelColumns);
      });
      k += depth;
    } while (k < p.depth);
  });
}

template <typename F>
void TransposeRows(const F* const* rows, int64_t columns, int64_t k_begin,
                   int64_t k_end, F* out, int64_t out_stride) {
  using V = Vec<F>;
  for (int64_t k = k_begin; k < k_end; k += V::kLanes) {
    const Lanes<V> row_lanes{k_end - k};
    for (int64_t j = 0; j < columns; j += V::kLanes) {
      V tile[V::kLanes];
      Unroll<V::kLanes>([&](auto i) RNN_ALWAYS_INLINE {
        const bool is_zero = j + i.value >= columns || !rows[j + i.value];
        tile[i.value] =
            is_zero ? V::Broadcast(0) : row_lanes.Load(rows[j + i.value] + k);
      });
      Transpose(tile);
      const Lanes<V> out_lanes{columns - j};
      Unroll<V::kLanes>([&](auto i) RNN_ALWAYS_INLINE {
        if (i.value < row_lanes.count) {
          out_lanes.Store(tile[i.value], out + (k + i.value) * out_stride + j);
        }
      });
    }
  }
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_PRODUCT_INL_H_
