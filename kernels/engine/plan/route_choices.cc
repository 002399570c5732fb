// Which route each operand of a pass takes: packed or not, in its turn, in
// place, in bfloat16 parts.

#include <algorithm>
#include <limits>

#include "kernels/engine/plan/choices.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"

namespace rnn {

OperandPlan Choices::ForwardInput(int64_t layer, int num_threads) const {
  const int64_t input_size = d_.layer_input_size(layer);
  if (are_int8_) return Operand(Route::kInt8, GatesForward(input_size));
  if (MayReadInputInPlace() && IsSmallCall()) {
    return ByColumns(GatesForward(input_size), sequences_.num_valid_rows());
  }
  const OperandPlan w = Packed(MultipliesInParts(input_size, d_.gates_size()),
                               GatesForward(input_size));
  return call_.weights_are_prepared
             ? w
             : InTurnIfUsedOnce(w, sequences_.num_valid_rows(), num_threads);
}

OperandPlan Choices::BackwardInput(int64_t layer, int num_threads) const {
  const int64_t input_size = d_.layer_input_size(layer);
  const bool in_parts = MultipliesInParts(d_.gates_size(), input_size);
  const int64_t rows = sequences_.num_valid_rows();
  if (MayReadGatesInPlace() &&
      rows <= MaxLeftRowsInPlace(speed::kMaxLeftRowsInPlace) && !in_parts) {
    return Operand(Route::kRowsInPlace, GatesBackward(input_size));
  }
  if (MayReadFeaturesInPlace() && IsSmallCall() && !in_parts) {
    return Operand(Route::kColumnsInPlace, GatesBackward(input_size));
  }
  return InTurnIfUsedOnce(Packed(in_parts, GatesBackward(input_size)), rows,
                          num_threads);
}

OperandPlan Choices::ForwardRecurrent(int num_threads) const {
  const int64_t P = d_.output_size();
  if (are_int8_) return Operand(Route::kInt8, GatesForward(P));
  OperandPlan r = Operand(Route::kPacked, GatesForward(P));
  if (kernels_.operands_are_elements && P % kernels_.depth_step == 0 &&
      RecurrentBytes() > MaxPackedRecurrentBytes(Pass::kForward)) {
    OperandSize size = GatesForward(P);
    size.column_pieces = d_.num_gates();  // of which steps take units
    return ByColumns(size, sequences_.active(0));
  }
  // One step needs R once. Rows of memory with a gate's columns would come in
  // pieces of a panel: nothing gained.
  if (!gates_are_columns_ && sequences_.num_steps() == 1 &&
      !call_.weights_are_prepared) {
    const CellPanelShape panels = CellPanelShape::Of(d_, kernels_);
    if (FitsInTurn(sequences_.active(0), panels.depth * kernels_.operand_bytes,
                   panels.num_panels, num_threads)) {
      r.route = Route::kPackedInTurn;
      r.places.count = NumPlaces(num_threads, panels.num_panels);
    }
  }
  return r;
}

bool Choices::ReadsWholeRows(Route recurrent_route) const {
  return recurrent_route == Route::kRowsInPlace && d_.num_gates() > 1 &&
         RecurrentBytes() >= speed::kMinWholeRowsBytes;
}

OperandPlan Choices::BackwardRecurrent(int num_threads) const {
  const int64_t P = d_.output_size();
  const int64_t rows = sequences_.num_valid_rows();
  const int64_t steps = sequences_.num_steps();
  const int64_t max_steps = RecurrentBytes() > speed::kMaxNearRecurrentBytes
                                ? speed::kMaxBackwardStepsOfFarInPlace
                                : speed::kMaxBackwardStepsOfNearInPlace;
  const int64_t max_rows =
      MaxLeftRowsInPlace(steps == 1 ? speed::kMaxLeftRowsInPlace
                                    : speed::kMaxLeftRowsOfStepsInPlace);
  if (MayReadGatesInPlace() && steps <= max_steps && rows <= max_rows) {
    return Operand(Route::kRowsInPlace, GatesBackward(P));
  }
  if (MayReadFeaturesInPlace() &&
      RecurrentBytes() > MaxPackedRecurrentBytes(Pass::kBackward)) {
    return Operand(Route::kColumnsInPlace, GatesBackward(P));
  }
  const OperandPlan r = Operand(Route::kPacked, GatesBackward(P));
  // One step needs R once, for the gradient of the state before it.
  return steps == 1 ? InTurnIfUsedOnce(r, rows, num_threads) : r;
}

OperandPlan Choices::Projection(Pass pass) const {
  OperandSize size;
  size.depth = pass == Pass::kForward ? d_.hidden_size : d_.output_size();
  size.columns = pass == Pass::kForward ? d_.output_size() : d_.hidden_size;
  if (are_int8_) return Operand(Route::kInt8, size);
  return Operand(Route::kPacked, size);
}

OperandPlan Choices::GatesGradient(int64_t features) const {
  const auto shape = GatesGradientShape::Of(d_, call_.weight_order, features);
  return Packed(MultipliesInParts(d_.gates_size(), features),
                ChunkOf(shape.right_columns));
}

OperandPlan Choices::ProjectionGradient() const {
  return Packed(MultipliesInParts(d_.output_size(), d_.hidden_size),
                ChunkOf(d_.hidden_size));
}

// About as long as there are chains, so that rounding errors grow with the
// square root of the number of rows.
int64_t Choices::GradientChain() const {
  int64_t chain = bits::kMinGradientChain;
  while (chain < kernels_.depth_block &&
         chain * chain < sequences_.num_valid_rows()) {
    chain *= 2;
  }
  return chain;
}

// ---- Conditions of routes ---------------------------------------------------

// Whether a product with weights of such a size is made of parts.
bool Choices::MultipliesInParts(int64_t weight_rows,
                                int64_t weight_columns) const {
  return kernels_.has_parts && sequences_.shape_rows() >= bits::kMinPartsRows &&
         std::min(weight_rows, weight_columns) >= bits::kMinPartsWidth &&
         weight_rows * weight_columns >= bits::kMinPartsElements;
}

bool Choices::IsSmallCall() const {
  return sequences_.shape_rows() <= bits::kMaxSmallCallRows;
}

// Rows must be of whole depth steps; upper layers' inputs are outputs. Where
// gates are columns, the same weights as params are packed in other calls: so
// must rows in place have the bits of packed ones.
bool Choices::MayReadInputInPlace() const {
  const int64_t depth_step = kernels_.depth_step;
  return kernels_.operands_are_elements && d_.output_size() % depth_step == 0 &&
         d_.input_size % depth_step == 0 &&
         (!gates_are_columns_ ||
          (kernels_.rows_have_bits_of_panels() &&
           sequences_.num_valid_rows() <=
               MaxLeftRowsInPlace(bits::kMaxSmallCallRows)));
}

bool Choices::MayReadGatesInPlace() const {
  return !gates_are_columns_ && kernels_.operands_are_elements &&
         kernels_.rows_have_bits_of_panels() &&
         d_.gates_size() % kernels_.depth_step == 0;
}

// In Keras' order a feature's weights are a column of backward's product, of
// which each gate's piece must be whole depth steps. (With tile registers this
// was not measured.)
bool Choices::MayReadFeaturesInPlace() const {
  return gates_are_columns_ && kernels_.operands_are_elements &&
         !kernels_.has_tile_registers &&
         d_.hidden_size % kernels_.depth_step == 0;
}

// The limit for rows of B that are read from end to end.
int64_t Choices::MaxLeftRowsInPlace(int64_t max_rows) const {
  return kernels_.depth_step == 1
             ? max_rows
             : std::min(max_rows, speed::kMaxLeftRowsInPlaceOfPairs);
}

int64_t Choices::RecurrentBytes() const {
  OperandPlan r;
  r.route = are_int8_ ? Route::kInt8 : Route::kPacked;
  return d_.gates_size() * d_.output_size() *
         r.ElementBytes(kernels_.operand_bytes);
}

// R of so many bytes is packed. One step does not pay for packing, few pay for
// that of a small R, and some more for all but an R so large that it would come
// from beyond a core's cache packed, too. (Backward this decides for Keras'
// order alone: in that of params rows in place have the bits of packed ones.)
int64_t Choices::MaxPackedRecurrentBytes(Pass pass) const {
  if (!IsSmallCall()) return std::numeric_limits<int64_t>::max();
  if (sequences_.max_time() == 1) return 0;
  if (sequences_.max_time() <= bits::kMaxStepsInPlace) {
    return bits::kMaxQuicklyPackedBytes;
  }
  const bool are_rows_read_in_pieces =
      gates_are_columns_ && pass == Pass::kForward;
  return are_rows_read_in_pieces ? bits::kMaxPackedKerasBytes
                                 : bits::kMaxPackedBytes;
}

// ---- Plans of operands ------------------------------------------------------

OperandSize Choices::GatesForward(int64_t features) const {
  OperandSize size;
  size.depth = features;
  size.columns = d_.gates_size();
  return size;
}

OperandSize Choices::GatesBackward(int64_t features) const {
  OperandSize size;
  size.depth = d_.gates_size();
  size.columns = features;
  size.depth_pieces = d_.num_gates();
  return size;
}

OperandSize Choices::ChunkOf(int64_t columns) const {
  OperandSize size;
  size.depth = cuts_.max_rows();
  size.columns = columns;
  return size;
}

OperandPlan Choices::Operand(Route route, const OperandSize& size) const {
  return OperandPlan::Of(route, size, kernels_, machine_.core_cache_bytes);
}

OperandPlan Choices::Packed(bool in_parts, const OperandSize& size) const {
  return Operand(in_parts ? Route::kParts : Route::kPacked, size);
}

// Of forward, for products of so many rows.
OperandPlan Choices::ByColumns(const OperandSize& size, int64_t rows) const {
  if (gates_are_columns_) return Operand(Route::kRowsInPlace, size);
  return Operand(call_.weights_are_prepared && PaysForDotPanels(size, rows)
                     ? Route::kDotPanels
                     : Route::kColumnsInPlace,
                 size);
}

// Whether weights that never change come faster so, with the same bits.
bool Choices::PaysForDotPanels(const OperandSize& size, int64_t rows) const {
  if (rows <= kernels_.dot_rows) {
    return size.columns >= speed::kMinFewRowsPanelColumns;
  }
  // With few registers more rows are as fast in place.
  return kernels_.dot_chains > 1 &&
         size.columns >= speed::kMinManyRowsPanelColumns;
}

OperandPlan Choices::InTurnIfUsedOnce(OperandPlan b, int64_t rows,
                                      int num_threads) const {
  if (!cuts_.is_single() || IsInParts(b.route) ||
      rows > speed::kMaxRowsInTurn) {
    return b;
  }
  const OperandPlan in_turn = b.InTurn(kernels_, num_threads);
  const bool fits = FitsInTurn(
      rows, in_turn.places.depth_block * b.ElementBytes(kernels_.operand_bytes),
      kernels_.NumPanels(b.columns), num_threads);
  return fits ? in_turn : b;
}

// Whether panels that one product needs are worth packing when their turn
// comes, by the thread that multiplies `rows` with them: `row_bytes` of each
// have to stay in its cache meanwhile.
bool Choices::FitsInTurn(int64_t rows, int64_t row_bytes, int64_t num_panels,
                         int num_threads) const {
  const bool has_enough_panels =
      num_threads == 1 ||
      num_panels >= speed::kMinPanelsPerThread * num_threads;
  return has_enough_panels && rows * row_bytes <= machine_.core_cache_bytes;
}

}  // namespace rnn
