// Products of rows with a packed matrix. Operand is as in simd_kernels.h, and F
// the type that it is computed in.
#ifndef KERNELS_ENGINE_MATRIX_PRODUCT_H_
#define KERNELS_ENGINE_MATRIX_PRODUCT_H_

#include <cstdint>
#include <type_traits>

#include "kernels/engine/arena.h"
#include "kernels/engine/elements.h"
#include "kernels/engine/executor.h"
#include "kernels/engine/parallel.h"

namespace rnn {

// The right operand B [depth, columns], in panels of the width the micro-kernel
// dictates (simd_kernels.h).
template <typename Operand>
struct PackedMatrix {
  int64_t depth = 0;  // padded; so are the rows of the left operand
  int64_t columns = 0;
  Operand* panels = nullptr;

  static PackedMatrix Take(Arena& arena, int64_t max_depth,
                           int64_t max_columns);

  int64_t num_panels() const;
  const Operand* panel(int64_t index) const;
};

// B[k][j] = source[k * stride + j]
template <typename Element, typename Operand>
void Pack(const Element* source, int64_t stride, int64_t depth, int64_t columns,
          Executor& executor, PackedMatrix<Operand>* packed);

// Columns that lie in a source in another order: piece p is the `width` columns
// from begins[p] on.
struct Pieces {
  const int64_t* begins;
  int count;
  int64_t width;

  int64_t columns() const { return count * width; }
};

// B[k][p * width + u] = source[k * stride + begins[p] + u]
template <typename Element, typename Operand>
void PackPieces(const Element* source, int64_t stride, int64_t depth,
                const Pieces& pieces, Executor& executor,
                PackedMatrix<Operand>* packed);

// B[k][p * width + u] = rows[k][begins[p] + u]
template <typename Operand>
void PackRowPieces(const Operand* const* rows, int64_t depth,
                   const Pieces& pieces, Executor& executor,
                   PackedMatrix<Operand>* packed);

// B[p * width + u][j] = source[j * stride + begins[p] + u]
template <typename Element, typename Operand>
void PackTransposedPieces(const Element* source, int64_t stride,
                          const Pieces& pieces, int64_t columns,
                          Executor& executor, PackedMatrix<Operand>* packed);

// B[k][j] = rows[k][j]
template <typename Operand>
void PackRows(const Operand* const* rows, int64_t depth, int64_t columns,
              Executor& executor, PackedMatrix<Operand>* packed);

// B[k][j] = source[j * stride + k]
template <typename Element, typename Operand>
void PackTransposed(const Element* source, int64_t stride, int64_t depth,
                    int64_t columns, Executor& executor,
                    PackedMatrix<Operand>* packed);

// A step of B in `out`, as SimdKernels::pack_step makes it, of rows [k, ...)
// among `depth`: row(k) + offset is one.
template <typename Operand, typename Row>
void PackStepOf(int64_t k, int64_t depth, int64_t offset, int64_t columns,
                Operand* out, Row row) {
  using Element = std::remove_const_t<std::remove_pointer_t<decltype(row(k))>>;
  if constexpr (std::is_same_v<Element, Operand> && kDepthStep<Operand> > 1) {
    const Element* rows[kDepthStep<Operand>] = {};
    for (int i = 0; i < kDepthStep<Operand> && k + i < depth; ++i) {
      rows[i] = row(k + i) + offset;
    }
    Kernels<Operand>().pack_step(rows, columns, out);
  } else {
    Load(row(k) + offset, out, columns);
  }
}

// As SimdKernels::pack_columns, from any element type. `k_out` is where
// `k_begin` comes in the depth that `out` begins with 0 of: a step may end with
// one call and begin with the one before.
template <typename Element, typename Operand>
void PackColumns(const Element* const* rows, int64_t columns, int64_t k_begin,
                 int64_t k_end, int64_t k_out, Operand* out);

// The right operand where the caller keeps it, for products of so few rows that
// packing would cost more than it saves. Either transposed,
//   B[k][j] = source[j * stride + k],
// or, if there are pieces, as PackPieces has it; then no panel has columns of
// two pieces, and each has as many as a vector has lanes, unless it is the only
// one. The depth is one of whole steps.
template <typename Operand>
struct UnpackedMatrix {
  int64_t depth;
  int64_t columns;
  const Operand* source;
  int64_t stride;
  Pieces pieces = {nullptr, 0, 0};
  // Packed, as it is read in whole vectors, which may reach beyond the end of
  // `source`: the panel of its last columns. nullptr where none does.
  const Operand* last_panel = nullptr;

  int64_t num_panels() const;
};

// Packs the last panel of a matrix of pieces into `memory`, which has room for
// a panel, if it must not be read where it lies.
template <typename Operand>
void PackLastPanel(UnpackedMatrix<Operand>* matrix, Operand* memory);

// Weights as the right operand of products, in one of the two ways. Packing
// needs the memory that `packed` was taken with.
template <typename Operand>
struct WeightMatrix {
  PackedMatrix<Operand> packed;
  UnpackedMatrix<Operand> unpacked;
  bool is_packed = true;

  int64_t num_panels() const;
};

// c[m] (+)= a[m] B + bias, for all rows m.
template <typename Operand>
struct RowsTimesMatrix {
  using F = ComputeType<Operand>;
  int64_t rows = 0;
  const Operand* const* a = nullptr;  // [rows] -> [depth]
  const PackedMatrix<Operand>* b = nullptr;
  const UnpackedMatrix<Operand>* unpacked = nullptr;  // in place of b
  F* const* c = nullptr;                              // [rows] -> [columns]
  const F* bias = nullptr;                            // [columns]
  bool accumulate = false;

  int64_t depth() const { return unpacked ? unpacked->depth : b->depth; }
  int64_t columns() const { return unpacked ? unpacked->columns : b->columns; }

  void SetRightOperand(const WeightMatrix<Operand>& weights) {
    if (weights.is_packed) {
      b = &weights.packed;
    } else {
      unpacked = &weights.unpacked;
    }
  }
};

template <typename Operand>
void Multiply(const RowsTimesMatrix<Operand>& product, Executor& executor);

// The part of a product that one panel of B contributes to some rows.
template <typename Operand>
void MultiplyPanel(const RowsTimesMatrix<Operand>& product,
                   const PanelRows& part);

}  // namespace rnn

#endif  // KERNELS_ENGINE_MATRIX_PRODUCT_H_
