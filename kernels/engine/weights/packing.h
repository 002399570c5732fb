// Right operands of products: packed, or where the caller keeps them. Operand
// is as in simd_kernels.h.
#ifndef KERNELS_ENGINE_WEIGHTS_PACKING_H_
#define KERNELS_ENGINE_WEIGHTS_PACKING_H_

#include <cstdint>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/arena.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/weights/parts.h"

namespace rnn {

// So many panels are filled at a time from rows, which are read across them: a
// panel's part of a row is short.
inline constexpr int64_t kPanelsTogether = 16;

// Panels of the width that the micro-kernel dictates (simd_kernels.h).
template <typename Operand>
int64_t NumPanels(int64_t columns) {
  const int64_t width = Kernels<Operand>().panel_columns;
  return (columns + width - 1) / width;
}

// The right operand B [depth, columns], in panels.
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

  // B[i] or, if transposed, its column i.
  const Element* row(int64_t i) const { return values + i * stride; }

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

// [k_begin, k_end) of the depth of panels [begin, end).
struct PanelBlocks {
  int64_t begin;
  int64_t end;
  int64_t k_begin;  // the first of a step
  int64_t k_end;
};

// Packs `blocks` of the source into `out`, where each panel's begins
// `out_stride` values after the one before.
template <typename Element, typename Operand>
void PackBlocks(const MatrixSource<Element>& source, const PanelBlocks& blocks,
                Operand* out, int64_t out_stride);

// Packs a block of one panel in parts, [k_begin, k_end) being of the depth as
// `packed` has it.
template <typename Element>
void PackBlockInParts(const MatrixSource<Element>& source,
                      const PackedMatrix<float>& packed, int64_t panel,
                      int64_t k_begin, int64_t k_end, BFloat16* out);

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
// packing would cost more than it saves. If its columns are in pieces, which
// must fit, no panel has columns of two. The depth is one of whole steps.
template <typename Operand>
class UnpackedMatrix {
 public:
  // Whether columns may be in so many pieces that follow each other in memory:
  // the last vector of all but the last piece must end within it.
  static bool Fits(int num_pieces, int64_t width) {
    return kDepthStep<Operand> == 1 || num_pieces == 1 ||
           width >= Kernels<Operand>().lanes;
  }

  // Columns [first, first + count) of a piece.
  struct PieceColumns {
    int piece;
    int64_t first;
    int64_t count;
  };

  // `memory` has room for a panel.
  void Set(const MatrixSource<Operand>& source, Operand* memory);

  const MatrixSource<Operand>& source() const { return source_; }
  int64_t num_panels() const;
  // Of a panel of a matrix that is not transposed.
  PieceColumns ColumnsOf(int64_t panel) const;
  // That panel, packed, if it must not be read where it lies: rows are read in
  // whole vectors, and those of the last columns may reach beyond the end of
  // the source. Otherwise nullptr.
  const Operand* Packed(int64_t panel) const;

 private:
  int64_t LastPanel() const;

  MatrixSource<Operand> source_;
  const Operand* last_panel_ = nullptr;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_PACKING_H_
