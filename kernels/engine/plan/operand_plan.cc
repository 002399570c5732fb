#include "kernels/engine/plan/operand_plan.h"

#include <algorithm>
#include <utility>

#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "network/round.h"

namespace rnn {

int64_t PartsDepth::padded_width() const { return PaddedPartsDepth(width); }

OperandPlan OperandPlan::Of(Route route, const OperandSize& size,
                            const KernelShape& kernels,
                            int64_t core_cache_bytes) {
  OperandPlan b;
  b.depth = size.depth;
  b.columns = size.columns;
  b.depth_pieces = size.depth_pieces;
  b.column_pieces = size.column_pieces;
  b.route = route;
  const int64_t padded_depth = b.PaddedDepth(kernels.depth_step);
  const int64_t element_bytes = b.ElementBytes(kernels.operand_bytes);
  b.is_small = padded_depth * size.columns * element_bytes <=
               core_cache_bytes / speed::kSmallOperandShare;
  const int64_t row_bytes =
      std::min(padded_depth, kernels.depth_block) * element_bytes;
  const double left_bytes = core_cache_bytes * speed::kLeftOperandShare;
  b.cached_rows =
      std::max(speed::kRowBlock, static_cast<int64_t>(left_bytes) / row_bytes);
  return b;
}

OperandPlan OperandPlan::InTurn(const KernelShape& kernels,
                                int num_threads) const {
  OperandPlan b = *this;
  b.route = Route::kPackedInTurn;
  const int64_t num_panels = kernels.NumPanels(columns);
  b.places.count = NumPlaces(num_threads, num_panels);
  // Of panels so narrow that a row of one is a few lines, several.
  const int64_t panels_together =
      speed::kRowBytesTogether /
      (kernels.panel_columns * kernels.element_bytes);
  b.places.panels_together =
      std::clamp<int64_t>(panels_together, 1, num_panels / b.places.count);
  b.places.depth_block =
      std::min(b.PaddedDepth(kernels.depth_step), kernels.depth_block);
  return b;
}

int64_t OperandPlan::PaddedDepth(int64_t depth_step) const {
  if (IsInParts(route)) return parts_depth().padded();
  return RoundUp(depth, depth_step);
}

int64_t OperandPlan::ElementBytes(int64_t operand_bytes) const {
  if (route == Route::kInt8) return 1;
  return IsInParts(route) ? kNumParts * int64_t{sizeof(BFloat16)}
                          : operand_bytes;
}

DotPanelShape DotPanelShape::Of(const OperandSize& size, int64_t panel_columns,
                                int64_t round) {
  DotPanelShape shape;
  shape.panel_columns = panel_columns;
  shape.piece_columns = size.columns / size.column_pieces;
  shape.piece_panels = DivideUp(shape.piece_columns, panel_columns);
  shape.num_panels = size.column_pieces * shape.piece_panels;
  shape.panel_size = RoundUp(size.depth, round) * panel_columns;
  return shape;
}

int64_t OperandPlan::Bytes(const KernelShape& kernels) const {
  switch (route) {
    case Route::kPacked:
    case Route::kParts:
      return kernels.NumPanels(columns) * kernels.panel_columns *
             PaddedDepth(kernels.depth_step) *
             ElementBytes(kernels.operand_bytes);
    case Route::kPackedInTurn:
      return places.count * places.size(kernels.panel_columns) *
             kernels.operand_bytes;
    case Route::kDotPanels: {
      const auto shape =
          DotPanelShape::Of(*this, kernels.dot_columns, kernels.dot_round);
      return shape.num_panels * shape.panel_size * kernels.operand_bytes;
    }
    case Route::kRowsInPlace:
    case Route::kColumnsInPlace:
    case Route::kInt8:
      break;
  }
  return 0;
}

int64_t LayerOperands::MaxBytes(const KernelShape& kernels) const {
  return std::max(first.Bytes(kernels), upper.Bytes(kernels));
}

GatesGradientShape GatesGradientShape::Of(const RnnDescriptor& descriptor,
                                          WeightOrder order, int64_t features) {
  GatesGradientShape shape;
  shape.features_are_left = GatesAreColumns(order);
  shape.left_columns = descriptor.gates_size();
  shape.right_columns = features;
  if (shape.features_are_left) {
    std::swap(shape.left_columns, shape.right_columns);
  }
  return shape;
}

CellPanelShape CellPanelShape::Of(const RnnDescriptor& descriptor,
                                  const KernelShape& kernels) {
  const int64_t units = kernels.cell_units[static_cast<int>(descriptor.mode)];
  CellPanelShape shape;
  shape.num_panels = DivideUp(descriptor.hidden_size, units);
  shape.units = units;
  shape.depth = kernels.PaddedDepth(descriptor.output_size());
  return shape;
}

int64_t LeftPartsStride(int64_t padded_depth) {
  // An odd number of cache lines: rows do not drive each other out.
  constexpr int64_t kLine = 64 / sizeof(BFloat16);
  return (padded_depth * kNumParts / kLine | 1) * kLine;
}

int64_t LeftPartsBytes(int64_t rows, int64_t padded_depth) {
  return RoundUp(rows, kPartsRows) * LeftPartsStride(padded_depth) *
         int64_t{sizeof(BFloat16)};
}

int64_t LeftIntegersStride(int64_t depth) {
  constexpr int64_t kLine = 64 / sizeof(int16_t);
  static_assert(kLine % kInt8DepthStep == 0);
  return (DivideUp(depth, kLine) | 1) * kLine;
}

}  // namespace rnn
