// Vectors from and to rows of memory, and loops over rows. Include a
// vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_LANES_INL_H_
#define KERNELS_ENGINE_SIMD_LANES_INL_H_

#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/simd/unroll-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

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

  // Loads and stores of narrower values, for which the target has functions.
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
};

// Calls function(Constant<min(count, kMax)>()), count >= 1.
template <int kMax, typename Function>
inline void WithConstant(int64_t count, Function function) {
  if constexpr (kMax > 1) {
    if (count < kMax) return WithConstant<kMax - 1>(count, function);
  }
  function(Constant<kMax>());
}

// Calls range(first row, number of rows) for ranges of at most kMaxRows that
// cover `rows`: of equal height, for low ones are slow.
template <int kMaxRows, typename Range>
inline void ForEachRowRange(int64_t rows, Range range) {
  const int64_t num_ranges = (rows + kMaxRows - 1) / kMaxRows;
  for (int64_t i = 0; i < num_ranges; ++i) {
    const int64_t row = rows * i / num_ranges;
    range(row, static_cast<int>(rows * (i + 1) / num_ranges - row));
  }
}

// ForEachRowRange() whose `tile` gets the number of rows as a Constant.
template <int kMaxRows, typename Tile>
inline void ForEachTile(int64_t rows, Tile tile) {
  ForEachRowRange<kMaxRows>(rows, [&](int64_t row, int num_rows) {
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

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_LANES_INL_H_
