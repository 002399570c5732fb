// Forward: layers, directions, chunks of time, steps.
//
// Per chunk the input product W x of all its rows is one matrix product; then
// each step adds R h, which the micro-kernels fuse with the gates and the state
// update, on panels of hidden units.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "kernels/engine/elements/dropout.h"
#include "kernels/engine/elements/elements.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/passes/tensor_rows.h"
#include "kernels/engine/plan/arena.h"
#include "kernels/engine/plan/cache.h"
#include "kernels/engine/plan/chunks.h"
#include "kernels/engine/plan/recurrence.h"
#include "kernels/engine/products/matrix_product.h"
#include "kernels/engine/products/recurrent_weights.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/weights/keras_weights.h"
#include "kernels/engine/weights/packing.h"
#include "kernels/engine/weights/parts.h"
#include "network/params_layout.h"
#include "network/reserve_layout.h"

namespace rnn {

namespace {

// What all pseudo-layers of a call share.
template <typename Element, typename Operand>
class ForwardNetwork {
 public:
  ForwardNetwork(const RnnDescriptor& d, const Sequences& sequences,
                 bool has_reserve, Arena& arena)
      : d_(d), sequences_(sequences), has_reserve_(has_reserve) {
    if (has_reserve || d.num_layers == 1) return;
    const int64_t size =
        sequences.num_valid_rows() * d.num_directions * d.output_size();
    layer_outputs_[0] = arena.Take<Element>(size);
    layer_outputs_[1] = d.num_layers > 2 ? arena.Take<Element>(size) : nullptr;
  }

  // False if the sizes are not those the scratch was sized by.
  bool Begin(const ForwardArguments<Element>& arguments, Executor& executor) {
    a_ = &arguments;
    dropout_ = {d_.dropout, arguments.dropout_key};
    if (!ParamsLayout::Create(d_, &params_layout_).ok()) return false;
    if (has_reserve_) {
      if (!ReserveLayout::Create(d_, sequences_, &reserve_layout_).ok()) {
        return false;
      }
      WriteReserveHeader();
    }
    ZeroPadding(sequences_, a_->y, a_->y_strides,
                d_.num_directions * d_.output_size(), executor);
    return true;
  }

  const ForwardArguments<Element>& arguments() const { return *a_; }
  const ParamsLayout& params_layout() const { return params_layout_; }
  bool has_reserve() const { return has_reserve_; }

  // What backward needs of pseudo-layer k.
  Element* Activations(int64_t k) const {
    return a_->reserve + reserve_layout_.ActivationsOffset(k);
  }

  // Where `layer` leaves its outputs, both directions side by side.
  TimeRows<Element> OutputRows(int64_t layer) const {
    if (layer == d_.num_layers - 1) {
      return TimeRows<Element>::Padded(sequences_, a_->y, a_->y_strides);
    }
    Element* dense =
        has_reserve_ ? a_->reserve + reserve_layout_.LayerOutputOffset(layer)
                     : layer_outputs_[layer % 2];
    return TimeRows<Element>::Dense(sequences_, dense,
                                    d_.num_directions * d_.output_size());
  }

  LayerInput<Element, Operand> Input(int64_t layer) const {
    const int64_t features = d_.layer_input_size(layer);
    if (layer == 0) {
      return LayerInput<Element, Operand>(
          sequences_,
          TimeRows<const Element>::Padded(sequences_, a_->x, a_->x_strides),
          features);
    }
    const Element* below = OutputRows(layer - 1).Row(0, 0);
    LayerInput<Element, Operand> input(
        sequences_, TimeRows<const Element>::Dense(sequences_, below, features),
        features);
    if (a_->apply_dropout && d_.dropout > 0) {
      input.SetDropout(layer - 1, dropout_);
    }
    return input;
  }

 private:
  void WriteReserveHeader() {
    const ReserveHeader header(d_, sequences_, a_->layout, a_->dropout_key);
    ComputeType<Element> values[ReserveHeader::kSize];
    std::copy(header.bytes().begin(), header.bytes().end(), values);
    Store(values, a_->reserve, ReserveHeader::kSize);
  }

  const RnnDescriptor& d_;
  const Sequences& sequences_;
  const bool has_reserve_;
  const ForwardArguments<Element>* a_ = nullptr;
  ParamsLayout params_layout_;
  ReserveLayout reserve_layout_;
  Dropout dropout_{};
  // Without a reserve: outputs of two layers, in turn, [valid rows, D*P].
  Element* layer_outputs_[2] = {nullptr, nullptr};
};

// Runs pseudo-layers, one at a time.
template <typename Element, typename Operand>
class ForwardPseudoLayer {
 public:
  using F = ComputeType<Element>;
  using Network = ForwardNetwork<Element, Operand>;
  using WeightsUse = typename WeightMatrix<Element, Operand>::Use;
  static constexpr bool kInPlace = kComputesInPlace<Element, Operand>;

  // Takes from the arena all the memory Run() will need.
  ForwardPseudoLayer(const RnnDescriptor& d, const Sequences& sequences,
                     const Network& network, Arena& arena)
      : d_(d),
        sequences_(sequences),
        network_(network),
        keras_gates_(d),
        recurrent_(d, sequences, arena) {
    const int64_t B = sequences.batch();
    const int64_t H = d.hidden_size;
    const int64_t P = padded_output_size();
    const int64_t chunk_rows = MaxChunkRows(sequences);
    const int64_t widest_input =
        std::max(d.layer_input_size(0), d.layer_input_size(d.num_layers - 1));

    const bool may_split = MultipliesInParts<Operand>(
        sequences.shape_rows(), widest_input, d.gates_size());
    // Of a single chunk the input product comes before all steps.
    arena.TakeInOnePlace(
        IsSingleChunk(sequences_),
        [&] {
          input_weights_ = WeightMatrix<Element, Operand>::Take(
              arena, widest_input, d.gates_size(), may_split);
        },
        [&] { recurrent_.TakePanels(arena); });
    if (may_split) {
      input_parts_values_ = arena.Take<BFloat16>(
          LeftParts::Size(chunk_rows, PaddedPartsDepth(widest_input)));
    }
    bias_ = arena.Take<F>(d.gates_size());
    recurrent_new_bias_ = arena.Take<F>(H);
    input_rows_ = arena.Take<const Operand*>(chunk_rows);
    input_staging_ =
        arena.Take<Operand>(chunk_rows * PaddedDepth<Operand>(widest_input));
    input_gates_ = RowBuffer<F>::Take(arena, chunk_rows, d.gates_size());
    h_rows_ = arena.Take<Operand*>(B + chunk_rows);
    h_values_size_ = (emits_in_place() ? B : B + chunk_rows) * P;
    h_values_ = arena.Take<Operand>(h_values_size_);
    if (d.mode == CellMode::kLstm) c_ = arena.Take<F>(B * H);
    if (d.has_projection()) {
      projection_ = PackedMatrix<Operand>::Take(arena, H, d.output_size());
      m_ = RowBuffer<Operand>::Take(arena, B, PaddedDepth<Operand>(H));
      if constexpr (!std::is_same_v<F, Operand>) {
        projected_ = RowBuffer<F>::Take(arena, B, d.output_size());
      }
    }
    if (network.has_reserve()) {
      saved_rows_ = arena.Take<Operand*>(chunk_rows);
      if constexpr (!kInPlace) {
        saved_ = arena.Take<Operand>(chunk_rows * ReservedRowSize(d_));
      }
    }
  }

  void Run(int64_t layer, int direction, Executor& executor) {
    a_ = &network_.arguments();
    executor_ = &executor;
    const int64_t k = layer * d_.num_directions + direction;
    if (sequences_.num_valid_rows() > 0) {
      SetInputWeights(layer, k);
      LoadBiases(k);
      LoadInitialStates(k);
      const LayerInput<Element, Operand> input = network_.Input(layer);
      const TimeRows<Element> outputs =
          network_.OutputRows(layer).From(direction * d_.output_size());
      StepRange chunk{0, 0};
      while (chunk.end < sequences_.num_steps()) {
        chunk = ChunkFrom(sequences_, chunk.end);
        RunChunk(layer, direction, chunk, input, outputs);
      }
    }
    StoreFinalStates(layer, direction, k);
  }

 private:
  int64_t padded_output_size() const {
    return PaddedDepth<Operand>(d_.output_size());
  }

  // Whether steps write h into the outputs, where the next step reads it.
  bool emits_in_place() const {
    return kInPlace && d_.output_size() == padded_output_size();
  }

  bool keeps_activations() const {
    return network_.has_reserve() && ReservedRowSize(d_) > 0;
  }

  // Between products in parts the cells of many rows come in a burst, and wait
  // for the lines that they write. So many bytes would have left a core's cache
  // when backward reads them, most of all if R fills it at each step.
  bool SavesPastCaches(const Element* activations) const {
    if (!kInPlace || !recurrent_.in_parts()) return false;
    constexpr int64_t kLine = 64;
    constexpr int64_t kSize = sizeof(Element);
    const bool is_cache_full =
        RecurrentBytes<Operand>(d_, /*in_parts=*/true) > CoreCacheBytes();
    const int64_t min_bytes = int64_t{is_cache_full ? 2 : 8} << 20;
    const int64_t values = sequences_.num_valid_rows() * ReservedRowSize(d_);
    return values * kSize >= min_bytes && d_.hidden_size * kSize % kLine == 0 &&
           reinterpret_cast<uintptr_t>(activations) % kLine == 0;
  }

  WeightsUse InputWeightsUse() const {
    // Rows of whole steps of depth; upper layers' inputs are outputs.
    constexpr int64_t kStep = kDepthStep<Operand>;
    const bool has_whole_steps =
        d_.output_size() % kStep == 0 && d_.input_size % kStep == 0;
    const bool fits =
        a_->keras_weights == nullptr ||
        UnpackedMatrix<Operand>::Fits(d_.num_gates(), d_.hidden_size);
    if (kInPlace && has_whole_steps && fits && !PacksInputWeights(sequences_)) {
      return WeightsUse::kInPlace;
    }
    return IsSingleChunk(sequences_) ? WeightsUse::kPackedByProduct
                                     : WeightsUse::kPacked;
  }

  void SetInputWeights(int64_t layer, int64_t k) {
    using Source = MatrixSource<Element>;
    if (!d_.has_input_weights(layer)) return;
    const WeightsUse use = InputWeightsUse();
    input_weights_.packed.SetInParts(MultipliesInParts<Operand>(
        sequences_.shape_rows(), d_.layer_input_size(layer), d_.gates_size()));
    if (a_->keras_weights != nullptr) {
      input_weights_.Set(
          Source::Rows(a_->keras_weights->kernel, d_.gates_size(),
                       d_.input_size, keras_gates_.pieces()),
          use, *executor_);
      return;
    }
    const Region w = network_.params_layout().InputWeights(k);
    input_weights_.Set(
        Source::Columns(a_->params + w.offset, w.columns, w.columns, w.rows),
        use, *executor_);
  }

  void LoadBiases(int64_t k) {
    const int64_t gates_size = d_.gates_size();
    F* recurrent_bias = input_gates_.values;  // free until the first chunk
    if (a_->keras_weights != nullptr) {
      LoadKerasBiases(a_->keras_weights->bias, recurrent_bias);
    } else {
      const ParamsLayout& layout = network_.params_layout();
      Load(a_->params + layout.InputBias(k).offset, bias_, gates_size);
      Load(a_->params + layout.RecurrentBias(k).offset, recurrent_bias,
           gates_size);
    }
    AddRecurrentBias(recurrent_bias);
  }

  void LoadKerasBiases(const Element* biases, F* recurrent_bias) {
    const int64_t gates_size = d_.gates_size();
    const int64_t H = d_.hidden_size;
    std::fill_n(bias_, gates_size, F{0});
    std::fill_n(recurrent_bias, gates_size, F{0});
    if (biases == nullptr) return;
    const Pieces gates = keras_gates_.pieces();
    for (int gate = 0; gate < gates.count; ++gate) {
      const Element* bias = biases + gates.begin(gate);
      Load(bias, bias_ + gate * H, H);
      if (d_.mode == CellMode::kGru) {
        Load(bias + gates_size, recurrent_bias + gate * H, H);
      }
    }
  }

  void SetRecurrentWeights(int64_t k) {
    if (a_->keras_weights != nullptr) {
      recurrent_.SetKeras(a_->keras_weights->recurrent_kernel,
                          keras_gates_.pieces(), *executor_);
    } else {
      const Region r = network_.params_layout().RecurrentWeights(k);
      recurrent_.SetParams(a_->params + r.offset, *executor_);
    }
    if (d_.has_projection()) {
      const Region projection = network_.params_layout().Projection(k);
      Pack(MatrixSource<Element>::Columns(a_->params + projection.offset,
                                          projection.columns,
                                          projection.columns, projection.rows),
           *executor_, &projection_);
    }
  }

  // Both biases at once, but for the GRU's new gate, whose recurrent bias is
  // inside the reset product.
  void AddRecurrentBias(const F* recurrent_bias) {
    const int64_t gates_size = d_.gates_size();
    const int64_t H = d_.hidden_size;
    const bool is_gru = d_.mode == CellMode::kGru;
    const int64_t summed = is_gru ? gates_size - H : gates_size;
    for (int64_t j = 0; j < summed; ++j) bias_[j] += recurrent_bias[j];
    if (is_gru) std::copy_n(recurrent_bias + kNew * H, H, recurrent_new_bias_);
  }

  // The first B entries of h_rows_ are the step before the chunk.
  void LoadInitialStates(int64_t k) {
    const int64_t H = d_.hidden_size;
    const int64_t P = d_.output_size();
    // What pads the rows of operands stays zero.
    if (padded_output_size() > P) {
      std::fill_n(h_values_, h_values_size_, Operand{});
    }
    if (d_.has_projection()) {
      const int64_t B = sequences_.batch();
      const int64_t row_size = PaddedDepth<Operand>(H);
      m_.SetRows(B, row_size);
      if (row_size > H) std::fill_n(m_.values, B * row_size, Operand{});
      if constexpr (!std::is_same_v<F, Operand>) projected_.SetRows(B, P);
    }
    for (int64_t rank = 0; rank < sequences_.batch(); ++rank) {
      const int64_t b = sequences_.batch_row(rank);
      const Element* h0 =
          a_->h0 + k * a_->h_strides.outer + b * a_->h_strides.batch;
      h_rows_[rank] = h_values_ + rank * padded_output_size();
      LoadOperands(h0, h_rows_[rank], P);
      if (d_.mode == CellMode::kLstm) {
        Load(a_->c0 + k * a_->c_strides.outer + b * a_->c_strides.batch,
             c_ + rank * H, H);
      }
    }
    recurrent_.SplitStates({/*step=*/-1, 0, sequences_.batch()}, h_rows_, 0, P);
  }

  void StoreFinalStates(int64_t layer, int direction, int64_t k) {
    const int64_t H = d_.hidden_size;
    const int64_t P = d_.output_size();
    const TimeRows<Element> outputs =
        network_.OutputRows(layer).From(direction * P);
    for (int64_t rank = 0; rank < sequences_.batch(); ++rank) {
      const int64_t b = sequences_.batch_row(rank);
      const int64_t h_offset =
          k * a_->h_strides.outer + b * a_->h_strides.batch;
      const int64_t length = sequences_.length(rank);
      const Element* last =
          length == 0
              ? a_->h0 + h_offset
              : outputs.Row(sequences_.time(direction, length - 1, rank), rank);
      std::memcpy(a_->h_n + h_offset, last, P * sizeof(Element));
      if (d_.mode == CellMode::kLstm) {
        const int64_t c_offset =
            k * a_->c_strides.outer + b * a_->c_strides.batch;
        if (length == 0) {
          std::memcpy(a_->c_n + c_offset, a_->c0 + c_offset,
                      H * sizeof(Element));
        } else {
          Store(c_ + rank * H, a_->c_n + c_offset, H);
        }
      }
    }
  }

  void RunChunk(int64_t layer, int direction, StepRange chunk,
                const LayerInput<Element, Operand>& input,
                const TimeRows<Element>& outputs) {
    const int64_t B = sequences_.batch();
    const int64_t first_row = sequences_.offset(chunk.begin);
    input.Gather(direction, chunk, *executor_, input_staging_, input_rows_);
    ComputeInputGates(layer, sequences_.offset(chunk.end) - first_row);
    const int64_t k = layer * d_.num_directions + direction;
    // As late as that, so that steps find it where it was packed.
    if (chunk.begin == 0) SetRecurrentWeights(k);

    Element* reserve = nullptr;
    if (keeps_activations()) {
      reserve = network_.Activations(k) + first_row * ReservedRowSize(d_);
      saves_past_caches_ = SavesPastCaches(reserve);
    }
    ForEachRow(sequences_, chunk, [&](int64_t i, int64_t step, int64_t rank) {
      h_rows_[B + i] = h_values_ + (B + i) * padded_output_size();
      if constexpr (kInPlace) {
        if (emits_in_place()) {
          h_rows_[B + i] =
              outputs.Row(sequences_.time(direction, step, rank), rank);
        }
        if (reserve) saved_rows_[i] = reserve + i * ReservedRowSize(d_);
      } else {
        if (reserve) saved_rows_[i] = saved_ + i * ReservedRowSize(d_);
      }
    });

    const auto recurrence =
        Recurrence::Of<Operand>(d_, sequences_, chunk, Pass::kForward);
    const auto run_step = [&](Executor& executor, const StepRanks& ranks) {
      RunStep(executor, direction, chunk, ranks, outputs);
    };
    if (recurrent_.packs_in_turn()) {
      // Parts of the batch would each pack all panels.
      run_step(*executor_, {chunk.begin, 0, sequences_.active(chunk.begin)});
    } else {
      RunSteps(recurrence, *executor_, run_step);
    }

    if constexpr (!kInPlace) {
      if (reserve != nullptr) StoreSaved(chunk, reserve);
    }
    KeepLastStep(chunk);
  }

  // input_gates_ = W x + biases for all rows of a chunk.
  void ComputeInputGates(int64_t layer, int64_t rows) {
    const int64_t gates_size = d_.gates_size();
    input_gates_.SetRows(rows, gates_size);
    if (d_.has_input_weights(layer)) {
      RowsTimesMatrix<Operand> product;
      product.rows = rows;
      product.a = input_rows_;
      if (input_weights_.packed.in_parts) {
        product.left_parts = LeftParts::In(
            input_parts_values_, PaddedPartsDepth(d_.layer_input_size(layer)));
      }
      product.c = input_gates_.rows;
      product.bias = bias_;
      Multiply(product, &input_weights_, *executor_);
      return;
    }
    const int64_t H = d_.hidden_size;
    ParallelFor(*executor_, rows, gates_size * kMoveWork,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    // The first gate's place holds the input until its turn,
                    // the last.
                    F* gates = input_gates_.rows[i];
                    Load(input_rows_[i], gates, H);
                    for (int64_t j = gates_size - 1; j >= 0; --j) {
                      gates[j] = gates[j % H] + bias_[j];
                    }
                  }
                });
  }

  void RunStep(Executor& executor, int direction, StepRange chunk,
               const StepRanks& ranks, const TimeRows<Element>& outputs) {
    const int64_t H = d_.hidden_size;
    const int64_t step = ranks.step;
    const int64_t row =
        sequences_.offset(step) - sequences_.offset(chunk.begin);
    Operand* const* h_prev = RowsBefore(sequences_, chunk, step, h_rows_);
    Operand* const* h = h_rows_ + sequences_.batch() + row;
    Operand* const* cell_outputs = d_.has_projection() ? m_.rows : h;
    const auto cell_forward =
        Kernels<Operand>().cell_forward[static_cast<int>(d_.mode)];
    const auto run_cells = [&](CellForwardStep<Operand>* cells,
                               const PanelRows* parts, int count) {
      for (int i = 0; i < count; ++i) {
        const int64_t rank = parts[i].row_begin;
        CellForwardStep<Operand>& cell = cells[i];
        cell.input_gates = input_gates_.rows[row + rank];
        cell.recurrent_new_bias = recurrent_new_bias_;
        if (c_ != nullptr) cell.c = c_ + rank * H;
        cell.h = cell_outputs + rank;
        if (keeps_activations()) {
          cell.saved = saved_rows_ + row + rank;
          cell.saves_past_caches = saves_past_caches_;
        }
      }
      cell_forward(cells, count);
      if (d_.has_projection()) return;
      for (int i = 0; i < count; ++i) {
        EmitOutputs(direction, {step, parts[i].row_begin, parts[i].row_end},
                    cells[i].unit, cells[i].units, h, outputs);
      }
    };
    recurrent_.RunCells(executor, ranks, h_prev, h, run_cells);
    if (d_.has_projection()) {
      ProjectStep(executor, direction, ranks, h, outputs);
    }
  }

  // h = m times the projection.
  void ProjectStep(Executor& executor, int direction, const StepRanks& ranks,
                   Operand* const* h, const TimeRows<Element>& outputs) {
    const int64_t P = d_.output_size();
    RowsTimesMatrix<Operand> product;
    product.a = m_.rows;
    product.b = &projection_;
    if constexpr (std::is_same_v<F, Operand>) {
      product.c = h;
    } else {
      product.c = projected_.rows;
    }
    const int64_t width = Kernels<Operand>().panel_columns;
    ParallelPanels(
        executor,
        {projection_.num_panels(), PanelOrder(ranks.step), ranks.begin,
         ranks.end, 2 * ranks.count() * d_.hidden_size * P},
        [&](const PanelRows& part) {
          const int64_t begin = part.row_begin, end = part.row_end;
          MultiplyPanel(product, part);
          const int64_t column = part.panel * width;
          const int64_t count = std::min(width, P - column);
          if constexpr (!std::is_same_v<F, Operand>) {
            for (int64_t rank = begin; rank < end; ++rank) {
              Store(projected_.rows[rank] + column, h[rank] + column, count);
            }
          }
          const StepRanks part_ranks{ranks.step, begin, end};
          EmitOutputs(direction, part_ranks, column, count, h, outputs);
          recurrent_.SplitStates(part_ranks, h, column, column + count);
        });
  }

  // Outputs that did not come into their place are put there at once, rounded:
  // the recurrence sees what is emitted.
  void EmitOutputs(int direction, const StepRanks& ranks, int64_t column,
                   int64_t count, Operand* const* h,
                   const TimeRows<Element>& outputs) const {
    if (emits_in_place()) return;
    for (int64_t rank = ranks.begin; rank < ranks.end; ++rank) {
      Element* output =
          outputs.Row(sequences_.time(direction, ranks.step, rank), rank) +
          column;
      if constexpr (kInPlace) {
        std::copy_n(h[rank] + column, count, output);
      } else {
        Store(h[rank] + column, output, count);
        Load(output, h[rank] + column, count);
      }
    }
  }

  void StoreSaved(StepRange chunk, Element* reserve) {
    const int64_t rows =
        sequences_.offset(chunk.end) - sequences_.offset(chunk.begin);
    const int64_t size = ReservedRowSize(d_);
    ParallelFor(*executor_, rows, size * kMoveWork,
                [&](int64_t begin, int64_t end) {
                  Store(saved_ + begin * size, reserve + begin * size,
                        (end - begin) * size);
                });
  }

  // Makes the chunk's last step the one before the next chunk.
  void KeepLastStep(StepRange chunk) {
    const int64_t last = chunk.end - 1;
    Operand* const* rows = h_rows_ + sequences_.batch() +
                           sequences_.offset(last) -
                           sequences_.offset(chunk.begin);
    for (int64_t rank = 0; rank < sequences_.active(last); ++rank) {
      if (emits_in_place()) {
        h_rows_[rank] = rows[rank];
      } else {
        std::copy_n(rows[rank], d_.output_size(), h_rows_[rank]);
      }
    }
  }

  const RnnDescriptor& d_;
  const Sequences& sequences_;
  const Network& network_;
  const ForwardArguments<Element>* a_ = nullptr;
  Executor* executor_ = nullptr;
  const KerasGates keras_gates_;

  // Weights of the current pseudo-layer.
  WeightMatrix<Element, Operand> input_weights_;  // [in, G*H]
  RecurrentWeights<Element, Operand> recurrent_;  // [P, G*H]
  PackedMatrix<Operand> projection_;              // [H, P]
  F* bias_ = nullptr;                             // [G*H]
  F* recurrent_new_bias_ = nullptr;               // [H]
  // Rows of the current chunk. Sizes of operands are padded.
  const Operand** input_rows_ = nullptr;
  Operand* input_staging_ = nullptr;        // [rows, in]
  BFloat16* input_parts_values_ = nullptr;  // [rows, in]
  RowBuffer<F> input_gates_;                // [rows, G*H]
  Operand** h_rows_ = nullptr;              // [B + rows] -> [P]
  // [B, P]; [B + rows, P] unless h is emitted in place
  Operand* h_values_ = nullptr;
  int64_t h_values_size_ = 0;
  Operand** saved_rows_ = nullptr;
  bool saves_past_caches_ = false;
  Operand* saved_ = nullptr;  // not in place: [rows, reserved row]
  // States by rank.
  F* c_ = nullptr;          // [B, H]
  RowBuffer<Operand> m_;    // projection: [B, H]
  RowBuffer<F> projected_;  // projection, if Operand is not F: [B, P]
};

template <typename Element, typename Operand>
class ForwardPass {
 public:
  // Takes from the arena all the memory Run() will need.
  ForwardPass(const RnnDescriptor& d, const Sequences& sequences,
              bool has_reserve, Arena& arena)
      : d_(d),
        sequences_(sequences),
        network_(d_, sequences, has_reserve, arena),
        first_(d_, sequences, network_, arena) {
    if (MayRunDirectionsTogether<Operand>(d, sequences)) {
      second_.emplace(d_, sequences, network_, arena);
    }
  }

  void Run(const ForwardArguments<Element>& arguments, Executor& executor) {
    if (!network_.Begin(arguments, executor)) return;
    const bool together =
        second_.has_value() &&
        RunsDirectionsTogether(d_, sequences_, executor.num_threads());
    for (int64_t layer = 0; layer < d_.num_layers; ++layer) {
      if (together) {
        executor.Run(2, Order::kAscending, [&](int direction) {
          SerialExecutor alone;
          (direction == 0 ? first_ : *second_).Run(layer, direction, alone);
        });
        continue;
      }
      for (int direction = 0; direction < d_.num_directions; ++direction) {
        first_.Run(layer, direction, executor);
      }
    }
  }

 private:
  const RnnDescriptor d_;
  const Sequences& sequences_;
  ForwardNetwork<Element, Operand> network_;
  ForwardPseudoLayer<Element, Operand> first_;
  std::optional<ForwardPseudoLayer<Element, Operand>> second_;
};

}  // namespace

template <typename Element>
int64_t ForwardScratchBytes(const RnnDescriptor& descriptor,
                            const Sequences& sequences, bool has_reserve) {
  // Products of sizes are safe below once the weights' size is.
  ParamsLayout params_layout;
  if (!ParamsLayout::Create(descriptor, &params_layout).ok()) return -1;
  Arena arena(nullptr);
  WithOperand<Element>([&](auto operand) {
    ForwardPass<Element, decltype(operand)>(descriptor, sequences, has_reserve,
                                            arena);
  });
  return arena.bytes();
}

template <typename Element>
void Forward(const RnnDescriptor& descriptor, const Sequences& sequences,
             const ForwardArguments<Element>& arguments, void* scratch,
             Executor& executor) {
  Arena arena(scratch);
  SerialExecutor alone;
  const bool is_short = ForwardWork(descriptor, sequences) < kMinTeamWork;
  WithOperand<Element>([&](auto operand) {
    ForwardPass<Element, decltype(operand)> pass(
        descriptor, sequences, arguments.reserve != nullptr, arena);
    pass.Run(arguments, is_short ? alone : executor);
  });
}

#define RNN_INSTANTIATE(Element)                                         \
  template int64_t ForwardScratchBytes<Element>(const RnnDescriptor&,    \
                                                const Sequences&, bool); \
  template void Forward(const RnnDescriptor&, const Sequences&,          \
                        const ForwardArguments<Element>&, void*, Executor&);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(double)
RNN_INSTANTIATE(Half)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

}  // namespace rnn
