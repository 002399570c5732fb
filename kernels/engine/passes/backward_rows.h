// What the steps of a chunk read in a backward pass, row by row: what forward
// left, and the gradients of outputs.
#ifndef KERNELS_ENGINE_PASSES_BACKWARD_ROWS_H_
#define KERNELS_ENGINE_PASSES_BACKWARD_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/passes/backward_network.h"
#include "kernels/engine/passes/chunk_rows.h"
#include "kernels/engine/passes/rows.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/thresholds.h"
#include "network/cell.h"

namespace rnn {

// Rows are read where they lie, if what multiplies can read their type, or else
// from copies in scratch memory.
template <typename Element, typename Operand>
class BackwardRows {
 public:
  using F = ComputeType<Element>;
  using Network = BackwardNetwork<Element, Operand>;
  static constexpr bool kOperandsAreElements =
      kElementIsOperand<Element, Operand>;

  // All of these must outlive the object.
  BackwardRows(const Network& network,
               const BackwardScratch::PseudoLayer& blocks,
               const ScratchView& scratch)
      : plan_(network.plan()),
        d_(plan_.descriptor),
        sequences_(*plan_.sequences),
        network_(network),
        arguments_(network.arguments()),
        blocks_(blocks),
        scratch_(scratch),
        saved_(At<const Operand*>(blocks.saved_rows)),
        c_prev_(At<const Operand*>(blocks.c_prev_rows)),
        h_(At<const Operand*>(blocks.h_rows)),
        dy_(At<const F*>(blocks.dy_rows)) {}

  // Rows are those of this pseudo-layer from here on.
  void Begin(int64_t layer, int direction) {
    layer_ = layer;
    direction_ = direction;
    outputs_ = network_.OutputRows(layer).From(direction * d_.output_size());
  }

  // The tables below are those of this chunk from here on.
  void PointAt(const ChunkRows& rows, Executor& executor) {
    PointAtActivations(rows, executor);
    PointAtOutputs(rows, executor);
    PointAtOutputGradients(rows, executor);
  }

  // Whether h0 is zero, of the whole batch.
  bool StartsFromZeros() const {
    const StateRows h0(sequences_, arguments_.h0, arguments_.strides.h, k());
    return h0.AreZero(d_.output_size());
  }

  // By row of the chunk: activations, [ReservedRowSize()], nullptr if nothing
  // is kept; the cell state before, [H], nullptr but for an LSTM; the gradient
  // of the output, [P].
  const Operand* const* saved() const { return saved_; }
  const Operand* const* c_prev() const { return c_prev_; }
  const F* const* dy() const { return dy_; }
  // h, [P], by entry: the step before the chunk is in front (ChunkRows).
  const Operand* const* h() const { return h_; }

 private:
  template <typename Value>
  Value* At(const Block& block) const {
    return scratch_.At<Value>(block);
  }
  int64_t k() const { return d_.pseudo_layer(layer_, direction_); }
  int64_t time(int64_t step, int64_t rank) const {
    return sequences_.time(direction_, step, rank);
  }

  // Points saved_ at the chunk's activations, and c_prev_ at the
  // cell states before them.
  void PointAtActivations(const ChunkRows& rows, Executor& executor) {
    const int64_t size = ReservedRowSize(d_);
    if (size == 0) return;
    const TimeRows<const Element> activations = network_.Activations(k());
    if constexpr (kOperandsAreElements) {
      rows.ForEach([&](int64_t i, int64_t step, int64_t rank) {
        saved_[i] = activations.Row(step, rank);
      });
    } else {
      Operand* staging = At<Operand>(blocks_.saved);
      rows.ParallelForEach(executor, size * speed::kMoveWork,
                           [&](int64_t i, int64_t step, int64_t rank) {
                             Operand* row = staging + i * size;
                             Load(activations.Row(step, rank), row, size);
                             saved_[i] = row;
                           });
    }
    if (HasCellState(d_.mode)) PointAtCellStates(rows, activations);
  }

  void PointAtCellStates(const ChunkRows& rows,
                         const TimeRows<const Element>& activations) {
    const int64_t H = d_.hidden_size;
    const int64_t c_place = kLstmReserveCell * H;
    const StateRows c0(sequences_, arguments_.c0, arguments_.strides.c, k());
    const int64_t first_step = rows.steps().begin;
    rows.ForEach([&](int64_t i, int64_t step, int64_t rank) {
      if (step > first_step) {
        c_prev_[i] = saved_[rows.RowOf(step - 1) + rank] + c_place;
        return;
      }
      const Element* c_prev =
          step == 0 ? c0.Row(rank) : activations.Row(step - 1, rank) + c_place;
      if constexpr (kOperandsAreElements) {
        c_prev_[i] = c_prev;
      } else {
        Operand* staging = At<Operand>(blocks_.c_prev) + rank * H;
        Load(c_prev, staging, H);
        c_prev_[i] = staging;
      }
    });
  }

  // Points the first entries of h_ at the h before the chunk, by rank, and
  // those from B on at the h of its rows.
  void PointAtOutputs(const ChunkRows& rows, Executor& executor) {
    const int64_t P = d_.output_size();
    Operand* staging = At<Operand>(blocks_.h_values);
    const auto point_at = [&](int64_t entry, const Element* row) {
      if constexpr (kOperandsAreElements) {
        h_[entry] = row;
      } else {
        Load(row, staging + entry * P, P);
        h_[entry] = staging + entry * P;
      }
    };
    const StateRows h0(sequences_, arguments_.h0, arguments_.strides.h, k());
    const int64_t first_step = rows.steps().begin;
    for (int64_t rank = 0; rank < sequences_.active(first_step); ++rank) {
      point_at(rank, first_step == 0
                         ? h0.Row(rank)
                         : outputs_.Row(time(first_step - 1, rank), rank));
    }
    rows.ParallelForEach(executor,
                         (kOperandsAreElements ? 1 : P) * speed::kMoveWork,
                         [&](int64_t i, int64_t step, int64_t rank) {
                           point_at(sequences_.batch() + i,
                                    outputs_.Row(time(step, rank), rank));
                         });
  }

  // Points dy_ at the gradients of the chunk's outputs.
  void PointAtOutputGradients(const ChunkRows& rows, Executor& executor) {
    const int64_t P = d_.output_size();
    if (layer_ < d_.num_layers - 1) {
      const TimeRows<F> source =
          network_.InputGradientRows(layer_ + 1).From(direction_ * P);
      rows.ForEach([&](int64_t i, int64_t step, int64_t rank) {
        dy_[i] = source.Row(time(step, rank), rank);
      });
      return;
    }
    const auto source = TimeRows<const Element>::Padded(
                            sequences_, arguments_.dy, arguments_.strides.y)
                            .From(direction_ * P);
    const bool is_staged = plan_.stages_output_gradients();
    rows.ParallelForEach(executor, (is_staged ? P : 1) * speed::kMoveWork,
                         [&](int64_t i, int64_t step, int64_t rank) {
                           const int64_t t = time(step, rank);
                           if (is_staged) {
                             F* staging = At<F>(blocks_.dy_values) + i * P;
                             StageOutputGradient(source, t, rank, staging);
                             dy_[i] = staging;
                           } else if constexpr (!kRoundsResults<Element>) {
                             dy_[i] = source.Row(t, rank);
                           }
                         });
  }

  // The gradient of an output and, if padding repeats it, of these copies.
  void StageOutputGradient(const TimeRows<const Element>& source, int64_t time,
                           int64_t rank, F* sum) const {
    const int64_t P = d_.output_size();
    Load(source.Row(time, rank), sum, P);
    if (!plan_.repeats_outputs) return;
    const StepGap gap = sequences_.GapAfter(time, rank);
    for (int64_t place = gap.begin; place < gap.end; ++place) {
      const Element* row = source.AtPlace(place, rank);
      constexpr int64_t kBlock = speed::kAddedColumns;
      for (int64_t j = 0; j < P; j += kBlock) {
        const int64_t count = std::min(kBlock, P - j);
        F values[kBlock];
        Load(row + j, values, count);
        for (int64_t i = 0; i < count; ++i) sum[j + i] += values[i];
      }
    }
  }

  const BackwardPlan& plan_;
  const RnnDescriptor& d_;
  const Sequences& sequences_;
  const Network& network_;
  const BackwardArguments<Element>& arguments_;
  const BackwardScratch::PseudoLayer& blocks_;
  const ScratchView& scratch_;

  // The pseudo-layer at hand.
  int64_t layer_ = 0;
  int direction_ = 0;
  TimeRows<const Element> outputs_;

  // Tables of the chunk at hand (BackwardScratch has their shapes).
  const Operand** saved_;
  const Operand** c_prev_;
  const Operand** h_;
  const F** dy_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_BACKWARD_ROWS_H_
