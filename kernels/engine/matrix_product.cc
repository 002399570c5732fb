#include "kernels/engine/matrix_product.h"

#include <algorithm>

#include "kernels/engine/cache.h"
#include "kernels/engine/elements.h"
#include "kernels/engine/parallel.h"

namespace rnn {

namespace {

constexpr int64_t kMaxPanelColumns = 256;

constexpr int64_t kRowBlock = 24;

// Reading a weight from far costs about as much as so many multiply-adds.
constexpr int64_t kMovedRows = 4;

template <typename Operand>
int64_t NumPanels(int64_t columns) {
  const int64_t width = Kernels<Operand>().panel_columns;
  return (columns + width - 1) / width;
}

// Fills every panel: fill(first panel, panel after the last).
template <typename Operand, typename Fill>
void FillPanels(PackedMatrix<Operand>* packed, int64_t depth, int64_t columns,
                Executor& executor, Fill fill) {
  packed->depth = PaddedDepth<Operand>(depth);
  packed->columns = columns;
  ParallelFor(executor, packed->num_panels(),
              packed->depth * Kernels<Operand>().panel_columns * kMoveWork,
              fill);
}

// From rows: row(k) -> all columns.
template <typename Operand, typename Row>
void FillPanelsWithPieces(PackedMatrix<Operand>* packed, int64_t depth,
                          const Pieces& pieces, Executor& executor, Row row) {
  // A row is read across panels, for a panel's part of it is short.
  constexpr int64_t kPanelsTogether = 16;
  constexpr int64_t kStep = kDepthStep<Operand>;
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  const int64_t width = pieces.width;
  const auto fill_step = [&](int64_t k, int64_t panel) {
    const int64_t column = panel * panel_columns;
    const int64_t count = std::min(panel_columns, packed->columns - column);
    Operand* out = packed->panels + (panel * packed->depth + k) * panel_columns;
    for (int64_t j = 0; j < count;) {
      const int64_t piece = (column + j) / width;
      const int64_t u = (column + j) % width;
      const int64_t length = std::min(width - u, count - j);
      PackStepOf(k, depth, pieces.begins[piece] + u, length, out + j * kStep,
                 row);
      j += length;
    }
    std::fill(out + count * kStep, out + panel_columns * kStep, Operand{});
  };
  FillPanels(packed, depth, pieces.columns(), executor,
             [&](int64_t begin, int64_t end) {
               for (; begin < end; begin += kPanelsTogether) {
                 const int64_t group_end =
                     std::min(begin + kPanelsTogether, end);
                 for (int64_t k = 0; k < depth; k += kStep) {
                   for (int64_t panel = begin; panel < group_end; ++panel) {
                     fill_step(k, panel);
                   }
                 }
               }
             });
}

}  // namespace

template <typename Operand>
PackedMatrix<Operand> PackedMatrix<Operand>::Take(Arena& arena,
                                                  int64_t max_depth,
                                                  int64_t max_columns) {
  PackedMatrix packed;
  packed.panels = arena.Take<Operand>(PaddedDepth<Operand>(max_depth) *
                                      NumPanels<Operand>(max_columns) *
                                      Kernels<Operand>().panel_columns);
  return packed;
}

template <typename Operand>
int64_t PackedMatrix<Operand>::num_panels() const {
  return NumPanels<Operand>(columns);
}

template <typename Operand>
const Operand* PackedMatrix<Operand>::panel(int64_t index) const {
  return panels + index * depth * Kernels<Operand>().panel_columns;
}

template <typename Operand>
int64_t WeightMatrix<Operand>::num_panels() const {
  return is_packed ? packed.num_panels() : unpacked.num_panels();
}

template <typename Operand>
int64_t UnpackedMatrix<Operand>::num_panels() const {
  return pieces.count == 0 ? NumPanels<Operand>(columns)
                           : pieces.count * NumPanels<Operand>(pieces.width);
}

namespace {

// A panel's place in a matrix of pieces.
struct PieceColumns {
  int piece;
  int64_t first;  // of the piece
  int64_t count;
};

template <typename Operand>
PieceColumns ColumnsOfPanel(const Pieces& pieces, int64_t panel) {
  const int64_t panels_per_piece = NumPanels<Operand>(pieces.width);
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  PieceColumns columns;
  columns.piece = static_cast<int>(panel / panels_per_piece);
  columns.first = panel % panels_per_piece * panel_columns;
  columns.count = std::min(panel_columns, pieces.width - columns.first);
  return columns;
}

// The panel of the last columns of the memory that the pieces lie in.
template <typename Operand>
int64_t LastPanel(const Pieces& pieces) {
  const int64_t piece =
      std::max_element(pieces.begins, pieces.begins + pieces.count) -
      pieces.begins;
  return (piece + 1) * NumPanels<Operand>(pieces.width) - 1;
}

}  // namespace

template <typename Operand>
void PackLastPanel(UnpackedMatrix<Operand>* matrix, Operand* memory) {
  matrix->last_panel = nullptr;
  const Pieces& pieces = matrix->pieces;
  if (pieces.width % Kernels<Operand>().lanes == 0) return;
  constexpr int64_t kStep = kDepthStep<Operand>;
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  const PieceColumns columns =
      ColumnsOfPanel<Operand>(pieces, LastPanel<Operand>(pieces));
  const int64_t first = pieces.begins[columns.piece] + columns.first;
  for (int64_t k = 0; k < matrix->depth; k += kStep) {
    Operand* out = memory + k * panel_columns;
    PackStepOf(k, matrix->depth, first, columns.count, out, [&](int64_t row) {
      return matrix->source + row * matrix->stride;
    });
    std::fill(out + columns.count * kStep, out + panel_columns * kStep,
              Operand{});
  }
  matrix->last_panel = memory;
}

template <typename Element, typename Operand>
void Pack(const Element* source, int64_t stride, int64_t depth, int64_t columns,
          Executor& executor, PackedMatrix<Operand>* packed) {
  const int64_t begin = 0;
  PackPieces(source, stride, depth, {&begin, 1, columns}, executor, packed);
}

template <typename Element, typename Operand>
void PackPieces(const Element* source, int64_t stride, int64_t depth,
                const Pieces& pieces, Executor& executor,
                PackedMatrix<Operand>* packed) {
  FillPanelsWithPieces(packed, depth, pieces, executor,
                       [&](int64_t k) { return source + k * stride; });
}

template <typename Operand>
void PackRowPieces(const Operand* const* rows, int64_t depth,
                   const Pieces& pieces, Executor& executor,
                   PackedMatrix<Operand>* packed) {
  FillPanelsWithPieces(packed, depth, pieces, executor,
                       [&](int64_t k) { return rows[k]; });
}

template <typename Operand>
void PackRows(const Operand* const* rows, int64_t depth, int64_t columns,
              Executor& executor, PackedMatrix<Operand>* packed) {
  const int64_t begin = 0;
  PackRowPieces(rows, depth, {&begin, 1, columns}, executor, packed);
}

template <typename Element, typename Operand>
void PackColumns(const Element* const* rows, int64_t columns, int64_t k_begin,
                 int64_t k_end, int64_t k_out, Operand* out) {
  constexpr int64_t kStep = kDepthStep<Operand>;
  if constexpr (kComputesInPlace<Element, Operand>) {
    out += k_out / kStep * kStep * columns;
    int64_t k = k_begin;
    // Place `place` of a step, of which the rest is not ours.
    const auto pack_one = [&](int64_t place) {
      for (int64_t j = 0; j < columns; ++j) {
        out[j * kStep + place] = rows[j] == nullptr ? Element{} : rows[j][k];
      }
      ++k;
    };
    if (k_out % kStep != 0 && k < k_end) {
      pack_one(1);
      out += kStep * columns;
    }
    const int64_t whole = (k_end - k) / kStep * kStep;
    Kernels<Operand>().pack_columns(rows, columns, k, k + whole, out);
    out += whole * columns;
    k += whole;
    if (k < k_end) {
      std::fill_n(out, columns * kStep, Element{});
      pack_one(0);
    }
    return;
  } else {
    // Rows are converted in pieces; a block of `out` stays in L1 meanwhile.
    constexpr int64_t kBlock = 16;
    out += k_out * columns;
    for (int64_t k = k_begin; k < k_end; k += kBlock) {
      const int64_t count = std::min(kBlock, k_end - k);
      Operand* block = out + (k - k_begin) * columns;
      for (int64_t j = 0; j < columns; ++j) {
        Operand values[kBlock] = {};
        if (rows[j] != nullptr) Load(rows[j] + k, values, count);
        for (int64_t i = 0; i < count; ++i) block[i * columns + j] = values[i];
      }
    }
  }
}

template <typename Element, typename Operand>
void PackTransposed(const Element* source, int64_t stride, int64_t depth,
                    int64_t columns, Executor& executor,
                    PackedMatrix<Operand>* packed) {
  const int64_t begin = 0;
  PackTransposedPieces(source, stride, {&begin, 1, depth}, columns, executor,
                       packed);
}

template <typename Element, typename Operand>
void PackTransposedPieces(const Element* source, int64_t stride,
                          const Pieces& pieces, int64_t columns,
                          Executor& executor, PackedMatrix<Operand>* packed) {
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  const auto fill_panel = [&](int64_t panel) {
    const int64_t column = panel * panel_columns;
    Operand* out = packed->panels + panel * packed->depth * panel_columns;
    const Element* rows[kMaxPanelColumns] = {};
    for (int64_t j = 0; j < std::min(panel_columns, columns - column); ++j) {
      rows[j] = source + (column + j) * stride;
    }
    for (int piece = 0; piece < pieces.count; ++piece) {
      const int64_t begin = pieces.begins[piece];
      PackColumns(rows, panel_columns, begin, begin + pieces.width,
                  piece * pieces.width, out);
    }
  };
  FillPanels(packed, pieces.columns(), columns, executor,
             [&](int64_t begin, int64_t end) {
               for (; begin < end; ++begin) fill_panel(begin);
             });
}

template <typename Operand>
PanelProduct<Operand> ProductOf(const RowsTimesMatrix<Operand>& p,
                                const PanelRows& part, int64_t depth) {
  PanelProduct<Operand> product{};
  product.rows = part.row_end - part.row_begin;
  product.depth = depth;
  product.a = p.a + part.row_begin;
  product.c = p.c + part.row_begin;
  product.accumulate = p.accumulate;
  return product;
}

// A panel's columns, from `column` to no more than `end`.
template <typename Operand>
void SetColumns(const RowsTimesMatrix<Operand>& p, int64_t column, int64_t end,
                PanelProduct<Operand>* product) {
  product->columns =
      std::min<int64_t>(Kernels<Operand>().panel_columns, end - column);
  product->c_offset = column;
  product->bias = p.bias == nullptr ? nullptr : p.bias + column;
}

// What [k_begin, k_end) of the depth contributes, k_begin being the first of a
// block.
template <typename Operand>
void MultiplyPacked(const RowsTimesMatrix<Operand>& p, const PanelRows& part,
                    int64_t k_begin, int64_t k_end) {
  const SimdKernels<Operand>& kernels = Kernels<Operand>();
  const int64_t first = k_begin * kernels.panel_columns;
  PanelProduct<Operand> product = ProductOf(p, part, k_end - k_begin);
  SetColumns(p, part.panel * kernels.panel_columns, p.b->columns, &product);
  product.a_offset = k_begin;
  product.accumulate = p.accumulate || k_begin > 0;
  product.b.packed = p.b->panel(part.panel) + first;
  if (part.next_panel != PanelRows::kNone) {
    product.b.next = p.b->panel(part.next_panel) + first;
  }
  kernels.multiply_panel(product);
}

template <typename Operand>
void MultiplyUnpacked(const RowsTimesMatrix<Operand>& p,
                      const PanelRows& part) {
  const SimdKernels<Operand>& kernels = Kernels<Operand>();
  const UnpackedMatrix<Operand>& b = *p.unpacked;
  PanelProduct<Operand> product = ProductOf(p, part, b.depth);
  const Operand* rows[kMaxPanelColumns] = {};
  if (b.pieces.count == 0) {
    const int64_t column = part.panel * kernels.panel_columns;
    SetColumns(p, column, b.columns, &product);
    for (int64_t j = 0; j < product.columns; ++j) {
      rows[j] = b.source + (column + j) * b.stride;
    }
    product.b.rows = rows;
  } else {
    const auto columns = ColumnsOfPanel<Operand>(b.pieces, part.panel);
    const int64_t piece = columns.piece * b.pieces.width;
    SetColumns(p, piece + columns.first, piece + b.pieces.width, &product);
    if (b.last_panel != nullptr && part.panel == LastPanel<Operand>(b.pieces)) {
      product.b.packed = b.last_panel;
    } else {
      const Operand* first =
          b.source + b.pieces.begins[columns.piece] + columns.first;
      for (int64_t j = 0; j < product.columns; j += kernels.lanes) {
        product.b.vectors[j / kernels.lanes] = first + j;
      }
      product.b.stride = b.stride;
    }
  }
  kernels.multiply_panel(product);
}

template <typename Operand>
void MultiplyPanel(const RowsTimesMatrix<Operand>& p, const PanelRows& part) {
  if (p.unpacked == nullptr) {
    MultiplyPacked(p, part, 0, p.b->depth);
  } else {
    MultiplyUnpacked(p, part);
  }
}

// A small B stays in the cache, so that rows of c can be written from end to
// end: they may lie far apart, and a panel is a short piece of each.
template <typename Operand>
void MultiplyRowBlocks(const RowsTimesMatrix<Operand>& p, Executor& executor) {
  const int64_t num_panels = NumPanels<Operand>(p.columns());
  ParallelFor(executor, (p.rows + kRowBlock - 1) / kRowBlock,
              2 * kRowBlock * p.depth() * p.columns(),
              [&](int64_t begin, int64_t end) {
                for (int64_t block = begin; block < end; ++block) {
                  const int64_t row = block * kRowBlock;
                  const int64_t row_end = std::min(row + kRowBlock, p.rows);
                  for (int64_t i = 0; i < num_panels; ++i) {
                    MultiplyPanel(p, {i, PanelRows::kNone, row, row_end});
                  }
                }
              });
}

// As much of A as stays in a core's cache, a block of depth of some rows, while
// B comes by, panel after panel.
template <typename Operand>
void MultiplyBlocks(const RowsTimesMatrix<Operand>& p, Executor& executor) {
  const int64_t num_panels = NumPanels<Operand>(p.columns());
  const int64_t depth_block =
      std::min(p.depth(), Kernels<Operand>().depth_block);
  const int64_t row_bytes = depth_block * int64_t{sizeof(Operand)};
  const int64_t rows_together =
      std::max(kRowBlock, CoreCacheBytes() / 4 * 3 / row_bytes);
  const int64_t work = 2 * p.rows * depth_block * p.columns();
  const int64_t num_blocks =
      std::max((p.rows + rows_together - 1) / rows_together,
               NumRowBlocks(NumTasks(executor, work), num_panels, p.rows));
  const int64_t num_parts = num_blocks * num_panels;
  for (int64_t k = 0; k < p.depth(); k += depth_block) {
    const int64_t k_end = std::min(k + depth_block, p.depth());
    ParallelFor(
        executor, num_parts, work / num_parts, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t block = i / num_panels;
            PanelRows part;
            part.panel = i % num_panels;
            part.next_panel =
                i + 1 == num_parts ? PanelRows::kNone : (i + 1) % num_panels;
            part.row_begin = p.rows * block / num_blocks;
            part.row_end = p.rows * (block + 1) / num_blocks;
            MultiplyPacked(p, part, k, k_end);
          }
        });
  }
}

template <typename Operand>
void Multiply(const RowsTimesMatrix<Operand>& p, Executor& executor) {
  if (p.rows == 0) return;
  if (p.unpacked != nullptr) {
    ParallelPanels(executor, p.unpacked->num_panels(), Order::kAscending, 0,
                   p.rows, 2 * (kMovedRows + p.rows) * p.depth() * p.columns(),
                   [&](const PanelRows& part) { MultiplyPanel(p, part); });
  } else if (p.depth() * p.columns() * int64_t{sizeof(Operand)} <=
             CoreCacheBytes() / 4) {
    MultiplyRowBlocks(p, executor);
  } else {
    MultiplyBlocks(p, executor);
  }
}

#define RNN_INSTANTIATE(Operand)                                             \
  template struct PackedMatrix<Operand>;                                     \
  template struct WeightMatrix<Operand>;                                     \
  template struct UnpackedMatrix<Operand>;                                   \
  template void PackLastPanel(UnpackedMatrix<Operand>*, Operand*);           \
  template void PackRowPieces(const Operand* const*, int64_t, const Pieces&, \
                              Executor&, PackedMatrix<Operand>*);            \
  template void PackRows(const Operand* const*, int64_t, int64_t, Executor&, \
                         PackedMatrix<Operand>*);                            \
  template void MultiplyPanel(const RowsTimesMatrix<Operand>&,               \
                              const PanelRows&);                             \
  template void Multiply(const RowsTimesMatrix<Operand>&, Executor&);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(double)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

#define RNN_INSTANTIATE(Element, Operand)                                     \
  template void Pack(const Element*, int64_t, int64_t, int64_t, Executor&,    \
                     PackedMatrix<Operand>*);                                 \
  template void PackPieces(const Element*, int64_t, int64_t, const Pieces&,   \
                           Executor&, PackedMatrix<Operand>*);                \
  template void PackTransposedPieces(const Element*, int64_t, const Pieces&,  \
                                     int64_t, Executor&,                      \
                                     PackedMatrix<Operand>*);                 \
  template void PackTransposed(const Element*, int64_t, int64_t, int64_t,     \
                               Executor&, PackedMatrix<Operand>*);            \
  template void PackColumns(const Element* const*, int64_t, int64_t, int64_t, \
                            int64_t, Operand*);
RNN_INSTANTIATE(float, float)
RNN_INSTANTIATE(double, double)
RNN_INSTANTIATE(Half, float)
RNN_INSTANTIATE(BFloat16, float)
RNN_INSTANTIATE(BFloat16, BFloat16)
#undef RNN_INSTANTIATE

}  // namespace rnn
