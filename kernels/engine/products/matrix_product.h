// Products of rows with a packed matrix. Operand is as in simd_kernels.h, and F
// the type that it is computed in.
#ifndef KERNELS_ENGINE_PRODUCTS_MATRIX_PRODUCT_H_
#define KERNELS_ENGINE_PRODUCTS_MATRIX_PRODUCT_H_

#include <cstdint>

#include "kernels/engine/plan/arena.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/weights/packing.h"
#include "kernels/engine/weights/parts.h"

namespace rnn {

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

  int64_t depth() const {
    return unpacked ? unpacked->source().depth : b->depth;
  }
  int64_t columns() const {
    return unpacked ? unpacked->source().columns : b->columns;
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

#endif  // KERNELS_ENGINE_PRODUCTS_MATRIX_PRODUCT_H_
