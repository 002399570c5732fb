// Products with packed panels. Include a vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_PANEL_PRODUCT_INL_H_
#define KERNELS_ENGINE_SIMD_PANEL_PRODUCT_INL_H_

#include "kernels/engine/simd/dot_product-inl.h"
#include "kernels/engine/simd/lanes-inl.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/simd/tile-inl.h"
#include "kernels/engine/simd/unroll-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

template <typename Operand>
inline int64_t PackedColumns(const PanelProduct<Operand>& p) {
  constexpr int64_t kPanelColumns =
      kTileVectors * Vec<ComputeType<Operand>>::kLanes;
  return p.b.packed_columns == 0 ? kPanelColumns : p.b.packed_columns;
}

// What is used next: `depth` of a panel, from k on. For no more rows than are
// multiplied at a time nothing is fetched, as these read all of it by
// themselves.
template <int64_t kRowsTogether, typename Operand>
inline FetchAhead Ahead(const PanelProduct<Operand>& p, const Operand* panel,
                        int64_t k, int64_t depth) {
  if (panel == nullptr || p.rows <= kRowsTogether) return FetchAhead();
  const int64_t columns = PackedColumns(p);
  return FetchAhead(panel + k * columns,
                    depth * columns * int64_t{sizeof(Operand)});
}

// After the block of depth that ends at k_end: the next one, or the first one
// of the next panel.
template <int64_t kRowsTogether, typename Operand>
inline FetchAhead AheadOfBlock(const PanelProduct<Operand>& p, int64_t k_end) {
  constexpr int64_t kBlock = kDepthBlock<Operand>;
  const bool is_last = k_end == p.depth;
  const int64_t k = is_last ? 0 : k_end;
  const int64_t depth = p.depth - k < kBlock ? p.depth - k : kBlock;
  return Ahead<kRowsTogether>(p, is_last ? p.b.next : p.b.packed, k, depth);
}

// [k_begin, k_end) of the depth of rows [row, row + kRows).
template <int kRows, int kVectors, typename Operand>
RNN_NEVER_INLINE void MultiplyTile(const PanelProduct<Operand>& p, int64_t row,
                                   int64_t k_begin, int64_t k_end,
                                   FetchAhead ahead) {
  using V = Vec<ComputeType<Operand>>;
  const int64_t packed_columns = PackedColumns(p);
  V sums[kRows][kVectors];
  Clear(sums);
  FetchTile<kRows, kVectors, V>(p, row);
  AddTileProduct(k_end - k_begin, p.a + row, p.a_offset + k_begin,
                 PackedPanel<Operand, kVectors>{
                     p.b.packed + k_begin * packed_columns,
                     packed_columns * kDepthStep<Operand>, ahead},
                 sums);
  StoreTile(p, row, k_begin == 0, sums);
}

// [k_begin, k_end) of the depth of all rows, in chains of at most so much of
// it. Chains are added to c one after another, while it is in L1, and within a
// chain k after k. Tiles share the fetching of `ahead`.
template <int kVectors, typename Operand>
inline void MultiplyChains(const PanelProduct<Operand>& p, int64_t k_begin,
                           int64_t k_end, int64_t chain, FetchAhead ahead) {
  ForEachTile<TileRows(kVectors)>(p.rows, [&](int64_t row, auto row_count) {
    constexpr int kRows = decltype(row_count)::value;
    ForEachDepthBlock<Operand>(
        k_end - k_begin,
        [&](int64_t k, int64_t chain_end) {
          MultiplyTile<kRows, kVectors>(
              p, row, k_begin + k, k_begin + chain_end,
              PackedPanel<Operand, kVectors>::template TakeAhead<kRows>(
                  &ahead, (chain_end - k) / kDepthStep<Operand>, p.b.packed));
        },
        chain);
  });
}

// Sums that do not wait for each other, so many, keep two multiply-adds a cycle
// busy.
constexpr int kSumsTogether = 8;

// kBlocks whole blocks of depth of a packed panel at a time, for few rows, of
// which one block has too few sums. Each is added up, and then to c, as by
// MultiplyChains(): the same bits.
template <int kRows, int kBlocks, int kVectors, typename Operand>
inline void MultiplyDepthBlocks(const PanelProduct<Operand>& p,
                                int64_t k_begin) {
  using V = Vec<ComputeType<Operand>>;
  constexpr int64_t kBlock = kDepthBlock<Operand>;
  const int64_t packed_columns = PackedColumns(p);
  const Operand* rows[kRows];
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    rows[m.value] = p.a[m.value] + p.a_offset + k_begin;
  });
  PackedPanel<Operand, kVectors> panels[kBlocks];
  V sums[kBlocks][kRows][kVectors];
  Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
    panels[i.value] = {
        p.b.packed + (k_begin + i.value * kBlock) * packed_columns,
        packed_columns * kDepthStep<Operand>, FetchAhead()};
    Clear(sums[i.value]);
  });
  for (int64_t k = 0; k < kBlock; k += kDepthStep<Operand>) {
    Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
      AddTileStep(rows, i.value * kBlock + k, panels[i.value], sums[i.value]);
      panels[i.value].Next();
    });
  }
  Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
    StoreTile(p, 0, k_begin == 0 && i.value == 0, sums[i.value]);
  });
}

// The first blocks, as far as MultiplyDepthBlocks() takes them; returns where
// they end.
template <int kVectors, typename Operand>
inline int64_t MultiplyFirstDepthBlocks(const PanelProduct<Operand>& p) {
  constexpr int kMaxRows = 2;
  int64_t k = 0;
  if (p.b.packed == nullptr || p.rows > kMaxRows || p.chain != 0) return k;
  WithConstant<kMaxRows>(p.rows, [&](auto row_count) {
    constexpr int kRows = decltype(row_count)::value;
    constexpr int kBlocks = kSumsTogether / (kRows * kVectors);
    if constexpr (kBlocks > 1) {
      constexpr int64_t kDepth = kBlocks * kDepthBlock<Operand>;
      for (; k + kDepth <= p.depth; k += kDepth) {
        MultiplyDepthBlocks<kRows, kBlocks, kVectors>(p, k);
      }
      constexpr int64_t kTwoBlocks = 2 * kDepthBlock<Operand>;
      if constexpr (kBlocks > 2) {
        for (; k + kTwoBlocks <= p.depth; k += kTwoBlocks) {
          MultiplyDepthBlocks<kRows, 2, kVectors>(p, k);
        }
      }
    }
  });
  return k;
}

// Calls body() with the number of vectors of a packed panel as a constant.
template <typename Operand, typename Body>
inline void WithVectorsOf(const PanelProduct<Operand>& p, Body body) {
  constexpr int64_t kLanes = Vec<Operand>::kLanes;
  WithConstant<kTileVectors>((p.columns + kLanes - 1) / kLanes, body);
}

template <typename Operand>
void MultiplyPanel(const PanelProduct<Operand>& p) {
  if (p.rows == 0) return;
  if (p.b.transposed != nullptr) return MultiplyByColumns(p);
  WithVectorsOf(p, [&](auto vector_count) {
    constexpr int kVectors = decltype(vector_count)::value;
    const int64_t done = MultiplyFirstDepthBlocks<kVectors>(p);
    if (done > 0 && done == p.depth) return;
    const int64_t chain = p.chain == 0 ? kDepthBlock<Operand> : p.chain;
    ForEachDepthBlock<Operand>(p.depth - done, [&](int64_t k, int64_t k_end) {
      MultiplyChains<kVectors>(
          p, done + k, done + k_end, chain,
          AheadOfBlock<TileRows(kVectors)>(p, done + k_end));
    });
  });
}

// The same in one chain over all of the depth, of a panel that is packed.
template <typename Operand>
void MultiplyPanelInOneChain(const PanelProduct<Operand>& p) {
  WithVectorsOf(p, [&](auto vector_count) {
    constexpr int kVectors = decltype(vector_count)::value;
    MultiplyChains<kVectors>(
        p, 0, p.depth, p.depth,
        Ahead<TileRows(kVectors)>(p, p.b.next, 0, p.depth));
  });
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_PANEL_PRODUCT_INL_H_
