#include "kernels/engine/products/matrix_product.h"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/thresholds.h"
#include "network/element_types.h"
#include "network/round.h"

namespace rnn {

namespace {

// ---- One panel --------------------------------------------------------------

// What [k_begin, k_end) of the depth contributes, k_begin being the first of a
// block, which begins at `packed` and, in the next panel, at `next`.
template <typename Operand>
void MultiplyPacked(const RowsTimesMatrix<Operand>& p, int64_t columns,
                    const PanelRows& share, int64_t k_begin, int64_t k_end,
                    const Operand* packed, const Operand* next) {
  const SimdKernels<Operand>& kernels = Kernels<Operand>();
  const int64_t column = share.panel * kernels.panel_columns;
  PanelProduct<Operand> product{};
  product.rows = share.row_end - share.row_begin;
  product.depth = k_end - k_begin;
  product.columns = std::min<int64_t>(kernels.panel_columns, columns - column);
  product.a = p.a + share.row_begin;
  product.a_offset = k_begin;
  product.b.packed = packed;
  product.b.next = next;
  product.c = p.c + share.row_begin;
  product.c_offset = column;
  product.bias = p.bias == nullptr ? nullptr : p.bias + column;
  product.accumulate = p.accumulate || k_begin > 0;
  product.chain = p.chain;
  kernels.multiply_panel(product);
}

// What [k_begin, k_end) of the depth of a panel in parts contributes, the left
// operand being in parts too.
void MultiplyPacked(const RowsTimesMatrix<float>& p, int64_t columns,
                    const PanelRows& share, int64_t k_begin, int64_t k_end,
                    const BFloat16* packed, const BFloat16* next) {
  const LeftParts left = p.left_parts.From(share.row_begin);
  const int64_t column = share.panel * Kernels<float>().panel_columns;
  PartsProduct product{};
  product.rows = share.row_end - share.row_begin;
  product.depth = k_end - k_begin;
  product.columns =
      std::min<int64_t>(Kernels<float>().panel_columns, columns - column);
  product.a = left.values + k_begin * kNumParts;
  product.a_stride = left.stride;
  product.b = packed;
  product.next = next;
  product.c = p.c + share.row_begin;
  product.c_offset = column;
  product.bias = p.bias == nullptr ? nullptr : p.bias + column;
  product.accumulate = p.accumulate || k_begin > 0;
  KernelsOfParts().multiply_panel(product);
}

// What [k_begin, k_end) of the depth of a panel of b contributes, all of whose
// depth is packed.
template <typename Element, typename Operand>
void MultiplyPacked(const RowsTimesMatrix<Operand>& p,
                    const RightOperand<Element, Operand>& b,
                    const PanelRows& share, int64_t k_begin, int64_t k_end) {
  const bool has_next = share.next_panel != PanelRows::kNone;
  if constexpr (std::is_same_v<Operand, float>) {
    if (b.in_parts()) {
      const int64_t first = PartsPanelSize(k_begin);
      MultiplyPacked(
          p, b.columns(), share, k_begin, k_end,
          b.parts_panel(share.panel) + first,
          has_next ? b.parts_panel(share.next_panel) + first : nullptr);
      return;
    }
  }
  const int64_t first = k_begin * Kernels<Operand>().panel_columns;
  MultiplyPacked<Operand>(
      p, b.columns(), share, k_begin, k_end, b.panel(share.panel) + first,
      has_next ? b.panel(share.next_panel) + first : nullptr);
}

// ---- Packed operands --------------------------------------------------------

// Splits the left operand, b being in parts.
template <typename Element, typename Operand>
void SplitLeft(const RowsTimesMatrix<Operand>& p,
               const RightOperand<Element, Operand>& b, Executor& executor) {
  if (p.left_parts.values == nullptr) std::abort();
  if constexpr (std::is_same_v<Operand, float>) {
    if (p.a != nullptr) {
      SplitRows(p.a, p.rows, b.parts_depth(), executor, p.left_parts);
    }
  }
}

// The multiples of which micro-kernels take rows.
template <typename Element, typename Operand>
int64_t RowsAtOnce(const RightOperand<Element, Operand>& b) {
  return b.in_parts() ? kPartsRowsTogether : Kernels<Operand>().rows_together;
}

// The first row of a block, of those that [0, rows) is cut into.
int64_t FirstRow(int64_t rows, int64_t block, int64_t num_blocks,
                 int64_t multiple) {
  const int64_t row = rows * block / num_blocks + multiple - 1;
  return std::min(rows, row / multiple * multiple);
}

// A small B stays in the cache, so that rows of c can be written from end to
// end: they may lie far apart, and a panel is a short piece of each.
template <typename Element, typename Operand>
void MultiplyRowBlocks(const RowsTimesMatrix<Operand>& p,
                       const RightOperand<Element, Operand>& b,
                       Executor& executor) {
  const int64_t num_panels = b.num_panels();
  const int64_t row_block = std::max(speed::kRowBlock, RowsAtOnce(b));
  ParallelFor(executor, DivideUp(p.rows, row_block),
              2 * row_block * b.depth() * b.columns(),
              [&](int64_t begin, int64_t end) {
                for (int64_t block = begin; block < end; ++block) {
                  const int64_t first = block * row_block;
                  const int64_t last = std::min(first + row_block, p.rows);
                  for (int64_t i = 0; i < num_panels; ++i) {
                    MultiplyPacked(p, b, PanelRows::Alone(i, first, last), 0,
                                   b.depth());
                  }
                }
              });
}

// As much of A as stays in a core's cache, a block of depth of some rows, while
// B comes by, panel after panel.
template <typename Element, typename Operand>
void MultiplyBlocks(const RowsTimesMatrix<Operand>& p,
                    const RightOperand<Element, Operand>& b,
                    Executor& executor) {
  const int64_t num_panels = b.num_panels();
  const int64_t depth_block =
      std::min(b.depth(), Kernels<Operand>().depth_block);
  const int64_t work = 2 * p.rows * depth_block * b.columns();
  const int64_t multiple = RowsAtOnce(b);
  const int64_t num_blocks =
      std::max(DivideUp(p.rows, b.cached_rows()),
               NumRowBlocks(NumTasks(executor, work), num_panels, p.rows,
                            std::max(speed::kMinBlockRows, multiple)));
  const int64_t num_shares = num_blocks * num_panels;
  for (int64_t k = 0; k < b.depth(); k += depth_block) {
    const int64_t k_end = std::min(k + depth_block, b.depth());
    ParallelFor(
        executor, num_shares, work / num_shares,
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t block = i / num_panels;
            PanelRows share;
            share.panel = i % num_panels;
            share.next_panel =
                i + 1 == num_shares ? PanelRows::kNone : (i + 1) % num_panels;
            share.row_begin = FirstRow(p.rows, block, num_blocks, multiple);
            share.row_end = FirstRow(p.rows, block + 1, num_blocks, multiple);
            MultiplyPacked(p, b, share, k, k_end);
          }
        });
  }
}

// ---- Operands that are packed in their turn ---------------------------------

// Panels of b, of which so much of the depth is packed into `memory`, which
// stays in the cache, and multiplied at once.
template <typename Element, typename Operand>
void PackAndMultiplyBlocks(const RowsTimesMatrix<Operand>& p,
                           const RightOperand<Element, Operand>& b,
                           const PanelBlocks& all, Operand* memory) {
  const TurnPlaces& places = b.places();
  const int64_t block_size =
      places.block_size(Kernels<Operand>().panel_columns);
  PanelBlocks group = all;
  group.k_end = std::min(all.k_end, b.source().depth);
  for (; group.begin < all.end; group.begin = group.end) {
    group.end = std::min(group.begin + places.panels_together, all.end);
    PackBlocks(b.source(), group, memory, block_size);
    for (int64_t panel = group.begin; panel < group.end; ++panel) {
      MultiplyPacked<Operand>(
          p, b.columns(), PanelRows::Alone(panel, 0, p.rows), all.k_begin,
          all.k_end, memory + (panel - group.begin) * block_size, nullptr);
    }
  }
}

template <typename Element, typename Operand>
void PackAndMultiply(const RowsTimesMatrix<Operand>& p,
                     const RightOperand<Element, Operand>& b,
                     Executor& executor) {
  const TurnPlaces& places = b.places();
  const int64_t depth_block = std::min(b.depth(), places.depth_block);
  const int64_t num_panels = b.num_panels();
  const int64_t work = 2 * p.rows * depth_block * b.columns() +
                       depth_block * b.columns() * speed::kMoveWork;
  const int64_t place_size = places.size(Kernels<Operand>().panel_columns);
  for (int64_t k = 0; k < b.depth(); k += depth_block) {
    ParallelForPlaces(
        executor, num_panels, work / num_panels, Order::kAscending,
        places.count, [&](int64_t place, int64_t begin, int64_t end) {
          PanelBlocks share;
          share.begin = begin;
          share.end = end;
          share.k_begin = k;
          share.k_end = std::min(k + depth_block, b.depth());
          PackAndMultiplyBlocks(p, b, share, b.panels() + place * place_size);
        });
  }
}

// ---- Operands that come by columns ------------------------------------------

// Panels [begin, end) of b as columns.
template <typename Element, typename Operand>
ColumnRows ColumnsOf(const RightOperand<Element, Operand>& b, int64_t begin,
                     int64_t end, int64_t row_begin, int64_t row_end) {
  const int64_t width = Kernels<Operand>().panel_columns;
  ColumnRows columns;
  columns.column_begin = begin * width;
  columns.column_end = std::min(end * width, b.columns());
  columns.row_begin = row_begin;
  columns.row_end = row_end;
  return columns;
}

// Floating-point operations.
template <typename Element, typename Operand>
int64_t WorkByColumns(const RowsTimesMatrix<Operand>& p,
                      const RightOperand<Element, Operand>& b) {
  return 2 * (speed::kFarWeightRows + p.rows) * b.depth() * b.columns();
}

// For b had better be read in long pieces.
template <typename Element, typename Operand>
void MultiplyFewRanges(const RowsTimesMatrix<Operand>& p,
                       const RightOperand<Element, Operand>& b,
                       Executor& executor) {
  ParallelFewRanges(executor, b.num_panels(), WorkByColumns(p, b),
                    Order::kAscending, [&](int64_t begin, int64_t end) {
                      const ColumnRows share =
                          ColumnsOf(b, begin, end, 0, p.rows);
                      MultiplyColumns(p, b, &share);
                    });
}

template <typename Element, typename Operand>
void MultiplyEachPanel(const RowsTimesMatrix<Operand>& p,
                       const RightOperand<Element, Operand>& b,
                       Executor& executor) {
  AllPanels panels;
  panels.count = b.num_panels();
  panels.row_end = p.rows;
  panels.work = WorkByColumns(p, b);
  ParallelPanels(executor, panels, [&](const PanelRows& share) {
    ColumnRows columns = ColumnsOf(b, share.panel, share.panel + 1,
                                   share.row_begin, share.row_end);
    if (share.next_panel != PanelRows::kNone) {
      columns.next_column = share.next_panel * Kernels<Operand>().panel_columns;
    }
    MultiplyColumns(p, b, &columns);
  });
}

// Rounds the left operand, b being int8.
template <typename Element, typename Operand>
void RoundLeft(const RowsTimesMatrix<Operand>& p,
               const RightOperand<Element, Operand>& b, Executor& executor) {
  if (p.left_integers.values == nullptr) std::abort();
  if constexpr (std::is_same_v<Operand, float>) {
    RoundRows(p.a, p.rows, b.depth(), executor, p.left_integers);
  }
}

template <typename Operand>
void MultiplyColumnsOfRows(const RowsTimesMatrix<Operand>& p,
                           const MatrixSource<Operand>& source,
                           const ColumnRows& share) {
  const Pieces& pieces = source.pieces;
  RowsProduct<Operand> product{};
  product.rows = share.row_end - share.row_begin;
  product.depth = source.depth;
  product.a = p.a + share.row_begin;
  product.stride = source.stride;
  product.c = p.c + share.row_begin;
  product.accumulate = p.accumulate;
  for (int64_t column = share.column_begin; column < share.column_end;
       column += product.columns) {
    product.columns =
        std::min(pieces.NumTogether(column), share.column_end - column);
    product.b = source.values + pieces.PlaceOf(column);
    product.c_offset = column;
    product.bias = p.bias == nullptr ? nullptr : p.bias + column;
    Kernels<Operand>().multiply_rows(product);
  }
}

// All but B, of which the product takes these columns.
template <typename Product, typename Operand>
Product ProductOfColumns(const RowsTimesMatrix<Operand>& p, int64_t depth,
                         const ColumnRows& share) {
  const int64_t column = share.column_begin;
  Product product{};
  product.rows = share.row_end - share.row_begin;
  product.depth = depth;
  product.columns = share.column_end - column;
  product.a = p.a + share.row_begin;
  product.c = p.c + share.row_begin;
  product.c_offset = column;
  product.bias = p.bias == nullptr ? nullptr : p.bias + column;
  product.accumulate = p.accumulate;
  return product;
}

template <typename Operand>
void MultiplyColumnsOfColumns(const RowsTimesMatrix<Operand>& p,
                              const MatrixSource<Operand>& source,
                              const ColumnRows& share) {
  // In Keras' order each gate's part of a column is a piece.
  const Pieces& pieces = source.pieces;
  const bool is_whole = pieces.IsWhole();
  const int64_t depth = is_whole ? source.depth : pieces.width;
  auto product = ProductOfColumns<PanelProduct<Operand>>(p, depth, share);
  product.b.stride = source.stride;
  const Operand* const column = source.row(share.column_begin);
  const int num_products = is_whole ? 1 : pieces.count;
  for (int i = 0; i < num_products; ++i) {
    product.a_offset = i * depth;
    product.b.transposed = column + pieces.begins[i];
    if (i + 1 < num_products) {
      product.b.next = column + pieces.begins[i + 1];
    } else if (share.next_column != ColumnRows::kNone) {
      product.b.next = source.row(share.next_column) + pieces.begins[0];
    } else {
      product.b.next = nullptr;
    }
    Kernels<Operand>().multiply_panel(product);
    product.accumulate = true;
  }
}

// Columns from the first of a panel on, of the same rows.
template <typename Element, typename Operand>
void MultiplyColumnsOfDotPanels(const RowsTimesMatrix<Operand>& p,
                                const RightOperand<Element, Operand>& b,
                                const ColumnRows* shares, int count) {
  const DotPanelShape shape = b.dot_panels();
  DotPanelsProduct<Operand> products[kMaxGates];
  for (int i = 0; i < count; ++i) {
    products[i] =
        ProductOfColumns<DotPanelsProduct<Operand>>(p, b.depth(), shares[i]);
    products[i].panels =
        b.panels() + shape.PanelOf(shares[i].column_begin) * shape.panel_size;
    products[i].panel_size = shape.panel_size;
    products[i].from_last = shares[i].order == Order::kDescending;
  }
  Kernels<Operand>().multiply_dot_panels(products, count);
}

void MultiplyColumnsOfInt8(const RowsTimesMatrix<float>& p, const Int8Matrix& b,
                           const ColumnRows& share) {
  const LeftIntegers left = p.left_integers.From(share.row_begin);
  const int64_t column = share.column_begin;
  Int8Product product{};
  product.rows = share.row_end - share.row_begin;
  product.depth = b.depth;
  product.columns = share.column_end - column;
  product.a = left.values;
  product.a_stride = left.stride;
  product.a_scales = left.scales;
  product.b = b.values + column * b.depth;
  product.columns_behind = b.columns - share.column_end;
  product.b_scales = b.scales + column;
  product.c = p.c + share.row_begin;
  product.c_offset = column;
  product.bias = p.bias == nullptr ? nullptr : p.bias + column;
  product.accumulate = p.accumulate;
  KernelsOfInt8().multiply(product);
}

}  // namespace

template <typename Element, typename Operand>
void MultiplyColumns(const RowsTimesMatrix<Operand>& p,
                     const RightOperand<Element, Operand>& b,
                     const ColumnRows* shares, int count) {
  constexpr bool kIsInTensors = kElementIsOperand<Element, Operand>;
  switch (b.route()) {
    case Route::kRowsInPlace:
      if constexpr (kIsInTensors) {
        for (int i = 0; i < count; ++i) {
          MultiplyColumnsOfRows(p, b.source(), shares[i]);
        }
        return;
      }
      break;
    case Route::kColumnsInPlace:
      if constexpr (kIsInTensors) {
        for (int i = 0; i < count; ++i) {
          MultiplyColumnsOfColumns(p, b.source(), shares[i]);
        }
        return;
      }
      break;
    case Route::kInt8:
      if constexpr (std::is_same_v<Element, float>) {
        for (int i = 0; i < count; ++i) {
          MultiplyColumnsOfInt8(p, b.int8(), shares[i]);
        }
        return;
      }
      break;
    case Route::kDotPanels:
      if constexpr (kIsInTensors) {
        MultiplyColumnsOfDotPanels(p, b, shares, count);
        return;
      }
      break;
    case Route::kPacked:
    case Route::kPackedInTurn:
    case Route::kParts:
      break;  // they come by panels
  }
  std::abort();
}

template <typename Element, typename Operand>
void MultiplyPanel(const RowsTimesMatrix<Operand>& p,
                   const RightOperand<Element, Operand>& b,
                   const PanelRows& share) {
  switch (b.route()) {
    case Route::kParts:
      if (p.left_parts.values == nullptr) break;
      [[fallthrough]];
    case Route::kPacked:
      MultiplyPacked(p, b, share, 0, b.depth());
      return;
    case Route::kInt8: {
      const ColumnRows columns = ColumnsOf(b, share.panel, share.panel + 1,
                                           share.row_begin, share.row_end);
      MultiplyColumns(p, b, &columns);
      return;
    }
    case Route::kPackedInTurn:
    case Route::kRowsInPlace:
    case Route::kColumnsInPlace:
    case Route::kDotPanels:
      break;  // they have no panels
  }
  std::abort();
}

template <typename Element, typename Operand>
void Multiply(const RowsTimesMatrix<Operand>& p,
              const RightOperand<Element, Operand>& b, Executor& executor) {
  if (p.rows == 0) return;
  switch (b.route()) {
    case Route::kParts:
      SplitLeft(p, b, executor);
      [[fallthrough]];
    case Route::kPacked:
      if (b.is_small()) {
        MultiplyRowBlocks(p, b, executor);
      } else {
        MultiplyBlocks(p, b, executor);
      }
      return;
    case Route::kPackedInTurn:
      PackAndMultiply(p, b, executor);
      return;
    case Route::kRowsInPlace:
    case Route::kDotPanels:
      MultiplyFewRanges(p, b, executor);
      return;
    case Route::kInt8:
      RoundLeft(p, b, executor);
      [[fallthrough]];
    case Route::kColumnsInPlace:
      MultiplyEachPanel(p, b, executor);
      return;
  }
  std::abort();
}

#define RNN_INSTANTIATE(Element, Operand)                                   \
  template void Multiply(const RowsTimesMatrix<Operand>&,                   \
                         const RightOperand<Element, Operand>&, Executor&); \
  template void MultiplyPanel(const RowsTimesMatrix<Operand>&,              \
                              const RightOperand<Element, Operand>&,        \
                              const PanelRows&);                            \
  template void MultiplyColumns(const RowsTimesMatrix<Operand>&,            \
                                const RightOperand<Element, Operand>&,      \
                                const ColumnRows*, int);
RNN_INSTANTIATE(float, float)
RNN_INSTANTIATE(double, double)
RNN_INSTANTIATE(Half, float)
RNN_INSTANTIATE(BFloat16, float)
RNN_INSTANTIATE(BFloat16, BFloat16)
#undef RNN_INSTANTIATE

}  // namespace rnn
