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
#include "kernels/engine/parts.h"

namespace rnn {

// So many panels are filled at a time from rows, which are read across them: a
// panel's part of a row is short.
inline constexpr int64_t kPanelsTogether = 16;

// The right operand B [depth, columns], in panels of the width the micro-kernel
// dictates (simd_kernels.h).
template <typename Operand>
struct PackedMatrix {
  int64_t depth = 0;  // padded; so are the rows of the left operand
  int64_t columns = 0;
  Operand* panels = nullptr;
  // If floats are in parts: these are what is in `panels`.
  bool in_parts = false;
  PartsDepth parts_depth;

  // `depth_pieces` is how many pieces parts have room for.
  static PackedMatrix Take(Arena& arena, int64_t max_depth, int64_t max_columns,
                           bool may_be_in_parts = false, int depth_pieces = 1);

  // Settles how the matrix is packed next.
  void SetInParts(bool are_parts, int depth_pieces = 1);
  void SetSize(int64_t new_depth, int64_t new_columns);

  int64_t num_panels() const;
  const Operand* panel(int64_t index) const;
  BFloat16* parts_panel(int64_t index) const;

 private:
  int depth_pieces_ = 1;
};

// Columns, or places of depth, that lie in a source in another order: piece p
// is the `width` from begins[p] on.
struct Pieces {
  const int64_t* begins;  // [count], or nullptr: one piece, which begins at 0
  int count;
  int64_t width;

  int64_t size() const { return count * width; }
  int64_t begin(int piece) const { return begins ? begins[piece] : 0; }
};

// A matrix B [depth, columns] as it lies in a tensor.
template <typename Element>
struct MatrixSource {
  const Element* values;
  int64_t stride;
  int64_t depth;
  int64_t columns;
  bool is_transposed;
  Pieces pieces;  // of the columns or, if transposed, of the depth

  // B[k][j] = values[k * stride + j]
  static MatrixSource Rows(const Element* values, int64_t stride, int64_t depth,
                           int64_t columns) {
    return {values, stride, depth, columns, false, {nullptr, 1, columns}};
  }
  // B[k][p * width + u] = values[k * stride + begins[p] + u]
  static MatrixSource Rows(const Element* values, int64_t stride, int64_t depth,
                           const Pieces& pieces) {
    return {values, stride, depth, pieces.size(), false, pieces};
  }
  // B[k][j] = values[j * stride + k]
  static MatrixSource Columns(const Element* values, int64_t stride,
                              int64_t depth, int64_t columns) {
    return {values, stride, depth, columns, true, {nullptr, 1, depth}};
  }
  // B[p * width + u][j] = values[j * stride + begins[p] + u]
  static MatrixSource Columns(const Element* values, int64_t stride,
                              const Pieces& pieces, int64_t columns) {
    return {values, stride, pieces.size(), columns, true, pieces};
  }
};

template <typename Element, typename Operand>
void Pack(const MatrixSource<Element>& source, Executor& executor,
          PackedMatrix<Operand>* packed);

// B[k][p * width + u] = rows[k][begins[p] + u]
template <typename Operand>
void PackRowPieces(const Operand* const* rows, int64_t depth,
                   const Pieces& pieces, Executor& executor,
                   PackedMatrix<Operand>* packed);

// B[k][j] = rows[k][j]
template <typename Operand>
void PackRows(const Operand* const* rows, int64_t depth, int64_t columns,
              Executor& executor, PackedMatrix<Operand>* packed);

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
    LoadFew(row(k) + offset, out, columns);
  }
}

// As SimdKernels::pack_columns, from any element type. `k_out` is where
// `k_begin` comes in the depth that `out` begins with 0 of: a step may end with
// one call and begin with the one before.
template <typename Element, typename Operand>
void PackColumns(const Element* const* rows, int64_t columns, int64_t k_begin,
                 int64_t k_end, int64_t k_out, Operand* out);

// The right operand where the caller keeps it, for products of so few rows that
// packing would cost more than it saves. If its columns are in pieces, no panel
// has columns of two, and each has as many as a vector has lanes, unless it is
// the only one. The depth is one of whole steps.
template <typename Operand>
struct UnpackedMatrix {
  MatrixSource<Operand> source;
  // Packed, as rows are read in whole vectors, which may reach beyond the end
  // of the source: the panel of its last columns. nullptr where none does.
  const Operand* last_panel = nullptr;

  int64_t num_panels() const;
};

// Packs the last panel of a matrix of rows into `memory`, which has room for a
// panel, if it must not be read where it lies.
template <typename Operand>
void PackLastPanel(UnpackedMatrix<Operand>* matrix, Operand* memory);

// c[m] (+)= a[m] B + bias, for all rows m.
template <typename Operand>
struct RowsTimesMatrix {
  using F = ComputeType<Operand>;
  int64_t rows = 0;
  const Operand* const* a = nullptr;  // [rows] -> [depth]
  // If b is in parts: memory for those of a or, if `a` is nullptr, a itself.
  LeftParts left_parts;
  const PackedMatrix<Operand>* b = nullptr;
  const UnpackedMatrix<Operand>* unpacked = nullptr;  // in place of b
  F* const* c = nullptr;  // [rows] -> row; columns start at c_offset
  int64_t c_offset = 0;
  const F* bias = nullptr;  // [columns]
  bool accumulate = false;

  int64_t depth() const { return unpacked ? unpacked->source.depth : b->depth; }
  int64_t columns() const {
    return unpacked ? unpacked->source.columns : b->columns;
  }
};

template <typename Operand>
void Multiply(const RowsTimesMatrix<Operand>& product, Executor& executor);

// The same for a right operand that no other product needs: what is packed of
// `source` is multiplied at once, while a core's cache holds it. `memory` is
// what the operand would be packed into; it holds nothing in the end.
template <typename Element, typename Operand>
void PackAndMultiply(const MatrixSource<Element>& source,
                     const RowsTimesMatrix<Operand>& product,
                     PackedMatrix<Operand>* memory, Executor& executor);

// Whether panels that one product needs are worth packing when their turn
// comes, by the thread that multiplies `rows` with them: `row_bytes` of each
// have to stay in its cache meanwhile, and each thread to have panels enough.
// Bits are the same either way.
bool PacksPanelsInTurn(const Executor& executor, int64_t rows,
                       int64_t row_bytes, int64_t num_panels);

// Weights as the right operand of products.
template <typename Element, typename Operand>
struct WeightMatrix {
  enum class Use {
    kPacked,
    kPackedByProduct,  // there is one, which packs panels in turn
    kInPlace,          // only if Element is Operand; see UnpackedMatrix
  };

  static WeightMatrix Take(Arena& arena, int64_t max_depth, int64_t max_columns,
                           bool may_be_in_parts = false, int depth_pieces = 1) {
    WeightMatrix weights;
    weights.packed = PackedMatrix<Operand>::Take(arena, max_depth, max_columns,
                                                 may_be_in_parts, depth_pieces);
    return weights;
  }

  // packed.SetInParts() comes first.
  void Set(const MatrixSource<Element>& new_source, Use new_use,
           Executor& executor);
  int64_t num_panels() const;
  // If they are not packed by products.
  void SetRightOperand(RowsTimesMatrix<Operand>* product) const;

  Use use = Use::kPacked;
  MatrixSource<Element> source;
  PackedMatrix<Operand> packed;  // or memory for it
  UnpackedMatrix<Operand> unpacked;
};

// product.c (+)= product.a times weights + bias
template <typename Element, typename Operand>
void Multiply(RowsTimesMatrix<Operand> product,
              WeightMatrix<Element, Operand>* weights, Executor& executor);

// Splits the left operand if b is in parts. Multiply() does so itself.
template <typename Operand>
void SplitLeft(const RowsTimesMatrix<Operand>& product, Executor& executor);

// The part of a product that one panel of B contributes to some rows. If B is
// in parts, so must be the left operand.
template <typename Operand>
void MultiplyPanel(const RowsTimesMatrix<Operand>& product,
                   const PanelRows& part);
// The same for up to kMaxProductsInParts products in parts, one after another,
// all of the same depth; part.next_panel is of the first.
inline constexpr int kMaxProductsInParts = 4;
void MultiplyPanelsInParts(const RowsTimesMatrix<float>* products, int count,
                           const PanelRows& part);

}  // namespace rnn

#endif  // KERNELS_ENGINE_MATRIX_PRODUCT_H_
