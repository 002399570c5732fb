// Sums of rows. Include a vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_SUM_ROWS_INL_H_
#define KERNELS_ENGINE_SIMD_SUM_ROWS_INL_H_

#include "kernels/engine/simd/lanes-inl.h"
#include "kernels/engine/simd/unroll-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

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

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_SUM_ROWS_INL_H_
