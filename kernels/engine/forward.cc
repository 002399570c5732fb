// Forward: layers, directions, chunks of time, steps.
//
// Per chunk the input product W x of all its rows is one matrix product; then
// each step adds R h, which the micro-kernels fuse with the gates and the state
// update, on panels of hidden units.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "kernels/engine/arena.h"
#include "kernels/engine/cache.h"
#include "kernels/engine/chunks.h"
#include "kernels/engine/dropout.h"
#include "kernels/engine/elements.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/matrix_product.h"
#include "kernels/engine/parallel.h"
#include "kernels/engine/params_layout.h"
#include "kernels/engine/parts.h"
#include "kernels/engine/recurrence.h"
#include "kernels/engine/reserve_layout.h"
#include "kernels/engine/tensor_rows.h"

namespace rnn {

namespace {

// R in the panels CellForwardStep wants, of columns [G][cell_units], tail units
// zero: packed for all steps, or one after another for one step.
template <typename Operand>
struct RecurrentPanels {
  Operand* panels = nullptr;
  int64_t hidden_size;
  int64_t output_size;  // P
  int64_t depth;        // padded
  int num_gates;
  int units;             // per panel
  int columns_together;  // cell_columns

  static RecurrentPanels Take(Arena& arena, const RnnDescriptor& d,
                              bool has_memory) {
    RecurrentPanels p;
    p.hidden_size = d.hidden_size;
    p.output_size = d.output_size();
    p.depth = PaddedDepth<Operand>(p.output_size);
    p.num_gates = d.num_gates();
    p.units = Kernels<Operand>().cell_units[static_cast<int>(d.mode)];
    p.columns_together =
        Kernels<Operand>().cell_columns[static_cast<int>(d.mode)];
    if (has_memory) {
      p.panels = arena.Take<Operand>(p.num_panels() * p.panel_size());
    }
    return p;
  }

  int64_t num_panels() const { return (hidden_size + units - 1) / units; }
  int64_t panel_size() const { return depth * num_gates * units; }

  // `source` is [G*H, P].
  template <typename Element>
  void Pack(const Element* source, Executor& executor) const {
    ForEachPanel(executor, [&](int64_t begin, int64_t end) {
      for (; begin < end; ++begin) {
        PackPanel(source, begin, panels + begin * panel_size());
      }
    });
  }

  // `source` is [P, G*H], as Keras has it, its gates those pieces of a row.
  template <typename Element>
  void PackKeras(const Element* source, const Pieces& gates,
                 Executor& executor) const {
    ForEachPanel(executor, [&](int64_t begin, int64_t end) {
      for (; begin < end; begin += kPanelsTogether) {
        PackPanelsOfKeras(source, gates, begin,
                          std::min(begin + kPanelsTogether, end),
                          panels + begin * panel_size());
      }
    });
  }

  // Packs panels when their turn comes, into memory that stays in the cache,
  // and calls use(index, panel) for each: R is of no use later. `source` is
  // [G*H, P].
  template <typename Element, typename Use>
  void PackInTurn(const Element* source, Executor& executor,
                  int64_t work_per_panel, Use use) const {
    ParallelFor(executor, num_panels(),
                work_per_panel + panel_size() * kMoveWork,
                [&](int64_t begin, int64_t end) {
                  Operand* memory = panels + begin * panel_size();
                  for (int64_t i = begin; i < end; ++i) {
                    PackPanel(source, i, memory);
                    use(i, memory);
                  }
                });
  }

  const Operand* panel(int64_t index) const {
    return panels + index * panel_size();
  }

 private:
  // Calls pack(first panel, panel after the last).
  template <typename PackRange>
  void ForEachPanel(Executor& executor, PackRange pack) const {
    ParallelFor(executor, num_panels(), panel_size() * kMoveWork, pack);
  }

  // `source` is [G*H, P], `out` a panel.
  template <typename Element>
  void PackPanel(const Element* source, int64_t panel, Operand* out) const {
    constexpr int kMaxColumns = 256;
    const Element* rows[kMaxColumns];
    for (int gate = 0; gate < num_gates; ++gate) {
      for (int64_t u = 0; u < units; ++u) {
        const int64_t unit = panel * units + u;
        rows[gate * units + u] =
            unit < hidden_size
                ? source + (gate * hidden_size + unit) * output_size
                : nullptr;
      }
    }
    for (int64_t column = 0; column < num_gates * units;
         column += columns_together) {
      PackColumns(rows + column, columns_together, 0, output_size, 0,
                  out + column * depth);
    }
  }

  // `source` is [P, G*H], `out` as many panels.
  template <typename Element>
  void PackPanelsOfKeras(const Element* source, const Pieces& gates,
                         int64_t panel_begin, int64_t panel_end,
                         Operand* out) const {
    constexpr int64_t kStep = kDepthStep<Operand>;
    const int64_t stride = num_gates * hidden_size;
    // Columns of one gate and of those that are packed together.
    const int64_t width = std::min(units, columns_together);
    const auto pack_step = [&](int64_t k, int64_t column, int64_t panel) {
      const int64_t unit = panel * units + column % units;
      const int64_t count = std::clamp<int64_t>(hidden_size - unit, 0, width);
      const int64_t first = column / columns_together * columns_together;
      Operand* step = out + (panel - panel_begin) * panel_size() +
                      first * depth + k * columns_together +
                      (column - first) * kStep;
      if (count > 0) {
        PackStepOf(k, output_size,
                   gates.begin(static_cast<int>(column / units)) + unit, count,
                   step, [&](int64_t row) { return source + row * stride; });
      }
      std::fill(step + count * kStep, step + width * kStep, Operand{});
    };
    for (int64_t k = 0; k < output_size; k += kStep) {
      for (int64_t column = 0; column < num_gates * units; column += width) {
        for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
          pack_step(k, column, panel);
        }
      }
    }
  }
};

// Packing moves all weights about as often as a few steps or rows read them. It
// changes the order of additions, so that only the shape decides, not lengths.
bool PacksInputWeights(const Sequences& sequences) {
  constexpr int64_t kMaxRows = 32;
  return sequences.shape_rows() > kMaxRows;
}
// R of so many bytes is packed, larger ones are read in place. Few steps do not
// pay for packing; nor do few rows a step, where packed weights, too, would
// come from beyond a core's cache. Keras' R, of whose rows each thread needs a
// part, is slower to read in place. Constants, whatever the machine's caches
// are: bits depend on them.
inline int64_t MaxPackedRecurrentBytes(const Sequences& sequences,
                                       bool is_canonical) {
  constexpr int64_t kMaxStepsInPlace = 8;
  constexpr int64_t kMegabyte = int64_t{1} << 20;
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  if (!PacksInputWeights(sequences)) {
    if (sequences.max_time() <= kMaxStepsInPlace) return 0;
    return (is_canonical ? 2 : 12) * kMegabyte;
  }
  if (!is_canonical || sequences.batch() > 4) return kAll;
  return (sequences.batch() == 4 ? 12 : 2) * kMegabyte;
}
template <typename Operand>
bool PacksRecurrent(const RnnDescriptor& d, const Sequences& sequences,
                    bool is_canonical) {
  return RecurrentBytes<Operand>(d, /*in_parts=*/false) <=
         MaxPackedRecurrentBytes(sequences, is_canonical);
}

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
      : d_(d), sequences_(sequences), network_(network) {
    const int64_t B = sequences.batch();
    const int64_t H = d.hidden_size;
    const int64_t P = padded_output_size();
    const int64_t chunk_rows = MaxChunkRows(sequences);
    const int64_t widest_input =
        std::max(d.layer_input_size(0), d.layer_input_size(d.num_layers - 1));

    FindKerasGates(d, keras_gate_begins_);
    const bool may_split = MultipliesInParts<Operand>(
        sequences.shape_rows(), widest_input, d.gates_size());
    recurs_in_parts_ = RecursInParts<Operand>(d, sequences, Pass::kForward);
    input_weights_ = WeightMatrix<Element, Operand>::Take(
        arena, widest_input, d.gates_size(), may_split);
    if (may_split) {
      input_parts_values_ = arena.Take<BFloat16>(
          LeftParts::Size(chunk_rows, PaddedPartsDepth(widest_input)));
    }
    recurrent_ = RecurrentPanels<Operand>::Take(arena, d, !recurs_in_parts_);
    if (recurs_in_parts_) {
      const int64_t depth = PaddedPartsDepth(d.output_size());
      for (int gate = 0; gate < d.num_gates(); ++gate) {
        recurrent_parts_[gate] =
            PackedMatrix<Operand>::Take(arena, d.output_size(), H, true);
      }
      for (LeftParts& parts : h_parts_) {
        parts = LeftParts::In(
            arena.Take<BFloat16>(LeftParts::Size(B + kPartsRows, depth)),
            depth);
      }
    }
    // Keras' R is read in place only where params' is.
    if (recurs_in_parts_ ||
        (kInPlace && !PacksRecurrent<Operand>(d, sequences, true))) {
      recurrent_sums_ = RowBuffer<F>::Take(arena, B, d.gates_size());
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
        saved_ = arena.Take<Operand>(chunk_rows * ReservedRowSize());
      }
    }
  }

  void Run(int64_t layer, int direction, Executor& executor) {
    a_ = &network_.arguments();
    executor_ = &executor;
    const int64_t k = layer * d_.num_directions + direction;
    if (sequences_.num_valid_rows() > 0) {
      ChooseWhatToPack();
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

  int64_t ReservedRowSize() const {
    return NumReservedPerUnit(d_.mode) * d_.hidden_size;
  }
  bool reads_keras_in_place() const {
    return recurrent_use_ == WeightsUse::kInPlace &&
           a_->keras_weights != nullptr;
  }
  bool keeps_activations() const {
    return network_.has_reserve() && ReservedRowSize() > 0;
  }

  // Between products in parts the cells of many rows come in a burst, and wait
  // for the lines that they write. So many bytes would have left a core's cache
  // when backward reads them, most of all if R fills it at each step.
  bool SavesPastCaches(const Element* activations) const {
    if (!kInPlace || !recurs_in_parts_) return false;
    constexpr int64_t kLine = 64;
    constexpr int64_t kSize = sizeof(Element);
    const bool is_cache_full =
        RecurrentBytes<Operand>(d_, /*in_parts=*/true) > CoreCacheBytes();
    const int64_t min_bytes = int64_t{is_cache_full ? 2 : 8} << 20;
    const int64_t values = sequences_.num_valid_rows() * ReservedRowSize();
    return values * kSize >= min_bytes && d_.hidden_size * kSize % kLine == 0 &&
           reinterpret_cast<uintptr_t>(activations) % kLine == 0;
  }

  void ChooseWhatToPack() {
    const bool is_single_chunk =
        ChunkFrom(sequences_, 0).end == sequences_.num_steps();
    input_weights_use_ =
        is_single_chunk ? WeightsUse::kPackedByProduct : WeightsUse::kPacked;
    const bool is_canonical = a_->keras_weights == nullptr;
    recurrent_use_ = is_canonical && !recurs_in_parts_ && PacksRecurrentInTurn()
                         ? WeightsUse::kPackedByProduct
                         : WeightsUse::kPacked;
    // Rows of whole steps of depth; upper layers' inputs are outputs.
    constexpr int64_t kStep = kDepthStep<Operand>;
    if (!kInPlace || d_.output_size() % kStep != 0) return;
    if (d_.input_size % kStep == 0 && !PacksInputWeights(sequences_)) {
      input_weights_use_ = WeightsUse::kInPlace;
    }
    if (!PacksRecurrent<Operand>(d_, sequences_, is_canonical)) {
      recurrent_use_ = WeightsUse::kInPlace;
    }
  }

  // One step needs R once. Keras' rows would come in pieces of a panel: nothing
  // gained.
  bool PacksRecurrentInTurn() const {
    return sequences_.num_steps() == 1 &&
           PacksPanelsInTurn(*executor_, sequences_.active(0),
                             recurrent_.depth * int64_t{sizeof(Operand)},
                             recurrent_.num_panels());
  }

  // The gates of params as pieces of a row of Keras' weights.
  Pieces KerasGates() const {
    return {keras_gate_begins_, d_.num_gates(), d_.hidden_size};
  }

  void SetInputWeights(int64_t layer, int64_t k) {
    using Source = MatrixSource<Element>;
    if (!d_.has_input_weights(layer)) return;
    input_weights_.packed.SetInParts(MultipliesInParts<Operand>(
        sequences_.shape_rows(), d_.layer_input_size(layer), d_.gates_size()));
    if (a_->keras_weights != nullptr) {
      input_weights_.Set(
          Source::Rows(a_->keras_weights->kernel, d_.gates_size(),
                       d_.input_size, KerasGates()),
          input_weights_use_, *executor_);
      return;
    }
    const Region w = network_.params_layout().InputWeights(k);
    input_weights_.Set(
        Source::Columns(a_->params + w.offset, w.columns, w.columns, w.rows),
        input_weights_use_, *executor_);
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
    const Pieces gates = KerasGates();
    for (int gate = 0; gate < gates.count; ++gate) {
      const Element* bias = biases + gates.begin(gate);
      Load(bias, bias_ + gate * H, H);
      if (d_.mode == CellMode::kGru) {
        Load(bias + gates_size, recurrent_bias + gate * H, H);
      }
    }
  }

  void SetRecurrentWeights(int64_t k) {
    const bool is_canonical = a_->keras_weights == nullptr;
    recurrent_source_ =
        is_canonical
            ? a_->params + network_.params_layout().RecurrentWeights(k).offset
            : a_->keras_weights->recurrent_kernel;
    if (recurs_in_parts_) {
      PackRecurrentParts();
    } else if (recurrent_use_ == WeightsUse::kPacked) {
      if (is_canonical) {
        recurrent_.Pack(recurrent_source_, *executor_);
      } else {
        recurrent_.PackKeras(recurrent_source_, KerasGates(), *executor_);
      }
    }
    if (recurs_in_parts_ || recurrent_use_ == WeightsUse::kInPlace) {
      recurrent_sums_.SetRows(sequences_.batch(), d_.gates_size());
    }
    if (d_.has_projection()) {
      const Region projection = network_.params_layout().Projection(k);
      Pack(MatrixSource<Element>::Columns(a_->params + projection.offset,
                                          projection.columns,
                                          projection.columns, projection.rows),
           *executor_, &projection_);
    }
  }

  void PackRecurrentParts() {
    const int64_t H = d_.hidden_size;
    const int64_t P = d_.output_size();
    for (int gate = 0; gate < d_.num_gates(); ++gate) {
      const auto source =
          a_->keras_weights == nullptr
              ? MatrixSource<Element>::Columns(recurrent_source_ + gate * H * P,
                                               P, P, H)
              : MatrixSource<Element>::Rows(
                    recurrent_source_ + KerasGates().begin(gate),
                    d_.gates_size(), P, H);
      recurrent_parts_[gate].SetInParts(true);
      Pack(source, *executor_, &recurrent_parts_[gate]);
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
    SplitStates(-1, 0, sequences_.batch(), h_rows_, 0, P);
  }

  // Splits units [begin, end) of the h that `step` leaves, of these ranks.
  void SplitStates(int64_t step, int64_t rank_begin, int64_t rank_end,
                   const Operand* const* h, int64_t begin, int64_t end) const {
    if constexpr (std::is_same_v<Operand, float>) {
      if (!recurs_in_parts_) return;
      SplitPartOfRows(h + rank_begin, rank_end - rank_begin,
                      {1, d_.output_size()}, begin, end,
                      h_parts_[(step + 2) % 2].From(rank_begin));
    }
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
      reserve = network_.Activations(k) + first_row * ReservedRowSize();
      saves_past_caches_ = SavesPastCaches(reserve);
    }
    ForEachRow(sequences_, chunk, [&](int64_t i, int64_t step, int64_t rank) {
      h_rows_[B + i] = h_values_ + (B + i) * padded_output_size();
      if constexpr (kInPlace) {
        if (emits_in_place()) {
          h_rows_[B + i] =
              outputs.Row(sequences_.time(direction, step, rank), rank);
        }
        if (reserve) saved_rows_[i] = reserve + i * ReservedRowSize();
      } else {
        if (reserve) saved_rows_[i] = saved_ + i * ReservedRowSize();
      }
    });

    const auto recurrence =
        Recurrence::Of<Operand>(d_, sequences_, chunk, Pass::kForward);
    const auto run_step = [&](Executor& executor, int64_t step,
                              int64_t rank_begin, int64_t rank_end) {
      RunStep(executor, direction, chunk, step, rank_begin, rank_end, outputs);
    };
    if (recurrent_use_ == WeightsUse::kPackedByProduct) {
      // Parts of the batch would each pack all panels.
      run_step(*executor_, chunk.begin, 0, sequences_.active(chunk.begin));
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

  // h before each active row of `step`.
  Operand* const* PreviousOutputs(StepRange chunk, int64_t step) const {
    return step == chunk.begin
               ? h_rows_
               : h_rows_ + sequences_.batch() + sequences_.offset(step - 1) -
                     sequences_.offset(chunk.begin);
  }

  void RunStep(Executor& executor, int direction, StepRange chunk, int64_t step,
               int64_t rank_begin, int64_t rank_end,
               const TimeRows<Element>& outputs) {
    const int64_t ranks = rank_end - rank_begin;
    const int64_t H = d_.hidden_size;
    const int64_t P = d_.output_size();
    const int64_t row =
        sequences_.offset(step) - sequences_.offset(chunk.begin);
    Operand* const* h_prev = PreviousOutputs(chunk, step);
    Operand* const* h = h_rows_ + sequences_.batch() + row;
    Operand* const* cell_outputs = d_.has_projection() ? m_.rows : h;
    const auto cell_forward =
        Kernels<Operand>().cell_forward[static_cast<int>(d_.mode)];
    // R is packed at `packed`, or recurrent_sums_ are there in its place.
    const auto cell_of = [&](const PanelRows& part, const Operand* packed) {
      const int64_t begin = part.row_begin, end = part.row_end;
      CellForwardStep<Operand> cell{};
      cell.rows = end - begin;
      cell.hidden_size = H;
      cell.unit = part.panel * recurrent_.units;
      cell.units = std::min<int64_t>(recurrent_.units, H - cell.unit);
      cell.depth = recurrent_.depth;
      cell.recurrent = packed;
      if (packed == nullptr) {
        cell.recurrent_sums = recurrent_sums_.rows + begin;
      } else if (part.next_panel != PanelRows::kNone) {
        cell.next_recurrent = recurrent_.panel(part.next_panel);
      }
      cell.h_prev = h_prev + begin;
      cell.input_gates = input_gates_.rows[row + begin];
      cell.recurrent_new_bias = recurrent_new_bias_;
      if (c_ != nullptr) cell.c = c_ + begin * H;
      cell.h = cell_outputs + begin;
      if (keeps_activations()) {
        cell.saved = saved_rows_ + row + begin;
        cell.saves_past_caches = saves_past_caches_;
      }
      return cell;
    };
    const auto emit = [&](const PanelRows& part,
                          const CellForwardStep<Operand>& cell) {
      if (d_.has_projection()) return;
      EmitOutputs(direction, step, part.row_begin, part.row_end, cell.unit,
                  cell.units, h, outputs);
    };
    const auto run_cell = [&](const PanelRows& part, const Operand* packed) {
      const CellForwardStep<Operand> cell = cell_of(part, packed);
      cell_forward(&cell, 1);
      emit(part, cell);
    };
    const int64_t work =
        2 * ranks * d_.gates_size() * P + kCellWork * ranks * H;
    if (recurs_in_parts_) {
      const int64_t panels_width = Kernels<Operand>().panel_columns;
      ParallelPanels(
          executor, recurrent_parts_[0].num_panels(), PanelOrder(step),
          rank_begin, rank_end, work,
          [&](const PanelRows& part) {
            MultiplyByParts(step, part);
            const int64_t unit = part.panel * panels_width;
            const int64_t unit_end = std::min(unit + panels_width, H);
            for (int64_t u = unit; u < unit_end; u += recurrent_.units) {
              PanelRows cell = part;
              cell.panel = u / recurrent_.units;
              run_cell(cell, nullptr);
            }
            if (!d_.has_projection()) {
              SplitStates(step, part.row_begin, part.row_end, h, unit,
                          unit_end);
            }
          },
          kPartsRowsTogether);
    } else if (recurrent_use_ == WeightsUse::kPackedByProduct) {
      recurrent_.PackInTurn(
          recurrent_source_, executor, work / recurrent_.num_panels(),
          [&](int64_t index, const Operand* panel) {
            run_cell({index, PanelRows::kNone, rank_begin, rank_end}, panel);
          });
    } else if (reads_keras_in_place()) {
      // Few parts, for they should be wide.
      const int64_t num_panels = recurrent_.num_panels();
      const int64_t num_parts =
          std::min<int64_t>(num_panels, 2 * executor.num_threads());
      ParallelFor(executor, num_parts, work / num_parts,
                  [&](int64_t first_part, int64_t last_part) {
                    const int64_t begin = num_panels * first_part / num_parts;
                    const int64_t end = num_panels * last_part / num_parts;
                    MultiplyByKeras(h_prev, rank_begin, rank_end, begin, end);
                    for (int64_t i = begin; i < end; ++i) {
                      run_cell({i, PanelRows::kNone, rank_begin, rank_end},
                               nullptr);
                    }
                  });
    } else if (recurrent_use_ == WeightsUse::kInPlace) {
      ParallelPanels(executor, recurrent_.num_panels(), PanelOrder(step),
                     rank_begin, rank_end, work, [&](const PanelRows& part) {
                       MultiplyByParams(h_prev, part);
                       run_cell(part, nullptr);
                     });
    } else {
      ParallelPanelGroups(
          executor, recurrent_.num_panels(), PanelOrder(step), rank_begin,
          rank_end, work, [&](const PanelRows* parts, int count) {
            CellForwardStep<Operand> cells[kMaxPanelsTogether];
            for (int i = 0; i < count; ++i) {
              cells[i] = cell_of(parts[i], recurrent_.panel(parts[i].panel));
            }
            cell_forward(cells, count);
            for (int i = 0; i < count; ++i) emit(parts[i], cells[i]);
          });
    }
    if (d_.has_projection()) {
      ProjectStep(executor, direction, step, rank_begin, rank_end, h, outputs);
    }
  }

  // recurrent_sums_ = h_prev times R in parts, for the units of a panel.
  void MultiplyByParts(int64_t step, const PanelRows& part) {
    if constexpr (std::is_same_v<Operand, float>) {
      static_assert(kMaxGates <= kMaxProductsInParts);
      RowsTimesMatrix<float> products[kMaxGates];
      for (int gate = 0; gate < d_.num_gates(); ++gate) {
        RowsTimesMatrix<float>& product = products[gate];
        product.left_parts = h_parts_[(step + 1) % 2];
        product.b = &recurrent_parts_[gate];
        product.c = recurrent_sums_.rows;
        product.c_offset = gate * d_.hidden_size;
      }
      MultiplyPanelsInParts(products, d_.num_gates(), part);
    }
  }

  // recurrent_sums_ = h_prev times params' R, for the units of a panel.
  void MultiplyByParams(const Operand* const* h_prev, const PanelRows& part) {
    if constexpr (kInPlace) {
      const int64_t H = d_.hidden_size;
      const int64_t P = d_.output_size();
      const int64_t unit = part.panel * recurrent_.units;
      PanelProduct<Operand> product{};
      product.rows = part.row_end - part.row_begin;
      product.depth = P;
      product.columns = std::min<int64_t>(recurrent_.units, H - unit);
      product.a = h_prev + part.row_begin;
      product.b.stride = P;
      product.c = recurrent_sums_.rows + part.row_begin;
      for (int gate = 0; gate < d_.num_gates(); ++gate) {
        product.b.transposed = recurrent_source_ + (gate * H + unit) * P;
        product.c_offset = gate * H + unit;
        Kernels<Operand>().multiply_panel(product);
      }
    }
  }

  // recurrent_sums_ = h_prev times Keras' R, for the units of panels [begin,
  // end): rows of R are read from end to end.
  void MultiplyByKeras(const Operand* const* h_prev, int64_t rank_begin,
                       int64_t rank_end, int64_t begin, int64_t end) {
    if constexpr (kInPlace) {
      const int64_t H = d_.hidden_size;
      const int64_t unit = begin * recurrent_.units;
      for (int gate = 0; gate < d_.num_gates(); ++gate) {
        RowsProduct<Operand> product{};
        product.rows = rank_end - rank_begin;
        product.depth = H;
        product.columns = std::min(end * recurrent_.units, H) - unit;
        product.a = h_prev + rank_begin;
        product.b = recurrent_source_ + KerasGates().begin(gate) + unit;
        product.stride = d_.gates_size();
        product.c = recurrent_sums_.rows + rank_begin;
        product.c_offset = gate * H + unit;
        Kernels<Operand>().multiply_rows(product);
      }
    }
  }

  // h = m times the projection, for ranks [rank_begin, rank_end) of `step`.
  void ProjectStep(Executor& executor, int direction, int64_t step,
                   int64_t rank_begin, int64_t rank_end, Operand* const* h,
                   const TimeRows<Element>& outputs) {
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
        executor, projection_.num_panels(), PanelOrder(step), rank_begin,
        rank_end, 2 * (rank_end - rank_begin) * d_.hidden_size * P,
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
          EmitOutputs(direction, step, begin, end, column, count, h, outputs);
          SplitStates(step, begin, end, h, column, column + count);
        });
  }

  // Outputs that did not come into their place are put there at once, rounded:
  // the recurrence sees what is emitted.
  void EmitOutputs(int direction, int64_t step, int64_t rank_begin,
                   int64_t rank_end, int64_t column, int64_t count,
                   Operand* const* h, const TimeRows<Element>& outputs) const {
    if (emits_in_place()) return;
    for (int64_t rank = rank_begin; rank < rank_end; ++rank) {
      Element* output =
          outputs.Row(sequences_.time(direction, step, rank), rank) + column;
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
    const int64_t size = ReservedRowSize();
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
  int64_t keras_gate_begins_[kMaxGates];

  // Weights of the current pseudo-layer.
  WeightMatrix<Element, Operand> input_weights_;  // [in, G*H]
  WeightsUse input_weights_use_ = WeightsUse::kPacked;
  const Element* recurrent_source_ = nullptr;  // [G*H, P]; Keras': [P, G*H]
  RecurrentPanels<Operand> recurrent_;         // [P, G*H]
  WeightsUse recurrent_use_ = WeightsUse::kPacked;
  // R in parts, a matrix [P, H] for each gate, and h before and after a step.
  bool recurs_in_parts_ = false;
  PackedMatrix<Operand> recurrent_parts_[kMaxGates];
  LeftParts h_parts_[2];              // [B, P]
  RowBuffer<F> recurrent_sums_;       // R in place or in parts: [B, G*H]
  PackedMatrix<Operand> projection_;  // [H, P]
  F* bias_ = nullptr;                 // [G*H]
  F* recurrent_new_bias_ = nullptr;   // [H]
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
