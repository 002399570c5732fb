// Forward of one pseudo-layer after another.
//
// Per chunk the input product W x of all its rows is one matrix product; then
// each step adds R h, which the micro-kernels fuse with the gates and the state
// update, on panels of hidden units.
#ifndef KERNELS_ENGINE_PASSES_FORWARD_PSEUDO_LAYER_H_
#define KERNELS_ENGINE_PASSES_FORWARD_PSEUDO_LAYER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/observer.h"
#include "kernels/engine/passes/chunk_rows.h"
#include "kernels/engine/passes/forward_network.h"
#include "kernels/engine/passes/forward_rows.h"
#include "kernels/engine/passes/rows.h"
#include "kernels/engine/passes/steps.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/products/matrix_product.h"
#include "kernels/engine/products/recurrent_product.h"
#include "kernels/engine/products/step_ranks.h"
#include "kernels/engine/products/step_work.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "kernels/engine/weights/forward_weights.h"
#include "kernels/engine/weights/int8_matrix.h"
#include "kernels/engine/weights/parts.h"
#include "network/cell.h"

namespace rnn {

template <typename Element, typename Operand>
class ForwardPseudoLayer {
 public:
  using F = ComputeType<Element>;
  using Network = ForwardNetwork<Element, Operand>;

  ForwardPseudoLayer(const Network& network,
                     const ForwardScratch::PseudoLayer& blocks,
                     const ScratchView& scratch)
      : plan_(network.plan()),
        d_(plan_.descriptor),
        sequences_(*plan_.sequences),
        network_(network),
        arguments_(network.arguments()),
        blocks_(blocks),
        scratch_(scratch),
        step_rows_(network, blocks, scratch),
        weights_(plan_, network.weights()),
        recurrent_(plan_, blocks, scratch, weights_),
        input_rows_(At<const Operand*>(blocks.input_rows)),
        input_sums_(RowBuffer<F>::In(scratch, blocks.input_sums)),
        c_(At<F>(blocks.c)),
        m_(RowBuffer<Operand>::In(scratch, blocks.m)),
        projected_(RowBuffer<F>::In(scratch, blocks.projected)) {}

  void Run(int64_t layer, int direction, Executor& executor) {
    layer_ = layer;
    direction_ = direction;
    executor_ = &executor;
    const ObservedPhase phase = Enter(Phase::kPseudoLayer);
    step_rows_.Begin(layer, direction);
    if (sequences_.num_valid_rows() > 0) {
      PrepareBiases();
      LoadInitialStates();
      for (const ChunkPlan& chunk : plan_.chunks) RunChunk(chunk);
    }
    StoreFinalStates();
  }

 private:
  template <typename Value>
  Value* At(const Block& block) const {
    return scratch_.At<Value>(block);
  }
  int64_t k() const { return d_.pseudo_layer(layer_, direction_); }
  ObservedPhase Enter(Phase phase) const {
    return {arguments_.observer, phase, layer_, direction_};
  }

  // ---- Before the first chunk -----------------------------------------------

  void PrepareBiases() {
    weights_.UseBiases(PlaceOfWeights());
    if (!plan_.weights_are_prepared) weights_.LoadBiases(k());
  }

  void LoadInitialStates() {
    const int64_t H = d_.hidden_size;
    const int64_t B = sequences_.batch();
    step_rows_.LoadInitialState();
    if (d_.has_projection()) {
      const int64_t row_size = PaddedDepth<Operand>(H);
      m_.SetRows(B, row_size);
      // What pads the rows of operands stays zero.
      if (row_size > H) std::fill_n(m_.values, B * row_size, Operand{});
      if constexpr (kRoundsOperands<Operand>)
        projected_.SetRows(B, d_.output_size());
    }
    if (HasCellState(d_.mode)) {
      const StateRows c0(sequences_, arguments_.c0, arguments_.strides.c, k());
      for (int64_t rank = 0; rank < B; ++rank) {
        Load(c0.Row(rank), c_ + rank * H, H);
      }
    }
  }

  // ---- A chunk --------------------------------------------------------------

  void RunChunk(const ChunkPlan& chunk) {
    const ChunkRows rows(sequences_, chunk.steps);
    ComputeInputSums(rows);
    // As late as that, so that steps find R where it was packed.
    if (chunk.steps.begin == 0) {
      PrepareRecurrentWeights();
      recurrent_.Begin(step_rows_.starts_from_zeros());
    }
    step_rows_.PointAt(rows);
    RunAllSteps(chunk, rows);
    step_rows_.End(rows, *executor_);
  }

  void RunAllSteps(const ChunkPlan& chunk, const ChunkRows& rows) {
    const ObservedPhase phase = Enter(Phase::kSteps);
    RunSteps(sequences_, chunk, StepOrder::kForward, *executor_,
             [&](Executor& executor, const StepRanks& ranks) {
               RunStep(executor, rows, ranks);
             });
  }

  // input_sums_ = W x + biases for all rows of a chunk.
  void ComputeInputSums(const ChunkRows& rows) {
    const ObservedPhase phase = Enter(Phase::kInputProduct);
    const int64_t gates_size = d_.gates_size();
    network_.Input(layer_).Gather(direction_, rows, *executor_,
                                  At<Operand>(blocks_.input_staging),
                                  input_rows_);
    input_sums_.SetRows(rows.count(), gates_size);
    if (!d_.has_input_weights(layer_)) {
      AddInputToAllGates(rows);
      return;
    }
    if (rows.steps().begin == 0) {
      PrepareInputWeights();
    }
    RowsTimesMatrix<Operand> product;
    product.rows = rows.count();
    product.a = input_rows_;
    if (weights_.input().in_parts()) {
      product.left_parts = LeftParts::In(At<BFloat16>(blocks_.input_parts),
                                         weights_.input().depth());
    }
    if (network_.weights().is_int8()) {
      product.left_integers =
          LeftIntegers::In(scratch_, blocks_.input_integers, d_.widest_input());
    }
    product.c = input_sums_.rows;
    product.bias = weights_.biases().sums();
    Multiply(product, weights_.input(), *executor_);
  }

  // input_sums_ = the input, for each gate, + biases: the layer has no W.
  void AddInputToAllGates(const ChunkRows& rows) {
    const int64_t H = d_.hidden_size;
    const F* const biases = weights_.biases().sums();
    ParallelFor(*executor_, rows.count(), d_.gates_size() * speed::kMoveWork,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    // The first gate's place holds the input until its turn,
                    // the last.
                    F* const input = input_sums_.rows[i];
                    Load(input_rows_[i], input, H);
                    for (int64_t gate = d_.num_gates() - 1; gate >= 0; --gate) {
                      F* const sums = input + gate * H;
                      const F* const bias = biases + gate * H;
                      for (int64_t j = 0; j < H; ++j) {
                        sums[j] = input[j] + bias[j];
                      }
                    }
                  }
                });
  }

  void PrepareInputWeights() {
    weights_.UseInput(k(), PlaceOfWeights());
    if (plan_.weights_are_prepared) return;
    const ObservedPhase phase = Enter(Phase::kPackWeights);
    weights_.PackInput(*executor_);
  }

  // R and the projection.
  void PrepareRecurrentWeights() {
    weights_.UseRecurrent(k(), PlaceOfWeights());
    if (plan_.weights_are_prepared) return;
    const ObservedPhase phase = Enter(Phase::kPackWeights);
    const bool reads_recurrent =
        sequences_.num_steps() > 1 || !step_rows_.starts_from_zeros();
    if (reads_recurrent) weights_.PackRecurrent(*executor_);
    weights_.PackProjection(*executor_);
  }

  WeightsPlace PlaceOfWeights() const {
    return plan_.weights_are_prepared ? network_.PreparedBefore(k())
                                      : WeightsPlace(blocks_.weights, scratch_);
  }

  // ---- A step ---------------------------------------------------------------

  void RunStep(Executor& executor, const ChunkRows& rows,
               const StepRanks& ranks) {
    const int64_t H = d_.hidden_size;
    const int64_t row = rows.RowOf(ranks.step);
    Operand* const* h_prev = step_rows_.h() + rows.EntryBefore(ranks.step);
    Operand* const* h = step_rows_.h() + rows.EntryOf(ranks.step);
    Operand* const* cell_outputs = d_.has_projection() ? m_.rows : h;
    const auto cell_forward =
        Kernels<Operand>().cell_forward[static_cast<int>(d_.mode)];
    const F* const recurrent_new_bias = weights_.biases().recurrent_new();
    const auto run_cells = [&](CellForwardStep<Operand>* cells,
                               const PanelRows* shares, int count) {
      for (int i = 0; i < count; ++i) {
        const int64_t rank = shares[i].row_begin;
        CellForwardStep<Operand>& cell = cells[i];
        cell.input_sums = input_sums_.rows[row + rank];
        cell.recurrent_new_bias = recurrent_new_bias;
        cell.c = c_ == nullptr ? nullptr : c_ + rank * H;
        cell.h = cell_outputs + rank;
        cell.saved = step_rows_.saved() == nullptr
                         ? nullptr
                         : step_rows_.saved() + row + rank;
      }
      cell_forward(cells, count);
      if (d_.has_projection()) return;
      for (int i = 0; i < count; ++i) {
        step_rows_.Emit(ranks.Of(shares[i]), cells[i].unit, cells[i].units, h);
      }
    };
    recurrent_.RunPanels(executor, ranks, h_prev, run_cells);
    if (d_.has_projection()) ProjectStep(executor, ranks, h);
  }

  // h = m times the projection.
  void ProjectStep(Executor& executor, const StepRanks& ranks,
                   Operand* const* h) {
    const int64_t P = d_.output_size();
    RowsTimesMatrix<Operand> product;
    product.a = m_.rows;
    RoundCellOutputs(executor, ranks, product);
    if constexpr (kRoundsOperands<Operand>) {
      product.c = projected_.rows;
    } else {
      product.c = h;
    }
    const AllPanels panels = PanelsOf(ranks, weights_.projection().num_panels(),
                                      ProjectionWork(d_, ranks.count()));
    const int64_t width = Kernels<Operand>().panel_columns;
    ParallelPanels(executor, panels, [&](const PanelRows& share) {
      MultiplyPanel(product, weights_.projection(), share);
      const int64_t column = share.panel * width;
      const int64_t count = std::min(width, P - column);
      if constexpr (kRoundsOperands<Operand>) {
        for (int64_t i = share.row_begin; i < share.row_end; ++i) {
          Store(projected_.rows[i] + column, h[i] + column, count);
        }
      }
      step_rows_.Emit(ranks.Of(share), column, count, h);
    });
  }

  // Rounds m for a product with an int8 projection.
  void RoundCellOutputs(Executor& executor, const StepRanks& ranks,
                        RowsTimesMatrix<Operand>& product) const {
    if constexpr (std::is_same_v<Operand, float>) {
      if (!network_.weights().is_int8()) return;
      const int64_t H = d_.hidden_size;
      product.left_integers = LeftIntegers::In(scratch_, blocks_.m_integers, H);
      RoundRows(m_.rows + ranks.begin, ranks.count(), H, executor,
                product.left_integers.From(ranks.begin));
    }
  }

  // ---- After the last chunk -------------------------------------------------

  void StoreFinalStates() {
    const int64_t H = d_.hidden_size;
    const int64_t P = d_.output_size();
    const StateRows h0(sequences_, arguments_.h0, arguments_.strides.h, k());
    const StateRows c0(sequences_, arguments_.c0, arguments_.strides.c, k());
    const StateRows h_n(sequences_, arguments_.h_n, arguments_.strides.h, k());
    const StateRows c_n(sequences_, arguments_.c_n, arguments_.strides.c, k());
    for (int64_t rank = 0; rank < sequences_.batch(); ++rank) {
      const int64_t length = sequences_.length(rank);
      const Element* last =
          length == 0 ? h0.Row(rank) : step_rows_.Output(length - 1, rank);
      std::memcpy(h_n.Row(rank), last, P * sizeof(Element));
      if (!HasCellState(d_.mode)) continue;
      if (length == 0) {
        std::memcpy(c_n.Row(rank), c0.Row(rank), H * sizeof(Element));
      } else {
        Store(c_ + rank * H, c_n.Row(rank), H);
      }
    }
  }

  const ForwardPlan& plan_;
  const RnnDescriptor& d_;
  const Sequences& sequences_;
  const Network& network_;
  const ForwardArguments<Element>& arguments_;
  const ForwardScratch::PseudoLayer& blocks_;
  const ScratchView& scratch_;

  // The pseudo-layer at hand.
  int64_t layer_ = 0;
  int direction_ = 0;
  Executor* executor_ = nullptr;
  ForwardRows<Element, Operand> step_rows_;
  ForwardWeights<Element, Operand> weights_;
  RecurrentProduct<Element, Operand> recurrent_;

  // Rows of the chunk at hand (ForwardScratch has their shapes).
  const Operand** input_rows_;
  RowBuffer<F> input_sums_;
  // States by rank.
  F* c_;
  RowBuffer<Operand> m_;
  RowBuffer<F> projected_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_FORWARD_PSEUDO_LAYER_H_
