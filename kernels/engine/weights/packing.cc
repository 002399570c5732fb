#include "kernels/engine/weights/packing.h"

#include <algorithm>
#include <cstdlib>

#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "kernels/engine/weights/parts.h"
#include "network/round.h"

namespace rnn {

namespace {

// Starts to fetch `count` values.
template <typename Element>
void FetchLines(const Element* values, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(Element);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(values + i);
}

// [k_begin, k_end) of a panel of a source that is not transposed, at most
// speed::kRowsPackedTogether. k_begin is the first of a step.
template <typename Element, typename Operand>
void FillFromRows(const MatrixSource<Element>& source, int64_t panel,
                  int64_t k_begin, int64_t k_end, Operand* out) {
  const Pieces& pieces = source.pieces;
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  const int64_t column = panel * panel_columns;
  const int64_t count = std::min(panel_columns, source.columns - column);
  RowBlock block;
  block.k_begin = k_begin;
  block.k_end = k_end;
  // Columns [j, j + length) of the panel are those of one piece.
  for (int64_t j = 0, length; j < count; j += length) {
    length = std::min(pieces.width - (column + j) % pieces.width, count - j);
    const bool is_last = j + length == count;
    block.offset = pieces.PlaceOf(column + j);
    block.columns = length;
    block.padded_columns = is_last ? panel_columns - j : length;
    PackRowsOf(block, out + j * kDepthStep<Operand>,
               panel_columns * kDepthStep<Operand>,
               [&source](int64_t k) { return source.row(k); });
  }
}

// As PackBlocks(), of a source that is not transposed.
template <typename Element, typename Operand>
void FillBlocksFromRows(const MatrixSource<Element>& source,
                        const PanelBlocks& blocks, Operand* out,
                        int64_t out_stride) {
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  const int64_t column = blocks.begin * panel_columns;
  const int64_t count =
      std::min(blocks.end * panel_columns, source.columns) - column;
  // Short pieces of rows that lie far apart: the core does not fetch them ahead
  // by itself. (Of columns of two pieces, as if they were of the first.)
  const bool fetches_ahead =
      count * int64_t{sizeof(Element)} <= speed::kFetchedRowBytes;
  const int64_t offset = source.pieces.PlaceOf(column);
  for (int64_t k = blocks.k_begin; k < blocks.k_end;
       k += speed::kRowsPackedTogether) {
    const int64_t next = k + speed::kRowsPackedTogether;
    if (fetches_ahead) {
      const int64_t fetched_end =
          std::min(next + speed::kRowsPackedTogether, source.depth);
      for (int64_t i = next; i < fetched_end; ++i) {
        FetchLines(source.row(i) + offset, count);
      }
    }
    for (int64_t panel = blocks.begin; panel < blocks.end; ++panel) {
      FillFromRows(source, panel, k, std::min(next, blocks.k_end),
                   out + (panel - blocks.begin) * out_stride +
                       (k - blocks.k_begin) * panel_columns);
    }
  }
}

// [k_begin, k_end) of a panel of a transposed source, k_begin being the first
// of a step.
template <typename Element, typename Operand>
void FillFromColumns(const MatrixSource<Element>& source, int64_t panel,
                     int64_t k_begin, int64_t k_end, Operand* out) {
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  const Pieces& pieces = source.pieces;
  const int64_t column = panel * panel_columns;
  const int64_t count = std::min(panel_columns, source.columns - column);
  const Element* rows[kMaxPanelColumns] = {};
  for (int64_t j = 0; j < count; ++j) rows[j] = source.row(column + j);
  for (int piece = 0; piece < pieces.count; ++piece) {
    const int64_t piece_begin = piece * pieces.width;
    const int64_t begin = std::max(k_begin, piece_begin);
    const int64_t end = std::min(k_end, piece_begin + pieces.width);
    if (begin >= end) continue;
    const int64_t shift = pieces.begins[piece] - piece_begin;
    ColumnBlock block;
    block.columns = panel_columns;
    block.k_begin = begin + shift;
    block.k_end = end + shift;
    block.k_out = begin - k_begin;
    PackColumns(rows, block, out);
  }
}

// Calls pack(blocks) on blocks that cover the panels and their depth, which
// comes in units of `unit`. Threads share panels or, if these are too few,
// their depth.
template <typename Pack>
void ParallelBlocks(Executor& executor, int64_t num_panels, int64_t depth,
                    int64_t unit, int64_t panel_work, Pack pack) {
  const int64_t num_units = DivideUp(depth, unit);
  const auto pack_blocks = [&](int64_t begin, int64_t end, int64_t first_unit,
                               int64_t last_unit) {
    PanelBlocks blocks;
    blocks.begin = begin;
    blocks.end = end;
    blocks.k_begin = first_unit * unit;
    blocks.k_end = std::min(last_unit * unit, depth);
    pack(blocks);
  };
  const int num_tasks =
      NumTasks(executor, static_cast<double>(num_panels) * panel_work);
  if (num_panels >= std::min<int64_t>(num_tasks, num_units)) {
    ParallelFor(executor, num_panels, panel_work,
                [&](int64_t begin, int64_t end) {
                  pack_blocks(begin, end, 0, num_units);
                });
  } else {
    ParallelFor(executor, num_units, num_panels * panel_work / num_units,
                [&](int64_t begin, int64_t end) {
                  pack_blocks(0, num_panels, begin, end);
                });
  }
}

}  // namespace

template <typename Element, typename Operand>
void PackPanels(const MatrixSource<Element>& source, Executor& executor,
                Operand* panels) {
  const SimdKernels<Operand>& kernels = Kernels<Operand>();
  const int64_t panel_size =
      PaddedDepth<Operand>(source.depth) * kernels.panel_columns;
  // Of columns a panel's block stays in the cache until all have come; rows are
  // read in longer pieces, for several panels.
  const int64_t panels_together =
      source.is_transposed ? 1 : speed::kPanelsPackedTogether;
  const int64_t unit =
      source.is_transposed ? kernels.depth_block : speed::kRowsPackedTogether;
  const int64_t depth_together = source.is_transposed ? unit : source.depth;
  ParallelBlocks(
      executor, NumPanels<Operand>(source.columns), source.depth, unit,
      panel_size * speed::kMoveWork, [&](const PanelBlocks& all) {
        PanelBlocks blocks;
        for (int64_t i = all.begin; i < all.end; i = blocks.end) {
          blocks.begin = i;
          blocks.end = std::min(i + panels_together, all.end);
          for (int64_t k = all.k_begin; k < all.k_end; k = blocks.k_end) {
            blocks.k_begin = k;
            blocks.k_end = std::min(k + depth_together, all.k_end);
            PackBlocks(source, blocks,
                       panels + i * panel_size + k * kernels.panel_columns,
                       panel_size);
          }
        }
      });
}

namespace {

// A group of the depth of one panel.
template <typename Element>
void PackGroupInParts(const MatrixSource<Element>& source,
                      const PartsDepth& depth, int64_t panel, int64_t k,
                      BFloat16* out) {
  float rows[kPartsDepth * kMaxPartsColumns];
  const int64_t piece = k / depth.padded_width();
  const int64_t first = k % depth.padded_width();
  PanelBlocks block;
  block.begin = panel;
  block.end = panel + 1;
  block.k_begin = piece * depth.width + first;
  block.k_end = block.k_begin + std::min(kPartsDepth, depth.width - first);
  PackBlocks(source, block, rows, /*out_stride=*/0);
  KernelsOfParts().split_group(rows, block.k_end - block.k_begin, out);
}

}  // namespace

template <typename Element>
void PackPanelsInParts(const MatrixSource<Element>& source,
                       const PartsDepth& depth, Executor& executor,
                       BFloat16* panels) {
  ParallelBlocks(
      executor, NumPanels<float>(source.columns), depth.padded(), kPartsDepth,
      depth.padded() * Kernels<float>().panel_columns * speed::kMoveWork,
      [&](const PanelBlocks& blocks) {
        for (int64_t i = blocks.begin; i < blocks.end; ++i) {
          BFloat16* const panel = panels + i * PartsPanelSize(depth.padded());
          for (int64_t k = blocks.k_begin; k < blocks.k_end; k += kPartsDepth) {
            PackGroupInParts(source, depth, i, k, panel + PartsPanelSize(k));
          }
        }
      });
}

// The dot panel of these columns, of which some may be nullptr.
template <typename Operand>
void PackDotPanel(const Operand* const* columns, int64_t depth, Operand* out) {
  const SimdKernels<Operand>& kernels = Kernels<Operand>();
  const int64_t num_groups = kernels.lanes / kernels.dot_chains;
  const int64_t round = kernels.dot_round;
  const int64_t round_size = round * kernels.dot_columns;
  const int64_t group_size = round_size / num_groups;
  Operand links[kMaxDotRound * kMaxDotColumns];
  for (int64_t k = 0; k < depth; k += kernels.depth_block) {
    const int64_t end = std::min(k + kernels.depth_block, depth);
    const int64_t num_rounds = DivideUp(end - k, round);
    for (int64_t i = 0; i < num_rounds; ++i) {
      const int64_t first = k + i * round;
      const int64_t last = std::min(first + round, end);
      kernels.pack_columns(columns, kernels.dot_columns, first, last, links);
      std::fill(links + (last - first) * kernels.dot_columns,
                links + round_size, Operand{});
      for (int64_t group = 0; group < num_groups; ++group) {
        std::copy_n(links + group * group_size, group_size,
                    out + (group * num_rounds + i) * group_size);
      }
    }
    out += num_rounds * round_size;
  }
}

template <typename Operand>
void PackDotPanels(const MatrixSource<Operand>& source,
                   const DotPanelShape& shape, Executor& executor,
                   Operand* panels) {
  if (!source.is_transposed || source.pieces.count != 1) std::abort();
  ParallelFor(executor, shape.num_panels, shape.panel_size * speed::kMoveWork,
              [&](int64_t begin, int64_t end) {
                for (; begin < end; ++begin) {
                  const Operand* columns[kMaxDotColumns] = {};
                  const int64_t first = shape.FirstColumnOf(begin);
                  for (int64_t j = 0; j < shape.ColumnsOf(begin); ++j) {
                    columns[j] = source.row(first + j);
                  }
                  PackDotPanel(columns, source.depth,
                               panels + begin * shape.panel_size);
                }
              });
}

template <typename Element, typename Operand>
void PackBlocks(const MatrixSource<Element>& source, const PanelBlocks& blocks,
                Operand* out, int64_t out_stride) {
  if (!source.is_transposed) {
    FillBlocksFromRows(source, blocks, out, out_stride);
    return;
  }
  for (int64_t panel = blocks.begin; panel < blocks.end; ++panel) {
    FillFromColumns(source, panel, blocks.k_begin, blocks.k_end, out);
    out += out_stride;
  }
}

template <typename Element, typename Operand>
void PackColumns(const Element* const* rows, const ColumnBlock& block,
                 Operand* out) {
  constexpr int64_t kStep = kDepthStep<Operand>;
  const int64_t columns = block.columns;
  const int64_t k_begin = block.k_begin;
  const int64_t k_end = block.k_end;
  const int64_t k_out = block.k_out;
  if constexpr (kElementIsOperand<Element, Operand>) {
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
    // A few columns from end to end, for more streams at a time are slower to
    // read. What is converted stays in the first-level cache until it is
    // packed.
    constexpr int64_t kColumns = speed::kConvertedColumns;
    constexpr int64_t kDepth = speed::kConvertedDepth;
    static_assert(kStep == 1, "else columns do not lie one after another");
    alignas(64) Operand converted[kColumns][kDepth];
    const Operand* converted_rows[kColumns];
    out += k_out * columns;
    for (int64_t j = 0; j < columns; j += kColumns) {
      const int64_t num_rows = std::min(kColumns, columns - j);
      for (int64_t k = k_begin; k < k_end; k += kDepth) {
        const int64_t count = std::min(kDepth, k_end - k);
        for (int64_t i = 0; i < num_rows; ++i) {
          const Element* const row = rows[j + i];
          converted_rows[i] = row == nullptr ? nullptr : converted[i];
          if (row != nullptr) Load(row + k, converted[i], count);
        }
        Kernels<Operand>().transpose_rows(converted_rows, num_rows, 0, count,
                                          out + (k - k_begin) * columns + j,
                                          columns);
      }
    }
  }
}

#define RNN_INSTANTIATE(Element, Operand)                                      \
  template void PackPanels(const MatrixSource<Element>&, Executor&, Operand*); \
  template void PackBlocks(const MatrixSource<Element>&, const PanelBlocks&,   \
                           Operand*, int64_t);                                 \
  template void PackColumns(const Element* const*, const ColumnBlock&,         \
                            Operand*);
RNN_INSTANTIATE(float, float)
RNN_INSTANTIATE(double, double)
RNN_INSTANTIATE(Half, float)
RNN_INSTANTIATE(BFloat16, float)
RNN_INSTANTIATE(BFloat16, BFloat16)
#undef RNN_INSTANTIATE

template void PackDotPanels(const MatrixSource<float>&, const DotPanelShape&,
                            Executor&, float*);
template void PackDotPanels(const MatrixSource<double>&, const DotPanelShape&,
                            Executor&, double*);
template void PackDotPanels(const MatrixSource<BFloat16>&, const DotPanelShape&,
                            Executor&, BFloat16*);

#define RNN_INSTANTIATE(Element)                                \
  template void PackPanelsInParts(const MatrixSource<Element>&, \
                                  const PartsDepth&, Executor&, BFloat16*);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(Half)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

}  // namespace rnn
