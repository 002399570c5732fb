#include "kernels/engine/plan/kernel_shape.h"

#include <algorithm>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {

namespace {

template <typename Element, typename Operand>
KernelShape ShapeOf(const SimdTarget& target) {
  const SimdKernels<Operand>& kernels = KernelsOf<Operand>(target);
  KernelShape shape{};
  shape.instruction_set = target.name;
  shape.element_type = kElementTypeOf<Element>;
  shape.element_bytes = sizeof(Element);
  shape.operand_bytes = sizeof(Operand);
  shape.compute_bytes = sizeof(ComputeType<Operand>);
  shape.depth_step = kDepthStep<Operand>;
  shape.dot_chains = kernels.dot_chains;
  shape.dot_columns = kernels.dot_columns;
  shape.dot_rows = kernels.dot_rows;
  shape.dot_round = kernels.dot_round;
  shape.panel_columns = kernels.panel_columns;
  shape.rows_together = kernels.rows_together;
  shape.depth_block = kernels.depth_block;
  std::copy_n(kernels.cell_units, kNumCellModes, shape.cell_units);
  shape.has_tile_registers = kernels.has_tile_registers;
  shape.has_parts =
      std::is_same_v<Operand, float> && target.parts_kernels != nullptr;
  shape.int8_keeps_up = target.int8_kernels->keeps_up;
  shape.operands_are_elements = kElementIsOperand<Element, Operand>;
  shape.rounds_results = kRoundsResults<Element>;
  shape.rounds_operands = kRoundsOperands<Operand>;
  return shape;
}

}  // namespace

KernelShape KernelShape::Of(ElementType type) {
  return Of(type, SelectSimdTarget());
}

KernelShape KernelShape::Of(ElementType type, const SimdTarget& target) {
  switch (type) {
    case ElementType::kDouble:
      return ShapeOf<double, double>(target);
    case ElementType::kHalf:
      return ShapeOf<Half, float>(target);
    case ElementType::kBFloat16:
      return target.bfloat16_kernels == nullptr
                 ? ShapeOf<BFloat16, float>(target)
                 : ShapeOf<BFloat16, BFloat16>(target);
    case ElementType::kFloat:
      break;
  }
  return ShapeOf<float, float>(target);
}

}  // namespace rnn
