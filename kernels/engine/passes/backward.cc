// Backward: layers and chunks of time in reverse.
//
// Per step, the gradient of h comes from above (dy) and from the step after
// (R^T dgates); the cell turns it into dgates. Per chunk, the gradients of
// weights and of the input are matrix products over all its rows.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/engine/elements/dropout.h"
#include "kernels/engine/elements/elements.h"
#include "kernels/engine/elements/reserve_header.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/passes/gate_gradients.h"
#include "kernels/engine/passes/params_gradients.h"
#include "kernels/engine/passes/tensor_rows.h"
#include "kernels/engine/plan/arena.h"
#include "kernels/engine/plan/chunks.h"
#include "kernels/engine/plan/recurrence.h"
#include "kernels/engine/products/matrix_product.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/weights/keras_weights.h"
#include "kernels/engine/weights/packing.h"
#include "kernels/engine/weights/parts.h"
#include "network/params_layout.h"
#include "network/reserve_layout.h"

namespace rnn {

namespace {

template <typename Element, typename Operand>
class BackwardPass {
 public:
  using F = ComputeType<Element>;
  using Weights = WeightMatrix<Element, Operand>;
  using WeightsUse = typename Weights::Use;
  static constexpr bool kInPlace = kComputesInPlace<Element, Operand>;
  // Whether results are computed in another type and rounded in the end.
  static constexpr bool kRoundsResults = !kComputesInPlace<Element>;

  // Takes from the arena all the memory Run() will need.
  BackwardPass(const RnnDescriptor& d, const Sequences& sequences, Arena& arena,
               int64_t params_size, bool has_keras_weights)
      : d_(d),
        sequences_(sequences),
        keras_gates_(d_),
        params_gradients_(d_, sequences, params_size, arena) {
    const int64_t B = sequences.batch();
    const int64_t H = d.hidden_size;
    const int64_t P = d.output_size();
    const int64_t gates_size = d.gates_size();
    const int64_t rows = MaxChunkRows(sequences);
    const int64_t valid_rows = sequences.num_valid_rows();
    const int64_t widest_input =
        std::max(d.layer_input_size(0), d.layer_input_size(d.num_layers - 1));

    const bool may_split = MultipliesInParts<Operand>(
        sequences.shape_rows(), gates_size, std::max(widest_input, H));
    recurs_in_parts_ = RecursInParts<Operand>(d, sequences, Pass::kBackward);
    const int gates = d.num_gates();
    // Of a single chunk all products with R come first, then those that give
    // the gradients of weights, then that with W.
    const bool has_turns =
        IsSingleChunk(sequences_) && valid_rows > kMaxRowsInPlace;
    arena.TakeInOnePlace(
        has_turns,
        [&] {
          recurrent_weights_ =
              Weights::Take(arena, gates_size, P, recurs_in_parts_, gates);
        },
        [&] { params_gradients_.TakeProducts(rows, has_keras_weights, arena); },
        [&] {
          input_weights_ =
              Weights::Take(arena, gates_size, widest_input, may_split, gates);
        });
    input_rows_ = arena.Take<const Operand*>(rows);
    input_staging_ =
        arena.Take<Operand>(rows * PaddedDepth<Operand>(widest_input));
    h_rows_ = arena.Take<const Operand*>(B + rows);
    h_prev_rows_ = arena.Take<const Operand*>(rows);
    dy_rows_ = arena.Take<const F*>(rows);
    dx_rows_ = arena.Take<F*>(rows);
    dgates_ = GateGradients<Operand>::Take(arena, rows, gates_size);
    if (may_split) {
      const auto take_gates = [&] {
        const int64_t depth = GatesDepth().padded();
        return LeftParts::In(
            arena.Take<BFloat16>(LeftParts::Size(rows + kPartsRows, depth)),
            depth);
      };
      dgates_parts_ = take_gates();
      dgates_recurrent_parts_ = recurs_in_parts_ && d.mode == CellMode::kGru
                                    ? take_gates()
                                    : dgates_parts_;
    }
    dh_ = RowBuffer<F>::Take(arena, B, P);
    if (d.mode == CellMode::kGru) {
      dgates_recurrent_ = GateGradients<Operand>::Take(arena, rows, gates_size);
    }
    if (d.mode == CellMode::kLstm) {
      dc_ = arena.Take<F>(B * H);
      c_prev_rows_ = arena.Take<const Operand*>(rows);
    }
    if (ReservedRowSize(d_) > 0) saved_rows_ = arena.Take<const Operand*>(rows);
    if (d.has_projection()) {
      projection_ = PackedMatrix<Operand>::Take(arena, P, H);
      dh_total_ =
          RowBuffer<Operand>::Take(arena, rows, PaddedDepth<Operand>(P));
      m_ = RowBuffer<Operand>::Take(arena, rows, H);
      dm_ = RowBuffer<F>::Take(arena, B, H);
    }
    if constexpr (!kInPlace) {
      h_staging_ = arena.Take<Operand>((B + rows) * P);
      saved_staging_ = arena.Take<Operand>(rows * ReservedRowSize(d_));
      if (d.mode == CellMode::kLstm) {
        c_prev_staging_ = arena.Take<Operand>(B * H);
      }
    }
    if constexpr (kRoundsResults) {
      dy_staging_ = arena.Take<F>(rows * P);
      dx_staging_ = arena.Take<F>(valid_rows * d.input_size);
    }
    const int64_t layer_size = valid_rows * d.num_directions * P;
    for (int64_t i = 0; i < std::min<int64_t>(2, d.num_layers - 1); ++i) {
      layer_gradients_[i] = arena.Take<F>(layer_size);
    }
  }

  void Run(const BackwardArguments<Element>& arguments, Executor& executor) {
    a_ = &arguments;
    executor_ = &executor;
    // The sizes have passed Create() before the scratch was sized by them.
    if (!ParamsLayout::Create(d_, &params_layout_).ok()) return;
    if (!ReserveLayout::Create(d_, sequences_, &reserve_layout_).ok()) return;
    dropout_.probability = d_.dropout;
    if (!ReadDropoutKey(a_->reserve, &dropout_.key)) return;

    params_gradients_.Begin(arguments, params_layout_, executor);
    ZeroPadding(sequences_, a_->dx, a_->x_strides, d_.input_size, executor);
    for (int64_t layer = d_.num_layers - 1; layer >= 0; --layer) {
      for (int direction = 0; direction < d_.num_directions; ++direction) {
        RunPseudoLayer(layer, direction);
      }
      if (layer > 0) ApplyDropout(layer);
    }
    params_gradients_.Store();
    if constexpr (kRoundsResults) StoreInputGradient();
  }

 private:
  // Of one product with weights that stay in place.
  static constexpr int64_t kMaxRowsInPlace = 16;

  bool has_keras_weights() const { return a_->keras_weights != nullptr; }

  // The gates' gradients in parts.
  PartsDepth GatesDepth() const { return {d_.num_gates(), d_.hidden_size}; }

  int64_t LayerWidth() const { return d_.num_directions * d_.output_size(); }

  // What `layer` emitted, both directions side by side.
  TimeRows<const Element> OutputRows(int64_t layer) const {
    return layer == d_.num_layers - 1
               ? TimeRows<const Element>::Padded(sequences_, a_->y,
                                                 a_->y_strides)
               : TimeRows<const Element>::Dense(
                     sequences_,
                     a_->reserve + reserve_layout_.LayerOutputOffset(layer),
                     LayerWidth());
  }

  LayerInput<Element, Operand> Input(int64_t layer) const {
    const TimeRows<const Element> source =
        layer == 0
            ? TimeRows<const Element>::Padded(sequences_, a_->x, a_->x_strides)
            : OutputRows(layer - 1);
    LayerInput<Element, Operand> input(sequences_, source,
                                       d_.layer_input_size(layer));
    if (layer > 0 && d_.dropout > 0) input.SetDropout(layer - 1, dropout_);
    return input;
  }

  // The gradient of what enters `layer`.
  TimeRows<F> InputGradientRows(int64_t layer) const {
    if (layer > 0) {
      return TimeRows<F>::Dense(sequences_, layer_gradients_[(layer - 1) % 2],
                                LayerWidth());
    }
    if constexpr (!kRoundsResults) {
      return TimeRows<F>::Padded(sequences_, a_->dx, a_->x_strides);
    } else {
      return TimeRows<F>::Dense(sequences_, dx_staging_, d_.input_size);
    }
  }

  void RunPseudoLayer(int64_t layer, int direction) {
    const int64_t k = layer * d_.num_directions + direction;
    LoadFinalGradients(k);
    if (sequences_.num_valid_rows() > 0) {
      PackWeights(layer, k);
      StepRange chunk{sequences_.num_steps(), sequences_.num_steps()};
      while (chunk.begin > 0) {
        chunk = ChunkUntil(sequences_, chunk.begin);
        RunChunk(layer, direction, chunk);
      }
    }
    StoreInitialGradients(k);
  }

  void PackWeights(int64_t layer, int64_t k) {
    const Element* params = a_->params;
    const int64_t gates_size = d_.gates_size();
    const int64_t H = d_.hidden_size;
    WeightsUse input_use = IsSingleChunk(sequences_)
                               ? WeightsUse::kPackedByProduct
                               : WeightsUse::kPacked;
    // One step needs R once, for the gradient of the state before it.
    WeightsUse recurrent_use = sequences_.num_steps() == 1 && !recurs_in_parts_
                                   ? WeightsUse::kPackedByProduct
                                   : WeightsUse::kPacked;
    const bool in_parts = MultipliesInParts<Operand>(
        sequences_.shape_rows(), gates_size, d_.layer_input_size(layer));
    input_weights_.packed.SetInParts(in_parts, d_.num_gates());
    recurrent_weights_.packed.SetInParts(recurs_in_parts_, d_.num_gates());
    if (has_keras_weights()) {
      using Source = MatrixSource<Element>;
      const KerasWeights<const Element>& weights = *a_->keras_weights;
      input_weights_.Set(Source::Columns(weights.kernel, gates_size,
                                         keras_gates_.pieces(), d_.input_size),
                         input_use, *executor_);
      recurrent_weights_.Set(
          Source::Columns(weights.recurrent_kernel, gates_size,
                          keras_gates_.pieces(), H),
          recurrent_use, *executor_);
      return;
    }
    // Packing moves all of a matrix about as often as a small call reads it.
    // In place it gives the bits of packed weights.
    constexpr int64_t kMaxSteps = 2;
    constexpr int64_t kMaxRowsOfSteps = 32;
    if (kInPlace && gates_size % kDepthStep<Operand> == 0) {
      const int64_t rows = sequences_.num_valid_rows();
      const int64_t steps = sequences_.num_steps();
      if (rows <= kMaxRowsInPlace && !in_parts) {
        input_use = WeightsUse::kInPlace;
      }
      const int64_t max_rows = steps == 1 ? kMaxRowsInPlace : kMaxRowsOfSteps;
      if (steps <= kMaxSteps && rows <= max_rows && !recurs_in_parts_) {
        recurrent_use = WeightsUse::kInPlace;
      }
    }
    const auto source = [&](const Region& region) {
      return MatrixSource<Element>::Rows(params + region.offset, region.columns,
                                         region.rows, region.columns);
    };
    if (d_.has_input_weights(layer)) {
      input_weights_.Set(source(params_layout_.InputWeights(k)), input_use,
                         *executor_);
    }
    recurrent_weights_.Set(source(params_layout_.RecurrentWeights(k)),
                           recurrent_use, *executor_);
    if (d_.has_projection()) {
      Pack(source(params_layout_.Projection(k)), *executor_, &projection_);
    }
  }

  // dh_ and dc_ are by rank; a row keeps what it has until its last step.
  void LoadFinalGradients(int64_t k) {
    const int64_t H = d_.hidden_size;
    const int64_t P = d_.output_size();
    dh_.SetRows(sequences_.batch(), P);
    for (int64_t rank = 0; rank < sequences_.batch(); ++rank) {
      const int64_t b = sequences_.batch_row(rank);
      Load(a_->dh_n + k * a_->h_strides.outer + b * a_->h_strides.batch,
           dh_.rows[rank], P);
      if (d_.mode == CellMode::kLstm) {
        Load(a_->dc_n + k * a_->c_strides.outer + b * a_->c_strides.batch,
             dc_ + rank * H, H);
      }
    }
  }

  void StoreInitialGradients(int64_t k) {
    const int64_t H = d_.hidden_size;
    const int64_t P = d_.output_size();
    for (int64_t rank = 0; rank < sequences_.batch(); ++rank) {
      const int64_t b = sequences_.batch_row(rank);
      Store(dh_.rows[rank],
            a_->dh0 + k * a_->h_strides.outer + b * a_->h_strides.batch, P);
      if (d_.mode == CellMode::kLstm) {
        Store(dc_ + rank * H,
              a_->dc0 + k * a_->c_strides.outer + b * a_->c_strides.batch, H);
      }
    }
  }

  void RunChunk(int64_t layer, int direction, StepRange chunk) {
    const int64_t k = layer * d_.num_directions + direction;
    const int64_t rows =
        sequences_.offset(chunk.end) - sequences_.offset(chunk.begin);
    GatherSaved(k, chunk);
    GatherOutputs(layer, direction, chunk);
    GatherOutputGradients(layer, direction, chunk);
    dgates_.SetRows(rows, d_.gates_size());
    if (d_.mode == CellMode::kGru) {
      dgates_recurrent_.SetRows(rows, d_.gates_size());
    }
    if (d_.has_projection()) {
      const int64_t row_size = PaddedDepth<Operand>(d_.output_size());
      dh_total_.SetRows(rows, row_size);
      if (row_size > d_.output_size()) {
        std::fill_n(dh_total_.values, rows * row_size, Operand{});
      }
      m_.SetRows(rows, d_.hidden_size);
      dm_.SetRows(sequences_.batch(), d_.hidden_size);
    }
    const auto recurrence =
        Recurrence::Of<Operand>(d_, sequences_, chunk, Pass::kBackward);
    RunSteps(recurrence, *executor_,
             [&](Executor& executor, const StepRanks& ranks) {
               RunStep(executor, chunk, ranks);
             });
    PropagateToStepBefore(chunk);
    AddParamsGradients(layer, direction, chunk);
    PropagateToInput(layer, direction, chunk);
  }

  // Points saved_rows_ at the chunk's activations, and c_prev_rows_ at the
  // cell states before them.
  void GatherSaved(int64_t k, StepRange chunk) {
    const int64_t size = ReservedRowSize(d_);
    if (size == 0) return;
    const int64_t H = d_.hidden_size;
    const int64_t first_row = sequences_.offset(chunk.begin);
    const int64_t rows = sequences_.offset(chunk.end) - first_row;
    const Element* activations =
        a_->reserve + reserve_layout_.ActivationsOffset(k);
    if constexpr (!kInPlace) {
      const Element* source = activations + first_row * size;
      ParallelFor(*executor_, rows, size * kMoveWork,
                  [&](int64_t begin, int64_t end) {
                    Load(source + begin * size, saved_staging_ + begin * size,
                         (end - begin) * size);
                  });
    }
    for (int64_t i = 0; i < rows; ++i) {
      if constexpr (kInPlace) {
        saved_rows_[i] = activations + (first_row + i) * size;
      } else {
        saved_rows_[i] = saved_staging_ + i * size;
      }
    }
    if (d_.mode != CellMode::kLstm) return;
    ForEachRow(sequences_, chunk, [&](int64_t i, int64_t step, int64_t rank) {
      if (step > chunk.begin) {
        c_prev_rows_[i] =
            saved_rows_[sequences_.offset(step - 1) - first_row + rank] +
            kLstmReserveCell * H;
        return;
      }
      const Element* c_prev =
          step == 0
              ? a_->c0 + k * a_->c_strides.outer +
                    sequences_.batch_row(rank) * a_->c_strides.batch
              : activations + (sequences_.offset(step - 1) + rank) * size +
                    kLstmReserveCell * H;
      if constexpr (kInPlace) {
        c_prev_rows_[i] = c_prev;
      } else {
        Load(c_prev, c_prev_staging_ + rank * H, H);
        c_prev_rows_[i] = c_prev_staging_ + rank * H;
      }
    });
  }

  // Points the first entries of h_rows_ at the h before the chunk, by rank, and
  // those from B on at the h of its rows.
  void GatherOutputs(int64_t layer, int direction, StepRange chunk) {
    const int64_t B = sequences_.batch();
    const int64_t P = d_.output_size();
    const int64_t k = layer * d_.num_directions + direction;
    const TimeRows<const Element> outputs =
        OutputRows(layer).From(direction * P);
    const auto point_at = [&](int64_t entry, const Element* row) {
      if constexpr (kInPlace) {
        h_rows_[entry] = row;
      } else {
        Load(row, h_staging_ + entry * P, P);
        h_rows_[entry] = h_staging_ + entry * P;
      }
    };
    for (int64_t rank = 0; rank < sequences_.active(chunk.begin); ++rank) {
      const int64_t b = sequences_.batch_row(rank);
      point_at(
          rank,
          chunk.begin == 0
              ? a_->h0 + k * a_->h_strides.outer + b * a_->h_strides.batch
              : outputs.Row(sequences_.time(direction, chunk.begin - 1, rank),
                            rank));
    }
    ParallelForEachRow(
        *executor_, sequences_, chunk, (kInPlace ? 1 : P) * kMoveWork,
        [&](int64_t i, int64_t step, int64_t rank) {
          point_at(B + i,
                   outputs.Row(sequences_.time(direction, step, rank), rank));
        });
  }

  // Points dy_rows_ at the gradients of the chunk's outputs.
  void GatherOutputGradients(int64_t layer, int direction, StepRange chunk) {
    const int64_t P = d_.output_size();
    if (layer < d_.num_layers - 1) {
      const TimeRows<F> source =
          InputGradientRows(layer + 1).From(direction * P);
      ForEachRow(sequences_, chunk, [&](int64_t i, int64_t step, int64_t rank) {
        dy_rows_[i] = source.Row(sequences_.time(direction, step, rank), rank);
      });
      return;
    }
    const auto source =
        TimeRows<const Element>::Padded(sequences_, a_->dy, a_->y_strides)
            .From(direction * P);
    ParallelForEachRow(
        *executor_, sequences_, chunk, (kRoundsResults ? P : 1) * kMoveWork,
        [&](int64_t i, int64_t step, int64_t rank) {
          const Element* row =
              source.Row(sequences_.time(direction, step, rank), rank);
          if constexpr (!kRoundsResults) {
            dy_rows_[i] = row;
          } else {
            Load(row, dy_staging_ + i * P, P);
            dy_rows_[i] = dy_staging_ + i * P;
          }
        });
  }

  // dgates as the recurrent product saw them.
  const GateGradients<Operand>& RecurrentGateGradients() const {
    return d_.mode == CellMode::kGru ? dgates_recurrent_ : dgates_;
  }

  // dh_ of the rows active in `step` = R^T dgates of that step, for use in the
  // step before. The GRU adds: its cell has left there what passes by.
  RowsTimesMatrix<Operand> RecurrentProduct(StepRange chunk,
                                            int64_t step) const {
    RowsTimesMatrix<Operand> product;
    product.rows = sequences_.active(step);
    const int64_t row =
        sequences_.offset(step) - sequences_.offset(chunk.begin);
    if (recurs_in_parts_) {
      product.left_parts = dgates_recurrent_parts_.From(row);
    } else {
      product.a = RecurrentGateGradients().operands() + row;
    }
    product.c = dh_.rows;
    product.accumulate = d_.mode == CellMode::kGru;
    return product;
  }

  void PropagateToStepBefore(StepRange chunk) {
    Multiply(RecurrentProduct(chunk, chunk.begin), &recurrent_weights_,
             *executor_);
  }

  void RunStep(Executor& executor, StepRange chunk, const StepRanks& ranks) {
    const int64_t step = ranks.step;
    const int64_t row =
        sequences_.offset(step) - sequences_.offset(chunk.begin);
    const int64_t H = d_.hidden_size;
    const int64_t P = d_.output_size();
    const int64_t width = Kernels<Operand>().panel_columns;
    // The step after hands its gradient over, unless its chunk has done so.
    const bool has_step_after = step + 1 < chunk.end;
    RowsTimesMatrix<Operand> from_step_after;
    if (has_step_after) {
      from_step_after = RecurrentProduct(chunk, step + 1);
      recurrent_weights_.SetRightOperand(&from_step_after);
    }
    const int64_t recurrent_work =
        has_step_after ? 2 * ranks.count() * d_.gates_size() * P : 0;
    const int64_t cell_work = kCellWork * ranks.count() * H;

    ParallelPanels(executor,
                   {recurrent_weights_.num_panels(), PanelOrder(step),
                    ranks.begin, ranks.end, recurrent_work + cell_work,
                    recurs_in_parts_ ? kPartsRowsTogether : kMinBlockRows},
                   [&](const PanelRows& part) {
                     const int64_t begin = part.row_begin, end = part.row_end;
                     PanelRows product = part;
                     product.row_end = std::min(end, from_step_after.rows);
                     if (begin < product.row_end) {
                       MultiplyPanel(from_step_after, product);
                     }
                     const int64_t column = part.panel * width;
                     if (d_.has_projection()) {
                       AddOutputGradients(row, begin, end, column,
                                          std::min(column + width, P));
                     } else {
                       RunCell(chunk, {step, begin, end}, column);
                     }
                   });
    if (!d_.has_projection()) return;

    RowsTimesMatrix<Operand> through_projection;
    through_projection.a = dh_total_.rows + row;
    through_projection.b = &projection_;
    through_projection.c = dm_.rows;
    ParallelPanels(executor,
                   {projection_.num_panels(), PanelOrder(step), ranks.begin,
                    ranks.end, 2 * ranks.count() * P * H + cell_work},
                   [&](const PanelRows& part) {
                     MultiplyPanel(through_projection, part);
                     RunCell(chunk, {step, part.row_begin, part.row_end},
                             part.panel * width);
                   });
  }

  // dh_total_ = dh_ + dy, whose rows begin at `row` of the chunk.
  void AddOutputGradients(int64_t row, int64_t rank_begin, int64_t rank_end,
                          int64_t column_begin, int64_t column_end) {
    for (int64_t rank = rank_begin; rank < rank_end; ++rank) {
      const F* dy = dy_rows_[row + rank];
      constexpr int64_t kBlock = 64;
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

  // The cell of the units of one panel that begins at `unit`.
  void RunCell(StepRange chunk, const StepRanks& ranks, int64_t unit) {
    const int64_t H = d_.hidden_size;
    const int64_t row = sequences_.offset(ranks.step) -
                        sequences_.offset(chunk.begin) + ranks.begin;
    CellBackwardStep<Operand> cell{};
    cell.rows = ranks.count();
    cell.hidden_size = H;
    cell.unit = unit;
    cell.units = std::min<int64_t>(Kernels<Operand>().panel_columns, H - unit);
    if (saved_rows_ != nullptr) cell.saved = saved_rows_ + row;
    if (c_prev_rows_ != nullptr) cell.c_prev = c_prev_rows_ + row;
    cell.h_prev =
        RowsBefore(sequences_, chunk, ranks.step, h_rows_) + ranks.begin;
    cell.h = h_rows_ + sequences_.batch() + row;
    if (d_.has_projection()) {
      cell.dh = dm_.rows[ranks.begin];
      cell.m = m_.rows[row];
    } else {
      cell.dh = dh_.rows[ranks.begin];
      cell.dy = dy_rows_ + row;
    }
    if (dc_ != nullptr) cell.dc = dc_ + ranks.begin * H;
    cell.dgates = dgates_.exact.rows[row];
    if (d_.mode == CellMode::kGru) {
      cell.dgates_recurrent = dgates_recurrent_.exact.rows[row];
    }
    if constexpr (GateGradients<Operand>::kIsRounded) {
      cell.rounded_dgates = dgates_.rounded.rows + row;
      cell.rounded_dgates_recurrent =
          RecurrentGateGradients().rounded.rows + row;
    }
    Kernels<Operand>().cell_backward[static_cast<int>(d_.mode)](cell);
    if constexpr (std::is_same_v<Operand, float>) {
      if (!recurs_in_parts_) return;
      const auto split = [&](const GateGradients<Operand>& gradients,
                             const LeftParts& parts) {
        SplitPartOfRows(gradients.exact.rows + row, cell.rows, GatesDepth(),
                        unit, unit + cell.units, parts.From(row));
      };
      split(dgates_, dgates_parts_);
      if (d_.mode == CellMode::kGru) {
        split(dgates_recurrent_, dgates_recurrent_parts_);
      }
    }
  }

  void AddParamsGradients(int64_t layer, int direction, StepRange chunk) {
    typename ParamsGradients<Element, Operand>::ChunkRows rows{};
    rows.count = sequences_.offset(chunk.end) - sequences_.offset(chunk.begin);
    rows.is_first_chunk = chunk.end == sequences_.num_steps();
    rows.dgates = &dgates_;
    rows.recurrent_dgates = &RecurrentGateGradients();
    if (d_.has_input_weights(layer)) {
      Input(layer).Gather(direction, chunk, *executor_, input_staging_,
                          input_rows_);
      rows.inputs = input_rows_;
    }
    for (int64_t step = chunk.begin; step < chunk.end; ++step) {
      std::copy_n(RowsBefore(sequences_, chunk, step, h_rows_),
                  sequences_.active(step),
                  h_prev_rows_ + sequences_.offset(step) -
                      sequences_.offset(chunk.begin));
    }
    rows.h_prev = h_prev_rows_;
    rows.m = m_.rows;
    rows.dh = dh_total_.rows;
    params_gradients_.Add(layer * d_.num_directions + direction, rows);
  }

  // The first direction writes the input's gradient, the second adds to it.
  void PropagateToInput(int64_t layer, int direction, StepRange chunk) {
    const TimeRows<F> dx = InputGradientRows(layer);
    ForEachRow(sequences_, chunk, [&](int64_t i, int64_t step, int64_t rank) {
      dx_rows_[i] = dx.Row(sequences_.time(direction, step, rank), rank);
    });
    const int64_t rows =
        sequences_.offset(chunk.end) - sequences_.offset(chunk.begin);
    if (d_.has_input_weights(layer)) {
      RowsTimesMatrix<Operand> product;
      product.rows = rows;
      if (!recurs_in_parts_ || !input_weights_.packed.in_parts) {
        product.a = dgates_.operands();
      }
      product.left_parts = dgates_parts_;
      product.c = dx_rows_;
      product.accumulate = direction == 1;
      Multiply(product, &input_weights_, *executor_);
      return;
    }
    const int64_t H = d_.hidden_size;
    ParallelFor(*executor_, rows, d_.gates_size() * kMoveWork,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    for (int64_t j = 0; j < H; ++j) {
                      F sum = direction == 1 ? dx_rows_[i][j] : F{0};
                      for (int64_t g = 0; g < d_.num_gates(); ++g) {
                        sum += dgates_.exact.rows[i][g * H + j];
                      }
                      dx_rows_[i][j] = sum;
                    }
                  }
                });
  }

  // Through the dropout between the layer below and `layer`.
  void ApplyDropout(int64_t layer) {
    if (d_.dropout == 0) return;
    const TimeRows<F> gradient = InputGradientRows(layer);
    ParallelForEachRow(
        *executor_, sequences_, {0, sequences_.num_steps()},
        LayerWidth() * kMoveWork, [&](int64_t, int64_t time, int64_t rank) {
          F* row = gradient.Row(time, rank);
          dropout_.Apply(layer - 1, time, sequences_.batch_row(rank),
                         LayerWidth(), row, row);
        });
  }

  void StoreInputGradient() {
    const TimeRows<F> source = InputGradientRows(0);
    const auto target =
        TimeRows<Element>::Padded(sequences_, a_->dx, a_->x_strides);
    ParallelForEachRow(
        *executor_, sequences_, {0, sequences_.num_steps()},
        d_.input_size * kMoveWork, [&](int64_t, int64_t time, int64_t rank) {
          Store(source.Row(time, rank), target.Row(time, rank), d_.input_size);
        });
  }

  const RnnDescriptor d_;
  const Sequences& sequences_;
  const BackwardArguments<Element>* a_ = nullptr;
  Executor* executor_ = nullptr;
  ParamsLayout params_layout_;
  ReserveLayout reserve_layout_;
  Dropout dropout_{};
  const KerasGates keras_gates_;
  ParamsGradients<Element, Operand> params_gradients_;

  // Weights of the current pseudo-layer.
  Weights input_weights_;             // [G*H, in]
  Weights recurrent_weights_;         // [G*H, P]
  PackedMatrix<Operand> projection_;  // [P, H]
  // Rows of the current chunk. Sizes of operands are padded.
  const Operand** input_rows_ = nullptr;
  Operand* input_staging_ = nullptr;  // [rows, in]
  const Operand** saved_rows_ = nullptr;
  const Operand** c_prev_rows_ = nullptr;
  const Operand** h_rows_ = nullptr;       // [B + rows] -> [P]
  const Operand** h_prev_rows_ = nullptr;  // -> [P]
  const F** dy_rows_ = nullptr;
  F** dx_rows_ = nullptr;
  GateGradients<Operand> dgates_;
  GateGradients<Operand> dgates_recurrent_;  // GRU
  // The same in parts; for a GRU of its own only if steps need them.
  bool recurs_in_parts_ = false;
  LeftParts dgates_parts_;
  LeftParts dgates_recurrent_parts_;
  RowBuffer<Operand> dh_total_;  // projection: [rows, P]
  RowBuffer<Operand> m_;         // projection: [rows, H]
  // Gradients of the states, by rank.
  RowBuffer<F> dh_;  // [B, P]
  RowBuffer<F> dm_;  // projection: [B, H]
  F* dc_ = nullptr;  // [B, H]
  // Gradients of what enters two layers, in turn, [valid rows, D*P].
  F* layer_gradients_[2] = {nullptr, nullptr};
  // Tensors of another type than operands.
  Operand* h_staging_ = nullptr;
  Operand* saved_staging_ = nullptr;
  Operand* c_prev_staging_ = nullptr;
  // Tensors of another type than F.
  F* dy_staging_ = nullptr;
  F* dx_staging_ = nullptr;  // [valid rows, I]
};

}  // namespace

template <typename Element>
Status CheckReserve(const RnnDescriptor& descriptor, const Sequences& sequences,
                    const PaddedLayout& padded_layout, const Element* reserve,
                    int64_t size) {
  ReserveLayout layout;
  if (Status status = ReserveLayout::Create(descriptor, sequences, &layout);
      !status.ok()) {
    return status;
  }
  if (size != layout.size()) {
    return Status::InvalidArgument(
        "reserve_space must have the " + std::to_string(layout.size()) +
        " elements that the forward op makes for these sizes and options, "
        "got " +
        std::to_string(size) +
        "; pass the reserve_space of the forward call being differentiated, "
        "made with is_training=True.");
  }
  uint64_t key;
  bool matches = ReadDropoutKey(reserve, &key);
  if (matches) {
    ComputeType<Element> values[ReserveHeader::kSize];
    Load(reserve, values, ReserveHeader::kSize);
    const ReserveHeader header(descriptor, sequences, padded_layout, key);
    matches = std::equal(header.bytes().begin(), header.bytes().end(), values);
  }
  if (!matches) {
    return Status::InvalidArgument(
        "reserve_space was made by a call of other options, sizes or "
        "sequence_lengths; pass the reserve_space of the forward call being "
        "differentiated, with the same attributes and inputs.");
  }
  return Status();
}

template <typename Element>
int64_t BackwardScratchBytes(const RnnDescriptor& descriptor,
                             const Sequences& sequences,
                             bool has_keras_weights) {
  ParamsLayout params_layout;
  if (!ParamsLayout::Create(descriptor, &params_layout).ok()) return -1;
  Arena arena(nullptr);
  WithOperand<Element>([&](auto operand) {
    BackwardPass<Element, decltype(operand)>(
        descriptor, sequences, arena, params_layout.size(), has_keras_weights);
  });
  return arena.bytes();
}

template <typename Element>
void Backward(const RnnDescriptor& descriptor, const Sequences& sequences,
              const BackwardArguments<Element>& arguments, void* scratch,
              Executor& executor) {
  ParamsLayout params_layout;
  if (!ParamsLayout::Create(descriptor, &params_layout).ok()) return;
  Arena arena(scratch);
  SerialExecutor alone;
  const bool is_short = 2 * ForwardWork(descriptor, sequences) < kMinTeamWork;
  WithOperand<Element>([&](auto operand) {
    BackwardPass<Element, decltype(operand)> pass(
        descriptor, sequences, arena, params_layout.size(),
        arguments.keras_weights != nullptr);
    pass.Run(arguments, is_short ? alone : executor);
  });
}

#define RNN_INSTANTIATE(Element)                                              \
  template Status CheckReserve(const RnnDescriptor&, const Sequences&,        \
                               const PaddedLayout&, const Element*, int64_t); \
  template int64_t BackwardScratchBytes<Element>(const RnnDescriptor&,        \
                                                 const Sequences&, bool);     \
  template void Backward(const RnnDescriptor&, const Sequences&,              \
                         const BackwardArguments<Element>&, void*, Executor&);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(double)
RNN_INSTANTIATE(Half)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

}  // namespace rnn
