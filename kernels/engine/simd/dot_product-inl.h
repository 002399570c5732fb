// Products with columns of memory, for which nothing is packed. Include a
// vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_DOT_PRODUCT_INL_H_
#define KERNELS_ENGINE_SIMD_DOT_PRODUCT_INL_H_

#include "kernels/engine/simd/lanes-inl.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/simd/tile-inl.h"
#include "kernels/engine/simd/unroll-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// Rows of A that are multiplied with columns of B at a time.
constexpr int kDotRows = TileRows(kTileVectors);

// So few of them read columns about as fast as they come.
constexpr int kFewDotRows = 3;

// Columns of B, which is given by them, that are multiplied with `rows` of A at
// a time, each a stream of memory: as many as the registers have sums for.
template <typename V>
constexpr int DotColumns(int rows) {
  int columns = V::kLanes < 8 ? V::kLanes : 8;
  while (rows * columns > kDotRows * kTileVectors) columns /= 2;
  return columns;
}

// sums[m], lane l = row `row + m` of A times column `first_column + l` of B
// over [k_begin, k_end). Each lane of a product is a chain, and at the end
// lanes are added up in pairs. `next` is what will be read next, which is only
// fetched: these columns' next block of depth, the next columns or panel.
template <int kRows, typename V, typename Operand>
inline void MultiplyTileByColumns(const PanelProduct<Operand>& p, int64_t row,
                                  int64_t first_column, int64_t k_begin,
                                  int64_t k_end, const Operand* next,
                                  V (&sums)[kRows][1]) {
  constexpr int kLanes = V::kLanes;
  constexpr int kColumns = DotColumns<V>(kRows);
  constexpr int64_t kStep = int64_t{kLanes} * kDepthStep<Operand>;
  const int64_t whole_end = k_begin + (k_end - k_begin) / kStep * kStep;
  const Lanes<Vec<Operand>> tail{(k_end - whole_end) / kDepthStep<Operand>};
  const Operand* rows[kRows];
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    rows[m.value] = p.a[row + m.value] + p.a_offset;
  });
  V products[kRows][kLanes];
  for (int j = 0; j < kLanes; j += kColumns) {
    // A missing column is read as the first one; its sums are not stored.
    const Operand* columns[kColumns];
    Unroll<kColumns>([&](auto i) RNN_ALWAYS_INLINE {
      const int64_t column = first_column + j + i.value;
      columns[i.value] =
          p.b.transposed +
          (column < p.columns ? column : first_column) * p.b.stride;
    });
    V chains[kRows][kColumns];
    Clear(chains);
    // Rows or columns, whichever are fewer, are held in registers beside the
    // sums while the others pass.
    constexpr bool kHoldsRows = kRows < kColumns;
    constexpr int kHeld = kHoldsRows ? kRows : kColumns;
    constexpr int kPassing = kHoldsRows ? kColumns : kRows;
    const Operand* const* const held_from = kHoldsRows ? rows : columns;
    const Operand* const* const passing_from = kHoldsRows ? columns : rows;
    const auto add = [&](int64_t k, auto load) RNN_ALWAYS_INLINE {
      Vec<Operand> held[kHeld];
      Unroll<kHeld>([&](auto h) RNN_ALWAYS_INLINE {
        held[h.value] = load(held_from[h.value] + k);
        Pin(held[h.value]);
      });
      Unroll<kPassing>([&](auto p) RNN_ALWAYS_INLINE {
        Vec<Operand> passing = load(passing_from[p.value] + k);
        if constexpr (kHeld > 1) Pin(passing);  // else from memory
        Unroll<kHeld>([&](auto h) RNN_ALWAYS_INLINE {
          constexpr int kRow = kHoldsRows ? h.value : p.value;
          constexpr int kColumn = kHoldsRows ? p.value : h.value;
          V& chain = chains[kRow][kColumn];
          chain = MulAdd(held[h.value], passing, chain);
        });
      });
    };
    // Steps that also fetch what lies so far ahead of each column.
    const auto add_steps = [&](int64_t begin, int64_t end,
                               int64_t ahead) RNN_ALWAYS_INLINE {
      for (int64_t k = begin; k < end; k += kStep) {
        Unroll<kColumns>([&](auto i) RNN_ALWAYS_INLINE {
          __builtin_prefetch(columns[i.value] + ahead + k);
        });
        add(k, [](const Operand* p)
                   RNN_ALWAYS_INLINE { return Vec<Operand>::Load(p); });
      }
    };
    if constexpr (kRows > kFewDotRows) {
      // The first tile fetches the next columns for all of them; the others ask
      // for what they read.
      add_steps(k_begin, whole_end, row == 0 ? kColumns * p.b.stride : 0);
    } else {
      // A few lines, for columns follow each other by themselves but for where
      // they end.
      constexpr int64_t kAhead = 512 / int64_t{sizeof(Operand)};
      const int64_t end_begin =
          whole_end - k_begin > kAhead ? whole_end - kAhead : k_begin;
      const Operand* following =
          j + kColumns < kLanes ? columns[0] + kColumns * p.b.stride + k_begin
                                : next;
      add_steps(k_begin, end_begin, kAhead);
      add_steps(end_begin, whole_end, following - (columns[0] + end_begin));
    }
    if (tail.count > 0) {
      add(whole_end,
          [&](const Operand* p) RNN_ALWAYS_INLINE { return tail.Load(p); });
    }
    Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
      Unroll<kColumns>([&](auto i) RNN_ALWAYS_INLINE {
        products[m.value][j + i.value] = chains[m.value][i.value];
      });
    });
  }
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    sums[m.value][0] = SumLanes(products[m.value]);
  });
}

// All of a product with B given by its columns: a vector of columns after the
// other, a block of whose depth stays in L1 while rows of A come by.
template <typename Operand>
inline void MultiplyByColumns(const PanelProduct<Operand>& p) {
  using V = Vec<ComputeType<Operand>>;
  // After the last panel nothing is left to fetch, and any address will do.
  const Operand* next_panel = p.b.next != nullptr ? p.b.next : p.b.transposed;
  for (int v = 0; v * V::kLanes < p.columns; ++v) {
    const int64_t next_column = (v + 1) * V::kLanes;
    const Operand* next_columns =
        next_column < p.columns ? p.b.transposed + next_column * p.b.stride
                                : next_panel;
    const Operand* columns = p.b.transposed + v * V::kLanes * p.b.stride;
    ForEachDepthBlock<Operand>(p.depth, [&](int64_t k, int64_t k_end) {
      const Operand* next = k_end < p.depth ? columns + k_end : next_columns;
      ForEachTile<kDotRows>(p.rows, [&](int64_t row, auto row_count) {
        constexpr int kRows = decltype(row_count)::value;
        V sums[kRows][1];
        MultiplyTileByColumns(p, row, v * V::kLanes, k, k_end, next, sums);
        StoreTile(p, row, k == 0, sums, v);
      });
    });
  }
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_DOT_PRODUCT_INL_H_
