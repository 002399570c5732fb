// Register tiles of a matrix product: rows of A times vectors of B's columns.
// Include a vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_TILE_INL_H_
#define KERNELS_ENGINE_SIMD_TILE_INL_H_

#include "kernels/engine/simd/lanes-inl.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/simd/unroll-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// Depth of a product's blocks: 6 rows of A and a panel of B stay in L1 and L2,
// and partial sums keep rounding errors from growing with depth. Only the
// product of a step with a packed R is one chain over all of its depth, as the
// cell follows on the tile.
template <typename Operand>
constexpr int64_t kDepthBlock = 512 * kDepthStep<Operand>;

// Calls block(first, end) for the blocks of a depth, for an empty one, too: an
// empty sum still writes its result.
template <typename Operand, typename Block>
inline void ForEachDepthBlock(int64_t depth, Block block,
                              int64_t block_depth = kDepthBlock<Operand>) {
  int64_t k = 0;
  do {
    const int64_t end = depth - k < block_depth ? depth : k + block_depth;
    block(k, end);
    k = end;
  } while (k < depth);
}

// The panel that will be used after the one at hand comes into the caches while
// rows are multiplied, if these are more than one tile: some lines in each turn
// of each tile, so that a few tiles fetch a part of it. Tiles of one or two
// rows read a panel as fast as it comes, and fetch nothing.
class FetchAhead {
 public:
  static constexpr int64_t kLine = 64;
  static constexpr bool IsFetchedByTileOf(int rows) { return rows > 2; }

  FetchAhead() : line_(nullptr), bytes_(0) {}  // nothing
  FetchAhead(const void* next, int64_t bytes)
      : line_(static_cast<const char*>(next)), bytes_(bytes) {}

  // What is left, for a product of so many lines. When nothing is, it fetches
  // idle_address again and again, which costs less than asking.
  FetchAhead Take(int64_t lines, const void* idle_address) {
    if (bytes_ <= 0 || lines == 0) return FetchAhead(idle_address);
    const FetchAhead part = *this;
    line_ += lines * kLine;
    bytes_ -= lines * kLine;
    return part;
  }

  RNN_ALWAYS_INLINE void Next() {
    __builtin_prefetch(line_, /*rw=*/0, /*locality=*/2);
    line_ += stride_;
  }

 private:
  explicit FetchAhead(const void* idle_address)
      : line_(static_cast<const char*>(idle_address)), stride_(0), bytes_(0) {}

  const char* line_;
  int64_t stride_ = kLine;
  int64_t bytes_;
};

// Where a tile product finds the vectors of B, one step after another: in one
// panel, or kPanelVectors in each of several.
template <typename Operand, int kVectors, int kPanelVectors = kVectors>
struct PackedPanel {
  static constexpr int64_t kVectorSize =
      Vec<Operand>::kLanes * kDepthStep<Operand>;
  static constexpr int64_t kLine = 64 / sizeof(Operand);
  // So far ahead a panel comes from the second-level cache into the first.
  static constexpr int64_t kAhead = 16 * kLine;
  // Two tiles fetch a panel like this one, but by no more than a line a step.
  template <int kRows>
  static constexpr int LinesOfTurn() {
    constexpr int kSteps = TileSteps(kRows, kVectors);
    constexpr int64_t kHalf = kSteps * kVectors * kVectorSize / kLine / 2;
    return kHalf < 1 ? 1 : kHalf < kSteps ? int{kHalf} : kSteps;
  }
  // What a product of kRows over so many steps fetches of `ahead`.
  template <int kRows>
  static FetchAhead TakeAhead(FetchAhead* ahead, int64_t steps,
                              const void* idle_address) {
    const int64_t lines =
        FetchAhead::IsFetchedByTileOf(kRows)
            ? steps / TileSteps(kRows, kVectors) * LinesOfTurn<kRows>()
            : 0;
    return ahead->Take(lines, idle_address);
  }

  const Operand* b;
  int64_t stride;
  FetchAhead ahead;
  int64_t panel_size = 0;  // from one panel to the next

  Vec<Operand> Load(int vector) const {
    return Vec<Operand>::Load(b + vector / kPanelVectors * panel_size +
                              vector % kPanelVectors * kVectorSize);
  }
  // What a turn's step of a tile of kRows fetches.
  template <int kRows, int kStep>
  RNN_ALWAYS_INLINE void Fetch() {
    if constexpr (FetchAhead::IsFetchedByTileOf(kRows)) {
      for (int64_t i = 0; i < kVectors * kVectorSize; i += kLine) {
        __builtin_prefetch(b + kAhead + i);
      }
      constexpr int kSteps = TileSteps(kRows, kVectors);
      constexpr int kLines = LinesOfTurn<kRows>();
      if constexpr ((kStep + 1) * kLines / kSteps > kStep * kLines / kSteps) {
        ahead.Next();
      }
    }
  }
  // Written so that GCC adds the stride step by step: it would keep addresses
  // of all steps of a turn, for which there are no registers.
  RNN_ALWAYS_INLINE void Next() {
    b += stride;
    asm("" : "+r"(b));
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

// sum += a * b. Instruction sets with few registers have overloads.
template <typename Factor, typename V>
RNN_ALWAYS_INLINE inline void AccumulateProduct(Factor a, Factor b, V& sum) {
  sum = MulAdd(a, b, sum);
}

// sums[m][j] += rows[m][k] * panel[j], a step of the depth.
template <int kRows, int kVectors, typename V, typename Operand,
          typename TilePanel>
RNN_ALWAYS_INLINE inline void AddTileStep(const Operand* const (&rows)[kRows],
                                          int64_t k, const TilePanel& panel,
                                          V (&sums)[kRows][kVectors]) {
  Vec<Operand> columns[kVectors];
  Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
    columns[j.value] = panel.Load(j.value);
    Pin(columns[j.value]);
  });
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    const Vec<Operand> value = BroadcastStep(rows[m.value] + k);
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      AccumulateProduct(value, columns[j.value], sums[m.value][j.value]);
    });
  });
}

// accumulators[m][j] += sum over k < depth of a[m][a_offset + k] * panel[k][j],
// added one after another
template <int kRows, int kVectors, typename V, typename Operand,
          typename TilePanel>
RNN_ALWAYS_INLINE inline void AddTileProduct(
    int64_t depth, const Operand* const* a, int64_t a_offset, TilePanel panel,
    V (&accumulators)[kRows][kVectors]) {
  constexpr int64_t kStep = kDepthStep<Operand>;
  const Operand* rows[kRows];
  V sums[kRows][kVectors];
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    rows[m.value] = a[m.value] + a_offset;
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      sums[m.value][j.value] = accumulators[m.value][j.value];
    });
  });
  constexpr int kTurn = TileSteps(kRows, kVectors);
  int64_t k = 0;
  for (; k + kTurn * kStep <= depth; k += kTurn * kStep) {
    Unroll<kTurn>([&](auto step) RNN_ALWAYS_INLINE {
      AddTileStep(rows, k + step.value * kStep, panel, sums);
      panel.template Fetch<kRows, step.value>();
      panel.Next();
    });
  }
  for (; k < depth; k += kStep) {
    AddTileStep(rows, k, panel, sums);
    panel.Next();
  }
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      accumulators[m.value][j.value] = sums[m.value][j.value];
    });
  });
}

// Starts to fetch what StoreTile() will write: the product hides the wait.
template <int kRows, int kVectors, typename V, typename Product>
inline void FetchTile(const Product& p, int64_t row, int first_vector = 0) {
  for (int m = 0; m < kRows; ++m) {
    for (int v = 0; v < kVectors; ++v) {
      __builtin_prefetch(
          p.c[row + m] + p.c_offset + (first_vector + v) * V::kLanes,
          /*write=*/1);
    }
  }
}

// c of rows [row, row + kRows) and of the vectors from `first_vector` on, from
// a block of depth's sums.
template <int kRows, int kVectors, typename V, typename Product>
inline void StoreTile(const Product& p, int64_t row, bool is_first_block,
                      const V (&sums)[kRows][kVectors], int first_vector = 0) {
  const bool add_c = p.accumulate || !is_first_block;
  // The usual case by constants, which keep the sums in registers.
  if (p.columns >= (first_vector + kVectors) * V::kLanes) {
    Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
      auto* c = p.c[row + m.value] + p.c_offset + first_vector * V::kLanes;
      Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
        constexpr int kColumn = j.value * V::kLanes;
        V sum = sums[m.value][j.value];
        if (add_c) {
          sum = sum + V::Load(c + kColumn);
        } else if (p.bias != nullptr) {
          sum = sum + V::Load(p.bias + first_vector * V::kLanes + kColumn);
        }
        sum.Store(c + kColumn);
      });
    });
    return;
  }
  for (int m = 0; m < kRows; ++m) {
    auto* c = p.c[row + m] + p.c_offset;
    for (int j = 0; j < kVectors; ++j) {
      const int64_t column = (first_vector + j) * V::kLanes;
      if (column >= p.columns) break;
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

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_TILE_INL_H_
