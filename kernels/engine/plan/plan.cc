#include "kernels/engine/plan/plan.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include "kernels/engine/plan/operand_sizes.h"
#include "kernels/engine/plan/thresholds.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/parallel.h"

namespace rnn {

namespace {

enum class Pass { kForward, kBackward };

// Floating-point operations of the products of a forward pass.
double ForwardWork(const RnnDescriptor& d, const Sequences& sequences) {
  int64_t work = 0;  // of a row in one direction
  for (int64_t layer = 0; layer < d.num_layers; ++layer) {
    const int64_t inputs =
        d.has_input_weights(layer) ? d.layer_input_size(layer) : 0;
    work += 2 * d.gates_size() * (inputs + d.output_size());
    if (d.has_projection()) work += 2 * d.hidden_size * d.output_size();
  }
  return static_cast<double>(work * d.num_directions) *
         static_cast<double>(sequences.num_valid_rows());
}

// What the choices of a pass ask for.
class Choices {
 public:
  Choices(const PassPlan& plan, const Machine& machine)
      : d_(plan.descriptor),
        sequences_(*plan.sequences),
        kernels_(plan.kernels),
        is_keras_(plan.weight_order == WeightOrder::kKeras),
        is_single_chunk_(ChunkCuts(*plan.sequences).is_single()),
        core_cache_bytes_(machine.core_cache_bytes) {}

  bool is_single_chunk() const { return is_single_chunk_; }

  // ---- Routes ---------------------------------------------------------------
  // What of them changes bits follows from shapes and the instruction set.
  // Along routes of equal bits, packed or in turn and, backward, in place,
  // caches and threads decide, too.

  // Whether a product is made of parts, for weights of such a size.
  bool MultipliesInParts(int64_t weight_rows, int64_t weight_columns) const {
    return kernels_.has_parts &&
           sequences_.shape_rows() >= bits::kMinPartsRows &&
           std::min(weight_rows, weight_columns) >= bits::kMinPartsWidth &&
           weight_rows * weight_columns >= bits::kMinPartsElements;
  }

  // Whether those of the steps are.
  bool RecursInParts(Pass pass) const {
    const int64_t elements = d_.gates_size() * d_.output_size();
    int64_t max_elements = std::numeric_limits<int64_t>::max();
    int64_t min_steps = bits::kMinPartsSteps;
    if (sequences_.batch() < bits::kManyPartsBatch) {
      if (pass == Pass::kForward) {
        max_elements = bits::kMaxPartsElementsForward;
      } else {
        // A GRU also splits two gradients.
        max_elements =
            d_.mode == CellMode::kGru ? 0 : bits::kMaxPartsElementsBackward;
      }
      min_steps = elements <= bits::kLargePartsElements
                      ? bits::kMinPartsStepsOfFewRows
                      : bits::kMinPartsStepsOfFewRowsIfLarge;
    }
    return sequences_.batch() >= bits::kMinPartsBatch &&
           sequences_.max_time() >= min_steps &&
           elements >= bits::kMinPartsRecurrentElements &&
           elements <= max_elements &&
           MultipliesInParts(d_.gates_size(), d_.output_size());
  }

  // W of a layer as forward's right operand.
  Route ForwardInputRoute(int64_t layer) const {
    const int64_t input_size = d_.layer_input_size(layer);
    if (MayReadInputInPlace() && IsSmallCall()) {
      return is_keras_ ? Route::kRowsInPlace : Route::kColumnsInPlace;
    }
    OperandShape w{Packed(MultipliesInParts(input_size, d_.gates_size())),
                   input_size, d_.gates_size()};
    w.route = InTurnIfUsedOnce(w, sequences_.num_valid_rows());
    return w.route;
  }

  // R as forward's right operand.
  Route ForwardRecurrentRoute() const {
    if (RecursInParts(Pass::kForward)) return Route::kParts;
    const int64_t P = d_.output_size();
    if (kernels_.operands_are_elements && P % kernels_.depth_step == 0 &&
        RecurrentBytes(/*in_parts=*/false) > MaxPackedRecurrentBytes()) {
      return is_keras_ ? Route::kRowsInPlace : Route::kColumnsInPlace;
    }
    // One step needs R once. Keras' rows would come in pieces of a panel:
    // nothing gained.
    if (!is_keras_ && sequences_.num_steps() == 1) {
      const int64_t units = kernels_.cell_units[static_cast<int>(d_.mode)];
      if (FitsInTurn(sequences_.active(0),
                     kernels_.PaddedDepth(P) * kernels_.operand_bytes,
                     (d_.hidden_size + units - 1) / units)) {
        return Route::kPackedInTurn;
      }
    }
    return Route::kPacked;
  }

  // W of a layer, transposed, as backward's right operand.
  Route BackwardInputRoute(int64_t layer) const {
    const int64_t input_size = d_.layer_input_size(layer);
    const bool in_parts = MultipliesInParts(d_.gates_size(), input_size);
    const int64_t rows = sequences_.num_valid_rows();
    if (MayReadGatesInPlace() &&
        rows <= MaxRowsInPlace(speed::kMaxRowsInPlace) && !in_parts) {
      return Route::kRowsInPlace;
    }
    OperandShape w{Packed(in_parts), d_.gates_size(), input_size,
                   d_.num_gates()};
    w.route = InTurnIfUsedOnce(w, rows);
    return w.route;
  }

  // R, transposed, as backward's right operand.
  Route BackwardRecurrentRoute() const {
    if (RecursInParts(Pass::kBackward)) return Route::kParts;
    const int64_t rows = sequences_.num_valid_rows();
    const int64_t steps = sequences_.num_steps();
    const int64_t max_rows = MaxRowsInPlace(
        steps == 1 ? speed::kMaxRowsInPlace : speed::kMaxRowsOfStepsInPlace);
    if (MayReadGatesInPlace() && steps <= speed::kMaxBackwardStepsInPlace &&
        rows <= max_rows) {
      return Route::kRowsInPlace;
    }
    OperandShape r{Route::kPacked, d_.gates_size(), d_.output_size()};
    // One step needs R once, for the gradient of the state before it.
    if (steps == 1) r.route = InTurnIfUsedOnce(r, rows);
    return r.route;
  }

  // The right operand of a matrix' gradient.
  Route GradientRoute(int64_t weight_rows, int64_t weight_columns) const {
    return Packed(MultipliesInParts(weight_rows, weight_columns));
  }

  // ---- Choices that change speed only ---------------------------------------

  // Directions do not depend on each other: each can be a thread's, without a
  // barrier at each step. More threads than directions are of use where steps
  // can be split.
  bool RunsDirectionsTogether(int num_threads) const {
    const int64_t step_work =
        2 * sequences_.batch() * d_.gates_size() * d_.output_size();
    return d_.num_directions == 2 &&
           sequences_.batch() <= speed::kMaxTogetherBatch &&
           RecurrentBytes(/*in_parts=*/false) <= speed::kMaxTogetherBytes &&
           num_threads >= 2 &&
           (num_threads == 2 || step_work < num_threads * speed::kMinTaskWork);
  }

  // Ranks are independent of each other within a chunk, so a batch that is
  // large enough is split once and its parts never wait for each other.
  // Otherwise, or if weights outgrow the caches and each part would fetch all
  // of them at each step, the steps themselves are split.
  int NumRankGroups(const StepRange& steps, bool in_parts, Pass pass) const {
    const int64_t weights_bytes = RecurrentBytes(in_parts);
    const int64_t rows_together =
        in_parts ? kPartsRowsTogether : kernels_.rows_together;
    const bool is_far = weights_bytes > core_cache_bytes_;
    int64_t min_ranks =
        is_far || in_parts ? speed::kManyRowsOfGroup : speed::kFewRowsOfGroup;
    int64_t good_ranks = in_parts ? rows_together : speed::kManyRowsOfGroup;
    if (!in_parts && rows_together > speed::kManyRowsOfGroup) {
      // Tile registers, which multiply faster than weights come.
      good_ranks = 2 * rows_together;
      if (is_far) {
        min_ranks = good_ranks;
      } else if (weights_bytes > core_cache_bytes_ / 4 * 3) {
        min_ranks = speed::kManyRowsOfGroup;
      }
    }
    const int64_t rows =
        sequences_.offset(steps.end) - sequences_.offset(steps.begin);
    const int64_t ranks = sequences_.active(steps.begin);
    const int64_t num_tasks =
        NumTasks(num_threads_, rows * 2 * d_.gates_size() * d_.output_size());
    const int64_t threads = std::min<int64_t>(num_tasks, num_threads_);
    if (weights_bytes > speed::kMaxGroupedBytes ||
        ranks < threads * min_ranks) {
      return 1;
    }
    // Forward, where panels are many, in parts: their weights come from far
    // more slowly than they are multiplied.
    if (in_parts && pass == Pass::kForward && is_far) return 1;
    // As many for each thread.
    const int64_t groups_per_thread = std::clamp<int64_t>(
        ranks / (threads * good_ranks), 1, num_tasks / threads);
    return static_cast<int>(threads * groups_per_thread);
  }

  // Between products in parts the cells of many rows come in a burst, and wait
  // for the lines that they write.
  bool SavesPastCaches(int64_t num_values) const {
    if (!kernels_.operands_are_elements || !RecursInParts(Pass::kForward)) {
      return false;
    }
    constexpr int64_t kLine = 64;
    const int64_t size = kernels_.element_bytes;
    const bool is_cache_full =
        RecurrentBytes(/*in_parts=*/true) > core_cache_bytes_;
    return num_values * size >= (is_cache_full ? speed::kMinBytesPastFullCaches
                                               : speed::kMinBytesPastCaches) &&
           d_.hidden_size * size % kLine == 0;
  }

  // The threads that work on a pseudo-layer, which others' choices depend on.
  void SetNumThreads(int num_threads) { num_threads_ = num_threads; }

 private:
  static Route Packed(bool in_parts) {
    return in_parts ? Route::kParts : Route::kPacked;
  }

  bool IsSmallCall() const {
    return sequences_.shape_rows() <= bits::kMaxSmallCallRows;
  }

  // Rows must be of whole steps of depth; upper layers' inputs are outputs.
  // Other calls have packed weights: so should Keras' rows have their bits.
  bool MayReadInputInPlace() const {
    const int64_t step = kernels_.depth_step;
    return kernels_.operands_are_elements && d_.output_size() % step == 0 &&
           d_.input_size % step == 0 &&
           (!is_keras_ || (kernels_.rows_have_bits_of_panels &&
                           sequences_.num_valid_rows() <=
                               MaxRowsInPlace(bits::kMaxSmallCallRows)));
  }

  // The limit for rows of B that are read from end to end.
  int64_t MaxRowsInPlace(int64_t max_rows) const {
    return kernels_.depth_step == 1
               ? max_rows
               : std::min(max_rows, speed::kMaxRowsInPlaceOfPairs);
  }

  bool MayReadGatesInPlace() const {
    return !is_keras_ && kernels_.operands_are_elements &&
           kernels_.rows_have_bits_of_panels &&
           d_.gates_size() % kernels_.depth_step == 0;
  }

  int64_t RecurrentBytes(bool in_parts) const {
    const OperandShape r{Packed(in_parts)};
    return d_.gates_size() * d_.output_size() * r.ElementBytes(kernels_);
  }

  // R of so many bytes is packed forward. Few steps do not pay for packing; nor
  // do few rows a step, where packed weights, too, would come from beyond a
  // core's cache.
  int64_t MaxPackedRecurrentBytes() const {
    if (IsSmallCall()) {
      if (sequences_.max_time() <= bits::kMaxStepsInPlace) return 0;
      return is_keras_ ? bits::kMaxPackedKerasBytes
                       : bits::kMaxPackedBytesOfFewRows;
    }
    if (is_keras_ || sequences_.batch() > 4) {
      return std::numeric_limits<int64_t>::max();
    }
    return sequences_.batch() == 4 ? bits::kMaxPackedBytesOfFourRows
                                   : bits::kMaxPackedBytesOfFewRows;
  }

  // Whether panels that one product needs are worth packing when their turn
  // comes, by the thread that multiplies `rows` with them: `row_bytes` of each
  // have to stay in its cache meanwhile.
  bool FitsInTurn(int64_t rows, int64_t row_bytes, int64_t num_panels) const {
    const bool has_enough_panels =
        num_threads_ == 1 ||
        num_panels >= speed::kMinPanelsPerThread * num_threads_;
    return has_enough_panels && rows * row_bytes <= core_cache_bytes_;
  }

  // The route of an operand, packed in its turn if that is better for the
  // product of `rows` with it, and the only one.
  Route InTurnIfUsedOnce(const OperandShape& b, int64_t rows) const {
    if (!is_single_chunk_) return b.route;
    const int64_t depth = b.PaddedDepth(kernels_);
    const int64_t element_bytes = b.ElementBytes(kernels_);
    const bool is_small = depth * b.columns * element_bytes <=
                          core_cache_bytes_ / speed::kSmallOperandShare;
    if (!FitsInTurn(rows, std::min(depth, kernels_.depth_block) * element_bytes,
                    kernels_.NumPanels(b.columns)) ||
        (is_small && rows > speed::kMaxRowsPackingSmall)) {
      return b.route;
    }
    return IsInParts(b.route) ? Route::kPartsInTurn : Route::kPackedInTurn;
  }

  const RnnDescriptor& d_;
  const Sequences& sequences_;
  const KernelShape& kernels_;
  const bool is_keras_;
  const bool is_single_chunk_;
  const int64_t core_cache_bytes_;
  int num_threads_ = 1;
};

// ---- What both passes begin with --------------------------------------------

Status Begin(const CallDescription& call, const KernelShape& kernels,
             bool has_reserve, PassPlan* plan) {
  const RnnDescriptor& d = call.descriptor;
  if (Status status = ParamsLayout::Create(d, &plan->params); !status.ok()) {
    return status;
  }
  if (call.weight_order == WeightOrder::kKeras &&
      (d.num_pseudo_layers() != 1 || d.has_projection() || d.skip_input)) {
    return Status::InvalidArgument(
        "weights in the order of Keras must be those of one layer in one "
        "direction without projection and skip_input, got num_layers = " +
        std::to_string(d.num_layers) +
        ", num_directions = " + std::to_string(d.num_directions) +
        ", num_proj = " + std::to_string(d.num_proj) + ", skip_input = " +
        std::to_string(d.skip_input) + "; convert them to params.");
  }
  if (has_reserve) {
    if (Status status =
            ReserveLayout::Create(d, *call.sequences, &plan->reserve);
        !status.ok()) {
      return status;
    }
  }
  plan->descriptor = d;
  plan->sequences = call.sequences;
  plan->weight_order = call.weight_order;
  plan->kernels = kernels;
  plan->max_chunk_rows = ChunkCuts(*call.sequences).max_rows();
  return Status();
}

Status SetScratchBytes(const ScratchBuilder& builder, PassPlan* plan) {
  plan->scratch_bytes = builder.bytes();
  if (plan->scratch_bytes >= 0) return Status();
  return Status::ResourceExhausted(
      "The scratch memory of this call needs more bytes than 64 bits can "
      "count; use a smaller batch or fewer time steps.");
}

// Layers that differ in what enters them: the first, and one of the others.
int64_t NumInputSizes(const RnnDescriptor& d) {
  return std::min<int64_t>(d.num_layers, 2);
}

// Bytes for any layer's W, [depth, columns] being made from what enters it.
template <typename ShapeOfLayer>
int64_t MaxInputBytes(const PassPlan& plan, ShapeOfLayer shape_of_layer) {
  int64_t bytes = 0;
  for (int64_t layer = 0; layer < NumInputSizes(plan.descriptor); ++layer) {
    if (!plan.descriptor.has_input_weights(layer)) continue;
    bytes = std::max(bytes, shape_of_layer(layer).Bytes(plan.kernels));
  }
  return bytes;
}

bool IsAnyInParts(const RnnDescriptor& d, const LayerRoutes& routes) {
  return IsInParts(routes.first) ||
         (d.num_layers > 1 && IsInParts(routes.upper));
}

// ---- Scratch ----------------------------------------------------------------

void TakeForwardPseudoLayer(const ForwardPlan& plan, bool is_single_chunk,
                            ScratchBuilder& builder,
                            ForwardScratch::PseudoLayer* s) {
  const RnnDescriptor& d = plan.descriptor;
  const KernelShape& k = plan.kernels;
  const int64_t B = plan.sequences->batch();
  const int64_t H = d.hidden_size;
  const int64_t P = d.output_size();
  const int64_t chunk = plan.max_chunk_rows;
  const int64_t widest_input = plan.widest_input();
  const bool recurs_in_parts = IsInParts(plan.recurrent_route);

  // Of a single chunk the input product comes before all steps.
  builder.TakeOverlaid(
      is_single_chunk,
      [&] {
        s->input_weights = builder.Take(
            MaxInputBytes(plan,
                          [&](int64_t layer) {
                            return OperandShape{
                                plan.input_route.of_layer(layer),
                                d.layer_input_size(layer), d.gates_size()};
                          }),
            1);
      },
      [&] {
        if (recurs_in_parts) {
          for (int gate = 0; gate < d.num_gates(); ++gate) {
            s->recurrent_weights[gate] =
                builder.Take(OperandShape{Route::kParts, P, H}.Bytes(k), 1);
          }
        } else if (!IsInPlace(plan.recurrent_route)) {
          const int64_t units = k.cell_units[static_cast<int>(d.mode)];
          s->recurrent_weights[0] =
              builder.Take((H + units - 1) / units * units * d.num_gates() *
                               k.PaddedDepth(P),
                           k.operand_bytes);
        }
      });
  if (IsAnyInParts(d, plan.input_route)) {
    s->input_parts =
        builder.Take(LeftPartsBytes(chunk, PaddedPartsDepth(widest_input)), 1);
  }
  if (recurs_in_parts) {
    // Products begin with any row, and read whole registers.
    for (Block& parts : s->state_parts) {
      parts =
          builder.Take(LeftPartsBytes(B + kPartsRows, PaddedPartsDepth(P)), 1);
    }
  }
  if (recurs_in_parts || IsInPlace(plan.recurrent_route)) {
    s->recurrent_sums = builder.TakeRows(B, d.gates_size(), k.compute_bytes);
  }
  s->bias = builder.Take(d.gates_size(), k.compute_bytes);
  s->recurrent_new_bias = builder.Take(H, k.compute_bytes);
  s->input_rows = builder.TakePointers(chunk);
  s->input_staging =
      builder.Take(chunk * k.PaddedDepth(widest_input), k.operand_bytes);
  s->input_gates = builder.TakeRows(chunk, d.gates_size(), k.compute_bytes);
  s->h_rows = builder.TakePointers(B + chunk);
  s->h_values =
      builder.Take(plan.num_h_rows() * k.PaddedDepth(P), k.operand_bytes);
  if (d.mode == CellMode::kLstm) s->c = builder.Take(B * H, k.compute_bytes);
  if (d.has_projection()) {
    s->projection =
        builder.Take(OperandShape{plan.projection_route, H, P}.Bytes(k), 1);
    s->m = builder.TakeRows(B, k.PaddedDepth(H), k.operand_bytes);
    if (k.rounds_operands()) {
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

void TakeForward(bool is_single_chunk, ScratchBuilder& builder,
                 ForwardPlan* plan) {
  const RnnDescriptor& d = plan->descriptor;
  ForwardScratch& s = plan->scratch;
  if (!plan->has_reserve) {
    const int64_t size =
        plan->sequences->num_valid_rows() * d.num_directions * d.output_size();
    for (int64_t i = 0; i < NumInputSizes(d) + (d.num_layers > 2) - 1; ++i) {
      s.layer_outputs[i] = builder.Take(size, plan->kernels.element_bytes);
    }
  }
  const int count = plan->directions_together ? 2 : 1;
  for (int i = 0; i < count; ++i) {
    TakeForwardPseudoLayer(*plan, is_single_chunk, builder,
                           &s.pseudo_layers[i]);
  }
}

// Operands of the products that give the gradients of weights.
void TakeGradientProducts(const BackwardPlan& plan, ScratchBuilder& builder,
                          BackwardScratch::PseudoLayer* s) {
  const RnnDescriptor& d = plan.descriptor;
  const KernelShape& k = plan.kernels;
  const int64_t chunk = plan.max_chunk_rows;
  const bool is_keras = plan.weight_order == WeightOrder::kKeras;
  const int64_t features = std::max(plan.widest_input(), d.hidden_size);
  const int64_t left_columns = is_keras ? features : d.gates_size();
  const int64_t right_columns = is_keras ? d.gates_size() : features;
  const bool in_parts = IsAnyInParts(d, plan.input_gradient_route) ||
                        IsInParts(plan.recurrent_gradient_route) ||
                        IsInParts(plan.projection_gradient_route);
  const OperandShape right{in_parts ? Route::kParts : Route::kPacked, chunk,
                           right_columns};
  s->product_right = builder.Take(right.Bytes(k), 1);
  s->product_left =
      builder.TakeRows(left_columns, k.PaddedDepth(chunk), k.operand_bytes);
  if (in_parts) {
    s->product_left_parts =
        builder.Take(LeftPartsBytes(left_columns, PaddedPartsDepth(chunk)), 1);
  }
  s->product_rows = builder.TakePointers(left_columns);
}

void TakeBackwardPseudoLayer(const BackwardPlan& plan, bool is_single_chunk,
                             ScratchBuilder& builder,
                             BackwardScratch::PseudoLayer* s) {
  const RnnDescriptor& d = plan.descriptor;
  const KernelShape& k = plan.kernels;
  const int64_t B = plan.sequences->batch();
  const int64_t H = d.hidden_size;
  const int64_t P = d.output_size();
  const int64_t chunk = plan.max_chunk_rows;
  const int64_t gates_size = d.gates_size();
  const bool recurs_in_parts = IsInParts(plan.recurrent_route);

  // Of a single chunk all products with R come first, then those that give the
  // gradients of weights, then that with W.
  builder.TakeOverlaid(
      is_single_chunk,
      [&] {
        s->recurrent_weights = builder.Take(
            OperandShape{plan.recurrent_route, gates_size, P, d.num_gates()}
                .Bytes(k),
            1);
      },
      [&] { TakeGradientProducts(plan, builder, s); },
      [&] {
        s->input_weights = builder.Take(
            MaxInputBytes(plan,
                          [&](int64_t layer) {
                            return OperandShape{
                                plan.input_route.of_layer(layer), gates_size,
                                d.layer_input_size(layer), d.num_gates()};
                          }),
            1);
      });
  s->input_rows = builder.TakePointers(chunk);
  s->input_staging =
      builder.Take(chunk * k.PaddedDepth(plan.widest_input()), k.operand_bytes);
  s->h_rows = builder.TakePointers(B + chunk);
  s->h_prev_rows = builder.TakePointers(chunk);
  s->dy_rows = builder.TakePointers(chunk);
  s->dx_rows = builder.TakePointers(chunk);

  const bool is_gru = d.mode == CellMode::kGru;
  const auto take_dgates = [&](RowsBlock* exact, RowsBlock* rounded) {
    *exact = builder.TakeRows(chunk, gates_size, k.compute_bytes);
    if (k.rounds_operands()) {
      *rounded =
          builder.TakeRows(chunk, k.PaddedDepth(gates_size), k.operand_bytes);
    }
  };
  take_dgates(&s->dgates, &s->rounded_dgates);
  if (is_gru) take_dgates(&s->recurrent_dgates, &s->rounded_recurrent_dgates);
  const int64_t parts_bytes =
      LeftPartsBytes(chunk + kPartsRows, PartsDepth{d.num_gates(), H}.padded());
  if (recurs_in_parts || IsAnyInParts(d, plan.input_route)) {
    s->dgates_parts = builder.Take(parts_bytes, 1);
  }
  if (recurs_in_parts && is_gru) {
    s->recurrent_dgates_parts = builder.Take(parts_bytes, 1);
  }

  s->dh = builder.TakeRows(B, P, k.compute_bytes);
  if (d.mode == CellMode::kLstm) {
    s->dc = builder.Take(B * H, k.compute_bytes);
    s->c_prev_rows = builder.TakePointers(chunk);
  }
  if (ReservedRowSize(d) > 0) s->saved_rows = builder.TakePointers(chunk);
  if (d.has_projection()) {
    s->projection =
        builder.Take(OperandShape{plan.projection_route, P, H}.Bytes(k), 1);
    s->dh_total = builder.TakeRows(chunk, k.PaddedDepth(P), k.operand_bytes);
    s->m = builder.TakeRows(chunk, H, k.operand_bytes);
    s->dm = builder.TakeRows(B, H, k.compute_bytes);
  }
  if (!k.operands_are_elements) {
    s->h_values = builder.Take((B + chunk) * P, k.operand_bytes);
    s->saved = builder.Take(chunk * ReservedRowSize(d), k.operand_bytes);
    if (d.mode == CellMode::kLstm) {
      s->c_prev = builder.Take(B * H, k.operand_bytes);
    }
  }
  if (k.rounds_results()) {
    s->dy_values = builder.Take(chunk * P, k.compute_bytes);
  }
}

void TakeBackward(bool is_single_chunk, ScratchBuilder& builder,
                  BackwardPlan* plan) {
  const RnnDescriptor& d = plan->descriptor;
  const KernelShape& k = plan->kernels;
  BackwardScratch& s = plan->scratch;
  const int64_t valid_rows = plan->sequences->num_valid_rows();
  if (k.rounds_results()) {
    s.weight_gradients = builder.Take(plan->params.size(), k.compute_bytes);
    s.input_gradient = builder.Take(valid_rows * d.input_size, k.compute_bytes);
  }
  TakeBackwardPseudoLayer(*plan, is_single_chunk, builder, &s.pseudo_layer);
  const int64_t layer_size = valid_rows * d.num_directions * d.output_size();
  for (int64_t i = 0; i < std::min<int64_t>(2, d.num_layers - 1); ++i) {
    s.layer_gradients[i] = builder.Take(layer_size, k.compute_bytes);
  }
}

}  // namespace

// ---- Plans ------------------------------------------------------------------

int64_t PassPlan::widest_input() const {
  return std::max(descriptor.layer_input_size(0),
                  descriptor.layer_input_size(descriptor.num_layers - 1));
}

Status ForwardPlan::Create(const CallDescription& call, bool has_reserve,
                           const Machine& machine, ForwardPlan* plan) {
  return Create(call, has_reserve, machine, KernelShape::Of(call.element_type),
                plan);
}

Status ForwardPlan::Create(const CallDescription& call, bool has_reserve,
                           const Machine& machine, const KernelShape& kernels,
                           ForwardPlan* plan) {
  *plan = {};
  if (Status status = Begin(call, kernels, has_reserve, plan); !status.ok()) {
    return status;
  }
  const RnnDescriptor& d = plan->descriptor;
  const Sequences& sequences = *plan->sequences;
  plan->has_reserve = has_reserve;
  plan->num_threads =
      ForwardWork(d, sequences) < speed::kMinTeamWork ? 1 : machine.num_threads;

  Choices choices(*plan, machine);
  plan->directions_together = choices.RunsDirectionsTogether(plan->num_threads);
  if (plan->directions_together) plan->num_threads = 1;
  choices.SetNumThreads(plan->num_threads);
  if (sequences.num_valid_rows() > 0) {
    plan->input_route = {choices.ForwardInputRoute(0),
                         choices.ForwardInputRoute(d.num_layers - 1)};
    plan->recurrent_route = choices.ForwardRecurrentRoute();
    plan->saves_past_caches =
        plan->keeps_activations() &&
        choices.SavesPastCaches(sequences.num_valid_rows() *
                                ReservedRowSize(d));
  }
  const ChunkCuts cuts(sequences);
  for (StepRange steps{0, 0}; steps.end < sequences.num_steps();) {
    steps = cuts.From(steps.end);
    // A step that packs R itself does so once, for all ranks.
    const int num_rank_groups =
        IsInTurn(plan->recurrent_route)
            ? 1
            : choices.NumRankGroups(steps, IsInParts(plan->recurrent_route),
                                    Pass::kForward);
    plan->chunks.push_back({steps, num_rank_groups});
  }
  ScratchBuilder builder;
  TakeForward(choices.is_single_chunk(), builder, plan);
  return SetScratchBytes(builder, plan);
}

Status BackwardPlan::Create(const CallDescription& call, const Machine& machine,
                            BackwardPlan* plan) {
  return Create(call, machine, KernelShape::Of(call.element_type), plan);
}

Status BackwardPlan::Create(const CallDescription& call, const Machine& machine,
                            const KernelShape& kernels, BackwardPlan* plan) {
  *plan = {};
  if (Status status = Begin(call, kernels, /*has_reserve=*/true, plan);
      !status.ok()) {
    return status;
  }
  const RnnDescriptor& d = plan->descriptor;
  const Sequences& sequences = *plan->sequences;
  plan->num_threads = 2 * ForwardWork(d, sequences) < speed::kMinTeamWork
                          ? 1
                          : machine.num_threads;

  Choices choices(*plan, machine);
  choices.SetNumThreads(plan->num_threads);
  if (sequences.num_valid_rows() > 0) {
    const int64_t last = d.num_layers - 1;
    const int64_t gates_size = d.gates_size();
    plan->input_route = {choices.BackwardInputRoute(0),
                         choices.BackwardInputRoute(last)};
    plan->recurrent_route = choices.BackwardRecurrentRoute();
    plan->input_gradient_route = {
        choices.GradientRoute(gates_size, d.layer_input_size(0)),
        choices.GradientRoute(gates_size, d.layer_input_size(last))};
    plan->recurrent_gradient_route =
        choices.GradientRoute(gates_size, d.output_size());
    if (d.has_projection()) {
      plan->projection_gradient_route =
          choices.GradientRoute(d.output_size(), d.hidden_size);
    }
  }
  const ChunkCuts cuts(sequences);
  for (StepRange steps{sequences.num_steps(), 0}; steps.begin > 0;) {
    steps = cuts.Until(steps.begin);
    plan->chunks.push_back(
        {steps, choices.NumRankGroups(steps, IsInParts(plan->recurrent_route),
                                      Pass::kBackward)});
  }
  ScratchBuilder builder;
  TakeBackward(choices.is_single_chunk(), builder, plan);
  return SetScratchBytes(builder, plan);
}

// ---- What the log says ------------------------------------------------------

namespace {

void DescribeCall(const PassPlan& plan, const char* pass,
                  std::ostringstream& out) {
  constexpr const char* kModeNames[] = {"relu", "tanh", "lstm", "gru"};
  const RnnDescriptor& d = plan.descriptor;
  const Sequences& s = *plan.sequences;
  out << pass << ' ' << kModeNames[static_cast<int>(d.mode)] << ' '
      << ElementTypeName(plan.kernels.element_type) << ' '
      << plan.kernels.instruction_set << " T=" << s.max_time()
      << " B=" << s.batch() << " valid_rows=" << s.num_valid_rows()
      << " I=" << d.input_size << " H=" << d.hidden_size;
  if (d.has_projection()) out << " P=" << d.output_size();
  out << " L=" << d.num_layers << " D=" << d.num_directions;
  if (d.skip_input) out << " skip_input";
  out << " weights="
      << (plan.weight_order == WeightOrder::kKeras ? "keras" : "params");
}

void DescribeChoices(const PassPlan& plan, std::ostringstream& out) {
  const RnnDescriptor& d = plan.descriptor;
  out << " | W=";
  if (d.has_input_weights(0)) {
    out << RouteName(plan.input_route.first);
  } else {
    out << "none";
  }
  if (d.num_layers > 1) out << ',' << RouteName(plan.input_route.upper);
  out << " R=" << RouteName(plan.recurrent_route)
      << " chunks=" << plan.chunks.size();
  if (!plan.chunks.empty()) {
    out << " rank_groups=" << plan.chunks.front().num_rank_groups;
  }
  out << " threads=" << plan.num_threads;
}

void DescribeScratch(const PassPlan& plan, std::ostringstream& out) {
  out << " scratch_bytes=" << plan.scratch_bytes;
}

}  // namespace

std::string Describe(const ForwardPlan& plan) {
  std::ostringstream out;
  DescribeCall(plan, plan.has_reserve ? "training" : "inference", out);
  DescribeChoices(plan, out);
  if (plan.directions_together) out << " directions=together";
  if (plan.saves_past_caches) out << " activations=past_caches";
  DescribeScratch(plan, out);
  return out.str();
}

std::string Describe(const BackwardPlan& plan) {
  std::ostringstream out;
  DescribeCall(plan, "backward", out);
  DescribeChoices(plan, out);
  out << " dW=" << RouteName(plan.input_gradient_route.first)
      << " dR=" << RouteName(plan.recurrent_gradient_route);
  DescribeScratch(plan, out);
  return out.str();
}

}  // namespace rnn
