#include <locale>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/engine/plan/plan.h"
#include "network/cell.h"
#include "network/element_types.h"
#include "network/weights.h"

namespace rnn {

namespace {

// As ops call it, but for what simple RNNs have in front.
std::string_view ModeName(CellMode mode) {
  constexpr std::string_view kPrefix = "rnn_";
  std::string_view name = kCellModeNames[static_cast<int>(mode)];
  if (name.substr(0, kPrefix.size()) == kPrefix) {
    name.remove_prefix(kPrefix.size());
  }
  return name;
}

void DescribeCall(const PassPlan& plan, const char* pass,
                  std::ostringstream& out) {
  const RnnDescriptor& d = plan.descriptor;
  const Sequences& s = *plan.sequences;
  out.imbue(std::locale::classic());  // no marks between thousands
  out << pass << ' ' << ModeName(d.mode) << ' '
      << ElementTypeName(plan.kernels.element_type) << ' '
      << plan.kernels.instruction_set << " T=" << s.max_time()
      << " B=" << s.batch() << " valid_rows=" << s.num_valid_rows()
      << " I=" << d.input_size << " H=" << d.hidden_size;
  if (d.has_projection()) out << " P=" << d.output_size();
  out << " L=" << d.num_layers << " D=" << d.num_directions;
  if (d.skip_input) out << " skip_input";
  out << " weights=" << WeightOrderName(plan.weight_order);
}

// Of the first layer, and of the others.
void DescribeInputs(const PassPlan& plan, const LayerOperands& inputs,
                    std::ostringstream& out) {
  const RnnDescriptor& d = plan.descriptor;
  out << (d.has_input_weights(0) ? RouteName(inputs.first.route) : "none");
  if (d.num_layers > 1) out << ',' << RouteName(inputs.upper.route);
}

// Those of its first part, if it has parts.
template <typename Plan>
const std::vector<ChunkPlan>& ChunksOf(const Plan& plan) {
  return plan.parts.empty() ? plan.chunks : plan.parts.front()->plan.chunks;
}

void DescribeChoices(const PassPlan& plan, const std::vector<ChunkPlan>& chunks,
                     std::ostringstream& out) {
  out << " | W=";
  DescribeInputs(plan, plan.input_weights, out);
  out << " R=" << RouteName(plan.recurrent_weights.route)
      << " chunks=" << chunks.size();
  if (!chunks.empty()) {
    out << " rank_groups=" << chunks.front().num_rank_groups
        << " shared_steps=" << StepSharingName(chunks.front());
  }
  out << " threads=" << plan.num_threads;
}

template <typename Plan>
void DescribeParts(const Plan& plan, std::ostringstream& out) {
  if (!plan.parts.empty()) out << " batch_parts=" << plan.parts.size();
}

void DescribeScratch(const PassPlan& plan, std::ostringstream& out) {
  out << " scratch_bytes=" << plan.scratch_bytes;
}

}  // namespace

const char* PassName(const ForwardPlan& plan) {
  return plan.has_reserve ? "training" : "inference";
}
const char* PassName(const BackwardPlan&) { return "backward"; }

const char* StepSharingName(const ChunkPlan& chunk) {
  if (!chunk.shares_steps()) return "no";
  return chunk.in_lockstep ? "lockstep" : "yes";
}

std::string Describe(const ForwardPlan& plan) {
  std::ostringstream out;
  DescribeCall(plan, PassName(plan), out);
  DescribeChoices(plan, ChunksOf(plan), out);
  if (plan.directions_together) out << " directions=together";
  DescribeParts(plan, out);
  DescribeScratch(plan, out);
  return out.str();
}

std::string Describe(const BackwardPlan& plan) {
  std::ostringstream out;
  DescribeCall(plan, PassName(plan), out);
  DescribeChoices(plan, ChunksOf(plan), out);
  DescribeParts(plan, out);
  out << " dW=";
  DescribeInputs(plan, plan.input_weights_gradient, out);
  out << " dR=" << RouteName(plan.recurrent_weights_gradient.route);
  if (plan.descriptor.has_projection()) {
    out << " dprojection=" << RouteName(plan.projection_gradient.route);
  }
  DescribeScratch(plan, out);
  return out.str();
}

}  // namespace rnn
