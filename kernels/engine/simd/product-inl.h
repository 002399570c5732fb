// Matrix products on packed panels. Include a vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_PRODUCT_INL_H_
#define KERNELS_ENGINE_SIMD_PRODUCT_INL_H_

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
inline void ForEachDepthBlock(int64_t depth, Block block) {
  constexpr int64_t kBlock = kDepthBlock<Operand>;
  int64_t k = 0;
  do {
    const int64_t end = depth - k < kBlock ? depth : k + kBlock;
    block(k, end);
    k = end;
  } while (k < depth);
}

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
  void StorePastCaches(V value, typename V::Element* p) const {
    if (count >= V::kLanes) {
      value.StorePastCaches(p);
    } else {
      value.Store(p, count);
    }
  }

  // The same of narrower values, for which the target has functions.
  template <typename Narrow>
  V Load(const Narrow* p) const {
    return count >= V::kLanes ? Widen(p) : Widen(p, count);
  }
  template <typename Narrow>
  void Store(V value, Narrow* p) const {
    if (count >= V::kLanes) {
      StoreRounded(value, p);
    } else {
      StoreRounded(value, p, count);
    }
  }
  template <typename Narrow>
  void StorePastCaches(V value, Narrow* p) const {
    Store(value, p);
  }
};

// Calls function(Constant<min(count, kMax)>()), count >= 1.
template <int kMax, typename Function>
inline void WithConstant(int64_t count, Function function) {
  if constexpr (kMax > 1) {
    if (count < kMax) return WithConstant<kMax - 1>(count, function);
  }
  function(Constant<kMax>());
}

// Calls part(first row, number of rows) for parts of at most kMaxRows that
// cover `rows`: of equal height, for low ones are slow.
template <int kMaxRows, typename Part>
inline void ForEachPart(int64_t rows, Part part) {
  const int64_t num_parts = (rows + kMaxRows - 1) / kMaxRows;
  for (int64_t i = 0; i < num_parts; ++i) {
    const int64_t row = rows * i / num_parts;
    part(row, static_cast<int>(rows * (i + 1) / num_parts - row));
  }
}

// The same with the number of rows as a Constant.
template <int kMaxRows, typename Tile>
inline void ForEachTile(int64_t rows, Tile tile) {
  ForEachPart<kMaxRows>(rows, [&](int64_t row, int num_rows) {
    WithConstant<kMaxRows>(num_rows,
                           [&](auto row_count) { tile(row, row_count); });
  });
}

// A vector of Operand has as many lanes as one of F, but a lane holds a whole
// step of the depth.
template <typename Operand>
Vec<Operand> BroadcastStep(const Operand* p) {
  if constexpr (kDepthStep<Operand> == 1) {
    return Vec<Operand>::Broadcast(*p);
  } else {
    return Vec<Operand>::BroadcastPair(p);
  }
}

// Whole vectors of a step of the depth, row(i) being its row i.
template <typename Operand, typename Row>
RNN_ALWAYS_INLINE inline Vec<Operand> LoadWholeStep(Row row) {
  if constexpr (kDepthStep<Operand> == 1) {
    return Vec<Operand>::Load(row(0));
  } else {
    return Vec<Operand>::Interleave(row(0), row(1));
  }
}

template <typename Operand>
Vec<Operand> ZeroStep() {
  const Operand zeros[kDepthStep<Operand>] = {};
  return BroadcastStep(zeros);
}

// The panel that will be used after the one at hand comes into the caches while
// rows are multiplied, if these are more than one tile: a line for each step of
// depth of each tile, so that a few tiles fetch a part of it. Tiles of one or
// two rows read a panel as fast as it comes, and fetch nothing.
class FetchAhead {
 public:
  static constexpr int64_t kLine = 64;
  static constexpr bool IsFetchedByTileOf(int rows) { return rows > 2; }

  FetchAhead() : line_(nullptr), bytes_(0) {}  // nothing
  FetchAhead(const void* next, int64_t bytes)
      : line_(static_cast<const char*>(next)), bytes_(bytes) {}

  // What is left, for a product of so many steps. When nothing is, it fetches
  // idle_address again and again, which costs less than asking.
  FetchAhead Take(int64_t steps, const void* idle_address) {
    if (bytes_ <= 0) return FetchAhead(idle_address);
    const FetchAhead part = *this;
    line_ += steps * kLine;
    bytes_ -= steps * kLine;
    return part;
  }

  FetchAhead TakeForTileOf(int rows, int64_t steps, const void* idle_address) {
    return IsFetchedByTileOf(rows) ? Take(steps, idle_address)
                                   : FetchAhead(idle_address);
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

  const Operand* b;
  int64_t stride;
  FetchAhead ahead;
  int64_t panel_size = 0;  // from one panel to the next

  Vec<Operand> Load(int vector) const {
    return Vec<Operand>::Load(b + vector / kPanelVectors * panel_size +
                              vector % kPanelVectors * kVectorSize);
  }
  template <int kRows>
  void Next() {
    if constexpr (FetchAhead::IsFetchedByTileOf(kRows)) {
      for (int64_t i = 0; i < kVectors * kVectorSize; i += kLine) {
        __builtin_prefetch(b + kAhead + i);
      }
      ahead.Next();
    }
    b += stride;
  }
};
template <typename Operand, int kVectors>
struct StridedPanel {
  const Operand* vectors[kVectors];
  int64_t stride;

  Vec<Operand> Load(int vector) const {
    return LoadWholeStep<Operand>(
        [&](int row) { return vectors[vector] + row * stride; });
  }
  template <int /*kRows*/>
  void Next() {
    Unroll<kVectors>([&](auto v) RNN_ALWAYS_INLINE {
      vectors[v.value] += stride * kDepthStep<Operand>;
    });
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

// sums[m][j] += rows[m][k] * panel[j], a step of the depth; the panel goes on
// to the next one.
template <int kRows, int kVectors, typename V, typename Operand,
          typename TilePanel>
RNN_ALWAYS_INLINE inline void AddTileStep(const Operand* const (&rows)[kRows],
                                          int64_t k, TilePanel& panel,
                                          V (&sums)[kRows][kVectors]) {
  Vec<Operand> columns[kVectors];
  Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
    columns[j.value] = panel.Load(j.value);
    Pin(columns[j.value]);
  });
  panel.template Next<kRows>();
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    const Vec<Operand> value = BroadcastStep(rows[m.value] + k);
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      sums[m.value][j.value] =
          MulAdd(value, columns[j.value], sums[m.value][j.value]);
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
  const Operand* rows[kRows];
  V sums[kRows][kVectors];
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    rows[m.value] = a[m.value] + a_offset;
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      sums[m.value][j.value] = accumulators[m.value][j.value];
    });
  });
  for (int64_t k = 0; k < depth; k += kDepthStep<Operand>) {
    AddTileStep(rows, k, panel, sums);
  }
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      accumulators[m.value][j.value] = sums[m.value][j.value];
    });
  });
}

// Lane l holds element k + l of a step's rows, which begin with rows[first];
// those from rows[num_rows] on, and those that are nullptr, give zeros.
template <typename Operand>
RNN_ALWAYS_INLINE inline Vec<Operand> LoadStep(const Operand* const* rows,
                                               int64_t num_rows, int64_t first,
                                               int64_t k,
                                               Lanes<Vec<Operand>> lanes) {
  const auto row = [&](int64_t i) -> const Operand* {
    i += first;
    return i < num_rows && rows[i] != nullptr ? rows[i] + k : nullptr;
  };
  if constexpr (kDepthStep<Operand> == 1) {
    return row(0) == nullptr ? ZeroStep<Operand>() : lanes.Load(row(0));
  } else {
    return Vec<Operand>::Interleave(row(0), row(1), lanes.count);
  }
}

// Rows of `out`, out_stride values apart, from vectors of `lanes` lanes that
// are its columns, each of kColumnRows of rows[num_rows]: load(row, lane, lanes
// left) is one from some lane on, zeros from row num_rows on, and
// load_whole(row, lane) the same where no row and no lane is missing.
template <int kColumnRows, typename Operand, typename LoadWhole, typename Load>
RNN_ALWAYS_INLINE inline void TransposeLanes(const Operand* const* rows,
                                             int64_t num_rows, int64_t lanes,
                                             Operand* out, int64_t out_stride,
                                             LoadWhole load_whole, Load load) {
  using V = Vec<Operand>;
  constexpr int kRows = kColumnRows * V::kLanes;
  // A few columns from end to end, for more streams at a time are slower to
  // read; but as many as make lines of `out`, if these rows are whole.
  constexpr int kTilesOfLine = sizeof(V) < 64 ? 64 / sizeof(V) : 1;
  const auto are_whole = [&](int64_t row, int count) {
    if (num_rows - row < count) return false;
    for (int i = 0; i < count; ++i) {
      if (rows[row + i] == nullptr) return false;
    }
    return true;
  };
  const auto out_column = [&](int64_t row) {
    return out + row / kColumnRows * int64_t{kDepthStep<Operand>};
  };
  const auto transpose_whole = [&](int64_t row, int64_t k) RNN_ALWAYS_INLINE {
    V tile[V::kLanes];
    Unroll<V::kLanes>([&](auto i) RNN_ALWAYS_INLINE {
      tile[i.value] = load_whole(row + i.value * kColumnRows, k);
    });
    Transpose(tile);
    Unroll<V::kLanes>([&](auto i) RNN_ALWAYS_INLINE {
      tile[i.value].Store(out_column(row) + (k + i.value) * out_stride);
    });
  };
  const auto transpose_some = [&](int64_t row, int64_t k) RNN_ALWAYS_INLINE {
    const Lanes<V> lanes_left{lanes - k};
    V tile[V::kLanes];
    Unroll<V::kLanes>([&](auto i) RNN_ALWAYS_INLINE {
      tile[i.value] = load(row + i.value * kColumnRows, k, lanes_left);
    });
    Transpose(tile);
    const Lanes<V> out_lanes{(num_rows - row + kColumnRows - 1) / kColumnRows};
    Unroll<V::kLanes>([&](auto i) RNN_ALWAYS_INLINE {
      if (i.value < lanes_left.count) {
        out_lanes.Store(tile[i.value],
                        out_column(row) + (k + i.value) * out_stride);
      }
    });
  };
  // Returns the first row that is left.
  const auto transpose_tiles = [&](int64_t row, bool is_whole,
                                   auto tile_count) RNN_ALWAYS_INLINE {
    constexpr int kTiles = decltype(tile_count)::value;
    int64_t k = 0;
    for (; is_whole && k + V::kLanes <= lanes; k += V::kLanes) {
      Unroll<kTiles>([&](auto i) RNN_ALWAYS_INLINE {
        transpose_whole(row + i.value * kRows, k);
      });
    }
    for (; k < lanes; k += V::kLanes) {
      Unroll<kTiles>([&](auto i) RNN_ALWAYS_INLINE {
        transpose_some(row + i.value * kRows, k);
      });
    }
    return row + kTiles * kRows;
  };
  for (int64_t row = 0; row < num_rows;) {
    row = are_whole(row, kTilesOfLine * kRows)
              ? transpose_tiles(row, true, Constant<kTilesOfLine>())
              : transpose_tiles(row, are_whole(row, kRows), Constant<1>());
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

template <typename Operand>
void TransposeRows(const Operand* const* rows, int64_t columns, int64_t k_begin,
                   int64_t k_end, Operand* out, int64_t out_stride) {
  using V = Vec<Operand>;
  TransposeLanes<kDepthStep<Operand>>(
      rows, columns, k_end - k_begin, out, out_stride,
      [&](int64_t row, int64_t k) RNN_ALWAYS_INLINE {
        return LoadWholeStep<Operand>(
            [&](int i) { return rows[row + i] + k_begin + k; });
      },
      [&](int64_t row, int64_t k, Lanes<V> lanes) RNN_ALWAYS_INLINE {
        return LoadStep(rows, columns, row, k_begin + k, lanes);
      });
}

template <typename Operand>
void PackColumns(const Operand* const* rows, int64_t columns, int64_t k_begin,
                 int64_t k_end, Operand* out) {
  using V = Vec<Operand>;
  constexpr int64_t kStep = kDepthStep<Operand>;
  TransposeLanes<1>(
      rows, columns, (k_end - k_begin) / kStep, out, columns * kStep,
      [&](int64_t row, int64_t k) RNN_ALWAYS_INLINE {
        return V::Load(rows[row] + k_begin + k * kStep);
      },
      [&](int64_t row, int64_t k, Lanes<V> lanes) RNN_ALWAYS_INLINE {
        return row >= columns || rows[row] == nullptr
                   ? ZeroStep<Operand>()
                   : lanes.Load(rows[row] + k_begin + k * kStep);
      });
}

template <typename Operand>
void PackStep(const Operand* const* rows, int64_t columns, Operand* out) {
  using V = Vec<Operand>;
  for (int64_t j = 0; j < columns; j += V::kLanes) {
    const Lanes<V> lanes{columns - j};
    lanes.Store(LoadStep(rows, kDepthStep<Operand>, 0, j, lanes),
                out + j * kDepthStep<Operand>);
  }
}

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

// What is used after the block of depth that ends at k_end: the next one, or
// the first one of the next panel. For no more rows than are multiplied at a
// time nothing is fetched, as these read all of it by themselves.
template <int64_t kPanelColumns, int64_t kRowsTogether, typename Operand>
inline FetchAhead AheadOfBlock(const PanelProduct<Operand>& p, int64_t k_end) {
  const bool is_last = k_end == p.depth;
  const Operand* panel = is_last ? p.b.next : p.b.packed;
  if (panel == nullptr || p.rows <= kRowsTogether) return FetchAhead();
  const int64_t begin = is_last ? 0 : k_end;
  const int64_t depth = p.depth - begin < kDepthBlock<Operand>
                            ? p.depth - begin
                            : kDepthBlock<Operand>;
  return FetchAhead(panel + begin * kPanelColumns,
                    depth * kPanelColumns * int64_t{sizeof(Operand)});
}

// One block of the depth of a panel product. Blocks are added to c one after
// another, and within a block k after k.
template <int kVectors, typename Operand>
inline void MultiplyBlock(const PanelProduct<Operand>& p, int64_t k_begin,
                          int64_t k_end) {
  using V = Vec<ComputeType<Operand>>;
  constexpr int64_t kPanelColumns = kTileVectors * V::kLanes;
  const bool is_first = k_begin == 0;
  constexpr int kMaxRows = TileRows(kVectors);
  const auto multiply = [&](auto panel_of_tile) {
    ForEachTile<kMaxRows>(p.rows, [&](int64_t row, auto row_count) {
      constexpr int kRows = decltype(row_count)::value;
      V sums[kRows][kVectors];
      Clear(sums);
      FetchTile<kRows, kVectors, V>(p, row);
      AddTileProduct(k_end - k_begin, p.a + row, p.a_offset + k_begin,
                     panel_of_tile(kRows), sums);
      StoreTile(p, row, is_first, sums);
    });
  };
  if (p.b.packed != nullptr) {
    const int64_t depth = k_end - k_begin;
    const Operand* b = p.b.packed + k_begin * kPanelColumns;
    FetchAhead ahead = AheadOfBlock<kPanelColumns, kMaxRows>(p, k_end);
    multiply([&](int tile_rows) {
      return PackedPanel<Operand, kVectors>{
          b, kPanelColumns * kDepthStep<Operand>,
          ahead.TakeForTileOf(tile_rows, depth / kDepthStep<Operand>, b)};
    });
  } else {
    StridedPanel<Operand, kVectors> panel;
    panel.stride = p.b.stride;
    for (int v = 0; v < kVectors; ++v) {
      panel.vectors[v] = p.b.vectors[v] + k_begin * p.b.stride;
    }
    multiply([&](int) { return panel; });
  }
}

// Sums that do not wait for each other, so many, keep two multiply-adds a cycle
// busy.
constexpr int kSumsTogether = 8;

// kBlocks whole blocks of depth of a packed panel at a time, for few rows, of
// which one block has too few sums. Each is added up, and then to c, as by
// MultiplyBlock(): the same bits.
template <int kRows, int kBlocks, int kVectors, typename Operand>
inline void MultiplyBlocks(const PanelProduct<Operand>& p, int64_t k_begin) {
  using V = Vec<ComputeType<Operand>>;
  constexpr int64_t kBlock = kDepthBlock<Operand>;
  constexpr int64_t kPanelColumns = kTileVectors * V::kLanes;
  const Operand* rows[kRows];
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    rows[m.value] = p.a[m.value] + p.a_offset + k_begin;
  });
  PackedPanel<Operand, kVectors> panels[kBlocks];
  V sums[kBlocks][kRows][kVectors];
  Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
    panels[i.value] = {
        p.b.packed + (k_begin + i.value * kBlock) * kPanelColumns,
        kPanelColumns * kDepthStep<Operand>, FetchAhead()};
    Clear(sums[i.value]);
  });
  for (int64_t k = 0; k < kBlock; k += kDepthStep<Operand>) {
    Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
      AddTileStep(rows, i.value * kBlock + k, panels[i.value], sums[i.value]);
    });
  }
  Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
    StoreTile(p, 0, k_begin == 0 && i.value == 0, sums[i.value]);
  });
}

// The first blocks, as far as MultiplyBlocks() takes them; returns where they
// end.
template <int kVectors, typename Operand>
inline int64_t MultiplyFirstBlocks(const PanelProduct<Operand>& p) {
  constexpr int kMaxRows = 2;
  int64_t k = 0;
  if (p.b.packed == nullptr || p.rows > kMaxRows) return k;
  WithConstant<kMaxRows>(p.rows, [&](auto row_count) {
    constexpr int kRows = decltype(row_count)::value;
    constexpr int kBlocks = kSumsTogether / (kRows * kVectors);
    if constexpr (kBlocks > 1) {
      constexpr int64_t kDepth = kBlocks * kDepthBlock<Operand>;
      for (; k + kDepth <= p.depth; k += kDepth) {
        MultiplyBlocks<kRows, kBlocks, kVectors>(p, k);
      }
      constexpr int64_t kTwoBlocks = 2 * kDepthBlock<Operand>;
      if constexpr (kBlocks > 2) {
        for (; k + kTwoBlocks <= p.depth; k += kTwoBlocks) {
          MultiplyBlocks<kRows, 2, kVectors>(p, k);
        }
      }
    }
  });
  return k;
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

template <typename Operand>
void MultiplyPanel(const PanelProduct<Operand>& p) {
  constexpr int64_t kLanes = Vec<Operand>::kLanes;
  if (p.rows == 0) return;
  if (p.b.transposed != nullptr) return MultiplyByColumns(p);
  const int64_t vectors = (p.columns + kLanes - 1) / kLanes;
  WithConstant<kTileVectors>(vectors, [&](auto vector_count) {
    constexpr int kVectors = decltype(vector_count)::value;
    const int64_t done = MultiplyFirstBlocks<kVectors>(p);
    if (done > 0 && done == p.depth) return;
    ForEachDepthBlock<Operand>(p.depth - done, [&](int64_t k, int64_t k_end) {
      MultiplyBlock<kVectors>(p, done + k, done + k_end);
    });
  });
}

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

// Whether B comes from memory, as a rule: then it is fetched. Closer caches
// are read no faster for it.
template <typename Operand>
bool FetchesStrips(const RowsProduct<Operand>& p, int64_t num_rows) {
  constexpr int64_t kMinBytes = int64_t{8} << 20;
  return num_rows <= kStripTileRows &&
         p.depth * p.stride * int64_t{sizeof(Operand)} >= kMinBytes;
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
          __builtin_prefetch(b + row.value * stride + j + ahead);
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
};

// strip.sums += what [k_begin, k_end) of the depth contributes.
template <bool kFetches, typename Operand, typename F>
inline void AddBlockOfStrip(const RowsProduct<Operand>& p,
                            const Strip<F>& strip, int64_t k_begin,
                            int64_t k_end) {
  constexpr int64_t kStep = kDepthStep<Operand>;
  // Rows of B stay in L1 while tiles of A come by.
  const auto add = [&](int64_t k, auto step_count) RNN_ALWAYS_INLINE {
    constexpr int kSteps = decltype(step_count)::value;
    constexpr int kTileRows = kStripValues / kSteps < kStripTileRows
                                  ? kStripValues / kSteps
                                  : kStripTileRows;
    ForEachTile<kTileRows>(strip.num_rows, [&](int64_t first, auto row_count) {
      AddStepsOfStrip<kFetches, decltype(row_count)::value, kSteps>(
          p.a + strip.row + first, k, p.b + k * p.stride + strip.column,
          p.stride, strip.columns, strip.sums + first * strip.sums_stride,
          strip.sums_stride);
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
  ForEachPart<kStripRows>(p.rows, [&](int64_t row, int num_rows) {
    const int64_t width = StripVectors<V>(num_rows) * V::kLanes;
    const bool fetches = FetchesStrips(p, num_rows);
    for (int64_t column = 0; column < p.columns; column += width) {
      const int64_t columns =
          p.columns - column < width ? p.columns - column : width;
      const Strip<F> strip{row, num_rows, column, columns, sums, width};
      ForEachDepthBlock<Operand>(p.depth, [&](int64_t k, int64_t k_end) {
        for (int64_t i = 0; i < num_rows * width; i += V::kLanes) {
          V::Broadcast(0).Store(sums + i);
        }
        if (fetches) {
          AddBlockOfStrip<true>(p, strip, k, k_end);
        } else {
          AddBlockOfStrip<false>(p, strip, k, k_end);
        }
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

#endif  // KERNELS_ENGINE_SIMD_PRODUCT_INL_H_
