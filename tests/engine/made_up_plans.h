// Plans for kernels and machines of the tests' own, so that machines that this
// one is not can be asked about.
#ifndef TESTS_ENGINE_MADE_UP_PLANS_H_
#define TESTS_ENGINE_MADE_UP_PLANS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/engine/plan/plan.h"
#include "kernels/engine/thresholds.h"
#include "tests/engine/make_sequences.h"

namespace rnn {

// As those of most instruction sets.
inline KernelShape Vectors(ElementType type) {
  KernelShape shape{};
  shape.instruction_set = "vectors";
  shape.element_type = type;
  const bool is_half = type == ElementType::kHalf;
  const bool is_short = is_half || type == ElementType::kBFloat16;
  shape.element_bytes = is_short ? 2 : (type == ElementType::kDouble ? 8 : 4);
  shape.operand_bytes = is_half ? 4 : shape.element_bytes;
  shape.compute_bytes = is_short ? 4 : shape.element_bytes;
  shape.depth_step = type == ElementType::kBFloat16 ? 2 : 1;
  shape.dot_chains = 2;
  shape.dot_columns = 32;
  shape.dot_rows = 6;
  shape.dot_round = 16 * shape.depth_step;
  shape.panel_columns = 64;
  shape.rows_together = 6;
  shape.depth_block = 256;
  for (int64_t& units : shape.cell_units) units = 16;
  shape.has_tile_registers = false;
  shape.int8_keeps_up = false;
  shape.operands_are_elements = !is_half;
  shape.rounds_results = shape.element_bytes != shape.compute_bytes;
  shape.rounds_operands = shape.operand_bytes != shape.compute_bytes;
  return shape;
}
// As those of tile registers.
inline KernelShape Tiles(ElementType type) {
  KernelShape shape = Vectors(type);
  shape.instruction_set = "tiles";
  shape.has_parts = shape.operand_bytes == 4;
  if (type == ElementType::kBFloat16) {
    shape.rows_together = 32;
    shape.has_tile_registers = true;
  }
  return shape;
}

inline constexpr int64_t kCoreCacheBytes = kMegabyte;

struct Sizes {
  int64_t T, B, I, H;
  CellMode mode = CellMode::kLstm;
  WeightOrder order = WeightOrder::kParams;
  int num_threads = 1;
  int64_t num_directions = 1;
  std::vector<int32_t> lengths = {};  // none: all are T
  bool has_crew = false;
  bool has_threads_awake = false;
  bool weights_are_prepared = false;
  double flops_per_far_byte = 1;
  double flops_per_passed_value = Machine().flops_per_passed_value;
};

inline Sequences SequencesOf(const Sizes& s) {
  return MakeSequences(s.T, s.B,
                       s.lengths.empty() ? nullptr : s.lengths.data());
}

// `sequences` must outlive the call.
inline CallDescription CallOf(const Sizes& s, const KernelShape& kernels,
                              const Sequences& sequences) {
  CallDescription call;
  call.descriptor.mode = s.mode;
  call.descriptor.input_size = s.I;
  call.descriptor.hidden_size = s.H;
  call.descriptor.num_directions = s.num_directions;
  call.sequences = &sequences;
  call.element_type = kernels.element_type;
  call.weight_order = s.order;
  call.weights_are_prepared = s.weights_are_prepared;
  return call;
}

inline Machine MachineOf(const Sizes& s,
                         int64_t core_cache_bytes = kCoreCacheBytes) {
  Machine machine;
  machine.num_threads = s.num_threads;
  machine.core_cache_bytes = core_cache_bytes;
  machine.has_crew = s.has_crew;
  machine.has_threads_awake = s.has_threads_awake;
  machine.flops_per_far_byte = s.flops_per_far_byte;
  machine.flops_per_passed_value = s.flops_per_passed_value;
  return machine;
}

struct Plans {
  Plans(const Sizes& s, const KernelShape& kernels,
        int64_t core_cache_bytes = kCoreCacheBytes)
      : sequences(SequencesOf(s)) {
    const CallDescription call = CallOf(s, kernels, sequences);
    const Machine machine = MachineOf(s, core_cache_bytes);
    EXPECT_TRUE(ForwardPlan::Create(call, /*has_reserve=*/true, machine,
                                    kernels, &forward)
                    .ok());
    EXPECT_TRUE(BackwardPlan::Create(call, machine, kernels, &backward).ok());
  }

  const Sequences sequences;
  ForwardPlan forward;
  BackwardPlan backward;
};

// H of an LSTM whose R takes about so many bytes, and no more.
inline int64_t UnitsOf(int64_t bytes, int64_t value_bytes) {
  int64_t H = 16;
  while (4 * (H + 16) * (H + 16) * value_bytes <= bytes) H += 16;
  return H;
}

}  // namespace rnn

#endif  // TESTS_ENGINE_MADE_UP_PLANS_H_
