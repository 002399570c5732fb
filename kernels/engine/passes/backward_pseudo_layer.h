// Backward of one pseudo-layer after another.
//
// Per step, the gradient of h comes from above (dy) and from the step after
// (R^T dgates); the cell turns it into dgates. Per chunk, the gradients of
// weights and of the input are matrix products over all its rows, those of
// weights over its rows of each half of the batch.
#ifndef KERNELS_ENGINE_PASSES_BACKWARD_PSEUDO_LAYER_H_
#define KERNELS_ENGINE_PASSES_BACKWARD_PSEUDO_LAYER_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/observer.h"
#include "kernels/engine/passes/backward_network.h"
#include "kernels/engine/passes/backward_rows.h"
#include "kernels/engine/passes/chunk_rows.h"
#include "kernels/engine/passes/gate_gradient_rows.h"
#include "kernels/engine/passes/rows.h"
#include "kernels/engine/passes/steps.h"
#include "kernels/engine/passes/weight_gradients.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/products/matrix_product.h"
#include "kernels/engine/products/recurrent_gradient.h"
#include "kernels/engine/products/step_ranks.h"
#include "kernels/engine/products/step_work.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "kernels/engine/weights/backward_weights.h"
#include "kernels/engine/weights/parts.h"
#include "network/cell.h"

namespace rnn {

template <typename Element, typename Operand>
class BackwardPseudoLayer {
 public:
  using F = ComputeType<Element>;
  using Network = BackwardNetwork<Element, Operand>;
  using GradientRows = typename WeightGradients<Element, Operand>::Rows;

  BackwardPseudoLayer(Network& network,
                      const BackwardScratch::PseudoLayer& blocks,
                      const ScratchView& scratch)
      : plan_(network.plan()),
        d_(plan_.descriptor),
        sequences_(*plan_.sequences),
        network_(network),
        arguments_(network.arguments()),
        blocks_(blocks),
        scratch_(scratch),
        step_rows_(network, blocks, scratch),
        weights_(plan_, network.weights(), blocks, scratch),
        recurrent_(plan_, weights_),
        dgates_(GateGradients<Operand>::In(scratch, blocks.dgates,
                                           blocks.rounded_dgates)),
        dh_(RowBuffer<F>::In(scratch, blocks.dh)),
        dc_(At<F>(blocks.dc)),
        dh_total_(RowBuffer<Operand>::In(scratch, blocks.dh_total)),
        m_(RowBuffer<Operand>::In(scratch, blocks.m)),
        dm_(RowBuffer<F>::In(scratch, blocks.dm)) {
    recurrent_dgates_ = dgates_;
    if (!HasOwnRecurrentGradients(d_.mode)) return;
    recurrent_dgates_ = GateGradients<Operand>::In(
        scratch, blocks.recurrent_dgates, blocks.rounded_recurrent_dgates);
  }

  BackwardPseudoLayer(const BackwardPseudoLayer&) = delete;
  BackwardPseudoLayer& operator=(const BackwardPseudoLayer&) = delete;

  void Run(int64_t layer, int direction, Executor& executor) {
    layer_ = layer;
    direction_ = direction;
    executor_ = &executor;
    const ObservedPhase phase = Enter(Phase::kPseudoLayer);
    step_rows_.Begin(layer, direction);
    LoadFinalGradients();
    for (const ChunkPlan& chunk : plan_.chunks) RunChunk(chunk);
    StoreInitialGradients();
  }

 private:
  template <typename Value>
  Value* At(const Block& block) const {
    return scratch_.At<Value>(block);
  }
  int64_t k() const { return d_.pseudo_layer(layer_, direction_); }
  int64_t time(int64_t step, int64_t rank) const {
    return sequences_.time(direction_, step, rank);
  }
  ObservedPhase Enter(Phase phase) const {
    return {arguments_.observer, phase, layer_, direction_};
  }

  // ---- Before the last chunk ------------------------------------------------

  // dh_ and dc_ are by rank; a row keeps what it has until its last step.
  void LoadFinalGradients() {
    const int64_t H = d_.hidden_size;
    const int64_t P = d_.output_size();
    dh_.SetRows(sequences_.batch(), P);
    const StateRows dh_n(sequences_, arguments_.dh_n, arguments_.strides.h,
                         k());
    const StateRows dc_n(sequences_, arguments_.dc_n, arguments_.strides.c,
                         k());
    for (int64_t rank = 0; rank < sequences_.batch(); ++rank) {
      Load(dh_n.Row(rank), dh_.rows[rank], P);
      if (HasCellState(d_.mode)) Load(dc_n.Row(rank), dc_ + rank * H, H);
    }
  }

  // ---- A chunk --------------------------------------------------------------

  void RunChunk(const ChunkPlan& chunk) {
    const ChunkRows rows(sequences_, chunk.steps);
    const bool is_first = chunk.steps.end == sequences_.num_steps();
    if (is_first) PrepareRecurrentWeights();
    step_rows_.PointAt(rows, *executor_);
    SetRows(rows);
    RunAllSteps(chunk, rows);
    AddWeightGradients(rows);
    ComputeInputGradient(rows, is_first);
  }

  void RunAllSteps(const ChunkPlan& chunk, const ChunkRows& rows) {
    const ObservedPhase phase = Enter(Phase::kSteps);
    RunSteps(sequences_, chunk, StepOrder::kBackward, *executor_,
             [&](Executor& executor, const StepRanks& ranks) {
               RunStep(executor, rows, ranks);
             });
    // The chunk before begins with the gradient of its last state.
    recurrent_.Multiply(ProductOfStep(rows, chunk.steps.begin), *executor_);
  }

  void PrepareRecurrentWeights() {
    const ObservedPhase phase = Enter(Phase::kPackWeights);
    weights_.PrepareRecurrent(k(), *executor_);
  }

  // Lays out the rows of what the chunk computes.
  void SetRows(const ChunkRows& rows) {
    const int64_t P = d_.output_size();
    dgates_.SetRows(rows.count(), d_.gates_size());
    if (HasOwnRecurrentGradients(d_.mode)) {
      recurrent_dgates_.SetRows(rows.count(), d_.gates_size());
    }
    if (!d_.has_projection()) return;
    const int64_t row_size = PaddedDepth<Operand>(P);
    dh_total_.SetRows(rows.count(), row_size);
    if (row_size > P) {
      std::fill_n(dh_total_.values, rows.count() * row_size, Operand{});
    }
    m_.SetRows(rows.count(), d_.hidden_size);
    dm_.SetRows(sequences_.batch(), d_.hidden_size);
  }

  void AddWeightGradients(const ChunkRows& chunk) {
    const ObservedPhase phase = Enter(Phase::kWeightGradients);
    const GradientRows rows = RowsOf(chunk);
    const int num_halves = plan_.num_halves();
    for (int half = 0; half < num_halves; ++half) {
      const int64_t num_steps = plan_.num_steps_of(half);
      if (num_steps <= chunk.steps().begin) continue;  // it has no row here
      GradientRows of_half =
          num_halves == 1 ? rows
                          : RowsOfRanks(rows, chunk, plan_.half_begins[half],
                                        plan_.half_begins[half + 1]);
      // Chunks come from the last on.
      of_half.is_first_chunk = num_steps <= chunk.steps().end;
      network_.AddWeightGradients(half, layer_, direction_, of_half,
                                  *executor_);
    }
  }

  GradientRows RowsOf(const ChunkRows& chunk) {
    GradientRows rows{};
    rows.count = chunk.count();
    rows.dgates = dgates_.operands();
    rows.exact_dgates = dgates_.exact.rows;
    rows.recurrent_dgates = recurrent_dgates_.operands();
    rows.exact_recurrent_dgates = recurrent_dgates_.exact.rows;
    if (d_.has_input_weights(layer_)) {
      const auto input_rows = At<const Operand*>(blocks_.input_rows);
      network_.Input(layer_).Gather(direction_, chunk, *executor_,
                                    At<Operand>(blocks_.input_staging),
                                    input_rows);
      rows.inputs = input_rows;
    }
    if (sequences_.max_time() > 1 || !step_rows_.StartsFromZeros()) {
      rows.h_prev = PointAtStatesBefore(chunk);
    }
    rows.m = m_.rows;
    rows.dh = dh_total_.rows;
    return rows;
  }

  // The h before each row of the chunk.
  const Operand* const* PointAtStatesBefore(const ChunkRows& chunk) const {
    const auto rows = At<const Operand*>(blocks_.h_prev_rows);
    for (int64_t step = chunk.steps().begin; step < chunk.steps().end; ++step) {
      std::copy_n(step_rows_.h() + chunk.EntryBefore(step),
                  sequences_.active(step), rows + chunk.RowOf(step));
    }
    return rows;
  }

  // Those of `rows`, which are the chunk's, that are of ranks [begin, end).
  GradientRows RowsOfRanks(const GradientRows& rows, const ChunkRows& chunk,
                           int64_t begin, int64_t end) const {
    GradientRows of_ranks = rows;
    of_ranks.count = chunk.CountOfRanks(begin, end);
    int num_tables = 0;
    const auto select = [&](auto* table) -> decltype(table) {
      if (table == nullptr) return nullptr;
      if (num_tables == GradientRows::kNumTables) std::abort();
      using Row =
          std::remove_const_t<std::remove_reference_t<decltype(*table)>>;
      Row* const selected =
          At<Row>(blocks_.half_rows) + num_tables++ * plan_.max_chunk_rows;
      chunk.CopyOfRanks(begin, end, table, selected);
      return selected;
    };
    of_ranks.dgates = select(rows.dgates);
    of_ranks.exact_dgates = select(rows.exact_dgates);
    // What is one table stays one, for it makes one left operand.
    of_ranks.recurrent_dgates = rows.recurrent_dgates == rows.dgates
                                    ? of_ranks.dgates
                                    : select(rows.recurrent_dgates);
    of_ranks.exact_recurrent_dgates = select(rows.exact_recurrent_dgates);
    of_ranks.inputs = select(rows.inputs);
    of_ranks.h_prev = select(rows.h_prev);
    of_ranks.m = select(rows.m);
    of_ranks.dh = select(rows.dh);
    return of_ranks;
  }

  // The first direction writes the input's gradient, the second adds to it.
  void ComputeInputGradient(const ChunkRows& rows, bool is_first) {
    const ObservedPhase phase = Enter(Phase::kInputGradient);
    const TimeRows<F> dx = network_.InputGradientRows(layer_);
    F** dx_rows = At<F*>(blocks_.dx_rows);
    rows.ForEach([&](int64_t i, int64_t step, int64_t rank) {
      dx_rows[i] = dx.Row(time(step, rank), rank);
    });
    if (!d_.has_input_weights(layer_)) {
      AddAllGatesToInputGradient(rows, dx_rows);
      return;
    }
    if (is_first) {
      const ObservedPhase packing = Enter(Phase::kPackWeights);
      weights_.PrepareInput(k(), *executor_);
    }
    RowsTimesMatrix<Operand> product;
    product.rows = rows.count();
    product.a = dgates_.operands();
    if (weights_.input().in_parts()) {
      product.left_parts = LeftParts::In(At<BFloat16>(blocks_.dgates_parts),
                                         weights_.input().depth());
    }
    product.c = dx_rows;
    product.accumulate = direction_ == 1;
    Multiply(product, weights_.input(), *executor_);
  }

  // dx_rows (+)= the sum of the gates' gradients: the layer has no W.
  void AddAllGatesToInputGradient(const ChunkRows& rows, F* const* dx_rows) {
    const int64_t H = d_.hidden_size;
    ParallelFor(*executor_, rows.count(), d_.gates_size() * speed::kMoveWork,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    for (int64_t j = 0; j < H; ++j) {
                      F sum = direction_ == 1 ? dx_rows[i][j] : F{0};
                      for (int64_t g = 0; g < d_.num_gates(); ++g) {
                        sum += dgates_.exact.rows[i][g * H + j];
                      }
                      dx_rows[i][j] = sum;
                    }
                  }
                });
  }

  // ---- A step ---------------------------------------------------------------

  // dh_ of the rows active in `step` = R^T dgates of that step, for use in the
  // step before. It is added to what a cell has left there.
  RowsTimesMatrix<Operand> ProductOfStep(const ChunkRows& rows,
                                         int64_t step) const {
    RowsTimesMatrix<Operand> product;
    product.rows = sequences_.active(step);
    product.a = recurrent_dgates_.operands() + rows.RowOf(step);
    product.c = dh_.rows;
    product.accumulate = PassesStateBy(d_.mode);
    return product;
  }

  void RunStep(Executor& executor, const ChunkRows& rows,
               const StepRanks& ranks) {
    // The step after hands its gradient over, unless its chunk has done so.
    RowsTimesMatrix<Operand> from_step_after;
    if (ranks.step + 1 < rows.steps().end) {
      from_step_after = ProductOfStep(rows, ranks.step + 1);
    }
    recurrent_.RunPanels(
        executor, ranks, from_step_after,
        [&](const StepRanks& share, int64_t unit, int64_t unit_end) {
          if (d_.has_projection()) {
            AddOutputGradients(rows, share, unit, unit_end);
          } else {
            RunCell(rows, share, unit);
          }
        });
    if (d_.has_projection()) ProjectStep(executor, rows, ranks);
  }

  // dh_total_ = dh_ + dy.
  void AddOutputGradients(const ChunkRows& rows, const StepRanks& ranks,
                          int64_t column_begin, int64_t column_end) {
    const int64_t row = rows.RowOf(ranks.step);
    for (int64_t rank = ranks.begin; rank < ranks.end; ++rank) {
      const F* dy = step_rows_.dy()[row + rank];
      constexpr int64_t kBlock = speed::kAddedColumns;
      for (int64_t j = column_begin; j < column_end; j += kBlock) {
        const int64_t count = std::min(kBlock, column_end - j);
        F sums[kBlock];
        for (int64_t i = 0; i < count; ++i) {
          sums[i] = dh_.rows[rank][j + i] + dy[j + i];
        }
        Store(sums, dh_total_.rows[row + rank] + j, count);
      }
    }
  }

  // dm_ = dh_total_ times the projection, and the cells that gave m.
  void ProjectStep(Executor& executor, const ChunkRows& rows,
                   const StepRanks& ranks) {
    RowsTimesMatrix<Operand> product;
    product.a = dh_total_.rows + rows.RowOf(ranks.step);
    product.c = dm_.rows;
    const AllPanels panels = PanelsOf(
        ranks, weights_.projection().num_panels(),
        ProjectionWork(d_, ranks.count()) + CellWork(d_, ranks.count()));
    ParallelPanels(executor, panels, [&](const PanelRows& share) {
      MultiplyPanel(product, weights_.projection(), share);
      RunCell(rows, ranks.Of(share),
              share.panel * Kernels<Operand>().panel_columns);
    });
  }

  // The cell of the units of one panel that begins at `unit`.
  void RunCell(const ChunkRows& rows, const StepRanks& ranks, int64_t unit) {
    const int64_t H = d_.hidden_size;
    const int64_t row = rows.RowOf(ranks.step) + ranks.begin;
    CellBackwardStep<Operand> cell{};
    cell.rows = ranks.count();
    cell.hidden_size = H;
    cell.unit = unit;
    cell.units = std::min<int64_t>(Kernels<Operand>().panel_columns, H - unit);
    if (step_rows_.saved() != nullptr) cell.saved = step_rows_.saved() + row;
    if (step_rows_.c_prev() != nullptr) cell.c_prev = step_rows_.c_prev() + row;
    cell.h_prev = step_rows_.h() + rows.EntryBefore(ranks.step) + ranks.begin;
    cell.h = step_rows_.h() + rows.EntryOf(ranks.step) + ranks.begin;
    if (d_.has_projection()) {
      cell.dh = dm_.rows[ranks.begin];
      cell.m = m_.rows[row];
    } else {
      cell.dh = dh_.rows[ranks.begin];
      cell.dy = step_rows_.dy() + row;
    }
    if (dc_ != nullptr) cell.dc = dc_ + ranks.begin * H;
    cell.dgates = dgates_.exact.rows[row];
    if (HasOwnRecurrentGradients(d_.mode)) {
      cell.recurrent_dgates = recurrent_dgates_.exact.rows[row];
    }
    if constexpr (kRoundsOperands<Operand>) {
      cell.rounded_dgates = dgates_.rounded.rows + row;
      cell.rounded_recurrent_dgates = recurrent_dgates_.rounded.rows + row;
    }
    Kernels<Operand>().cell_backward[static_cast<int>(d_.mode)](cell);
  }

  // ---- After the first chunk ------------------------------------------------

  void StoreInitialGradients() {
    const int64_t H = d_.hidden_size;
    const int64_t P = d_.output_size();
    const StateRows dh0(sequences_, arguments_.dh0, arguments_.strides.h, k());
    const StateRows dc0(sequences_, arguments_.dc0, arguments_.strides.c, k());
    for (int64_t rank = 0; rank < sequences_.batch(); ++rank) {
      Store(dh_.rows[rank], dh0.Row(rank), P);
      if (HasCellState(d_.mode)) Store(dc_ + rank * H, dc0.Row(rank), H);
    }
  }

  const BackwardPlan& plan_;
  const RnnDescriptor& d_;
  const Sequences& sequences_;
  Network& network_;
  const BackwardArguments<Element>& arguments_;
  const BackwardScratch::PseudoLayer& blocks_;
  const ScratchView& scratch_;

  // The pseudo-layer at hand.
  int64_t layer_ = 0;
  int direction_ = 0;
  Executor* executor_ = nullptr;
  BackwardRows<Element, Operand> step_rows_;
  BackwardWeights<Element, Operand> weights_;
  RecurrentGradient<Element, Operand> recurrent_;

  // Rows of the chunk at hand (BackwardScratch has their shapes).
  GateGradients<Operand> dgates_;
  // The gates' gradients as the recurrent product saw them: others than
  // dgates_ in a GRU alone.
  GateGradients<Operand> recurrent_dgates_;
  // Gradients of the states, by rank.
  RowBuffer<F> dh_;
  F* dc_;  // nullptr but for an LSTM
  // Projection.
  RowBuffer<Operand> dh_total_;
  RowBuffer<Operand> m_;
  RowBuffer<F> dm_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_BACKWARD_PSEUDO_LAYER_H_
