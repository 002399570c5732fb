// What the steps of a chunk write in a forward pass, row by row: h, and what
// backward needs.
#ifndef KERNELS_ENGINE_PASSES_FORWARD_ROWS_H_
#define KERNELS_ENGINE_PASSES_FORWARD_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/passes/chunk_rows.h"
#include "kernels/engine/passes/forward_network.h"
#include "kernels/engine/passes/rows.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/products/step_ranks.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/thresholds.h"
#include "network/cell.h"

namespace rnn {

// Rows are written where they have to be, if what multiplies has their type, or
// else into scratch memory first.
template <typename Element, typename Operand>
class ForwardRows {
 public:
  using Network = ForwardNetwork<Element, Operand>;
  static constexpr bool kOperandsAreElements =
      kElementIsOperand<Element, Operand>;

  // All of these must outlive the object.
  ForwardRows(const Network& network, const ForwardScratch::PseudoLayer& blocks,
              const ScratchView& scratch)
      : plan_(network.plan()),
        d_(plan_.descriptor),
        sequences_(*plan_.sequences),
        network_(network),
        arguments_(network.arguments()),
        h_(scratch.At<Operand*>(blocks.h_rows)),
        h_values_(scratch.At<Operand>(blocks.h_values)),
        saved_(scratch.At<Operand*>(blocks.saved_rows)),
        saved_values_(scratch.At<Operand>(blocks.saved)) {}

  // Rows are those of this pseudo-layer from here on.
  void Begin(int64_t layer, int direction) {
    layer_ = layer;
    direction_ = direction;
    outputs_ = network_.OutputRows(layer).From(direction * d_.output_size());
  }

  // Makes h0 the step before the first chunk.
  void LoadInitialState() {
    const int64_t P = d_.output_size();
    // What pads the rows of operands stays zero.
    if (padded_output_size() > P) {
      std::fill_n(h_values_, plan_.num_h_rows() * padded_output_size(),
                  Operand{});
    }
    const StateRows h0(sequences_, arguments_.h0, arguments_.strides.h, k());
    starts_from_zeros_ = h0.AreZero(P);
    for (int64_t rank = 0; rank < sequences_.batch(); ++rank) {
      h_[rank] = h_values_ + rank * padded_output_size();
      LoadOperands(h0.Row(rank), h_[rank], P);
    }
  }

  // The tables below are those of this chunk from here on.
  void PointAt(const ChunkRows& rows) {
    if (plan_.keeps_activations()) PointAtActivations(rows);
    PointAtOutputs(rows);
  }

  // After the steps of the chunk: stores what is not yet where it has to be,
  // and makes the last step the one before the next chunk.
  void End(const ChunkRows& rows, Executor& executor) {
    if constexpr (!kOperandsAreElements) {
      if (plan_.keeps_activations()) StoreActivations(rows, executor);
    }
    KeepLastStep(rows);
  }

  // Outputs that did not come into their place are put there at once, rounded:
  // the recurrence sees what is emitted.
  void Emit(const StepRanks& ranks, int64_t column, int64_t count,
            Operand* const* h) const {
    if (plan_.emits_directly()) return;
    for (int64_t rank = ranks.begin; rank < ranks.end; ++rank) {
      Element* output = Output(ranks.step, rank) + column;
      if constexpr (kOperandsAreElements) {
        std::copy_n(h[rank] + column, count, output);
      } else {
        Store(h[rank] + column, output, count);
        Load(output, h[rank] + column, count);
      }
    }
  }

  // Whether h0 is zero, of the whole batch.
  bool starts_from_zeros() const { return starts_from_zeros_; }

  // Where h of a step is emitted, [P].
  Element* Output(int64_t step, int64_t rank) const {
    return outputs_.Row(sequences_.time(direction_, step, rank), rank);
  }

  // h, [P], by entry: the step before the chunk is in front (ChunkRows).
  Operand* const* h() const { return h_; }
  // What backward needs, [ReservedRowSize()], by row of the chunk; nullptr if
  // nothing is kept.
  Operand* const* saved() const { return saved_; }

 private:
  int64_t k() const { return d_.pseudo_layer(layer_, direction_); }
  int64_t padded_output_size() const {
    return PaddedDepth<Operand>(d_.output_size());
  }

  // Where steps leave what backward needs.
  void PointAtActivations(const ChunkRows& rows) {
    if constexpr (kOperandsAreElements) {
      const TimeRows<Element> activations = network_.Activations(k());
      rows.ForEach([&](int64_t i, int64_t step, int64_t rank) {
        saved_[i] = activations.Row(step, rank);
      });
    } else {
      const int64_t size = ReservedRowSize(d_);
      for (int64_t i = 0; i < rows.count(); ++i) {
        saved_[i] = saved_values_ + i * size;
      }
    }
  }

  // Where steps leave h.
  void PointAtOutputs(const ChunkRows& rows) {
    Operand** h_rows = h_ + sequences_.batch();
    if constexpr (kOperandsAreElements) {
      if (plan_.emits_directly()) {
        rows.ForEach([&](int64_t i, int64_t step, int64_t rank) {
          h_rows[i] = Output(step, rank);
        });
        return;
      }
    }
    Operand* values = h_values_ + sequences_.batch() * padded_output_size();
    for (int64_t i = 0; i < rows.count(); ++i) {
      h_rows[i] = values + i * padded_output_size();
    }
  }

  void StoreActivations(const ChunkRows& rows, Executor& executor) {
    const int64_t size = ReservedRowSize(d_);
    const TimeRows<Element> activations = network_.Activations(k());
    rows.ParallelForEach(executor, size * speed::kMoveWork,
                         [&](int64_t i, int64_t step, int64_t rank) {
                           Store(saved_[i], activations.Row(step, rank), size);
                         });
  }

  // Makes the chunk's last step the one before the next chunk.
  void KeepLastStep(const ChunkRows& rows) {
    const int64_t last = rows.steps().end - 1;
    Operand* const* h = h_ + rows.EntryOf(last);
    for (int64_t rank = 0; rank < sequences_.active(last); ++rank) {
      if (plan_.emits_directly()) {
        h_[rank] = h[rank];
      } else {
        std::copy_n(h[rank], d_.output_size(), h_[rank]);
      }
    }
  }

  const ForwardPlan& plan_;
  const RnnDescriptor& d_;
  const Sequences& sequences_;
  const Network& network_;
  const ForwardArguments<Element>& arguments_;

  // The pseudo-layer at hand.
  int64_t layer_ = 0;
  int direction_ = 0;
  TimeRows<Element> outputs_;
  bool starts_from_zeros_ = false;

  // Tables of the chunk at hand (ForwardScratch has their shapes).
  Operand** h_;
  Operand* h_values_;
  Operand** saved_;
  Operand* saved_values_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_FORWARD_ROWS_H_
