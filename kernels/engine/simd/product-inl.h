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

// Where a tile product finds the vectors of B, one k after another.
template <typename V>
struct PackedPanel {
  const typename V::Element* b;
  int64_t stride;

  V Load(int vector) const { return V::Load(b + vector * V::kLanes); }
  void Next() { b += stride; }
};
template <typename V, int kVectors>
struct StridedPanel {
  const typename V::Element* vectors[kVectors];
  int64_t stride;

  V Load(int vector) const { return V::Load(vectors[vector]); }
  void Next() {
    Unroll<kVectors>([&](auto v)
                         RNN_ALWAYS_INLINE { vectors[v.value] += stride; });
  }
};

template <int kRows, int kVectors, typename V>
RNN_ALWAYS_INLINE inline void Clear(V (&sums)[kRows][kVectors]) {
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      sums[m.value][j.value] = V::Broadcast(0);
    });
  });
}

// accumulators[m][j] += sum over k < depth of a[m][a_offset + k] * panel[k][j],
// added one after another
template <int kRows, int kVectors, typename V, typename TilePanel>
RNN_ALWAYS_INLINE inline void AddTileProduct(
    int64_t depth, const typename V::Element* const* a, int64_t a_offset,
    TilePanel panel, V (&accumulators)[kRows][kVectors]) {
  const typename V::Element* rows[kRows];
  V sums[kRows][kVectors];
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    rows[m.value] = a[m.value] + a_offset;
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      sums[m.value][j.value] = accumulators[m.value][j.value];
    });
  });
  for (int64_t k = 0; k < depth; ++k) {
    V columns[kVectors];
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      columns[j.value] = panel.Load(j.value);
      Pin(columns[j.value]);
    });
    panel.Next();
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
        // Rows lie far apart: nobody else sees where the next loads will be.
        if (!is_zero) __builtin_prefetch(rows[j + i.value] + k + V::kLanes);
        tile[i.value] =
            is_zero ? V::Broadcast(0) : row_lanes.Load(rows[j + i.value] + k);
      });
      Transpose(tile);
      const Lanes<V> out_lanes{columns - j};
      Unroll<V::kLanes>([&](auto i) RNN_ALWAYS_INLINE {
        if (i.value < row_lanes.count) {
          out_lanes.Store(tile[i.value],
                          out + (k - k_begin + i.value) * out_stride + j);
        }
      });
    }
  }
}

// As many columns at a time as sums that hide an addition's latency.
template <typename F>
void SumRows(const F* const* rows, int64_t num_rows, int64_t first_column,
             int64_t columns, bool accumulate, F* sums) {
  using V = Vec<F>;
  constexpr int kVectors = 8;
  for (int64_t j = 0; j < columns; j += kVectors * V::kLanes) {
    WithConstant<kVectors>(
        (columns - j + V::kLanes - 1) / V::kLanes, [&](auto vector_count) {
          constexpr int kCount = decltype(vector_count)::value;
          const auto lanes = [&](int v) {
            return Lanes<V>{columns - j - v * V::kLanes};
          };
          V block[kCount];
          Unroll<kCount>([&](auto v) RNN_ALWAYS_INLINE {
            block[v.value] = V::Broadcast(0);
          });
          for (int64_t i = 0; i < num_rows; ++i) {
            const F* row = rows[i] + first_column + j;
            Unroll<kCount>([&](auto v) RNN_ALWAYS_INLINE {
              block[v.value] = block[v.value] +
                               lanes(v.value).Load(row + v.value * V::kLanes);
            });
          }
          for (int v = 0; v < kCount; ++v) {
            F* out = sums + j + v * V::kLanes;
            lanes(v).Store(
                accumulate ? lanes(v).Load(out) + block[v] : block[v], out);
          }
        });
  }
}

// Columns that are not packed are transposed so many deep at a time, into L1.
constexpr int64_t kTransposeDepth = 64;

// Calls add(depth, offset, PackedPanel) for pieces of the depth [k_begin,
// k_end) of the columns whose rows these are, one after another.
template <int kVectors, typename V, typename Add>
inline void ForEachTransposedPiece(const typename V::Element* const* rows,
                                   int64_t k_begin, int64_t k_end, Add add) {
  using F = typename V::Element;
  constexpr int64_t kColumns = kVectors * V::kLanes;
  alignas(64) F piece[kTransposeDepth * kColumns];
  for (int64_t k = k_begin; k < k_end; k += kTransposeDepth) {
    const int64_t end =
        k + kTransposeDepth < k_end ? k + kTransposeDepth : k_end;
    TransposeRows(rows, kColumns, k, end, piece, kColumns);
    add(end - k, k, PackedPanel<V>{piece, kColumns});
  }
}

// Starts to fetch what StoreTile() will write: the product hides the wait.
template <int kRows, int kVectors, typename V, typename F>
inline void FetchTile(const PanelProduct<F>& p, int64_t row) {
  for (int m = 0; m < kRows; ++m) {
    for (int v = 0; v < kVectors; ++v) {
      __builtin_prefetch(p.c[row + m] + p.c_offset + v * V::kLanes,
                         /*write=*/1);
    }
  }
}

// c of rows [row, row + kRows) from a block of depth's sums.
template <int kRows, int kVectors, typename V, typename F>
inline void StoreTile(const PanelProduct<F>& p, int64_t row,
                      bool is_first_block, const V (&sums)[kRows][kVectors]) {
  const bool add_c = p.accumulate || !is_first_block;
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

// One block of the depth of a panel product. Blocks are added to c one after
// another, and within a block k after k.
template <int kVectors, typename V, typename F>
inline void MultiplyBlock(const PanelProduct<F>& p, int64_t k_begin,
                          int64_t k_end) {
  constexpr int64_t kPanelColumns = kTileVectors * V::kLanes;
  constexpr int kMaxRows = TileRows(kVectors);
  const bool is_first = k_begin == 0;
  if (p.b.rows != nullptr) {
    // The sums of all rows wait in L1 while pieces of B come by.
    V sums[kMaxRowsUnpacked][kVectors];
    for (int64_t row = 0; row < p.rows; ++row) {
      for (int j = 0; j < kVectors; ++j) sums[row][j] = V::Broadcast(0);
    }
    const auto tile_of = [&](int64_t row, auto row_count) -> auto& {
      using Tile = V[decltype(row_count)::value][kVectors];
      return reinterpret_cast<Tile&>(sums[row]);
    };
    ForEachTransposedPiece<kVectors, V>(
        p.b.rows, k_begin, k_end,
        [&](int64_t depth, int64_t offset, PackedPanel<V> panel) {
          ForEachTile<kMaxRows>(p.rows, [&](int64_t row, auto row_count) {
            AddTileProduct(depth, p.a + row, offset, panel,
                           tile_of(row, row_count));
          });
        });
    ForEachTile<kMaxRows>(p.rows, [&](int64_t row, auto row_count) {
      StoreTile(p, row, is_first, tile_of(row, row_count));
    });
    return;
  }
  const auto multiply = [&](auto panel) {
    ForEachTile<kMaxRows>(p.rows, [&](int64_t row, auto row_count) {
      constexpr int kRows = decltype(row_count)::value;
      V sums[kRows][kVectors];
      Clear(sums);
      FetchTile<kRows, kVectors, V>(p, row);
      AddTileProduct(k_end - k_begin, p.a + row, k_begin, panel, sums);
      StoreTile(p, row, is_first, sums);
    });
  };
  if (p.b.packed != nullptr) {
    multiply(
        PackedPanel<V>{p.b.packed + k_begin * kPanelColumns, kPanelColumns});
  } else {
    StridedPanel<V, kVectors> panel;
    panel.stride = p.b.stride;
    for (int v = 0; v < kVectors; ++v) {
      panel.vectors[v] = p.b.vectors[v] + k_begin * p.b.stride;
    }
    multiply(panel);
  }
}

template <typename F>
void MultiplyPanel(const PanelProduct<F>& p) {
  using V = Vec<F>;
  const int64_t vectors = (p.columns + V::kLanes - 1) / V::kLanes;
  WithConstant<kTileVectors>(vectors, [&](auto vector_count) {
    // An empty sum still writes its result.
    int64_t k = 0;
    do {
      const int64_t end = p.depth - k < kDepthBlock ? p.depth : k + kDepthBlock;
      MultiplyBlock<decltype(vector_count)::value, V>(p, k, end);
      k = end;
    } while (k < p.depth);
  });
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_PRODUCT_INL_H_
