// Fills an instruction set's table. Include a vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_TARGET_INL_H_
#define KERNELS_ENGINE_SIMD_TARGET_INL_H_

#include "kernels/engine/simd/cells-inl.h"
#include "kernels/engine/simd/conversions-inl.h"
#include "kernels/engine/simd/dot_panels-inl.h"
#include "kernels/engine/simd/dropout-inl.h"
#include "kernels/engine/simd/int8_product-inl.h"
#include "kernels/engine/simd/lanes-inl.h"
#include "kernels/engine/simd/math-inl.h"
#include "kernels/engine/simd/panel_product-inl.h"
#include "kernels/engine/simd/rows_product-inl.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/simd/sum_rows-inl.h"
#include "kernels/engine/simd/tile-inl.h"
#include "kernels/engine/simd/transpose-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

template <typename Cell, typename Operand>
constexpr void SetCell(SimdKernels<Operand>* kernels) {
  static_assert(kCellVectors<Cell> * Vec<ComputeType<Operand>>::kLanes <=
                kMaxPanelColumns);
  // A range of cells' panels begins at a dot panel (RecurrentProduct).
  static_assert(kDotVectors % Cell::kUnitVectors == 0 ||
                Cell::kUnitVectors % kDotVectors == 0);
  const int i = static_cast<int>(Cell::kMode);
  kernels->cell_units[i] = Cell::kUnitVectors * kernels->lanes;
  kernels->cell_columns[i] = kVectorsTogether<Cell> * kernels->lanes;
  kernels->cell_forward[i] = CellForwardPanels<Cell, Operand>;
  kernels->cell_backward[i] = CellBackward<Cell, Operand>;
}

template <typename Operand>
constexpr SimdKernels<Operand> MakeKernels() {
  constexpr int kLanes = Vec<ComputeType<Operand>>::kLanes;
  static_assert(kTileVectors <= kMaxPanelVectors);
  static_assert(kTileVectors * kLanes <= kMaxPanelColumns);
  static_assert(kDotVectors * kLanes <= kMaxDotColumns);
  static_assert(DotLinks<Operand>::kRound <= kMaxDotRound);
  static_assert(kDepthBlock<Operand> % DotLinks<Operand>::kRound == 0);
  SimdKernels<Operand> kernels{};
  kernels.lanes = kLanes;
  kernels.panel_columns = kTileVectors * kLanes;
  kernels.rows_together = TileRows(kTileVectors);
  kernels.depth_block = kDepthBlock<Operand>;
  kernels.dot_chains = kDotChains;
  kernels.dot_columns = kDotVectors * kLanes;
  kernels.dot_rows = kDotRows;
  kernels.dot_round = DotLinks<Operand>::kRound;
  kernels.has_tile_registers = false;
  kernels.multiply_panel = MultiplyPanel<Operand>;
  kernels.multiply_dot_panels = MultiplyDotPanels<Operand>;
  kernels.multiply_rows = MultiplyRows<Operand>;
  kernels.transpose_rows = TransposeRows<Operand>;
  kernels.pack_columns = PackColumns<Operand>;
  kernels.pack_rows = PackRows<Operand>;
  kernels.sum_rows = SumRows<ComputeType<Operand>>;
  kernels.drop_out = DropOut<Operand>;
  SetCell<VanillaCell<true>>(&kernels);
  SetCell<VanillaCell<false>>(&kernels);
  SetCell<LstmCell>(&kernels);
  SetCell<GruCell>(&kernels);
  return kernels;
}

template <typename Operand>
constexpr SimdKernels<Operand> kKernels = MakeKernels<Operand>();

[[maybe_unused]] constexpr Int8Kernels kInt8Kernels = {MultiplyInt8, RoundRow,
                                                       IntegerSums::kKeepsUp};

template <typename F>
void SigmoidArray(const F* in, F* out, int64_t count) {
  for (int64_t i = 0; i < count; i += Vec<F>::kLanes) {
    const Lanes<Vec<F>> lanes{count - i};
    lanes.Store(Sigmoid(lanes.Load(in + i)), out + i);
  }
}
template <typename F>
void TanhArray(const F* in, F* out, int64_t count) {
  for (int64_t i = 0; i < count; i += Vec<F>::kLanes) {
    const Lanes<Vec<F>> lanes{count - i};
    lanes.Store(Tanh(lanes.Load(in + i)), out + i);
  }
}

constexpr SimdTarget MakeTarget(
    const char* name, const SimdKernels<float>* float_kernels,
    const SimdKernels<double>* double_kernels, const Int8Kernels* int8_kernels,
    const SimdKernels<BFloat16>* bfloat16_kernels = nullptr,
    const PartsKernels* parts_kernels = nullptr) {
  return {name,
          float_kernels,
          double_kernels,
          bfloat16_kernels,
          parts_kernels,
          int8_kernels,
          {HalfToFloat, FloatToHalf, BFloat16ToFloat, FloatToBFloat16},
          {SigmoidArray<float>, TanhArray<float>},
          {SigmoidArray<double>, TanhArray<double>}};
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_TARGET_INL_H_
