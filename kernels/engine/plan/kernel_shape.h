// What a plan has to know of the micro-kernels, for one type of elements: plain
// numbers, so that a plan for another machine can be made and looked at.
#ifndef KERNELS_ENGINE_PLAN_KERNEL_SHAPE_H_
#define KERNELS_ENGINE_PLAN_KERNEL_SHAPE_H_

#include <cstdint>

#include "network/cell.h"
#include "network/element_types.h"
#include "network/round.h"

namespace rnn {

struct SimdTarget;

struct KernelShape {
  const char* instruction_set;
  ElementType element_type;
  // Bytes of an element of tensors, of an operand of products, and of what is
  // computed: sums, gates, the LSTM's c.
  int64_t element_bytes;
  int64_t operand_bytes;
  int64_t compute_bytes;
  // As in SimdKernels, of these operands.
  int64_t depth_step;
  int64_t dot_chains;
  int64_t dot_columns;
  int64_t dot_rows;
  int64_t dot_round;  // depth at which each chain has one link
  int64_t panel_columns;
  int64_t rows_together;
  int64_t depth_block;
  int64_t cell_units[kNumCellModes];
  bool has_tile_registers;
  // As kElementIsOperand, kRoundsResults and kRoundsOperands (elements.h).
  bool operands_are_elements;
  bool rounds_results;
  bool rounds_operands;
  // Whether products of floats can be made of bfloat16 parts.
  bool has_parts;
  bool int8_keeps_up;  // as Int8Kernels::keeps_up

  // The kernels for elements of this type; by default those that run here.
  static KernelShape Of(ElementType type);
  static KernelShape Of(ElementType type, const SimdTarget& target);

  // Whether rows that are read in place give the bits of packed ones, but for
  // those of the panels that cells take.
  bool rows_have_bits_of_panels() const { return !has_tile_registers; }

  int64_t PaddedDepth(int64_t depth) const {
    return RoundUp(depth, depth_step);
  }
  int64_t NumPanels(int64_t columns) const {
    return DivideUp(columns, panel_columns);
  }
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_KERNEL_SHAPE_H_
