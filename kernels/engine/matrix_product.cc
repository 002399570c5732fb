#include "kernels/engine/matrix_product.h"

#include <algorithm>

#include "kernels/engine/elements.h"
#include "kernels/engine/parallel.h"

namespace rnn {

namespace {

constexpr int64_t kMaxPanelColumns = 256;

// Bytes of a packed matrix that leave room for more in an L2 cache.
constexpr int64_t kMaxCachedBytes = int64_t{1} << 18;
constexpr int64_t kRowBlock = 24;

// Reading a weight from far costs about as much as so many multiply-adds.
constexpr int64_t kMovedRows = 4;

template <typename F>
int64_t NumPanels(int64_t columns) {
  const int64_t width = Kernels<F>().panel_columns;
  return (columns + width - 1) / width;
}

// Fills every panel: fill(first column, number of columns, out).
template <typename F, typename Fill>
void FillPanels(PackedMatrix<F>* packed, int64_t depth, int64_t columns,
                Executor& executor, Fill fill) {
  packed->depth = depth;
  packed->columns = columns;
  const int64_t width = Kernels<F>().panel_columns;
  ParallelFor(executor, packed->num_panels(), depth * width,
              [&](int64_t begin, int64_t end) {
                for (int64_t panel = begin; panel < end; ++panel) {
                  const int64_t column = panel * width;
                  fill(column, std::min(width, columns - column),
                       packed->panels + panel * depth * width);
                }
              });
}

// From rows: row(k) -> all columns.
template <typename F, typename Row>
void FillPanelsWithPieces(PackedMatrix<F>* packed, int64_t depth,
                          const Pieces& pieces, Executor& executor, Row row) {
  const int64_t panel_columns = Kernels<F>().panel_columns;
  const int64_t width = pieces.width;
  FillPanels(packed, depth, pieces.columns(), executor,
             [&](int64_t column, int64_t count, F* out) {
               for (int64_t k = 0; k < depth; ++k, out += panel_columns) {
                 for (int64_t j = 0; j < count;) {
                   const int64_t piece = (column + j) / width;
                   const int64_t u = (column + j) % width;
                   const int64_t length = std::min(width - u, count - j);
                   Load(row(k) + pieces.begins[piece] + u, out + j, length);
                   j += length;
                 }
                 std::fill(out + count, out + panel_columns, F{0});
               }
             });
}

}  // namespace

template <typename F>
PackedMatrix<F> PackedMatrix<F>::Take(Arena& arena, int64_t max_depth,
                                      int64_t max_columns) {
  PackedMatrix packed;
  packed.panels = arena.Take<F>(max_depth * NumPanels<F>(max_columns) *
                                Kernels<F>().panel_columns);
  return packed;
}

template <typename F>
int64_t PackedMatrix<F>::num_panels() const {
  return NumPanels<F>(columns);
}

template <typename F>
const F* PackedMatrix<F>::panel(int64_t index) const {
  return panels + index * depth * Kernels<F>().panel_columns;
}

template <typename Element>
void Pack(const Element* source, int64_t stride, int64_t depth, int64_t columns,
          Executor& executor, PackedMatrix<ComputeType<Element>>* packed) {
  using F = ComputeType<Element>;
  const int64_t width = Kernels<F>().panel_columns;
  FillPanels(packed, depth, columns, executor,
             [&](int64_t column, int64_t count, F* out) {
               for (int64_t k = 0; k < depth; ++k, out += width) {
                 Load(source + k * stride + column, out, count);
                 std::fill(out + count, out + width, F{0});
               }
             });
}

template <typename Element>
void PackPieces(const Element* source, int64_t stride, int64_t depth,
                const Pieces& pieces, Executor& executor,
                PackedMatrix<ComputeType<Element>>* packed) {
  FillPanelsWithPieces(packed, depth, pieces, executor,
                       [&](int64_t k) { return source + k * stride; });
}

template <typename F>
void PackRowPieces(const F* const* rows, int64_t depth, const Pieces& pieces,
                   Executor& executor, PackedMatrix<F>* packed) {
  FillPanelsWithPieces(packed, depth, pieces, executor,
                       [&](int64_t k) { return rows[k]; });
}

template <typename F>
void PackRows(const F* const* rows, int64_t depth, int64_t columns,
              Executor& executor, PackedMatrix<F>* packed) {
  const int64_t width = Kernels<F>().panel_columns;
  FillPanels(packed, depth, columns, executor,
             [&](int64_t column, int64_t count, F* out) {
               for (int64_t k = 0; k < depth; ++k, out += width) {
                 std::copy_n(rows[k] + column, count, out);
                 std::fill(out + count, out + width, F{0});
               }
             });
}

template <typename Element>
void TransposeRows(const Element* const* rows, int64_t columns, int64_t k_begin,
                   int64_t k_end, ComputeType<Element>* out) {
  using F = ComputeType<Element>;
  if constexpr (kComputesInPlace<Element>) {
    Kernels<F>().transpose_rows(rows, columns, k_begin, k_end, out, columns);
    return;
  }
  // Rows are converted in pieces; a block of `out` stays in L1 meanwhile.
  constexpr int64_t kBlock = 16;
  for (int64_t k = k_begin; k < k_end; k += kBlock) {
    const int64_t count = std::min(kBlock, k_end - k);
    F* block = out + (k - k_begin) * columns;
    for (int64_t j = 0; j < columns; ++j) {
      F values[kBlock] = {};
      if (rows[j] != nullptr) Load(rows[j] + k, values, count);
      for (int64_t i = 0; i < count; ++i) block[i * columns + j] = values[i];
    }
  }
}

template <typename Element>
void PackTransposed(const Element* source, int64_t stride, int64_t depth,
                    int64_t columns, Executor& executor,
                    PackedMatrix<ComputeType<Element>>* packed) {
  const int64_t begin = 0;
  PackTransposedPieces(source, stride, {&begin, 1, depth}, columns, executor,
                       packed);
}

template <typename Element>
void PackTransposedPieces(const Element* source, int64_t stride,
                          const Pieces& pieces, int64_t columns,
                          Executor& executor,
                          PackedMatrix<ComputeType<Element>>* packed) {
  using F = ComputeType<Element>;
  const int64_t panel_columns = Kernels<F>().panel_columns;
  FillPanels(packed, pieces.columns(), columns, executor,
             [&](int64_t column, int64_t count, F* out) {
               const Element* rows[kMaxPanelColumns] = {};
               for (int64_t j = 0; j < count; ++j) {
                 rows[j] = source + (column + j) * stride;
               }
               for (int piece = 0; piece < pieces.count; ++piece) {
                 const int64_t begin = pieces.begins[piece];
                 TransposeRows(rows, panel_columns, begin, begin + pieces.width,
                               out);
                 out += pieces.width * panel_columns;
               }
             });
}

template <typename F>
void MultiplyPanel(const RowsTimesMatrix<F>& p, int64_t panel,
                   int64_t row_begin, int64_t row_end) {
  const SimdKernels<F>& kernels = Kernels<F>();
  const int64_t column = panel * kernels.panel_columns;
  PanelProduct<F> product{};
  product.rows = row_end - row_begin;
  product.a = p.a + row_begin;
  product.c = p.c + row_begin;
  product.c_offset = column;
  product.bias = p.bias == nullptr ? nullptr : p.bias + column;
  product.accumulate = p.accumulate;
  const auto columns_of = [&](const auto& matrix) {
    return std::min<int64_t>(kernels.panel_columns, matrix.columns - column);
  };
  if (p.unpacked == nullptr) {
    product.depth = p.b->depth;
    product.columns = columns_of(*p.b);
    product.b.packed = p.b->panel(panel);
    kernels.multiply_panel(product);
    return;
  }
  const UnpackedMatrix<F>& b = *p.unpacked;
  product.depth = b.depth;
  product.columns = columns_of(b);
  const F* rows[kMaxPanelColumns] = {};
  if (b.pieces.count == 0) {
    for (int64_t j = 0; j < product.columns; ++j) {
      rows[j] = b.source + (column + j) * b.stride;
    }
    product.b.rows = rows;
  } else {
    for (int64_t j = 0; j < product.columns; j += kernels.lanes) {
      product.b.vectors[j / kernels.lanes] =
          b.source + b.pieces.begins[(column + j) / b.pieces.width] +
          (column + j) % b.pieces.width;
    }
    product.b.stride = b.stride;
  }
  kernels.multiply_panel(product);
}

template <typename F>
void Multiply(const RowsTimesMatrix<F>& p, Executor& executor) {
  const int64_t depth = p.unpacked ? p.unpacked->depth : p.b->depth;
  const int64_t columns = p.unpacked ? p.unpacked->columns : p.b->columns;
  const int64_t rows = p.unpacked ? kMovedRows + p.rows : p.rows;
  // A small B stays in the cache, so that rows of c can be written from end to
  // end: they may lie far apart, and a panel is a short piece of each.
  if (p.unpacked == nullptr &&
      depth * columns * int64_t{sizeof(F)} <= kMaxCachedBytes) {
    const int64_t num_blocks = (p.rows + kRowBlock - 1) / kRowBlock;
    ParallelFor(executor, num_blocks, 2 * kRowBlock * depth * columns,
                [&](int64_t begin, int64_t end) {
                  for (int64_t block = begin; block < end; ++block) {
                    const int64_t row = block * kRowBlock;
                    const int64_t row_end = std::min(row + kRowBlock, p.rows);
                    for (int64_t i = 0; i < NumPanels<F>(columns); ++i) {
                      MultiplyPanel(p, i, row, row_end);
                    }
                  }
                });
    return;
  }
  ParallelTiles(executor, NumPanels<F>(columns), 0, p.rows,
                2 * rows * depth * columns,
                [&](int64_t panel, int64_t row_begin, int64_t row_end) {
                  MultiplyPanel(p, panel, row_begin, row_end);
                });
}

#define RNN_INSTANTIATE(F)                                                 \
  template struct PackedMatrix<F>;                                         \
  template void PackRowPieces(const F* const*, int64_t, const Pieces&,     \
                              Executor&, PackedMatrix<F>*);                \
  template void PackRows(const F* const*, int64_t, int64_t, Executor&,     \
                         PackedMatrix<F>*);                                \
  template void MultiplyPanel(const RowsTimesMatrix<F>&, int64_t, int64_t, \
                              int64_t);                                    \
  template void Multiply(const RowsTimesMatrix<F>&, Executor&);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(double)
#undef RNN_INSTANTIATE

#define RNN_INSTANTIATE(Element)                                             \
  template void Pack(const Element*, int64_t, int64_t, int64_t, Executor&,   \
                     PackedMatrix<ComputeType<Element>>*);                   \
  template void PackPieces(const Element*, int64_t, int64_t, const Pieces&,  \
                           Executor&, PackedMatrix<ComputeType<Element>>*);  \
  template void PackTransposedPieces(const Element*, int64_t, const Pieces&, \
                                     int64_t, Executor&,                     \
                                     PackedMatrix<ComputeType<Element>>*);   \
  template void PackTransposed(const Element*, int64_t, int64_t, int64_t,    \
                               Executor&,                                    \
                               PackedMatrix<ComputeType<Element>>*);         \
  template void TransposeRows(const Element* const*, int64_t, int64_t,       \
                              int64_t, ComputeType<Element>*);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(double)
RNN_INSTANTIATE(Half)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

}  // namespace rnn
