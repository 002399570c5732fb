// Products of bfloat16 on tile registers (AMX): matrices of 16 rows, which one
// instruction multiplies and adds up. Include vec_avx512_bf16.h first.
//
// In a chunk of 32 of the depth, the first of all pairs are a chain of
// multiply-adds from zero, the second another; their sum is added to the
// element. Denormals are zeros and sums round to nearest even, whatever the
// floating-point environment says (Intel, "Intel 64 and IA-32 Architectures
// Software Developer's Manual", volume 2, TDPBF16PS).
//
// Products with B given by its columns stay dot products in vectors.
#ifndef KERNELS_ENGINE_SIMD_AMX_INL_H_
#define KERNELS_ENGINE_SIMD_AMX_INL_H_

#include "kernels/engine/simd/cells-inl.h"
#include "kernels/engine/simd/product-inl.h"
#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {
namespace RNN_ISA {
namespace {

constexpr int kTileRows = 16;
constexpr int kTileLanes = 16;      // floats of a row
constexpr int64_t kTileDepth = 32;  // bfloat16 of a row

// Registers 0 to 3 hold sums, of two blocks of rows in turn or of one; two hold
// rows of A, and two rows of B.
constexpr int kFirstA = 4;
constexpr int kFirstB = 6;

// The compiler does not know these registers, nor that loads read what was
// stored before: hence assembler, in the order in which it stands.
template <int kTile>
RNN_ALWAYS_INLINE inline void ZeroTile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kTile>
RNN_ALWAYS_INLINE inline void LoadTile(const void* rows, int64_t stride_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(rows), "r"(stride_bytes), "i"(kTile)
               : "memory");
}
template <int kTile>
RNN_ALWAYS_INLINE inline void StoreTileTo(void* rows, int64_t stride_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(rows), "r"(stride_bytes), "i"(kTile)
               : "memory");
}
template <int kSums, int kA, int kB>
RNN_ALWAYS_INLINE inline void MultiplyAddTile() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
               :
               : "i"(kSums), "i"(kA), "i"(kB));
}

// The shapes of this thread's tile registers, as long as it lives.
class TileShapes {
 public:
  TileShapes() = default;
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;
  ~TileShapes() {
    if (rows_[0] > 0) asm volatile("tilerelease");
  }

  // Rows of A, and of sums, in either of two blocks of rows.
  void SetRows(int first, int second) {
    if (first == rows_[0] && second == rows_[1]) return;
    rows_[0] = first;
    rows_[1] = second;
    alignas(64) Configuration c = {};
    c.palette = 1;
    for (int i = 0; i < kNumTiles; ++i) {
      c.row_bytes[i] = kTileLanes * sizeof(float);
      c.rows[i] = kTileRows;
    }
    for (int i = 0; i < kFirstA; ++i) c.rows[i] = rows_[i % 2];
    for (int i = 0; i < 2; ++i) c.rows[kFirstA + i] = rows_[i];
    asm volatile("ldtilecfg %0" : : "m"(c) : "memory");
  }

 private:
  static constexpr int kNumTiles = 8;

  struct Configuration {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  static_assert(sizeof(Configuration) == 64);

  int rows_[2] = {0, 0};
};

// A tile's memory.
struct TileMemory {
  const BFloat16* first;
  int64_t stride;  // elements

  template <int kTile>
  RNN_ALWAYS_INLINE void Load() const {
    LoadTile<kTile>(first, stride * int64_t{sizeof(BFloat16)});
  }
};

// Up to 16 rows of A.
class TilesOfA {
 public:
  TilesOfA(const BFloat16* const* rows, int num_rows, int64_t offset,
           int64_t depth)
      : rows_(rows), num_rows_(num_rows), offset_(offset), depth_(depth) {
    stride_ = num_rows > 1 ? rows[1] - rows[0] : 0;
    for (int m = 2; m < num_rows; ++m) {
      is_regular_ = is_regular_ && rows[m] - rows[m - 1] == stride_;
    }
  }

  // The tile of [k, k + 32), zeros beyond the depth. Good until the next call.
  TileMemory At(int64_t k) {
    const Lanes<Vec<BFloat16>> lanes{(depth_ - k) / 2};
    if (is_regular_ && lanes.count >= kTileLanes) {
      return {rows_[0] + offset_ + k, stride_};
    }
    for (int m = 0; m < num_rows_; ++m) {
      lanes.Load(rows_[m] + offset_ + k).Store(copy_ + m * kTileDepth);
    }
    return {copy_, kTileDepth};
  }

 private:
  const BFloat16* const* rows_;
  int num_rows_;
  int64_t offset_;
  int64_t depth_;
  int64_t stride_;
  bool is_regular_ = true;
  alignas(64) BFloat16 copy_[kTileRows * kTileDepth];
};

// B in a panel of `columns`, packed.
class PackedTilesOfB {
 public:
  PackedTilesOfB(const BFloat16* panel, int64_t columns, int64_t depth)
      : panel_(panel), stride_(2 * columns), depth_(depth) {}

  // The tile of [k, k + 32) and of vector `vector`, zeros beyond the depth.
  // Good until the next call of the same kSlot.
  template <int kSlot>
  TileMemory At(int64_t k, int vector) {
    const BFloat16* first = panel_ + k / 2 * stride_ + vector * 2 * kTileLanes;
    if (k + kTileDepth <= depth_) return {first, stride_};
    BFloat16* copy = copies_[kSlot];
    for (int64_t i = 0; i < kTileRows; ++i) {
      (k + 2 * i < depth_ ? Vec<BFloat16>::Load(first + i * stride_)
                          : ZeroStep<BFloat16>())
          .Store(copy + i * kTileDepth);
    }
    return {copy, kTileDepth};
  }

 private:
  const BFloat16* panel_;
  int64_t stride_;
  int64_t depth_;
  alignas(64) BFloat16 copies_[2][kTileRows * kTileDepth];
};

// B in rows of vectors, which become tiles here.
class StridedTilesOfB {
 public:
  StridedTilesOfB(const Panel<BFloat16>& panel, int64_t k_begin, int64_t depth)
      : panel_(panel), k_begin_(k_begin), depth_(depth) {}

  template <int kSlot>
  TileMemory At(int64_t k, int vector) {
    BFloat16* copy = copies_[kSlot];
    for (int64_t i = 0; i < kTileRows; ++i) {
      const int64_t row = k + 2 * i;
      const BFloat16* first =
          panel_.vectors[vector] + (k_begin_ + row) * panel_.stride;
      (row < depth_ ? Vec<BFloat16>::Interleave(first, first + panel_.stride)
                    : ZeroStep<BFloat16>())
          .Store(copy + i * kTileDepth);
    }
    return {copy, kTileDepth};
  }

 private:
  const Panel<BFloat16>& panel_;
  int64_t k_begin_;
  int64_t depth_;
  alignas(64) BFloat16 copies_[2][kTileRows * kTileDepth];
};

// Sums of some rows times vectors of B.
template <int kMaxVectors>
struct TileSums {
  static constexpr int64_t kStride = kMaxVectors * kTileLanes;
  alignas(64) float values[2 * kTileRows][kStride];
};

// sums = A times kVectors vectors of B from `vector` on. kBlocks blocks of rows
// of A, each of no more than a tile has; two have no more than two vectors.
template <int kBlocks, int kVectors, typename TilesOfB, int kMaxVectors>
inline void MultiplyTiles(TilesOfA* (&a)[2], const int (&first_rows)[2],
                          TilesOfB* b, int64_t depth, int vector,
                          FetchAhead* ahead, TileSums<kMaxVectors>* sums) {
  static_assert(kBlocks * kVectors <= kFirstA);
  Unroll<kFirstA>([](auto i) RNN_ALWAYS_INLINE { ZeroTile<i.value>(); });
  for (int64_t k = 0; k < depth; k += kTileDepth) {
    FetchAhead part = ahead->Take(kTileRows, b);
    Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
      a[i.value]->At(k).template Load<kFirstA + i.value>();
    });
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      constexpr int kSlot = j.value % 2;
      b->template At<kSlot>(k, vector + j.value)
          .template Load<kFirstB + kSlot>();
      Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
        MultiplyAddTile<kBlocks * j.value + i.value, kFirstA + i.value,
                        kFirstB + kSlot>();
      });
      Unroll<kTileRows / kVectors>([&](auto)
                                       RNN_ALWAYS_INLINE { part.Next(); });
    });
  }
  Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      StoreTileTo<kBlocks * j.value + i.value>(
          sums->values[first_rows[i.value]] + (vector + j.value) * kTileLanes,
          TileSums<kMaxVectors>::kStride * int64_t{sizeof(float)});
    });
  });
}

// The same for all `vectors`, of up to two tiles of rows.
template <typename TilesOfB, int kMaxVectors>
inline void MultiplyTiles(TileShapes* shapes, const BFloat16* const* rows,
                          int num_rows, int64_t a_offset, int64_t depth,
                          TilesOfB* b, int vectors, FetchAhead* ahead,
                          TileSums<kMaxVectors>* sums) {
  const int first = num_rows <= kTileRows ? num_rows : (num_rows + 1) / 2;
  const int first_rows[2] = {0, first};
  const bool is_one = first == num_rows;
  TilesOfA upper(rows, first, a_offset, depth);
  TilesOfA lower(rows + (is_one ? 0 : first), is_one ? 1 : num_rows - first,
                 a_offset, depth);
  TilesOfA* a[2] = {&upper, &lower};
  if (is_one) {
    shapes->SetRows(first, first);
    WithConstant<kMaxVectors>(vectors, [&](auto count) {
      MultiplyTiles<1, decltype(count)::value>(a, first_rows, b, depth, 0,
                                               ahead, sums);
    });
    return;
  }
  shapes->SetRows(first, num_rows - first);
  int vector = 0;
  for (; vector + 2 <= vectors; vector += 2) {
    MultiplyTiles<2, 2>(a, first_rows, b, depth, vector, ahead, sums);
  }
  if (vector < vectors) {
    MultiplyTiles<2, 1>(a, first_rows, b, depth, vector, ahead, sums);
  }
}

// Calls tiles(first row, number of rows) for as many as MultiplyTiles() takes.
template <typename Tiles>
inline void ForEachTiles(int64_t rows, Tiles tiles) {
  constexpr int64_t kMaxRows = 2 * kTileRows;
  const int64_t num_parts = (rows + kMaxRows - 1) / kMaxRows;
  for (int64_t i = 0; i < num_parts; ++i) {
    const int64_t row = rows * i / num_parts;
    tiles(row, static_cast<int>(rows * (i + 1) / num_parts - row));
  }
}

void MultiplyPanelInTiles(const PanelProduct<BFloat16>& p) {
  using V = Vec<float>;
  if (p.b.rows != nullptr || p.depth == 0) return MultiplyPanel(p);
  constexpr int64_t kColumns = kTileVectors * V::kLanes;
  constexpr int64_t kBlock = kDepthBlock<BFloat16>;
  const int vectors = (p.columns + V::kLanes - 1) / V::kLanes;
  TileShapes shapes;
  TileSums<kTileVectors> sums;
  for (int64_t k = 0; k < p.depth; k += kBlock) {
    const int64_t depth = p.depth - k < kBlock ? p.depth - k : kBlock;
    const auto multiply = [&](auto* b, FetchAhead ahead) {
      ForEachTiles(p.rows, [&](int64_t row, int num_rows) {
        for (int m = 0; m < num_rows; ++m) {
          FetchTile<1, kTileVectors, V>(p, row + m);
        }
        MultiplyTiles(&shapes, p.a + row, num_rows, p.a_offset + k, depth, b,
                      vectors, &ahead, &sums);
        for (int m = 0; m < num_rows; ++m) {
          for (int v = 0; v < vectors; ++v) {
            const V sum[1][1] = {{V::Load(sums.values[m] + v * V::kLanes)}};
            StoreTile(p, row + m, k == 0, sum, v);
          }
        }
      });
    };
    if (p.b.packed != nullptr) {
      PackedTilesOfB b(p.b.packed + k * kColumns, kColumns, depth);
      multiply(&b, AheadOfBlock<kColumns, 2 * kTileRows>(p, k + depth));
    } else {
      StridedTilesOfB b(p.b, k, depth);
      multiply(&b, FetchAhead());
    }
  }
}

template <typename Cell>
void CellForwardInTiles(const CellForwardStep<BFloat16>& s) {
  using V = Vec<float>;
  constexpr int kVectors = kCellVectors<Cell>;
  static_assert(kVectors == kVectorsTogether<Cell>);
  if (s.recurrent.rows != nullptr) return CellForward<Cell>(s);
  TileShapes shapes;
  TileSums<kVectors> sums;
  const auto run = [&](auto* b, FetchAhead ahead) {
    ForEachTiles(s.rows, [&](int64_t row, int num_rows) {
      MultiplyTiles(&shapes, s.h_prev + row, num_rows, 0, s.depth, b, kVectors,
                    &ahead, &sums);
      for (int m = 0; m < num_rows; ++m) {
        CellForwardRow<Cell>(s, row + m, sums.values[m]);
      }
    });
  };
  if (s.recurrent.packed != nullptr) {
    PackedTilesOfB b(s.recurrent.packed, kVectors * V::kLanes, s.depth);
    run(&b, AheadOfPanel<Cell, 2 * kTileRows>(s));
  } else {
    StridedTilesOfB b(s.recurrent, 0, s.depth);
    run(&b, FetchAhead());
  }
}

constexpr SimdKernels<BFloat16> MakeTileKernels() {
  SimdKernels<BFloat16> kernels = MakeKernels<BFloat16>();
  kernels.multiply_panel = MultiplyPanelInTiles;
  kernels.cell_forward[static_cast<int>(CellMode::kRelu)] =
      CellForwardInTiles<VanillaCell<true>>;
  kernels.cell_forward[static_cast<int>(CellMode::kTanh)] =
      CellForwardInTiles<VanillaCell<false>>;
  kernels.cell_forward[static_cast<int>(CellMode::kLstm)] =
      CellForwardInTiles<LstmCell>;
  kernels.cell_forward[static_cast<int>(CellMode::kGru)] =
      CellForwardInTiles<GruCell>;
  return kernels;
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_AMX_INL_H_
