// Products with columns that were packed for them, with the bits of those that
// read columns of memory. Include a vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_DOT_PANELS_INL_H_
#define KERNELS_ENGINE_SIMD_DOT_PANELS_INL_H_

#include "kernels/engine/simd/dot_product-inl.h"
#include "kernels/engine/simd/lanes-inl.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/simd/tile-inl.h"
#include "kernels/engine/simd/unroll-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// A dot product of a column of memory has a chain for each lane of a vector.
// Here lanes are columns, and a vector is one link of a chain of each of them.
// The chains of a group are multiplied together: what belongs to a group lies
// together, round by round, which are the links that chains have at one depth.
constexpr int kDotChains = kTileVectors > 2 ? 2 : 1;

// A panel has as many vectors of columns as the registers have sums for. Of few
// rows two are multiplied at a time, if there are registers for their sums,
// their columns and a value.
constexpr int kDotVectors = kTileVectors / kDotChains;
constexpr int DotPanelsTogether(int rows) {
  constexpr int kRegisters = kTileVectors > 2 ? 32 : 16;
  return 2 * kDotVectors * (rows * kDotChains + 1) < kRegisters ? 2 : 1;
}

// Rows of A that a group of chains is multiplied by while it is in L1.
constexpr int kDotPanelRows = 32;

// A block of depth of some rows of A, in the order in which it is multiplied:
// [group][round][row][links of a group].
template <typename Operand>
struct DotLinks {
  using V = Vec<ComputeType<Operand>>;
  static constexpr int kGroups = V::kLanes / kDotChains;
  static constexpr int64_t kLinks = kDotChains * kDepthStep<Operand>;
  static constexpr int64_t kRound = kGroups * kLinks;  // depth

  // From round to round of a group.
  int64_t stride() const { return num_rows * kLinks; }
  const Operand* group(int group, int64_t row) const {
    return values + group * num_rounds * stride() + row * kLinks;
  }

  const Operand* values;
  int num_rows;
  int64_t num_rounds;
};

// Some rows of A, link by link: as many blocks of depth as there is room for.
template <typename Operand>
class LinkedRows {
 public:
  // Of several tiles of rows one block, which stays near while panels come by.
  static int64_t MaxDepth(int num_rows) {
    return num_rows > kDotRows
               ? kDepthBlock<Operand>
               : kDotPanelRows / num_rows * kDepthBlock<Operand>;
  }

  // [k_begin, k_end), not more than MaxDepth(), of `num_rows` rows, and zeros
  // to whole rounds.
  void Take(const Operand* const* rows, int num_rows, int64_t k_begin,
            int64_t k_end) {
    num_rows_ = num_rows;
    depth_ = k_end - k_begin;
    ForEachDepthBlock<Operand>(depth_, [&](int64_t k, int64_t end) {
      TakeBlock(rows, k_begin + k, k_begin + end, values_ + k * num_rows);
    });
  }

  // What was taken.
  int num_rows() const { return num_rows_; }
  int64_t depth() const { return depth_; }

  // The one that begins at this depth of what was taken.
  DotLinks<Operand> block(int64_t k) const {
    const int64_t left = depth_ - k;
    return {
        values_ + k * num_rows_, num_rows_,
        NumRounds(left < kDepthBlock<Operand> ? left : kDepthBlock<Operand>)};
  }

 private:
  using Links = DotLinks<Operand>;
  static constexpr int64_t kRound = Links::kRound;

  static int64_t NumRounds(int64_t depth) {
    return (depth + kRound - 1) / kRound;
  }

  void TakeBlock(const Operand* const* rows, int64_t k_begin, int64_t k_end,
                 Operand* out) {
    const int64_t num_rounds = NumRounds(k_end - k_begin);
    const int64_t whole_rounds = (k_end - k_begin) / kRound;
    for (int m = 0; m < num_rows_; ++m) {
      const Operand* row = rows[m] + k_begin;
      Operand* const row_out = out + m * Links::kLinks;
      for (int64_t round = 0; round < whole_rounds; ++round) {
        TakeRound(row + round * kRound, round, num_rounds, row_out);
      }
      if (whole_rounds == num_rounds) continue;
      Operand last[kRound] = {};
      for (int64_t k = whole_rounds * kRound; k < k_end - k_begin; ++k) {
        last[k - whole_rounds * kRound] = row[k];
      }
      TakeRound(last, whole_rounds, num_rounds, row_out);
    }
  }

  // `out` is where the row begins in the first round.
  void TakeRound(const Operand* in, int64_t round, int64_t num_rounds,
                 Operand* out) {
    const int64_t stride = num_rows_ * Links::kLinks;
    Unroll<Links::kGroups>([&](auto group) RNN_ALWAYS_INLINE {
      __builtin_memcpy(out + (group.value * num_rounds + round) * stride,
                       in + group.value * Links::kLinks,
                       Links::kLinks * sizeof(Operand));
    });
  }

  int num_rows_ = 0;
  int64_t depth_ = 0;
  alignas(64) Operand values_[kDotPanelRows * kDepthBlock<Operand>];
};

// sums[m][v] = the sum of a group's chains: of row m times vector v. `a` is
// what the first row has of the group, `b` what the first panel has, and
// panel_size lies between panels.
template <bool kFetches, int kRows, int kVectors, typename V, typename Operand>
inline void MultiplyDotGroup(int64_t num_rounds, const Operand* a,
                             int64_t a_stride, const Operand* b,
                             int64_t panel_size, FetchAhead ahead,
                             V (&sums)[kRows][kVectors]) {
  constexpr int64_t kStep = kDepthStep<Operand>;
  constexpr int64_t kVectorSize = V::kLanes * kStep;
  V chains[kRows][kVectors][kDotChains];
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE { Clear(chains[m.value]); });
  for (int64_t round = 0; round < num_rounds; ++round) {
    Unroll<kDotChains>([&](auto i) RNN_ALWAYS_INLINE {
      Vec<Operand> columns[kVectors];
      Unroll<kVectors>([&](auto v) RNN_ALWAYS_INLINE {
        columns[v.value] =
            Vec<Operand>::Load(b + v.value / kDotVectors * panel_size +
                               v.value % kDotVectors * kVectorSize);
        if constexpr (kRows > 1) Pin(columns[v.value]);  // else from memory
      });
      if constexpr (kFetches) ahead.Next();
      Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
        const Vec<Operand> value =
            BroadcastStep(a + (m.value * kDotChains + i.value) * kStep);
        Unroll<kVectors>([&](auto v) RNN_ALWAYS_INLINE {
          V& chain = chains[m.value][v.value][i.value];
          chain = MulAdd(value, columns[v.value], chain);
        });
      });
      b += kDotVectors * kVectorSize;
    });
    a += a_stride;
  }
  Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
    Unroll<kVectors>([&](auto v) RNN_ALWAYS_INLINE {
      const V(&chain)[kDotChains] = chains[m.value][v.value];
      static_assert(kDotChains <= 2);
      sums[m.value][v.value] = chain[0];
      if constexpr (kDotChains == 2) {
        sums[m.value][v.value] = chain[0] + chain[1];
      }
    });
  });
}

constexpr int Log2(int value) { return value == 1 ? 0 : 1 + Log2(value / 2); }

// A block of depth of up to kMaxRows of A, times kPanels.
template <int kPanels, int kMaxRows, typename Operand>
class DotBlock {
 public:
  using V = Vec<ComputeType<Operand>>;
  static constexpr int kGroups = DotLinks<Operand>::kGroups;

  // c of the rows from `row` on, which `links` have, and of the columns of
  // `vector` and the next ones; `b` is what the first panel has of the block.
  DotBlock(const DotPanelsProduct<Operand>& p, const DotLinks<Operand>& links,
           int64_t row, int vector, bool is_first, const Operand* b)
      : p_(p),
        links_(links),
        row_(row),
        vector_(vector),
        is_first_(is_first),
        b_(b) {}

  // Of one tile.
  void MultiplyTile() {
    for (int group = 0; group < kGroups; ++group) {
      AddGroup<false, kMaxRows>(group, 0, FetchAhead());
    }
  }

  // Of several: a group stays in L1 while they come by, and the next one comes,
  // which after the last is the first of what follows.
  void MultiplyTiles(const Operand* following) {
    for (int group = 0; group < kGroups; ++group) {
      const Operand* next =
          group + 1 < kGroups ? b_ + (group + 1) * group_size() : following;
      FetchAhead ahead(next, group_size() * int64_t{sizeof(Operand)});
      ForEachTile<kDotRows>(links_.num_rows, [&](int64_t tile, auto row_count) {
        constexpr int kRows = decltype(row_count)::value;
        // Several tiles are of equal height: none is lower than half.
        if constexpr (kRows >= kDotRows / 2) {
          AddGroup<true, kRows>(group, tile,
                                ahead.Take(links_.num_rounds * kDotChains, b_));
        } else {
          __builtin_trap();
        }
      });
    }
  }

 private:
  static constexpr int kVectors = kPanels * kDotVectors;
  static constexpr int kLevels = Log2(kGroups);

  int64_t group_size() const {
    return links_.num_rounds * kDotChains * kDotVectors * V::kLanes *
           kDepthStep<Operand>;
  }

  // Of kRows from `tile` on; the last group stores c.
  template <bool kFetches, int kRows>
  RNN_ALWAYS_INLINE void AddGroup(int group, int64_t tile, FetchAhead ahead) {
    V sums[kRows][kVectors];
    MultiplyDotGroup<kFetches>(links_.num_rounds, links_.group(group, tile),
                               links_.stride(), b_ + group * group_size(),
                               p_.panel_size, ahead, sums);
    int level = 0;
    for (int done = group; level < kLevels && done % 2 == 1; done /= 2) {
      Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
        Unroll<kVectors>([&](auto v) RNN_ALWAYS_INLINE {
          V& sum = sums[m.value][v.value];
          sum = waiting_[level][tile + m.value][v.value] + sum;
        });
      });
      ++level;
    }
    if (level == kLevels) {
      StoreTile(p_, row_ + tile, is_first_, sums, vector_);
      return;
    }
    Unroll<kRows>([&](auto m) RNN_ALWAYS_INLINE {
      Unroll<kVectors>([&](auto v) RNN_ALWAYS_INLINE {
        waiting_[level][tile + m.value][v.value] = sums[m.value][v.value];
      });
    });
  }

  const DotPanelsProduct<Operand>& p_;
  const DotLinks<Operand> links_;
  const int64_t row_;
  const int vector_;
  const bool is_first_;
  const Operand* const b_;
  // Sums of one group, two, four and so on that wait for their neighbours.
  V waiting_[kLevels > 0 ? kLevels : 1][kMaxRows][kVectors];
};

template <typename Visit>
inline void ForEachInOrder(int count, bool from_last, Visit visit) {
  for (int i = 0; i < count; ++i) visit(from_last ? count - 1 - i : i);
}

// All columns, times what was taken of some rows of A, whose first depth is k:
// panel after panel, of each all of this depth.
template <typename Operand>
inline void MultiplyLinkedRows(const DotPanelsProduct<Operand>& p,
                               const LinkedRows<Operand>& rows, int64_t row,
                               int64_t k) {
  constexpr int64_t kColumns = kDotVectors * Vec<ComputeType<Operand>>::kLanes;
  const int num_panels =
      static_cast<int>((p.columns + kColumns - 1) / kColumns);
  const auto panel_at = [&](int panel) {
    return p.panels + panel * p.panel_size + k * kColumns;
  };
  if (rows.num_rows() > kDotRows) {
    ForEachInOrder(num_panels, p.from_last, [&](int panel) {
      // Behind the last one of a product lies what the next product begins
      // with.
      const Operand* following = panel_at(p.from_last ? panel - 1 : panel + 1);
      DotBlock<1, kDotPanelRows, Operand>(
          p, rows.block(0), row, panel * kDotVectors, k == 0, panel_at(panel))
          .MultiplyTiles(following);
    });
    return;
  }
  WithConstant<kDotRows>(rows.num_rows(), [&](auto row_count) {
    constexpr int kTogether = DotPanelsTogether(decltype(row_count)::value);
    const auto multiply = [&](int panel, auto panels) {
      ForEachDepthBlock<Operand>(rows.depth(), [&](int64_t begin, int64_t) {
        DotBlock<decltype(panels)::value, decltype(row_count)::value, Operand>(
            p, rows.block(begin), row, panel * kDotVectors, k + begin == 0,
            panel_at(panel) + begin * kColumns)
            .MultiplyTile();
      });
    };
    const int num_whole = num_panels / kTogether;
    ForEachInOrder(num_whole + num_panels % kTogether, p.from_last, [&](int i) {
      if (i < num_whole) {
        multiply(i * kTogether, Constant<kTogether>());
      } else {
        multiply(num_whole * (kTogether - 1) + i, Constant<1>());
      }
    });
  });
}

template <typename Operand>
void MultiplyDotPanels(const DotPanelsProduct<Operand>* products, int count) {
  const DotPanelsProduct<Operand>& first = products[0];
  LinkedRows<Operand> rows;
  ForEachRowRange<kDotPanelRows>(first.rows, [&](int64_t row, int num_rows) {
    ForEachDepthBlock<Operand>(
        first.depth,
        [&](int64_t k, int64_t k_end) {
          rows.Take(first.a + row, num_rows, k, k_end);
          ForEachInOrder(count, first.from_last, [&](int i) {
            MultiplyLinkedRows(products[i], rows, row, k);
          });
        },
        LinkedRows<Operand>::MaxDepth(num_rows));
  });
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_DOT_PANELS_INL_H_
