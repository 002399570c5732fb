// The right operands of a call's products: their sizes, and how much memory
// they take along a route. Which route they take, route_choices.cc decides.
#ifndef KERNELS_ENGINE_PLAN_OPERAND_PLAN_H_
#define KERNELS_ENGINE_PLAN_OPERAND_PLAN_H_

#include <cstdint>

#include "kernels/engine/plan/kernel_shape.h"
#include "kernels/engine/plan/route.h"
#include "network/descriptor.h"
#include "network/weights.h"

namespace rnn {

// The depth of an operand in parts: one piece or more, each of which is filled
// up with zeros to whole depth steps of parts. What is computed a piece at a
// time can be split a piece at a time.
struct PartsDepth {
  int num_pieces;
  int64_t width;  // of a piece

  int64_t padded_width() const;
  int64_t size() const { return num_pieces * width; }
  int64_t padded() const { return num_pieces * padded_width(); }
};

// Of B [depth, columns]; empty if there is no such product.
struct OperandSize {
  int64_t depth = 0;  // if it counts rows of a chunk: of the largest one
  int64_t columns = 0;
  int depth_pieces = 1;   // in parts
  int column_pieces = 1;  // in dot panels, each of whole ones
};

// B in dot panels (simd_kernels.h), one after another.
struct DotPanelShape {
  int64_t panel_columns = 0;
  int64_t piece_columns = 0;
  int64_t piece_panels = 0;
  int64_t num_panels = 0;
  int64_t panel_size = 0;  // values

  // `round` is how far links of one chain are apart in depth.
  static DotPanelShape Of(const OperandSize& size, int64_t panel_columns,
                          int64_t round);

  // The one that this column is the first of.
  int64_t PanelOf(int64_t column) const {
    return column / piece_columns * piece_panels +
           column % piece_columns / panel_columns;
  }
  int64_t FirstColumnOf(int64_t panel) const {
    return panel / piece_panels * piece_columns +
           panel % piece_panels * panel_columns;
  }
  // How many it has; the rest are zeros.
  int64_t ColumnsOf(int64_t panel) const {
    const int64_t left = piece_columns - panel % piece_panels * panel_columns;
    return left < panel_columns ? left : panel_columns;
  }
};

// Memory for panels that are packed in their turn. Each task has a place, and
// fills it again with its next panels.
struct TurnPlaces {
  int64_t count = 0;
  int64_t panels_together = 0;  // of a place
  int64_t depth_block = 0;      // of such a panel, at most

  // In values: of a panel, and of a place.
  int64_t block_size(int64_t panel_columns) const {
    return depth_block * panel_columns;
  }
  int64_t size(int64_t panel_columns) const {
    return panels_together * block_size(panel_columns);
  }
};

// How B comes to its products.
struct OperandPlan : OperandSize {
  Route route = Route::kPacked;

  // Speed only: whether B stays in a core's cache while several rows at a time
  // are multiplied by all of it; if not, how many rows of the left operand,
  // of a depth block each, stay there while B comes by.
  bool is_small = false;
  int64_t cached_rows = 1;

  // Only if it is packed in its turn. Bits do not depend on it. The cells of
  // forward have a whole panel of R in each place: there only the count is set.
  TurnPlaces places;

  // B along this route, for a machine whose cores have such a cache.
  static OperandPlan Of(Route route, const OperandSize& size,
                        const KernelShape& kernels, int64_t core_cache_bytes);
  // This B packed in its turn, by so many threads.
  OperandPlan InTurn(const KernelShape& kernels, int num_threads) const;

  PartsDepth parts_depth() const {
    return {depth_pieces, depth / depth_pieces};
  }
  // As deep as the left operand's rows are, and panels.
  int64_t PaddedDepth(int64_t depth_step) const;
  // Bytes that one more row of depth adds to a column.
  int64_t ElementBytes(int64_t operand_bytes) const;
  // Bytes of memory for what is prepared.
  int64_t Bytes(const KernelShape& kernels) const;
};

// The matrices that differ from layer to layer: what enters the first layer has
// its own size.
struct LayerOperands {
  OperandPlan first;  // empty if the first layer has none
  OperandPlan upper;  // empty if there is one layer

  const OperandPlan& of_layer(int64_t layer) const {
    return layer == 0 ? first : upper;
  }
  bool is_any_in_parts() const {
    return IsInParts(first.route) || IsInParts(upper.route);
  }
  // Bytes of memory that the larger takes.
  int64_t MaxBytes(const KernelShape& kernels) const;
};

// The gradient of a matrix of gates that multiplied `features`: the transpose
// of a left operand times a right one, both by row. One of them is the
// features, the other the gates' gradients; which one is left gives the rows of
// the gradient, as the matrix lies in memory.
struct GatesGradientShape {
  bool features_are_left = false;
  int64_t left_columns = 0;
  int64_t right_columns = 0;

  static GatesGradientShape Of(const RnnDescriptor& descriptor,
                               WeightOrder order, int64_t features);
};

// R [P, G*H] as the cells of forward multiply by it: in panels of columns
// [G][units], the last of which may have fewer units, and zeros after them.
struct CellPanelShape {
  int64_t num_panels = 0;
  int64_t units = 0;  // of a panel, but the last
  int64_t depth = 0;  // P, padded

  static CellPanelShape Of(const RnnDescriptor& descriptor,
                           const KernelShape& kernels);

  // Elements.
  int64_t panel_size(int num_gates) const { return depth * num_gates * units; }
};

// Left operands in parts: from row to row, in bfloat16, and for so many rows.
int64_t LeftPartsStride(int64_t padded_depth);
int64_t LeftPartsBytes(int64_t rows, int64_t padded_depth);

// Left operands of int8 weights: from row to row, in integers.
int64_t LeftIntegersStride(int64_t depth);

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_OPERAND_PLAN_H_
