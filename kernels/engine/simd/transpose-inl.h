// Rows of memory as the columns of products. Include a vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_TRANSPOSE_INL_H_
#define KERNELS_ENGINE_SIMD_TRANSPOSE_INL_H_

#include "kernels/engine/simd/lanes-inl.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/simd/unroll-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// Rows of `out`, out_stride values apart, from vectors of `lanes` lanes that
// are its columns, each of kColumnRows of rows[num_rows]: load(row, lane, lanes
// left) is one from some lane on, zeros from row num_rows on;
// load_whole(row, lane) is called where no row and no lane is missing.
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
void PackRows(const Operand* const* rows, int64_t num_rows, int64_t columns,
              int64_t padded_columns, Operand* out, int64_t out_stride) {
  using V = Vec<Operand>;
  constexpr int64_t kStep = kDepthStep<Operand>;
  for (int64_t i = 0; i < num_rows; i += kStep, out += out_stride) {
    int64_t j = 0;
    if (i + kStep <= num_rows) {
      for (; j + V::kLanes <= columns; j += V::kLanes) {
        LoadWholeStep<Operand>([&](int64_t row) RNN_ALWAYS_INLINE {
          return rows[i + row] + j;
        }).Store(out + j * kStep);
      }
    }
    for (; j < padded_columns; j += V::kLanes) {
      const Vec<Operand> step =
          j < columns ? LoadStep(rows, num_rows, i, j, Lanes<V>{columns - j})
                      : ZeroStep<Operand>();
      Lanes<V>{padded_columns - j}.Store(step, out + j * kStep);
    }
  }
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_TRANSPOSE_INL_H_
