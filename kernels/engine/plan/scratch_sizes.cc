#include "kernels/engine/plan/scratch_sizes.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/plan/route.h"
#include "kernels/engine/plan/scratch.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "network/cell.h"
#include "network/descriptor.h"
#include "network/reserve_layout.h"
#include "network/weights.h"

namespace rnn {

namespace {

// Layers' outputs, and their gradients, are kept for the layer at hand and for
// its neighbour.
int64_t NumLayerBuffers(const RnnDescriptor& d) {
  return std::min<int64_t>(2, d.num_layers - 1);
}

// No block if it takes no memory.
void TakeOperand(int64_t bytes, ScratchBuilder& builder, Block* block) {
  if (bytes > 0) *block = builder.Take(bytes, 1);
}

void TakeRecurrentWeights(const ForwardPlan& plan, ScratchBuilder& builder,
                          WeightBlocks* w) {
  const RnnDescriptor& d = plan.descriptor;
  const KernelShape& k = plan.kernels;
  const OperandPlan& r = plan.recurrent_weights;
  const CellPanelShape panels = CellPanelShape::Of(d, k);
  const auto take_cell_panels = [&](int64_t num_panels) {
    w->recurrent = builder.Take(num_panels * panels.panel_size(d.num_gates()),
                                k.operand_bytes);
  };
  switch (r.route) {
    case Route::kPacked:
      take_cell_panels(panels.num_panels);
      return;
    case Route::kPackedInTurn:
      take_cell_panels(r.places.count);
      return;
    case Route::kRowsInPlace:
    case Route::kColumnsInPlace:
    case Route::kInt8:
    case Route::kDotPanels:
      TakeOperand(r.Bytes(k), builder, &w->recurrent);
      return;
    case Route::kParts:
      break;  // R never comes so
  }
  std::abort();
}

void TakeProjection(const ForwardPlan& plan, ScratchBuilder& builder,
                    WeightBlocks* w) {
  if (!plan.descriptor.has_projection()) return;
  TakeOperand(plan.projection.Bytes(plan.kernels), builder, &w->projection);
}

void TakeBiases(const ForwardPlan& plan, ScratchBuilder& builder,
                WeightBlocks* w) {
  w->biases = builder.Take(2 * plan.descriptor.gates_size(),
                           plan.kernels.compute_bytes);
}

// All of a pseudo-layer with such a W; returns their bytes.
int64_t TakeWeights(const ForwardPlan& plan, const OperandPlan& input,
                    WeightBlocks* w) {
  ScratchBuilder builder;
  TakeOperand(input.Bytes(plan.kernels), builder, &w->input);
  TakeRecurrentWeights(plan, builder, w);
  TakeProjection(plan, builder, w);
  TakeBiases(plan, builder, w);
  return builder.bytes();
}

// Whether all rows are one chunk, or there are none.
bool HasOneChunk(const PassPlan& plan) { return plan.chunks.size() <= 1; }

void TakeForwardPseudoLayer(const ForwardPlan& plan, ScratchBuilder& builder,
                            ForwardScratch::PseudoLayer* s) {
  const RnnDescriptor& d = plan.descriptor;
  const KernelShape& k = plan.kernels;
  const int64_t B = plan.sequences->batch();
  const int64_t H = d.hidden_size;
  const int64_t P = d.output_size();
  const int64_t chunk = plan.max_chunk_rows;
  const int64_t widest_input = d.widest_input();

  if (!plan.weights_are_prepared) {
    // Of a single chunk the input product comes before all steps.
    builder.TakeOverlaid(
        HasOneChunk(plan),
        [&] {
          TakeOperand(plan.input_weights.MaxBytes(k), builder,
                      &s->weights.input);
        },
        [&] { TakeRecurrentWeights(plan, builder, &s->weights); });
    TakeProjection(plan, builder, &s->weights);
    TakeBiases(plan, builder, &s->weights);
  }
  if (plan.input_weights.is_any_in_parts()) {
    s->input_parts =
        builder.Take(LeftPartsBytes(chunk, PaddedPartsDepth(widest_input)), 1);
  }
  if (plan.weight_order == WeightOrder::kInt8) {
    s->input_integers =
        builder.TakeIntegers(chunk, LeftIntegersStride(widest_input));
    s->state_integers = builder.TakeIntegers(B, LeftIntegersStride(P));
    if (d.has_projection()) {
      s->m_integers = builder.TakeIntegers(B, LeftIntegersStride(H));
    }
  }
  if (MultipliesColumnRanges(plan.recurrent_weights.route)) {
    s->recurrent_sums = builder.TakeRows(B, d.gates_size(), k.compute_bytes);
  }
  s->zero_sums.values = builder.Take(d.gates_size(), k.compute_bytes);
  s->zero_sums.rows = builder.TakePointers(B);
  s->input_rows = builder.TakePointers(chunk);
  s->input_staging =
      builder.Take(chunk * k.PaddedDepth(widest_input), k.operand_bytes);
  s->input_sums = builder.TakeRows(chunk, d.gates_size(), k.compute_bytes);
  s->h_rows = builder.TakePointers(B + chunk);
  s->h_values =
      builder.Take(plan.num_h_rows() * k.PaddedDepth(P), k.operand_bytes);
  if (HasCellState(d.mode)) s->c = builder.Take(B * H, k.compute_bytes);
  if (d.has_projection()) {
    s->m = builder.TakeRows(B, k.PaddedDepth(H), k.operand_bytes);
    if (k.rounds_operands) {
      s->projected = builder.TakeRows(B, P, k.compute_bytes);
    }
  }
  if (plan.keeps_activations()) {
    s->saved_rows = builder.TakePointers(chunk);
    if (!k.operands_are_elements) {
      s->saved = builder.Take(chunk * ReservedRowSize(d), k.operand_bytes);
    }
  }
}

// Of each part of the batch, one after another.
template <typename Parts>
Block TakeParts(const Parts& parts, ScratchBuilder& builder) {
  int64_t bytes = 0;
  for (const auto& part : parts) bytes += part->plan.scratch_bytes;
  return builder.Take(bytes, 1);
}

}  // namespace

void SizePreparedWeights(ForwardPlan* plan) {
  PreparedNetwork& prepared = plan->prepared;
  const RnnDescriptor& d = plan->descriptor;
  prepared.num_directions = d.num_directions;
  prepared.first_bytes =
      TakeWeights(*plan, plan->input_weights.first, &prepared.first);
  prepared.upper_bytes =
      TakeWeights(*plan, plan->input_weights.upper, &prepared.upper);
  prepared.bytes = prepared.offset(d.num_pseudo_layers());
}

void SizeScratch(ForwardPlan* plan) {
  ScratchBuilder builder;
  const RnnDescriptor& d = plan->descriptor;
  ForwardScratch& s = plan->scratch;
  if (!plan->parts.empty()) {
    if (!plan->weights_are_prepared) {
      s.prepared_weights = builder.Take(plan->prepared.bytes, 1);
    }
    s.parts = TakeParts(plan->parts, builder);
    plan->scratch_bytes = builder.bytes();
    return;
  }
  if (!plan->has_reserve) {
    const int64_t size =
        plan->sequences->num_valid_rows() * d.layer_output_size();
    for (int64_t i = 0; i < NumLayerBuffers(d); ++i) {
      s.layer_outputs[i] = builder.Take(size, plan->kernels.element_bytes);
    }
  }
  const int count = plan->directions_together ? 2 : 1;
  for (int i = 0; i < count; ++i) {
    TakeForwardPseudoLayer(*plan, builder, &s.pseudo_layers[i]);
  }
  plan->scratch_bytes = builder.bytes();
}

namespace {

// Operands of the products that give the gradients of weights.
void TakeGradientProducts(const BackwardPlan& plan, ScratchBuilder& builder,
                          BackwardScratch::PseudoLayer* s) {
  const RnnDescriptor& d = plan.descriptor;
  const KernelShape& k = plan.kernels;
  const int64_t chunk = plan.max_chunk_rows;
  // A projection's gradient has no more: it has P of them, and params' order.
  const int64_t left_columns =
      GatesGradientShape::Of(d, plan.weight_order,
                             std::max(d.widest_input(), d.output_size()))
          .left_columns;
  TakeOperand(std::max({plan.input_weights_gradient.MaxBytes(k),
                        plan.recurrent_weights_gradient.Bytes(k),
                        plan.projection_gradient.Bytes(k)}),
              builder, &s->product_right);
  s->product_left =
      builder.TakeRows(left_columns, k.PaddedDepth(chunk), k.operand_bytes);
  if (plan.input_weights_gradient.is_any_in_parts() ||
      IsInParts(plan.recurrent_weights_gradient.route) ||
      IsInParts(plan.projection_gradient.route)) {
    s->product_left_parts =
        builder.Take(LeftPartsBytes(left_columns, PaddedPartsDepth(chunk)), 1);
  }
  s->product_rows = builder.TakePointers(left_columns);
  if (plan.num_halves() > 1) {
    s->half_rows = builder.TakePointers(
        BackwardScratch::PseudoLayer::kNumHalfTables * chunk);
  }
}

void TakeBackwardPseudoLayer(const BackwardPlan& plan, ScratchBuilder& builder,
                             BackwardScratch::PseudoLayer* s) {
  const RnnDescriptor& d = plan.descriptor;
  const KernelShape& k = plan.kernels;
  const int64_t B = plan.sequences->batch();
  const int64_t H = d.hidden_size;
  const int64_t P = d.output_size();
  const int64_t chunk = plan.max_chunk_rows;
  const int64_t gates_size = d.gates_size();

  // Of a single chunk all products with R come first, then those that give the
  // gradients of weights, then that with W.
  builder.TakeOverlaid(
      HasOneChunk(plan),
      [&] {
        TakeOperand(plan.recurrent_weights.Bytes(k), builder,
                    &s->recurrent_weights);
      },
      [&] { TakeGradientProducts(plan, builder, s); },
      [&] {
        TakeOperand(plan.input_weights.MaxBytes(k), builder, &s->input_weights);
      });
  s->input_rows = builder.TakePointers(chunk);
  s->input_staging =
      builder.Take(chunk * k.PaddedDepth(d.widest_input()), k.operand_bytes);
  s->h_rows = builder.TakePointers(B + chunk);
  s->h_prev_rows = builder.TakePointers(chunk);
  s->dy_rows = builder.TakePointers(chunk);
  s->dx_rows = builder.TakePointers(chunk);

  const auto take_dgates = [&](RowsBlock* exact, RowsBlock* rounded) {
    *exact = builder.TakeRows(chunk, gates_size, k.compute_bytes);
    if (k.rounds_operands) {
      *rounded =
          builder.TakeRows(chunk, k.PaddedDepth(gates_size), k.operand_bytes);
    }
  };
  take_dgates(&s->dgates, &s->rounded_dgates);
  if (HasOwnRecurrentGradients(d.mode)) {
    take_dgates(&s->recurrent_dgates, &s->rounded_recurrent_dgates);
  }
  if (plan.input_weights.is_any_in_parts()) {
    const PartsDepth depth{d.num_gates(), H};
    s->dgates_parts = builder.Take(LeftPartsBytes(chunk, depth.padded()), 1);
  }

  s->dh = builder.TakeRows(B, P, k.compute_bytes);
  if (HasCellState(d.mode)) {
    s->dc = builder.Take(B * H, k.compute_bytes);
    s->c_prev_rows = builder.TakePointers(chunk);
  }
  if (ReservedRowSize(d) > 0) s->saved_rows = builder.TakePointers(chunk);
  if (d.has_projection()) {
    TakeOperand(plan.projection.Bytes(k), builder, &s->projection);
    s->dh_total = builder.TakeRows(chunk, k.PaddedDepth(P), k.operand_bytes);
    s->m = builder.TakeRows(chunk, H, k.operand_bytes);
    s->dm = builder.TakeRows(B, H, k.compute_bytes);
  }
  if (!k.operands_are_elements) {
    s->h_values = builder.Take((B + chunk) * P, k.operand_bytes);
    s->saved = builder.Take(chunk * ReservedRowSize(d), k.operand_bytes);
    if (HasCellState(d.mode)) {
      s->c_prev = builder.Take(B * H, k.operand_bytes);
    }
  }
  if (plan.stages_output_gradients()) {
    s->dy_values = builder.Take(chunk * P, k.compute_bytes);
  }
}

// What runs the pass, or a part of it.
void TakeBackwardPass(BackwardPlan* plan, ScratchBuilder& builder) {
  const RnnDescriptor& d = plan->descriptor;
  const KernelShape& k = plan->kernels;
  BackwardScratch& s = plan->scratch;
  const int64_t valid_rows = plan->sequences->num_valid_rows();
  if (k.rounds_results) {
    s.input_gradient = builder.Take(valid_rows * d.input_size, k.compute_bytes);
  }
  TakeBackwardPseudoLayer(*plan, builder, &s.pseudo_layer);
  const int64_t layer_size = valid_rows * d.layer_output_size();
  for (int64_t i = 0; i < NumLayerBuffers(d); ++i) {
    s.layer_gradients[i] = builder.Take(layer_size, k.compute_bytes);
  }
}

}  // namespace

void SizeHalfScratch(BackwardPlan* plan) {
  ScratchBuilder builder;
  TakeBackwardPass(plan, builder);
  plan->scratch_bytes = builder.bytes();
}

void SizeScratch(BackwardPlan* plan) {
  ScratchBuilder builder;
  BackwardScratch& s = plan->scratch;
  const int64_t num_sums =
      plan->num_halves() - 1 + (plan->kernels.rounds_results ? 1 : 0);
  if (num_sums > 0) {
    s.weight_gradients = builder.Take(num_sums * plan->params.size(),
                                      plan->kernels.compute_bytes);
  }
  if (plan->parts.empty()) {
    TakeBackwardPass(plan, builder);
  } else {
    s.parts = TakeParts(plan->parts, builder);
  }
  plan->scratch_bytes = builder.bytes();
}

}  // namespace rnn
