#include "kernels/engine/plan/plan.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "kernels/engine/plan/choices.h"
#include "kernels/engine/plan/chunks.h"
#include "kernels/engine/plan/scratch_sizes.h"
#include "kernels/engine/thresholds.h"

namespace rnn {

namespace {

// ---- What both passes begin with --------------------------------------------

// Rows of int8 weights may not be as long as others.
Status LayOutInt8(const CallDescription& call, bool has_reserve,
                  Int8Layout* layout) {
  if (call.element_type != ElementType::kFloat || has_reserve) {
    return Status::InvalidArgument(
        "weights in int8 serve inference in float32; there are no gradients, "
        "and no other types.");
  }
  return Int8Layout::Create(call.descriptor, layout);
}

Status CheckWeightOrder(const CallDescription& call) {
  const RnnDescriptor& d = call.descriptor;
  if (call.weight_order != WeightOrder::kKeras ||
      (d.num_layers == 1 && !d.has_projection() && !d.skip_input)) {
    return Status();
  }
  return Status::InvalidArgument(
      "weights in the order of Keras must be those of one layer without "
      "projection and skip_input, got num_layers = " +
      std::to_string(d.num_layers) +
      ", num_proj = " + std::to_string(d.num_proj) + ", skip_input = " +
      std::to_string(d.skip_input) + "; convert them to params.");
}

Status CheckRepeats(const CallDescription& call) {
  if (!call.repeats_outputs || call.descriptor.num_directions == 1) {
    return Status();
  }
  return Status::InvalidArgument(
      "outputs can be repeated in padding of one direction only, got "
      "num_directions = " +
      std::to_string(call.descriptor.num_directions) + ".");
}

// Whatever a pass keeps has no more values than params have, or rows of the
// widest layer, times a few hundred for what pads them. Up to these many, which
// no machine has memory for, sizes in bytes do not overflow.
Status CheckSizes(const PassPlan& plan) {
  constexpr double kMaxValues = int64_t{1} << 46;
  const RnnDescriptor& d = plan.descriptor;
  const int64_t rows =
      std::max(plan.sequences->batch(), plan.sequences->num_valid_rows());
  const int64_t width =
      std::max({plan.widest_input(), d.num_directions * d.output_size(),
                d.gates_size()});
  if (plan.params.size() <= kMaxValues &&
      static_cast<double>(rows) * width <= kMaxValues) {
    return Status();
  }
  return Status::ResourceExhausted(
      "this call needs more memory than any machine has: params have " +
      std::to_string(plan.params.size()) + " elements, and " +
      std::to_string(rows) + " rows (time steps times batch) have up to " +
      std::to_string(width) +
      " values each; use a smaller network, a smaller batch or fewer time "
      "steps.");
}

// All but threads, operands, chunks and scratch.
Status Begin(const CallDescription& call, const KernelShape& kernels,
             bool has_reserve, PassPlan* plan) {
  if (kernels.element_type != call.element_type) std::abort();
  const RnnDescriptor& d = call.descriptor;
  Status status = ParamsLayout::Create(d, &plan->params);
  if (!status.ok()) return status;
  if (status = CheckWeightOrder(call); !status.ok()) return status;
  if (call.weight_order == WeightOrder::kInt8) {
    status = LayOutInt8(call, has_reserve, &plan->int8);
    if (!status.ok()) return status;
  }
  if (status = CheckRepeats(call); !status.ok()) return status;
  plan->descriptor = d;
  plan->sequences = call.sequences;
  plan->repeats_outputs =
      call.repeats_outputs &&
      call.sequences->num_valid_rows() < call.sequences->shape_rows();
  plan->weight_order = call.weight_order;
  plan->kernels = kernels;
  if (status = CheckSizes(*plan); !status.ok()) return status;
  if (!has_reserve) return Status();
  return ReserveLayout::Create(d, *call.sequences, &plan->reserve);
}

// What products cost, in floating-point operations. Those of few rows cost as
// much as their weights take to come.
struct Work {
  double inputs = 0;               // W forward
  double steps = 0;                // R and the projection forward
  double recurrent_gradients = 0;  // of R, and of the projection
};

Work WorkOf(const PassPlan& plan) {
  const RnnDescriptor& d = plan.descriptor;
  const int64_t rows = plan.sequences->num_valid_rows();
  Work work;
  if (rows == 0) return work;
  const int64_t least_rows =
      plan.weight_order == WeightOrder::kInt8 ? 1 : speed::kLeastProductRows;
  const double rows_of_inputs = std::max(rows, least_rows);
  const double rows_of_steps =
      std::max(rows, least_rows * plan.sequences->num_steps());
  // In one direction.
  const auto inputs_of = [&](int64_t layer) -> int64_t {
    return d.has_input_weights(layer) ? d.layer_input_size(layer) : 0;
  };
  const double num_layers = d.num_layers;
  const double inputs =
      inputs_of(0) + (num_layers - 1) * static_cast<double>(inputs_of(1));
  const double weights_of_step =
      num_layers * (d.gates_size() * d.output_size() +
                    (d.has_projection() ? d.hidden_size * d.output_size() : 0));
  work.inputs =
      2.0 * d.num_directions * rows_of_inputs * d.gates_size() * inputs;
  work.steps = 2.0 * d.num_directions * rows_of_steps * weights_of_step;
  work.recurrent_gradients =
      2.0 * d.num_directions * static_cast<double>(rows) * weights_of_step;
  return work;
}

// Input sums, or their gradients, and outputs.
double ValuesOfRows(const PassPlan& plan) {
  const RnnDescriptor& d = plan.descriptor;
  return static_cast<double>(plan.sequences->num_valid_rows()) *
         d.num_pseudo_layers() * (d.gates_size() + d.output_size());
}

SharedWork ForwardWork(const PassPlan& plan, const Choices& choices,
                       int num_threads) {
  const Work work = WorkOf(plan);
  SharedWork shared;
  shared.operations =
      work.inputs + (choices.SplitsSteps(Pass::kForward) ? work.steps : 0);
  // Nearly all values of a direction that is one thread's stay with it, and all
  // of a part of the batch.
  if (!choices.RunsDirectionsTogether(num_threads) &&
      choices.NumBatchParts(Pass::kForward, num_threads) == 1) {
    shared.passed_values = ValuesOfRows(plan);
  }
  return shared;
}

SharedWork BackwardWork(const PassPlan& plan, const Choices& choices,
                        bool in_parts) {
  const Work work = WorkOf(plan);
  SharedWork shared;
  shared.operations = 2 * work.inputs + (choices.SplitsSteps(Pass::kBackward)
                                             ? 2 * work.steps
                                             : work.recurrent_gradients);
  if (!in_parts) {
    shared.passed_values = speed::kBackwardPasses * ValuesOfRows(plan);
  }
  return shared;
}

void SetChunkRows(int64_t rows_of_chunk, PassPlan* plan) {
  plan->rows_of_chunk = rows_of_chunk;
  plan->max_chunk_rows = ChunkCuts(*plan->sequences, rows_of_chunk).max_rows();
}

// Parts of the batch whose sums the sums over all rows are made of.
int NumGradientParts(const PassPlan& plan) {
  const Sequences& s = *plan.sequences;
  const bool is_halved = s.num_valid_rows() > 0 &&
                         s.batch() >= bits::kMinHalvedBatch &&
                         s.shape_rows() >= bits::kMinHalvedRows &&
                         plan.params.size() <= bits::kMaxHalvedParams;
  return is_halved ? bits::kGradientHalves : 1;
}

// Whether threads would take these parts, each one, rather than share each.
bool TakesGradientParts(const PassPlan& plan, const Choices& choices,
                        int num_threads) {
  return num_threads > 1 && num_threads == NumGradientParts(plan) &&
         choices.NumBatchParts(Pass::kBackward, num_threads) > 1;
}

// First rank of part `part` of so many: each gets as many valid rows.
int64_t FirstRankOfPart(const Sequences& sequences, int64_t num_parts,
                        int64_t part) {
  int64_t rank = 0;
  for (int64_t before = 0;
       rank < sequences.batch() &&
       before * num_parts < sequences.num_valid_rows() * part;
       ++rank) {
    before += sequences.length(rank);
  }
  return part == num_parts ? sequences.batch() : rank;
}

// The part of `whole`, whose weights are prepared, that has these ranks.
std::shared_ptr<const ForwardPart> PartOf(const ForwardPlan& whole,
                                          int64_t begin, int64_t end,
                                          int64_t rows_of_chunk) {
  auto part = std::make_shared<ForwardPart>();
  part->sequences = whole.sequences->OfRanks(begin, end);
  ForwardPlan& plan = part->plan;
  plan = whole;
  plan.sequences = &part->sequences;
  plan.weights_are_prepared = true;
  plan.num_threads = 1;
  SetChunkRows(rows_of_chunk, &plan);
  const ChunkCuts cuts(part->sequences, rows_of_chunk);
  for (StepRange steps{0, 0}; steps.end < part->sequences.num_steps();) {
    steps = cuts.From(steps.end);
    plan.chunks.push_back(ChunkPlan{steps});
  }
  SizeScratch(&plan);
  return part;
}

ChunkPlan PlanChunk(const Choices& choices, const StepRange& steps, Pass pass,
                    const PassPlan& plan) {
  ChunkPlan chunk;
  chunk.steps = steps;
  chunk.num_rank_groups = choices.NumRankGroups(
      steps, plan.recurrent_weights.route, pass, plan.num_threads);
  chunk.shares_steps = plan.num_threads > 1 && chunk.num_rank_groups == 1 &&
                       choices.SharesSteps(plan.sequences->active(steps.begin));
  return chunk;
}

// plan_of(layer) for the first layer and the others, as far as they have W.
template <typename PlanOf>
LayerOperands OfLayers(const RnnDescriptor& d, PlanOf plan_of) {
  LayerOperands operands;
  if (d.has_input_weights(0)) operands.first = plan_of(0);
  if (d.num_layers > 1) operands.upper = plan_of(1);
  return operands;
}

void ChooseOperands(const Choices& choices, ForwardPlan* plan) {
  const RnnDescriptor& d = plan->descriptor;
  if (plan->sequences->num_valid_rows() == 0) return;
  const int num_threads = plan->num_threads;
  plan->input_weights = OfLayers(d, [&](int64_t layer) {
    return choices.ForwardInput(layer, num_threads);
  });
  plan->recurrent_weights = choices.ForwardRecurrent(num_threads);
  if (d.has_projection()) {
    plan->projection = choices.Projection(Pass::kForward);
  }
}

void ChooseOperands(const Choices& choices, BackwardPlan* plan) {
  const RnnDescriptor& d = plan->descriptor;
  if (plan->sequences->num_valid_rows() == 0) return;
  const int num_threads = plan->num_threads;
  plan->input_weights = OfLayers(d, [&](int64_t layer) {
    return choices.BackwardInput(layer, num_threads);
  });
  plan->recurrent_weights = choices.BackwardRecurrent(num_threads);
  plan->input_weights_gradient = OfLayers(d, [&](int64_t layer) {
    return choices.GatesGradient(d.layer_input_size(layer));
  });
  plan->recurrent_weights_gradient = choices.GatesGradient(d.output_size());
  plan->gradient_chain = choices.GradientChain();
  if (d.has_projection()) {
    plan->projection = choices.Projection(Pass::kBackward);
    plan->projection_gradient = choices.ProjectionGradient();
  }
}

// The part of `whole`, which knows how one thread multiplies, that has these
// ranks. It has the same chunks, as far as it has rows.
std::shared_ptr<const BackwardPart> PartOf(const BackwardPlan& whole,
                                           const ChunkCuts& cuts, int64_t begin,
                                           int64_t end) {
  auto part = std::make_shared<BackwardPart>();
  part->sequences = whole.sequences->OfRanks(begin, end);
  const Sequences& sequences = part->sequences;
  BackwardPlan& plan = part->plan;
  plan = whole;
  plan.sequences = &sequences;
  plan.num_threads = 1;
  plan.part_begins = {0, end - begin};
  plan.max_chunk_rows = 0;
  for (StepRange steps{whole.sequences->num_steps(), 0}; steps.begin > 0;) {
    steps = cuts.Until(steps.begin);
    if (steps.begin >= sequences.num_steps()) continue;
    ChunkPlan chunk;
    chunk.steps = {steps.begin, std::min(steps.end, sequences.num_steps())};
    plan.chunks.push_back(chunk);
    plan.max_chunk_rows =
        std::max(plan.max_chunk_rows, sequences.offset(chunk.steps.end) -
                                          sequences.offset(chunk.steps.begin));
  }
  // Right operands of sums over rows are as deep as these.
  for (OperandPlan* operand :
       {&plan.input_weights_gradient.first, &plan.input_weights_gradient.upper,
        &plan.recurrent_weights_gradient, &plan.projection_gradient}) {
    operand->depth = std::min(operand->depth, plan.max_chunk_rows);
  }
  SizePartScratch(&plan);
  return part;
}

// Plans a call as its parts, a thread's each.
void TakeInParts(const Choices& choices, const ChunkCuts& cuts,
                 BackwardPlan* plan) {
  BackwardPlan whole = *plan;
  whole.num_threads = 1;
  ChooseOperands(choices, &whole);
  whole.num_threads = plan->num_threads;
  *plan = whole;
  for (int i = 0; i < plan->num_gradient_parts(); ++i) {
    plan->parts.push_back(
        PartOf(whole, cuts, plan->part_begins[i], plan->part_begins[i + 1]));
  }
  SizeScratch(plan);
}

// Plans a call as so many parts of its batch, unless it has too many weights.
bool TakeInParts(const CallDescription& call, const Machine& machine,
                 int num_parts, ForwardPlan* plan) {
  CallDescription prepared_call = call;
  prepared_call.weights_are_prepared = true;
  ForwardPlan whole = *plan;
  ChooseOperands(
      Choices(prepared_call, plan->rows_of_chunk, plan->kernels, machine),
      &whole);
  SizePreparedWeights(&whole);
  if (whole.prepared.bytes > speed::kMaxPartsWeightBytes) return false;
  *plan = whole;
  // Together they keep about as much as a chunk of all ranks.
  const int64_t rows_of_chunk =
      std::max(bits::kChunkRows / num_parts, speed::kMinPartChunkRows);
  for (int64_t i = 0; i < num_parts; ++i) {
    const int64_t begin = FirstRankOfPart(*plan->sequences, num_parts, i);
    const int64_t end = FirstRankOfPart(*plan->sequences, num_parts, i + 1);
    if (begin < end) {
      plan->parts.push_back(PartOf(whole, begin, end, rows_of_chunk));
    }
  }
  SizeScratch(plan);
  return true;
}

}  // namespace

// ---- Plans ------------------------------------------------------------------

int64_t PassPlan::widest_input() const {
  return std::max(descriptor.layer_input_size(0),
                  descriptor.layer_input_size(descriptor.num_layers - 1));
}

bool PassPlan::is_for(ElementType element_type) const {
  return kernels.element_type == element_type &&
         kernels.instruction_set ==
             KernelShape::Of(element_type).instruction_set;
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
  const Sequences& sequences = *plan->sequences;
  plan->has_reserve = has_reserve;
  plan->weights_are_prepared = call.weights_are_prepared;

  SetChunkRows(bits::kChunkRows, plan);
  const Choices choices(call, plan->rows_of_chunk, kernels, machine);
  plan->num_threads =
      choices.NumThreads(ForwardWork(*plan, choices, machine.num_threads));
  // Helpers who come to forward are mostly awake when backward calls them.
  if (has_reserve) {
    plan->num_threads =
        std::max(plan->num_threads,
                 choices.NumThreads(BackwardWork(
                     *plan, choices,
                     TakesGradientParts(*plan, choices, machine.num_threads))));
  }
  plan->directions_together = choices.RunsDirectionsTogether(plan->num_threads);
  if (plan->directions_together) plan->num_threads = 1;
  const int num_parts =
      plan->directions_together
          ? 1
          : choices.NumBatchParts(Pass::kForward, plan->num_threads);
  if (num_parts > 1 && TakeInParts(call, machine, num_parts, plan)) {
    return Status();
  }
  ChooseOperands(choices, plan);
  const ChunkCuts cuts(sequences, plan->rows_of_chunk);
  for (StepRange steps{0, 0}; steps.end < sequences.num_steps();) {
    steps = cuts.From(steps.end);
    plan->chunks.push_back(PlanChunk(choices, steps, Pass::kForward, *plan));
  }
  // Nothing is multiplied where there are no valid rows.
  if (plan->weights_are_prepared && sequences.num_valid_rows() > 0) {
    SizePreparedWeights(plan);
  }
  SizeScratch(plan);
  return Status();
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
  const Sequences& sequences = *plan->sequences;

  const int num_parts = NumGradientParts(*plan);
  plan->part_begins.clear();
  for (int i = 0; i <= num_parts; ++i) {
    plan->part_begins.push_back(FirstRankOfPart(sequences, num_parts, i));
  }
  SetChunkRows(bits::kChunkRows * num_parts, plan);
  const ChunkCuts cuts(sequences, plan->rows_of_chunk);
  const Choices choices(call, plan->rows_of_chunk, kernels, machine);
  const bool in_parts = TakesGradientParts(*plan, choices, machine.num_threads);
  plan->num_threads =
      choices.NumThreads(BackwardWork(*plan, choices, in_parts));
  if (in_parts && plan->num_threads > 1) {
    TakeInParts(choices, cuts, plan);
    return Status();
  }
  ChooseOperands(choices, plan);
  for (StepRange steps{sequences.num_steps(), 0}; steps.begin > 0;) {
    steps = cuts.Until(steps.begin);
    plan->chunks.push_back(PlanChunk(choices, steps, Pass::kBackward, *plan));
  }
  SizeScratch(plan);
  return Status();
}

}  // namespace rnn
