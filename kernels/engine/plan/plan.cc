#include "kernels/engine/plan/plan.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "kernels/engine/plan/choices.h"
#include "kernels/engine/plan/chunks.h"
#include "kernels/engine/plan/rank_shares.h"
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
      std::max({d.widest_input(), d.layer_output_size(), d.gates_size()});
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
      LeastProductRows(plan.kernels, plan.weight_order == WeightOrder::kInt8);
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

// Forward prepares the weights of all layers for its parts.
bool TakesForwardParts(const PassPlan& plan, const Choices& choices,
                       int num_threads) {
  return plan.params.size() * plan.kernels.operand_bytes <=
             speed::kMaxBatchPartsWeightBytes &&
         choices.TakesBatchParts(Pass::kForward, num_threads);
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
      !TakesForwardParts(plan, choices, num_threads)) {
    shared.passed_values = ValuesOfRows(plan);
  }
  return shared;
}

SharedWork BackwardWork(const PassPlan& plan, const Choices& choices,
                        bool takes_halves_apart) {
  const Work work = WorkOf(plan);
  SharedWork shared;
  shared.operations = 2 * work.inputs + (choices.SplitsSteps(Pass::kBackward)
                                             ? 2 * work.steps
                                             : work.recurrent_gradients);
  if (!takes_halves_apart) {
    shared.passed_values = speed::kBackwardPassedValues * ValuesOfRows(plan);
  }
  return shared;
}

// Halves of the batch whose sums gradients of weights are, or 1.
int NumHalves(const PassPlan& plan) {
  const Sequences& s = *plan.sequences;
  const bool is_halved = s.num_valid_rows() > 0 &&
                         s.batch() >= bits::kMinHalvedBatch &&
                         s.shape_rows() >= bits::kMinHalvedRows &&
                         plan.params.size() <= bits::kMaxHalvedParams;
  return is_halved ? bits::kGradientHalves : 1;
}

// How threads share a backward pass.
struct BackwardThreads {
  int num_threads;
  bool take_halves_apart;  // one each, rather than sharing both
};

BackwardThreads ChooseBackwardThreads(const CallDescription& call,
                                      const Machine& machine,
                                      const PassPlan& plan) {
  const int num_halves = NumHalves(plan);
  const auto choose = [&](int num_threads, bool take_halves_apart) {
    Machine for_pass = machine;
    for_pass.num_threads = num_threads;
    const Choices choices(call, bits::kChunkRows * num_halves, plan.kernels,
                          for_pass);
    BackwardThreads threads{1, false};
    if (!take_halves_apart ||
        choices.TakesBatchParts(Pass::kBackward, num_threads)) {
      threads.num_threads =
          choices.NumThreads(BackwardWork(plan, choices, take_halves_apart));
    }
    threads.take_halves_apart = take_halves_apart && threads.num_threads > 1;
    return threads;
  };
  const BackwardThreads sharing = choose(machine.num_threads, false);
  if (num_halves == 1 || machine.num_threads < num_halves) return sharing;
  // More threads than halves share these, unless values that would pass between
  // them cost more than that saves.
  if (machine.num_threads > num_halves && sharing.num_threads > 1) {
    return sharing;
  }
  const BackwardThreads apart = choose(num_halves, true);
  return apart.take_halves_apart ? apart : sharing;
}

ChunkPlan PlanChunk(const Choices& choices, const StepRange& steps, Pass pass,
                    const PassPlan& plan) {
  ChunkPlan chunk;
  chunk.steps = steps;
  chunk.num_rank_groups = choices.NumRankGroups(
      steps, plan.recurrent_weights.route, pass, plan.num_threads);
  if (chunk.num_rank_groups == 1) {
    const int64_t ranks = plan.sequences->active(steps.begin);
    chunk.num_step_threads = choices.NumStepThreads(ranks, plan.num_threads);
    chunk.in_lockstep =
        chunk.shares_steps() && steps.count() > 1 &&
        choices.TakesStepsInLockstep(ranks, chunk.num_step_threads);
  }
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

// Of products that so many threads share.
void ChooseOperands(const Choices& choices, int num_threads,
                    ForwardPlan* plan) {
  const RnnDescriptor& d = plan->descriptor;
  if (plan->sequences->num_valid_rows() == 0) return;
  plan->input_weights = OfLayers(d, [&](int64_t layer) {
    return choices.ForwardInput(layer, num_threads);
  });
  plan->recurrent_weights = choices.ForwardRecurrent(num_threads);
  plan->reads_whole_rows =
      choices.ReadsWholeRows(plan->recurrent_weights.route);
  if (d.has_projection()) {
    plan->projection = choices.Projection(Pass::kForward);
  }
}

void ChooseOperands(const Choices& choices, int num_threads,
                    BackwardPlan* plan) {
  const RnnDescriptor& d = plan->descriptor;
  if (plan->sequences->num_valid_rows() == 0) return;
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

// Cuts time into chunks of about so many valid rows, chunk_of(steps) each.
template <typename ChunkOf>
void CutForward(int64_t rows_of_chunk, ForwardPlan* plan, ChunkOf chunk_of) {
  const Sequences& sequences = *plan->sequences;
  const ChunkCuts cuts(sequences, rows_of_chunk);
  plan->max_chunk_rows = cuts.max_rows();
  for (StepRange steps{0, 0}; steps.end < sequences.num_steps();) {
    steps = cuts.From(steps.end);
    plan->chunks.push_back(chunk_of(steps));
  }
}

// ---- Parts of the batch -----------------------------------------------------

// The part of `whole`, which has chosen its operands, that has these ranks. One
// thread takes it.
template <typename Plan>
std::shared_ptr<BatchPart<Plan>> PartOf(const Plan& whole, int64_t begin,
                                        int64_t end) {
  auto part = std::make_shared<BatchPart<Plan>>();
  part->sequences = whole.sequences->OfRanks(begin, end);
  part->plan = whole;
  part->plan.sequences = &part->sequences;
  part->plan.num_threads = 1;
  return part;
}

// Plans a call as so many parts of its batch.
void PlanBatchParts(const CallDescription& call, const Machine& machine,
                    int num_parts, ForwardPlan* plan) {
  CallDescription prepared_call = call;
  prepared_call.weights_are_prepared = true;
  const Choices choices(prepared_call, bits::kChunkRows, plan->kernels,
                        machine);
  ChooseOperands(choices, num_parts, plan);
  SizePreparedWeights(plan);
  const ForwardPlan whole = *plan;
  // Together they keep about as much as a chunk of all ranks.
  const int64_t rows_of_chunk =
      std::max(bits::kChunkRows / num_parts, speed::kMinBatchPartChunkRows);
  const std::vector<int64_t> begins = DivideRanks(*plan->sequences, num_parts);
  for (int i = 0; i < num_parts; ++i) {
    const auto part = PartOf(whole, begins[i], begins[i + 1]);
    part->plan.weights_are_prepared = true;
    CutForward(rows_of_chunk, &part->plan, [](const StepRange& steps) {
      ChunkPlan chunk;
      chunk.steps = steps;
      return chunk;
    });
    SizeScratch(&part->plan);
    plan->parts.push_back(part);
  }
  SizeScratch(plan);
}

// Gives a half of the batch the chunks of the whole, as far as it has rows: by
// them gradients of weights are summed.
void CutAsWhole(const ChunkCuts& cuts, int64_t num_steps, BackwardPlan* half) {
  const Sequences& sequences = *half->sequences;
  half->max_chunk_rows = 0;
  for (StepRange steps{num_steps, 0}; steps.begin > 0;) {
    steps = cuts.Until(steps.begin);
    if (steps.begin >= sequences.num_steps()) continue;
    ChunkPlan chunk;
    chunk.steps = {steps.begin, std::min(steps.end, sequences.num_steps())};
    half->chunks.push_back(chunk);
    half->max_chunk_rows =
        std::max(half->max_chunk_rows, sequences.offset(chunk.steps.end) -
                                           sequences.offset(chunk.steps.begin));
  }
}

// Plans a call as its halves, a thread's each.
void PlanHalves(const Choices& choices, const ChunkCuts& cuts,
                BackwardPlan* plan) {
  ChooseOperands(choices, /*num_threads=*/1, plan);
  const BackwardPlan whole = *plan;
  for (int i = 0; i < whole.num_halves(); ++i) {
    const auto part =
        PartOf(whole, whole.half_begins[i], whole.half_begins[i + 1]);
    BackwardPlan& half = part->plan;
    half.half_begins = {0, part->sequences.batch()};
    CutAsWhole(cuts, whole.sequences->num_steps(), &half);
    // Right operands of sums over rows are as deep as these.
    for (OperandPlan* operand :
         {&half.input_weights_gradient.first,
          &half.input_weights_gradient.upper, &half.recurrent_weights_gradient,
          &half.projection_gradient}) {
      operand->depth = std::min(operand->depth, half.max_chunk_rows);
    }
    SizeHalfScratch(&half);
    plan->parts.push_back(part);
  }
  SizeScratch(plan);
}

}  // namespace

// ---- Plans ------------------------------------------------------------------

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

  const Choices choices(call, bits::kChunkRows, kernels, machine);
  plan->num_threads =
      choices.NumThreads(ForwardWork(*plan, choices, machine.num_threads));
  // Helpers who come to forward are mostly awake when backward calls them.
  if (has_reserve) {
    plan->num_threads =
        std::max(plan->num_threads,
                 ChooseBackwardThreads(call, machine, *plan).num_threads);
  }
  plan->directions_together = choices.RunsDirectionsTogether(plan->num_threads);
  if (plan->directions_together) plan->num_threads = 1;
  if (TakesForwardParts(*plan, choices, plan->num_threads)) {
    PlanBatchParts(call, machine, plan->num_threads, plan);
    return Status();
  }
  ChooseOperands(choices, plan->num_threads, plan);
  CutForward(bits::kChunkRows, plan, [&](const StepRange& steps) {
    return PlanChunk(choices, steps, Pass::kForward, *plan);
  });
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

  const int num_halves = NumHalves(*plan);
  plan->half_begins = DivideRanks(sequences, num_halves);
  const int64_t rows_of_chunk = bits::kChunkRows * num_halves;
  const BackwardThreads threads = ChooseBackwardThreads(call, machine, *plan);
  plan->num_threads = threads.num_threads;
  const ChunkCuts cuts(sequences, rows_of_chunk);
  plan->max_chunk_rows = cuts.max_rows();
  const Choices choices(call, rows_of_chunk, kernels, machine);
  if (threads.take_halves_apart) {
    PlanHalves(choices, cuts, plan);
    return Status();
  }
  ChooseOperands(choices, plan->num_threads, plan);
  for (StepRange steps{sequences.num_steps(), 0}; steps.begin > 0;) {
    steps = cuts.Until(steps.begin);
    plan->chunks.push_back(PlanChunk(choices, steps, Pass::kBackward, *plan));
  }
  SizeScratch(plan);
  return Status();
}

}  // namespace rnn
