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

// accumulators[m][j] = sum over k < depth of a[m][k] * b[k * b_stride + j]
template <int kRows, int kVectors, typename V>
inline void TileProduct(int64_t depth, const typename V::Element* const* a,
                        int64_t a_offset, const typename V::Element* b,
                        int64_t b_stride, V (&accumulators)[kRows][kVectors]) {
  const typename V::Element* rows[kRows];
  for (int m = 0; m < kRows; ++m) {
    rows[m] = a[m] + a_offset;
    for (int j = 0; j < kVectors; ++j) accumulators[m][j] = V::Broadcast(0);
  }
  for (int64_t k = 0; k < depth; ++k) {
    V columns[kVectors];
    for (int j = 0; j < kVectors; ++j) {
      columns[j] = V::Load(b + k * b_stride + j * V::kLanes);
      Pin(columns[j]);
    }
    for (int m = 0; m < kRows; ++m) {
      const V value = V::Broadcast(rows[m][k]);
      for (int j = 0; j < kVectors; ++j) {
        accumulators[m][j] = MulAdd(value, columns[j], accumulators[m][j]);
      }
    }
  }
}

// Calls function(std::integral_constant-like tag) with `count` as a constant.
template <int kValue>
struct Constant {
  static constexpr int value = kValue;
};
template <int kMax, typename Function>
inline void WithConstant(int64_t count, Function function) {
  if constexpr (kMax > 1) {
    if (count < kMax) return WithConstant<kMax - 1>(count, function);
  }
  function(Constant<kMax>());
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
      const int64_t lanes = p.columns - column;
      if (lanes >= V::kLanes) {
        if (add_c) {
          sums[m][j] = sums[m][j] + V::Load(c + column);
        } else if (p.bias != nullptr) {
          sums[m][j] = sums[m][j] + V::Load(p.bias + column);
        }
        sums[m][j].Store(c + column);
      } else {
        if (add_c) {
          sums[m][j] = sums[m][j] + V::Load(c + column, lanes);
        } else if (p.bias != nullptr) {
          sums[m][j] = sums[m][j] + V::Load(p.bias + column, lanes);
        }
        sums[m][j].Store(c + column, lanes);
      }
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
      for (int64_t row = 0; row < p.rows; row += kMaxRows) {
        WithConstant<kMaxRows>(p.rows - row, [&](auto row_count) {
          MultiplyTile<decltype(row_count)::value, kVectors, V>(
              p, row, k, depth, kPanelColumns);
        });
      }
      k += depth;
    } while (k < p.depth);
  });
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_PRODUCT_INL_H_
