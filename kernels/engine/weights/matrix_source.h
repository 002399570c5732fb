// A matrix as it lies in memory, for those who multiply by it.
#ifndef KERNELS_ENGINE_WEIGHTS_MATRIX_SOURCE_H_
#define KERNELS_ENGINE_WEIGHTS_MATRIX_SOURCE_H_

#include <cstdint>

#include "network/cell.h"

namespace rnn {

// Columns, or places of depth, that lie in memory in another order: piece p is
// the `width` from begins[p] on.
struct Pieces {
  int64_t begins[kMaxGates] = {};
  int count = 1;
  int64_t width = 0;

  // All of it, as it lies.
  static Pieces Whole(int64_t width) { return {{}, 1, width}; }

  int64_t size() const { return count * width; }
  // Whether they lie as they come.
  bool IsWhole() const {
    for (int i = 0; i < count; ++i) {
      if (begins[i] != i * width) return false;
    }
    return true;
  }
  // Where place `i` lies.
  int64_t PlaceOf(int64_t i) const { return begins[i / width] + i % width; }
  // How many lie one after another from place `i` on.
  int64_t NumTogether(int64_t i) const {
    int64_t piece = i / width;
    while (piece + 1 < count && begins[piece + 1] == begins[piece] + width) {
      ++piece;
    }
    return (piece + 1) * width - i;
  }
};

// B [depth, columns].
template <typename Element>
struct MatrixSource {
  // Rows of memory: row(i) is B[i] or, if transposed, its column i.
  const Element* values = nullptr;
  int64_t stride = 0;
  const Element* const* rows = nullptr;  // instead of values, or nullptr
  int64_t depth = 0;
  int64_t columns = 0;
  bool is_transposed = false;
  Pieces pieces;  // of a row of memory

  const Element* row(int64_t i) const {
    return rows != nullptr ? rows[i] : values + i * stride;
  }

  // B[k][p * width + u] = values[k * stride + begins[p] + u]
  static MatrixSource Rows(const Element* values, int64_t stride, int64_t depth,
                           const Pieces& pieces) {
    MatrixSource source;
    source.values = values;
    source.stride = stride;
    source.depth = depth;
    source.columns = pieces.size();
    source.pieces = pieces;
    return source;
  }
  // B[k][p * width + u] = rows[k][begins[p] + u]
  static MatrixSource RowsAt(const Element* const* rows, int64_t depth,
                             const Pieces& pieces) {
    MatrixSource source;
    source.rows = rows;
    source.depth = depth;
    source.columns = pieces.size();
    source.pieces = pieces;
    return source;
  }
  // B[k][j] = values[j * stride + k]
  static MatrixSource Columns(const Element* values, int64_t stride,
                              int64_t depth, int64_t columns) {
    MatrixSource source;
    source.values = values;
    source.stride = stride;
    source.depth = depth;
    source.columns = columns;
    source.is_transposed = true;
    source.pieces = Pieces::Whole(depth);
    return source;
  }

  MatrixSource Transposed() const {
    MatrixSource other = *this;
    other.depth = columns;
    other.columns = depth;
    other.is_transposed = !is_transposed;
    return other;
  }
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_MATRIX_SOURCE_H_
