// All choices of a call, made once, before anything runs, but for how each
// product is shared among the threads that have come (threads/parallel.h).
//
// A plan is a value, but for the sequences, which it borrows: they must outlive
// it, and its copies. (Parts own theirs; copies share parts.) It follows from
// the network, the sequences, the type of elements, the order of weights, the
// instruction set and the machine; it reads no data. Making one may fail, and
// throws std::bad_alloc or std::length_error where there is no memory for it;
// running it cannot fail.
#ifndef KERNELS_ENGINE_PLAN_PLAN_H_
#define KERNELS_ENGINE_PLAN_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/engine/plan/kernel_shape.h"
#include "kernels/engine/plan/machine.h"
#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/plan/scratch.h"
#include "kernels/engine/plan/step_range.h"
#include "kernels/engine/thresholds.h"
#include "network/descriptor.h"
#include "network/element_types.h"
#include "network/int8_weights.h"
#include "network/params_layout.h"
#include "network/reserve_layout.h"
#include "network/sequences.h"
#include "network/status.h"
#include "network/weights.h"

namespace rnn {

// A call, apart from its data.
struct CallDescription {
  RnnDescriptor descriptor;
  const Sequences* sequences = nullptr;  // must outlive the plan
  ElementType element_type = ElementType::kFloat;
  // Weights in the order of Keras are those of one layer, which neither
  // projects nor skips its input.
  WeightOrder weight_order = WeightOrder::kParams;
  // Forward: whether PrepareWeights() (engine.h) comes before the call, once
  // for many of them. Results have the same bits.
  bool weights_are_prepared = false;
  // Whether padding has the output of the valid step before it, in the order of
  // steps, and not zeros; for one direction.
  bool repeats_outputs = false;
};

// Rows that a product counts as at least. Those of int8 weights may keep up
// with one; else multiplying takes as long as weights of floats take to come.
inline int64_t LeastProductRows(const KernelShape& kernels, bool are_int8) {
  return are_int8 && kernels.int8_keeps_up ? 1 : speed::kLeastProductRows;
}

// A chunk of time, and how its steps are shared.
struct ChunkPlan {
  StepRange steps;
  // Groups of its rows, each a thread's, which never wait for each other.
  int num_rank_groups = 1;
  // Threads that share each step of the only group, 1 if a thread takes it
  // alone. A step that is shared and not in lockstep may have tasks for all.
  int num_step_threads = 1;
  // Whether these take the steps in lockstep, or come together for each.
  bool in_lockstep = false;

  bool shares_steps() const { return num_step_threads > 1; }
};

// What both passes have.
struct PassPlan {
  RnnDescriptor descriptor;
  const Sequences* sequences = nullptr;  // the call's, or its part's
  WeightOrder weight_order = WeightOrder::kParams;
  // Forward alone: whether they are when the pass begins. Those of a part of
  // the batch always are, by its call if not before.
  bool weights_are_prepared = false;
  bool repeats_outputs = false;  // as of the call, if there is padding
  KernelShape kernels{};
  ParamsLayout params;
  Int8Layout int8;  // if weights are
  ReserveLayout reserve;

  int num_threads = 1;  // that work on a pseudo-layer, or on a part each
  // In the order in which the pass takes them.
  std::vector<ChunkPlan> chunks;
  int64_t max_chunk_rows = 0;

  // W, R, and the projection; forward [in, G*H], [P, G*H] and [H, P], backward
  // transposed. Nothing is chosen about them if there are no valid rows.
  LayerOperands input_weights;
  OperandPlan recurrent_weights;
  OperandPlan projection;

  int64_t scratch_bytes = 0;

  // Whether it is one for elements of this type and the micro-kernels that run
  // here.
  bool is_for(ElementType element_type) const;
};

// Routes along which weights were prepared, of W of the first and of upper
// layers, and of R.
struct PreparedRoutes {
  Route first_input = Route::kPacked;
  Route upper_input = Route::kPacked;
  Route recurrent = Route::kPacked;

  bool operator==(const PreparedRoutes& other) const {
    return first_input == other.first_input &&
           upper_input == other.upper_input && recurrent == other.recurrent;
  }
};

// A part of a call's batch that one thread takes through all layers.
template <typename Plan>
struct BatchPart;

struct ForwardPlan : PassPlan {
  bool has_reserve = false;
  // Each direction is a thread's, and both run at once.
  bool directions_together = false;
  // Steps of one rank multiply by R, whose rows are read in place, before all
  // cells, and not beside those of their units (thresholds.h).
  bool reads_whole_rows = false;
  // If there are any, threads share nothing else. Their weights are prepared:
  // before the call, or by the call for all of them.
  std::vector<std::shared_ptr<const BatchPart<ForwardPlan>>> parts;
  // If weights are prepared, or there are parts: what preparing them takes.
  PreparedNetwork prepared;
  ForwardScratch scratch;

  // `has_reserve`: whether there will be a backward pass. Fails if sizes are
  // invalid, or so large that no machine has the memory.
  static Status Create(const CallDescription& call, bool has_reserve,
                       const Machine& machine, ForwardPlan* plan);
  // For micro-kernels other than those that run here, which are of the call's
  // type of elements.
  static Status Create(const CallDescription& call, bool has_reserve,
                       const Machine& machine, const KernelShape& kernels,
                       ForwardPlan* plan);

  // Whether the calling thread does all of it.
  bool works_alone() const { return num_threads == 1 && !directions_together; }
  // What prepared weights of a network and a type depend on.
  PreparedRoutes prepared_routes() const {
    PreparedRoutes routes;
    routes.first_input = input_weights.first.route;
    routes.upper_input = input_weights.upper.route;
    routes.recurrent = recurrent_weights.route;
    return routes;
  }
  // Whether the pass keeps activations for backward.
  bool keeps_activations() const {
    return has_reserve && ReservedRowSize(descriptor) > 0;
  }
  // Whether steps write h into the outputs, where the next step reads it.
  bool emits_directly() const {
    return kernels.operands_are_elements &&
           kernels.PaddedDepth(descriptor.output_size()) ==
               descriptor.output_size();
  }
  // Rows of h that the pass keeps itself: the step before a chunk, and the
  // chunk unless it is emitted directly.
  int64_t num_h_rows() const {
    return sequences->batch() + (emits_directly() ? 0 : max_chunk_rows);
  }
};

struct BackwardPlan : PassPlan {
  // Gradients of weights are sums over halves of the batch, or over all of it:
  // the first rank of each, and the number of ranks.
  std::vector<int64_t> half_begins = {0};
  // These halves, if each is a thread's: then threads share nothing else.
  std::vector<std::shared_ptr<const BatchPart<BackwardPlan>>> parts;
  // The right operands of the products that give the gradients of weights.
  LayerOperands input_weights_gradient;
  OperandPlan recurrent_weights_gradient;
  OperandPlan projection_gradient;
  // These sums over all rows are made of sums of so many.
  int64_t gradient_chain = 0;
  BackwardScratch scratch;

  int num_halves() const { return static_cast<int>(half_begins.size()) - 1; }
  // Of its longest row; 0 if it has none.
  int64_t num_steps_of(int half) const {
    const int64_t first_rank = half_begins[half];
    return first_rank < half_begins[half + 1] ? sequences->length(first_rank)
                                              : 0;
  }
  // Whether the calling thread does all of it.
  bool works_alone() const { return num_threads == 1; }
  // Whether gradients of outputs are put together in memory of the pass first.
  bool stages_output_gradients() const {
    return repeats_outputs || kernels.rounds_results;
  }

  static Status Create(const CallDescription& call, const Machine& machine,
                       BackwardPlan* plan);
  // For micro-kernels other than those that run here, which are of the call's
  // type of elements.
  static Status Create(const CallDescription& call, const Machine& machine,
                       const KernelShape& kernels, BackwardPlan* plan);
};

template <typename Plan>
struct BatchPart {
  Sequences sequences;
  Plan plan;
};

// What a pass is called where users see it; "training" is forward that keeps a
// reserve.
const char* PassName(const ForwardPlan& plan);
const char* PassName(const BackwardPlan& plan);

// Whether threads share steps, and how, as Describe() puts it.
const char* StepSharingName(const ChunkPlan& chunk);

// A line for the log, which begins with that name: mode, sizes, routes,
// threads, parts, scratch.
std::string Describe(const ForwardPlan& plan);
std::string Describe(const BackwardPlan& plan);

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_PLAN_H_
