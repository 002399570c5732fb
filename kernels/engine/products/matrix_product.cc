#include "kernels/engine/products/matrix_product.h"

#include <algorithm>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/cache.h"
#include "kernels/engine/threads/parallel.h"

namespace rnn {

namespace {

constexpr int64_t kRowBlock = 24;

// Reading a weight from far costs about as much as so many multiply-adds.
constexpr int64_t kMovedRows = 4;

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
  product->c_offset = p.c_offset + column;
  product->bias = p.bias == nullptr ? nullptr : p.bias + column;
}

// What [k_begin, k_end) of the depth contributes, k_begin being the first of a
// block, which begins at `packed` and, in the next panel, at `next`.
template <typename Operand>
void MultiplyPacked(const RowsTimesMatrix<Operand>& p, const PanelRows& part,
                    int64_t k_begin, int64_t k_end, const Operand* packed,
                    const Operand* next) {
  const SimdKernels<Operand>& kernels = Kernels<Operand>();
  PanelProduct<Operand> product = ProductOf(p, part, k_end - k_begin);
  SetColumns(p, part.panel * kernels.panel_columns, p.b->columns, &product);
  product.a_offset = k_begin;
  product.accumulate = p.accumulate || k_begin > 0;
  product.b.packed = packed;
  product.b.next = next;
  kernels.multiply_panel(product);
}

PartsProduct ProductInParts(const RowsTimesMatrix<float>& p,
                            const PanelRows& part, int64_t k_begin,
                            int64_t k_end, const BFloat16* packed,
                            const BFloat16* next) {
  const LeftParts left = p.left_parts.From(part.row_begin);
  const int64_t column = part.panel * Kernels<float>().panel_columns;
  PartsProduct product{};
  product.rows = part.row_end - part.row_begin;
  product.depth = k_end - k_begin;
  product.columns =
      std::min<int64_t>(Kernels<float>().panel_columns, p.b->columns - column);
  product.a = left.values + k_begin * kNumParts;
  product.a_stride = left.stride;
  product.b = packed;
  product.next = next;
  product.c = p.c + part.row_begin;
  product.c_offset = p.c_offset + column;
  product.bias = p.bias == nullptr ? nullptr : p.bias + column;
  product.accumulate = p.accumulate || k_begin > 0;
  return product;
}

// The same for panels in parts.
void MultiplyPacked(const RowsTimesMatrix<float>& p, const PanelRows& part,
                    int64_t k_begin, int64_t k_end, const BFloat16* packed,
                    const BFloat16* next) {
  const PartsProduct product =
      ProductInParts(p, part, k_begin, k_end, packed, next);
  KernelsOfParts().multiply_panels(&product, 1);
}

// The same for panels of p.b, all of whose depth is packed.
template <typename Operand>
void MultiplyPacked(const RowsTimesMatrix<Operand>& p, const PanelRows& part,
                    int64_t k_begin, int64_t k_end) {
  const bool has_next = part.next_panel != PanelRows::kNone;
  if constexpr (std::is_same_v<Operand, float>) {
    if (p.b->in_parts) {
      const int64_t first = PartsPanelSize(k_begin);
      MultiplyPacked(
          p, part, k_begin, k_end, p.b->parts_panel(part.panel) + first,
          has_next ? p.b->parts_panel(part.next_panel) + first : nullptr);
      return;
    }
  }
  const int64_t first = k_begin * Kernels<Operand>().panel_columns;
  MultiplyPacked(p, part, k_begin, k_end, p.b->panel(part.panel) + first,
                 has_next ? p.b->panel(part.next_panel) + first : nullptr);
}

template <typename Operand>
void MultiplyUnpacked(const RowsTimesMatrix<Operand>& p,
                      const PanelRows& part) {
  const SimdKernels<Operand>& kernels = Kernels<Operand>();
  const UnpackedMatrix<Operand>& b = *p.unpacked;
  const MatrixSource<Operand>& source = b.source();
  PanelProduct<Operand> product = ProductOf(p, part, source.depth);
  if (source.is_transposed) {
    const int64_t column = part.panel * kernels.panel_columns;
    SetColumns(p, column, source.columns, &product);
    product.b.transposed = source.row(column);
    product.b.stride = source.stride;
    if (part.next_panel != PanelRows::kNone) {
      product.b.next = source.row(part.next_panel * kernels.panel_columns);
    }
  } else {
    const Pieces& pieces = source.pieces;
    const auto columns = b.ColumnsOf(part.panel);
    const int64_t piece = columns.piece * pieces.width;
    SetColumns(p, piece + columns.first, piece + pieces.width, &product);
    product.b.packed = b.Packed(part.panel);
    if (product.b.packed == nullptr) {
      const Operand* first =
          source.values + pieces.begin(columns.piece) + columns.first;
      for (int64_t j = 0; j < product.columns; j += kernels.lanes) {
        product.b.vectors[j / kernels.lanes] = first + j;
      }
      product.b.stride = source.stride;
    }
  }
  kernels.multiply_panel(product);
}

// Bytes of an element of an operand.
template <typename Operand>
int64_t OperandBytes(const PackedMatrix<Operand>& b) {
  return b.in_parts ? kNumParts * sizeof(BFloat16) : sizeof(Operand);
}

template <typename Operand>
bool IsSmall(const PackedMatrix<Operand>& b) {
  return b.depth * b.columns * OperandBytes(b) <= CoreCacheBytes() / 4;
}

// The multiples of which micro-kernels take rows.
template <typename Operand>
int64_t RowsAtOnce(const PackedMatrix<Operand>& b) {
  return b.in_parts ? kPartsRowsTogether : Kernels<Operand>().rows_together;
}

// The first row of a block, of those that [0, rows) is cut into.
int64_t FirstRow(int64_t rows, int64_t block, int64_t num_blocks,
                 int64_t multiple) {
  const int64_t row = rows * block / num_blocks + multiple - 1;
  return std::min(rows, row / multiple * multiple);
}

// A small B stays in the cache, so that rows of c can be written from end to
// end: they may lie far apart, and a panel is a short piece of each.
template <typename Operand>
void MultiplyRowBlocks(const RowsTimesMatrix<Operand>& p, Executor& executor) {
  const int64_t num_panels = NumPanels<Operand>(p.columns());
  const int64_t row_block = std::max(kRowBlock, RowsAtOnce(*p.b));
  ParallelFor(executor, (p.rows + row_block - 1) / row_block,
              2 * row_block * p.depth() * p.columns(),
              [&](int64_t begin, int64_t end) {
                for (int64_t block = begin; block < end; ++block) {
                  const int64_t row = block * row_block;
                  const int64_t row_end = std::min(row + row_block, p.rows);
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
  const int64_t row_bytes = depth_block * OperandBytes(*p.b);
  const int64_t cached_rows =
      std::max(kRowBlock, CoreCacheBytes() / 8 * 3 / row_bytes);
  const int64_t work = 2 * p.rows * depth_block * p.columns();
  const int64_t multiple = RowsAtOnce(*p.b);
  const int64_t num_blocks =
      std::max((p.rows + cached_rows - 1) / cached_rows,
               NumRowBlocks(NumTasks(executor, work), num_panels, p.rows,
                            std::max(kMinBlockRows, multiple)));
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
            part.row_begin = FirstRow(p.rows, block, num_blocks, multiple);
            part.row_end = FirstRow(p.rows, block + 1, num_blocks, multiple);
            MultiplyPacked(p, part, k, k_end);
          }
        });
  }
}

// Panels [begin, end) of an unpacked matrix of rows, neighbours together.
template <typename Operand>
void MultiplyPanelsOfRows(const RowsTimesMatrix<Operand>& p, int64_t begin,
                          int64_t end) {
  const UnpackedMatrix<Operand>& b = *p.unpacked;
  const MatrixSource<Operand>& source = b.source();
  const int64_t panels_per_piece = NumPanels<Operand>(source.pieces.width);
  while (begin < end) {
    const auto first = b.ColumnsOf(begin);
    const int64_t last =
        std::min(end, (first.piece + 1) * panels_per_piece) - 1;
    const auto columns = b.ColumnsOf(last);
    const int64_t c_offset = first.piece * source.pieces.width + first.first;
    RowsProduct<Operand> product{};
    product.rows = p.rows;
    product.depth = source.depth;
    product.columns = columns.first + columns.count - first.first;
    product.a = p.a;
    product.b = source.values + source.pieces.begin(first.piece) + first.first;
    product.stride = source.stride;
    product.c = p.c;
    product.c_offset = p.c_offset + c_offset;
    product.bias = p.bias == nullptr ? nullptr : p.bias + c_offset;
    product.accumulate = p.accumulate;
    Kernels<Operand>().multiply_rows(product);
    begin = last + 1;
  }
}

}  // namespace

template <typename Operand>
void MultiplyPanel(const RowsTimesMatrix<Operand>& p, const PanelRows& part) {
  if (p.unpacked == nullptr) {
    MultiplyPacked(p, part, 0, p.b->depth);
  } else {
    MultiplyUnpacked(p, part);
  }
}

void MultiplyPanelsInParts(const RowsTimesMatrix<float>* products, int count,
                           const PanelRows& part) {
  const auto panel = [&](int product, int64_t index) {
    return products[product].b->parts_panel(index);
  };
  PartsProduct in_parts[kMaxProductsInParts];
  for (int i = 0; i < count; ++i) {
    const BFloat16* next = nullptr;
    if (i + 1 < count) {
      next = panel(i + 1, part.panel);
    } else if (part.next_panel != PanelRows::kNone) {
      next = panel(0, part.next_panel);
    }
    in_parts[i] = ProductInParts(products[i], part, 0, products[i].b->depth,
                                 panel(i, part.panel), next);
  }
  KernelsOfParts().multiply_panels(in_parts, count);
}

template <typename Operand>
void SplitLeft(const RowsTimesMatrix<Operand>& p, Executor& executor) {
  if constexpr (std::is_same_v<Operand, float>) {
    if (p.b->in_parts && p.a != nullptr) {
      SplitRows(p.a, p.rows, p.b->parts_depth, executor, p.left_parts);
    }
  }
}

template <typename Operand>
void Multiply(const RowsTimesMatrix<Operand>& p, Executor& executor) {
  if (p.rows == 0) return;
  if (p.unpacked == nullptr) SplitLeft(p, executor);
  if (p.unpacked != nullptr && kDepthStep<Operand> == 1 &&
      !p.unpacked->source().is_transposed) {
    const int64_t num_panels = p.unpacked->num_panels();
    ParallelFor(
        executor, num_panels,
        2 * (kMovedRows + p.rows) * p.depth() * p.columns() / num_panels,
        [&](int64_t begin, int64_t end) {
          MultiplyPanelsOfRows(p, begin, end);
        });
  } else if (p.unpacked != nullptr) {
    ParallelPanels(executor,
                   {p.unpacked->num_panels(), Order::kAscending, 0, p.rows,
                    2 * (kMovedRows + p.rows) * p.depth() * p.columns()},
                   [&](const PanelRows& part) { MultiplyPanel(p, part); });
  } else if (IsSmall(*p.b)) {
    MultiplyRowBlocks(p, executor);
  } else {
    MultiplyBlocks(p, executor);
  }
}

bool PacksPanelsInTurn(const Executor& executor, int64_t rows,
                       int64_t row_bytes, int64_t num_panels) {
  // With fewer panels rows had better be split, and each part would pack all.
  constexpr int64_t kMinPanelsPerThread = 2;
  const bool has_enough_panels =
      executor.num_threads() == 1 ||
      num_panels >= kMinPanelsPerThread * executor.num_threads();
  return has_enough_panels && rows * row_bytes <= CoreCacheBytes();
}

template <typename Element, typename Operand>
void PackAndMultiply(const MatrixSource<Element>& source,
                     const RowsTimesMatrix<Operand>& p,
                     PackedMatrix<Operand>* memory, Executor& executor) {
  const SimdKernels<Operand>& kernels = Kernels<Operand>();
  memory->SetSize(source.depth, source.columns);
  RowsTimesMatrix<Operand> product = p;
  product.b = memory;
  const int64_t depth_block = std::min(memory->depth, kernels.depth_block);
  const int64_t num_panels = memory->num_panels();
  const int64_t work = 2 * p.rows * depth_block * memory->columns +
                       depth_block * memory->columns * kMoveWork;
  // What is small may as well be packed by one thread and read by others, from
  // so many rows on.
  constexpr int64_t kManyRows = 192;
  if (!PacksPanelsInTurn(executor, p.rows, depth_block * OperandBytes(*memory),
                         num_panels) ||
      (IsSmall(*memory) && p.rows > kManyRows)) {
    Pack(source, executor, memory);
    Multiply(product, executor);
    return;
  }
  SplitLeft(product, executor);
  // Of panels so narrow that their parts of a row are a few lines, several are
  // filled at a time.
  constexpr int64_t kBytesTogether = 256;
  const int64_t panels_together = std::max<int64_t>(
      1, kBytesTogether / (kernels.panel_columns * int64_t{sizeof(Element)}));
  for (int64_t k = 0; k < memory->depth; k += depth_block) {
    const int64_t k_end = std::min(k + depth_block, memory->depth);
    ParallelFor(
        executor, num_panels, work / num_panels,
        [&](int64_t begin, int64_t end) {
          // One place for a task's panels: it stays in the cache.
          if constexpr (std::is_same_v<Operand, float>) {
            if (memory->in_parts) {
              BFloat16* block = memory->parts_panel(begin);
              for (int64_t panel = begin; panel < end; ++panel) {
                PackBlockInParts(source, *memory, panel, k, k_end, block);
                MultiplyPacked(product, {panel, PanelRows::kNone, 0, p.rows}, k,
                               k_end, block, nullptr);
              }
              return;
            }
          }
          const int64_t block_size = depth_block * kernels.panel_columns;
          Operand* blocks = memory->panels + begin * block_size;
          for (; begin < end; begin += panels_together) {
            const int64_t group_end = std::min(begin + panels_together, end);
            PackBlocks(source,
                       {begin, group_end, k, std::min(k_end, source.depth)},
                       blocks, block_size);
            for (int64_t panel = begin; panel < group_end; ++panel) {
              MultiplyPacked<Operand>(
                  product, {panel, PanelRows::kNone, 0, p.rows}, k, k_end,
                  blocks + (panel - begin) * block_size, nullptr);
            }
          }
        });
  }
}

template <typename Element, typename Operand>
void WeightMatrix<Element, Operand>::Set(
    const MatrixSource<Element>& new_source, Use new_use, Executor& executor) {
  source = new_source;
  use = new_use;
  if (use == Use::kPacked) {
    Pack(source, executor, &packed);
  } else if (use == Use::kInPlace) {
    if constexpr (std::is_same_v<Element, Operand>) {
      unpacked.Set(source, packed.panels);
    }
  }
}

template <typename Element, typename Operand>
int64_t WeightMatrix<Element, Operand>::num_panels() const {
  return use == Use::kInPlace ? unpacked.num_panels()
                              : NumPanels<Operand>(source.columns);
}

template <typename Element, typename Operand>
void WeightMatrix<Element, Operand>::SetRightOperand(
    RowsTimesMatrix<Operand>* product) const {
  if (use == Use::kInPlace) {
    product->unpacked = &unpacked;
  } else {
    product->b = &packed;
  }
}

template <typename Element, typename Operand>
void Multiply(RowsTimesMatrix<Operand> product,
              WeightMatrix<Element, Operand>* weights, Executor& executor) {
  using Use = typename WeightMatrix<Element, Operand>::Use;
  if (weights->use == Use::kPackedByProduct) {
    PackAndMultiply(weights->source, product, &weights->packed, executor);
    return;
  }
  weights->SetRightOperand(&product);
  Multiply(product, executor);
}

#define RNN_INSTANTIATE(Operand)                                       \
  template void MultiplyPanel(const RowsTimesMatrix<Operand>&,         \
                              const PanelRows&);                       \
  template void SplitLeft(const RowsTimesMatrix<Operand>&, Executor&); \
  template void Multiply(const RowsTimesMatrix<Operand>&, Executor&);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(double)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

#define RNN_INSTANTIATE(Element, Operand)                           \
  template struct WeightMatrix<Element, Operand>;                   \
  template void PackAndMultiply(const MatrixSource<Element>&,       \
                                const RowsTimesMatrix<Operand>&,    \
                                PackedMatrix<Operand>*, Executor&); \
  template void Multiply(RowsTimesMatrix<Operand>,                  \
                         WeightMatrix<Element, Operand>*, Executor&);
RNN_INSTANTIATE(float, float)
RNN_INSTANTIATE(double, double)
RNN_INSTANTIATE(Half, float)
RNN_INSTANTIATE(BFloat16, float)
RNN_INSTANTIATE(BFloat16, BFloat16)
#undef RNN_INSTANTIATE

}  // namespace rnn
