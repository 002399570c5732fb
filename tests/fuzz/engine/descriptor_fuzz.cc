// Any descriptor, and plans of calls with it: a message, or layouts and plans
// that hold together. Nothing runs, so sizes have no bound, and plans are made
// for every instruction set, whether the CPU has it or not.

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/engine/plan/kernel_shape.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "network/descriptor.h"
#include "network/params_layout.h"
#include "network/sequences.h"
#include "network/sizes.h"
#include "network/status.h"
#include "tests/engine/make_sequences.h"
#include "tests/fuzz/engine/fuzz.h"
#include "tests/fuzz/engine/input.h"

namespace rnn {

#define RNN_ISA_ENTRY(isa, supported, is_faster) \
  extern const SimdTarget kSimdTarget_##isa;
#include "kernels/engine/simd/isa.inc"
#undef RNN_ISA_ENTRY

namespace fuzz {
namespace {

const SimdTarget* const kAllTargets[] = {
#define RNN_ISA_ENTRY(isa, supported, is_faster) &kSimdTarget_##isa,
#include "kernels/engine/simd/isa.inc"
#undef RNN_ISA_ENTRY
};

RnnDescriptor AnyDescriptor(Input& input) {
  RnnDescriptor d;
  d.mode = static_cast<CellMode>(input.Between(0, kNumCellModes - 1));
  d.num_layers = input.AnySize();
  d.num_directions = input.AnySize();
  d.input_size = input.AnySize();
  d.hidden_size = input.AnySize();
  d.num_proj = input.Flag() ? input.AnySize() : 0;
  const int kind = input.Byte();
  d.skip_input = kind % 2 != 0;
  // What is mostly wrong would hide what comes behind it.
  if (d.skip_input && kind % 4 == 1) d.input_size = d.hidden_size;
  if (kind % 8 < 4) d.num_directions = 1 + kind % 2;
  d.dropout = input.Flag() ? input.Any<float>() : 0.5f;
  return d;
}

void RequireMessage(const Status& status) {
  FUZZ_REQUIRE(status.code() != StatusCode::kOk);
  FUZZ_REQUIRE(status.message().size() > 10);
  FUZZ_REQUIRE(status.message().back() == '.');
}

Wide ParamsSize(const RnnDescriptor& d) {
  const Wide G = d.num_gates(), H = d.hidden_size, P = d.output_size();
  const Wide projection = d.has_projection() ? P * H : 0;
  const Wide first =
      G * H * ((d.skip_input ? 0 : d.input_size) + P + 2) + projection;
  const Wide upper = G * H * (d.num_directions * P + P + 2) + projection;
  return d.num_directions * (first + (d.num_layers - 1) * upper);
}

// The lists of the canonical ops are params from one end to the other.
void RequireTiles(const ParamsLayout& layout) {
  int64_t next = 0;
  const auto require_next = [&](const Region& region) {
    FUZZ_REQUIRE(region.offset == next);
    FUZZ_REQUIRE(region.rows > 0 && region.columns >= 0);
    next += region.size();
  };
  for (int64_t i = 0; i < layout.num_canonical_weights(); ++i) {
    require_next(layout.CanonicalWeight(i));
  }
  for (int64_t i = 0; i < layout.num_canonical_biases(); ++i) {
    require_next(layout.CanonicalBias(i));
  }
  FUZZ_REQUIRE(next == layout.size());
}

void RequireCovers(const std::vector<ChunkPlan>& chunks, const Sequences& s,
                   bool ascends, int64_t max_rows) {
  int64_t next = ascends ? 0 : s.num_steps();
  for (const ChunkPlan& chunk : chunks) {
    FUZZ_REQUIRE(chunk.steps.count() > 0);
    FUZZ_REQUIRE((ascends ? chunk.steps.begin : chunk.steps.end) == next);
    next = ascends ? chunk.steps.end : chunk.steps.begin;
    FUZZ_REQUIRE(chunk.num_rank_groups >= 1);
    FUZZ_REQUIRE(chunk.num_rank_groups <= s.active(chunk.steps.begin));
    FUZZ_REQUIRE(chunk.num_rank_groups == 1 || !chunk.shares_steps());
    FUZZ_REQUIRE(chunk.shares_steps() || !chunk.in_lockstep);
    FUZZ_REQUIRE(s.offset(chunk.steps.end) - s.offset(chunk.steps.begin) <=
                 max_rows);
  }
  FUZZ_REQUIRE(next == (ascends ? s.num_steps() : 0));
}

template <typename Plan>
void RequireHolds(const Plan& plan, const Machine& machine) {
  FUZZ_REQUIRE(plan.scratch_bytes >= 0 && plan.scratch_bytes % 64 == 0);
  FUZZ_REQUIRE(plan.num_threads >= 1);
  FUZZ_REQUIRE(plan.num_threads <= machine.num_threads);
#ifndef RNN_UNINSTRUMENTED_STREAMS
  FUZZ_REQUIRE(Describe(plan).size() > 50);
#endif
}

template <typename Plan>
void RequireCovers(const Plan& plan) {
  if (plan.parts.empty()) {
    RequireCovers(plan.chunks, *plan.sequences,
                  /*ascends=*/std::is_same_v<Plan, ForwardPlan>,
                  plan.max_chunk_rows);
    return;
  }
  FUZZ_REQUIRE(static_cast<int>(plan.parts.size()) <= plan.num_threads);
  int64_t ranks = 0;
  int64_t part_bytes = 0;
  for (const auto& part : plan.parts) {
    RequireCovers(part->plan);
    ranks += part->sequences.batch();
    part_bytes += part->plan.scratch_bytes;
  }
  FUZZ_REQUIRE(ranks == plan.sequences->batch());
  FUZZ_REQUIRE(plan.scratch_bytes >= part_bytes);
}

void MakePlans(const RnnDescriptor& d, Input& input) {
  std::vector<int32_t> lengths(input.Flag() ? input.Between(0, 255)
                                            : input.Between(0, 12));
  const int64_t max_time = input.OneOf({0, 1, 2, 3, 8, 9, 33, 100, 1000, 3000});
  const int kind = input.Byte() % 4;
  for (int32_t& length : lengths) {
    length = static_cast<int32_t>(
        kind == 0 ? max_time : std::min<int64_t>(input.Byte(), max_time));
  }
  const Sequences sequences = MakeSequences(max_time, lengths);
  Machine machine;
  machine.num_threads = static_cast<int>(
      1 + (input.Flag() ? input.Any<uint16_t>() : input.Byte() % 9));
  machine.flops_per_passed_value = input.Byte();
  machine.core_cache_bytes = std::max<int64_t>(0, input.AnySize());
  CallDescription call;
  call.descriptor = d;
  call.sequences = &sequences;
  call.element_type = static_cast<ElementType>(input.Between(0, 3));
  call.weight_order = input.Flag() ? WeightOrder::kKeras : WeightOrder::kParams;
  const KernelShape kernels =
      KernelShape::Of(call.element_type, *input.OneOf(kAllTargets));
  ForwardPlan forward;
  if (const Status status = ForwardPlan::Create(
          call, /*has_reserve=*/input.Flag(), machine, kernels, &forward);
      status.ok()) {
    RequireHolds(forward, machine);
    RequireCovers(forward);
  } else {
    RequireMessage(status);
  }
  BackwardPlan backward;
  if (const Status status =
          BackwardPlan::Create(call, machine, kernels, &backward);
      status.ok()) {
    RequireHolds(backward, machine);
    RequireCovers(backward);
  } else {
    RequireMessage(status);
  }
}

void Run(Input input) {
  const RnnDescriptor d = AnyDescriptor(input);
  const Status valid = Validate(d);
  ParamsLayout layout;
  const Status status = ParamsLayout::Create(d, &layout);
  if (!valid.ok()) {
    RequireMessage(valid);
    FUZZ_REQUIRE(!status.ok());
  } else if (!status.ok()) {
    RequireMessage(status);
  } else {
    FUZZ_REQUIRE(layout.size() == ParamsSize(d));
    if (d.num_layers <= 40) RequireTiles(layout);
  }
  MakePlans(d, input);
}

}  // namespace
}  // namespace fuzz
}  // namespace rnn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rnn::fuzz::Run(rnn::fuzz::Input(data, size));
  return 0;
}
