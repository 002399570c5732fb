#include "kernels/engine/weights/packing.h"

#include <algorithm>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/threads/parallel.h"

namespace rnn {

namespace {

constexpr int64_t kMaxPanelColumns = 256;

// Rows are read so many at a time, a short part of each for a panel. A multiple
// of any step of the depth.
constexpr int64_t kRowsTogether = 8;

// Fills every panel: fill(first panel, panel after the last).
template <typename Operand, typename Fill>
void FillPanels(PackedMatrix<Operand>* packed, int64_t depth, int64_t columns,
                Executor& executor, Fill fill) {
  packed->SetSize(depth, columns);
  ParallelFor(executor, packed->num_panels(),
              packed->depth * Kernels<Operand>().panel_columns * kMoveWork,
              fill);
}

// Starts to fetch `count` values.
template <typename Element>
void FetchLines(const Element* values, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(Element);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(values + i);
}

// A matrix [depth, columns]: row(k) has the columns, which are in pieces.
template <typename Row>
struct RowsInPieces {
  const Pieces& pieces;
  int64_t depth;
  Row row;
};
template <typename Row>
RowsInPieces(const Pieces&, int64_t, Row) -> RowsInPieces<Row>;

// Of a source that is not transposed.
template <typename Element>
auto RowsOf(const MatrixSource<Element>& source) {
  const auto row = [&source](int64_t k) { return source.row(k); };
  return RowsInPieces{source.pieces, source.depth, row};
}

// [k_begin, k_end) of a panel. k_begin is the first of a step.
template <typename Operand, typename Row>
void FillFromRows(const RowsInPieces<Row>& rows, int64_t panel, int64_t k_begin,
                  int64_t k_end, Operand* out) {
  const Pieces& pieces = rows.pieces;
  constexpr int64_t kStep = kDepthStep<Operand>;
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  const int64_t column = panel * panel_columns;
  const int64_t count = std::min(panel_columns, pieces.size() - column);
  // Columns [j, j + length) of the panel are those of one piece.
  for (int64_t j = 0, length; j < count; j += length) {
    const int64_t piece = (column + j) / pieces.width;
    const int64_t u = (column + j) % pieces.width;
    length = std::min(pieces.width - u, count - j);
    const int64_t offset = pieces.begin(static_cast<int>(piece)) + u;
    for (int64_t k = k_begin; k < k_end; k += kStep) {
      PackStepOf(k, rows.depth, offset, length,
                 out + (k - k_begin) * panel_columns + j * kStep, rows.row);
    }
  }
  if (count == panel_columns) return;
  for (int64_t k = k_begin; k < k_end; k += kStep) {
    Operand* step = out + (k - k_begin) * panel_columns;
    std::fill(step + count * kStep, step + panel_columns * kStep, Operand{});
  }
}

// As PackBlocks().
template <typename Operand, typename Row>
void FillBlocksFromRows(const RowsInPieces<Row>& rows,
                        const PanelBlocks& blocks, Operand* out,
                        int64_t out_stride) {
  const Pieces& pieces = rows.pieces;
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  const int64_t column = blocks.begin * panel_columns;
  const int64_t count =
      std::min(blocks.end * panel_columns, pieces.size()) - column;
  // Short parts of rows that lie far apart: the core does not fetch them ahead
  // by itself. (Of columns of two pieces, as if they were of the first.)
  constexpr int64_t kShortBytes = 512;
  using Element = std::remove_pointer_t<decltype(rows.row(0))>;
  const bool fetches_ahead = count * int64_t{sizeof(Element)} <= kShortBytes;
  const int64_t offset = pieces.begin(static_cast<int>(column / pieces.width)) +
                         column % pieces.width;
  for (int64_t k = blocks.k_begin; k < blocks.k_end; k += kRowsTogether) {
    const int64_t next = k + kRowsTogether;
    if (fetches_ahead) {
      const int64_t fetched_end = std::min(next + kRowsTogether, rows.depth);
      for (int64_t i = next; i < fetched_end; ++i) {
        FetchLines(rows.row(i) + offset, count);
      }
    }
    for (int64_t panel = blocks.begin; panel < blocks.end; ++panel) {
      FillFromRows(rows, panel, k, std::min(next, blocks.k_end),
                   out + (panel - blocks.begin) * out_stride +
                       (k - blocks.k_begin) * panel_columns);
    }
  }
}

template <typename Operand, typename Row>
void FillPanelsFromRows(const RowsInPieces<Row>& rows, Executor& executor,
                        PackedMatrix<Operand>* packed) {
  const int64_t columns = rows.pieces.size();
  if constexpr (std::is_same_v<Operand, float>) {
    if (packed->in_parts) {
      FillPanels(packed, rows.depth, columns, executor,
                 [&](int64_t begin, int64_t end) {
                   for (; begin < end; ++begin) {
                     SplitPanel(packed->parts_depth, 0, packed->depth,
                                packed->parts_panel(begin),
                                [&](int64_t k, int64_t k_end, float* out) {
                                  FillFromRows(rows, begin, k, k_end, out);
                                });
                   }
                 });
      return;
    }
  }
  FillPanels(
      packed, rows.depth, columns, executor, [&](int64_t begin, int64_t end) {
        const int64_t panel_size =
            packed->depth * Kernels<Operand>().panel_columns;
        for (; begin < end; begin += kPanelsTogether) {
          FillBlocksFromRows(
              rows,
              {begin, std::min(begin + kPanelsTogether, end), 0, rows.depth},
              packed->panels + begin * panel_size, panel_size);
        }
      });
}

// [k_begin, k_end) of a panel from columns, k_begin being the first of a step.
template <typename Element, typename Operand>
void FillFromColumns(const MatrixSource<Element>& source, int64_t panel,
                     int64_t k_begin, int64_t k_end, Operand* out) {
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  const Pieces& pieces = source.pieces;
  const int64_t column = panel * panel_columns;
  const int64_t count = std::min(panel_columns, source.columns - column);
  const Element* rows[kMaxPanelColumns] = {};
  for (int64_t j = 0; j < count; ++j) {
    rows[j] = source.row(column + j);
  }
  for (int piece = 0; piece < pieces.count; ++piece) {
    const int64_t piece_begin = piece * pieces.width;
    const int64_t begin = std::max(k_begin, piece_begin);
    const int64_t end = std::min(k_end, piece_begin + pieces.width);
    if (begin >= end) continue;
    const int64_t shift = pieces.begin(piece) - piece_begin;
    PackColumns(rows, panel_columns, begin + shift, end + shift,
                begin - k_begin, out);
  }
}

}  // namespace

template <typename Operand>
PackedMatrix<Operand> PackedMatrix<Operand>::Take(Arena& arena,
                                                  int64_t max_depth,
                                                  int64_t max_columns,
                                                  bool may_be_in_parts,
                                                  int depth_pieces) {
  PackedMatrix packed;
  const int64_t num_panels = NumPanels<Operand>(max_columns);
  int64_t size = PaddedDepth<Operand>(max_depth) * num_panels *
                 Kernels<Operand>().panel_columns;
  if (may_be_in_parts) {  // these take more
    const PartsDepth depth{depth_pieces, max_depth / depth_pieces};
    size = num_panels * PartsPanelSize(depth.padded()) *
           int64_t{sizeof(BFloat16)} / int64_t{sizeof(Operand)};
  }
  packed.panels = arena.Take<Operand>(size);
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
BFloat16* PackedMatrix<Operand>::parts_panel(int64_t index) const {
  return reinterpret_cast<BFloat16*>(panels) +
         index * PartsPanelSize(parts_depth.padded());
}

template <typename Operand>
void PackedMatrix<Operand>::SetInParts(bool are_parts, int depth_pieces) {
  in_parts = are_parts;
  depth_pieces_ = depth_pieces;
}

template <typename Operand>
void PackedMatrix<Operand>::SetSize(int64_t new_depth, int64_t new_columns) {
  parts_depth = {depth_pieces_, new_depth / depth_pieces_};
  depth = in_parts ? parts_depth.padded() : PaddedDepth<Operand>(new_depth);
  columns = new_columns;
}

template <typename Operand>
void UnpackedMatrix<Operand>::Set(const MatrixSource<Operand>& source,
                                  Operand* memory) {
  source_ = source;
  last_panel_ = nullptr;
  const Pieces& pieces = source.pieces;
  if (source.is_transposed || pieces.width % Kernels<Operand>().lanes == 0) {
    return;
  }
  constexpr int64_t kStep = kDepthStep<Operand>;
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  const PieceColumns columns = ColumnsOf(LastPanel());
  const int64_t first = pieces.begin(columns.piece) + columns.first;
  for (int64_t k = 0; k < source.depth; k += kStep) {
    Operand* out = memory + k * panel_columns;
    PackStepOf(k, source.depth, first, columns.count, out,
               [&](int64_t row) { return source.row(row); });
    std::fill(out + columns.count * kStep, out + panel_columns * kStep,
              Operand{});
  }
  last_panel_ = memory;
}

template <typename Operand>
int64_t UnpackedMatrix<Operand>::num_panels() const {
  return source_.is_transposed
             ? NumPanels<Operand>(source_.columns)
             : source_.pieces.count * NumPanels<Operand>(source_.pieces.width);
}

template <typename Operand>
typename UnpackedMatrix<Operand>::PieceColumns
UnpackedMatrix<Operand>::ColumnsOf(int64_t panel) const {
  const int64_t width = source_.pieces.width;
  const int64_t panels_per_piece = NumPanels<Operand>(width);
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  const int64_t first = panel % panels_per_piece * panel_columns;
  return {static_cast<int>(panel / panels_per_piece), first,
          std::min(panel_columns, width - first)};
}

template <typename Operand>
const Operand* UnpackedMatrix<Operand>::Packed(int64_t panel) const {
  return last_panel_ != nullptr && panel == LastPanel() ? last_panel_ : nullptr;
}

// The panel of the last columns of the memory that the pieces lie in.
template <typename Operand>
int64_t UnpackedMatrix<Operand>::LastPanel() const {
  const Pieces& pieces = source_.pieces;
  const int64_t piece =
      pieces.begins == nullptr
          ? 0
          : std::max_element(pieces.begins, pieces.begins + pieces.count) -
                pieces.begins;
  return (piece + 1) * NumPanels<Operand>(pieces.width) - 1;
}

template <typename Element, typename Operand>
void PackBlocks(const MatrixSource<Element>& source, const PanelBlocks& blocks,
                Operand* out, int64_t out_stride) {
  if (!source.is_transposed) {
    FillBlocksFromRows(RowsOf(source), blocks, out, out_stride);
    return;
  }
  for (int64_t panel = blocks.begin; panel < blocks.end; ++panel) {
    FillFromColumns(source, panel, blocks.k_begin, blocks.k_end, out);
    out += out_stride;
  }
}

template <typename Element>
void PackBlockInParts(const MatrixSource<Element>& source,
                      const PackedMatrix<float>& packed, int64_t panel,
                      int64_t k_begin, int64_t k_end, BFloat16* out) {
  SplitPanel(packed.parts_depth, k_begin, k_end, out,
             [&](int64_t k, int64_t k_last, float* rows) {
               PackBlocks(source, {panel, panel + 1, k, k_last}, rows,
                          /*out_stride=*/0);
             });
}

template <typename Element, typename Operand>
void Pack(const MatrixSource<Element>& source, Executor& executor,
          PackedMatrix<Operand>* packed) {
  if (!source.is_transposed) {
    FillPanelsFromRows(RowsOf(source), executor, packed);
    return;
  }
  // A panel's block stays in the cache until all its columns have come.
  const SimdKernels<Operand>& kernels = Kernels<Operand>();
  const auto fill_panel = [&](int64_t panel) {
    if constexpr (std::is_same_v<Operand, float>) {
      if (packed->in_parts) {
        PackBlockInParts(source, *packed, panel, 0, packed->depth,
                         packed->parts_panel(panel));
        return;
      }
    }
    Operand* out =
        packed->panels + panel * packed->depth * kernels.panel_columns;
    for (int64_t k = 0; k < source.depth; k += kernels.depth_block) {
      FillFromColumns(source, panel, k,
                      std::min(k + kernels.depth_block, source.depth),
                      out + k * kernels.panel_columns);
    }
  };
  FillPanels(packed, source.depth, source.columns, executor,
             [&](int64_t begin, int64_t end) {
               for (; begin < end; ++begin) fill_panel(begin);
             });
}

template <typename Operand>
void PackRowPieces(const Operand* const* rows, int64_t depth,
                   const Pieces& pieces, Executor& executor,
                   PackedMatrix<Operand>* packed) {
  const auto row = [rows](int64_t k) { return rows[k]; };
  FillPanelsFromRows(RowsInPieces{pieces, depth, row}, executor, packed);
}

template <typename Operand>
void PackRows(const Operand* const* rows, int64_t depth, int64_t columns,
              Executor& executor, PackedMatrix<Operand>* packed) {
  PackRowPieces(rows, depth, {nullptr, 1, columns}, executor, packed);
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

#define RNN_INSTANTIATE(Operand)                                             \
  template struct PackedMatrix<Operand>;                                     \
  template class UnpackedMatrix<Operand>;                                    \
  template void PackRowPieces(const Operand* const*, int64_t, const Pieces&, \
                              Executor&, PackedMatrix<Operand>*);            \
  template void PackRows(const Operand* const*, int64_t, int64_t, Executor&, \
                         PackedMatrix<Operand>*);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(double)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

#define RNN_INSTANTIATE(Element, Operand)                                     \
  template void Pack(const MatrixSource<Element>&, Executor&,                 \
                     PackedMatrix<Operand>*);                                 \
  template void PackBlocks(const MatrixSource<Element>&, const PanelBlocks&,  \
                           Operand*, int64_t);                                \
  template void PackColumns(const Element* const*, int64_t, int64_t, int64_t, \
                            int64_t, Operand*);
RNN_INSTANTIATE(float, float)
RNN_INSTANTIATE(double, double)
RNN_INSTANTIATE(Half, float)
RNN_INSTANTIATE(BFloat16, float)
RNN_INSTANTIATE(BFloat16, BFloat16)
#undef RNN_INSTANTIATE

#define RNN_INSTANTIATE(Element)                                               \
  template void PackBlockInParts(const MatrixSource<Element>&,                 \
                                 const PackedMatrix<float>&, int64_t, int64_t, \
                                 int64_t, BFloat16*);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(Half)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

}  // namespace rnn
