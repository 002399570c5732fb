// Fills an instruction set's table. Include a vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_TARGET_INL_H_
#define KERNELS_ENGINE_SIMD_TARGET_INL_H_

#include "kernels/engine/simd/cells-inl.h"
#include "kernels/engine/simd/conversions-inl.h"
#include "kernels/engine/simd/dropout-inl.h"
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

template <typename Operand>
constexpr SimdKernels<Operand> MakeKernels() {
  constexpr int kLanes = Vec<ComputeType<Operand>>::kLanes;
  constexpr int kVanillaUnits = VanillaCell<true>::kUnitVectors * kLanes;
  static_assert(kTileVectors <= kMaxPanelVectors);
  return {
      kLanes,
      kTileVectors * kLanes,
      TileRows(kTileVectors),
      kDepthBlock<Operand>,
      true,
      // In the order of CellMode: ReLU, tanh, LSTM, GRU.
      {kVanillaUnits, kVanillaUnits, LstmCell::kUnitVectors * kLanes,
       GruCell::kUnitVectors * kLanes},
      {kVectorsTogether<VanillaCell<true>> * kLanes,
       kVectorsTogether<VanillaCell<false>> * kLanes,
       kVectorsTogether<LstmCell> * kLanes, kVectorsTogether<GruCell> * kLanes},
      MultiplyPanel<Operand>,
      MultiplyRows<Operand>,
      TransposeRows<Operand>,
      PackColumns<Operand>,
      PackStep<Operand>,
      SumRows<ComputeType<Operand>>,
      DropOut<ComputeType<Operand>>,
      {CellForwardPanels<VanillaCell<true>, Operand>,
       CellForwardPanels<VanillaCell<false>, Operand>,
       CellForwardPanels<LstmCell, Operand>,
       CellForwardPanels<GruCell, Operand>},
      {CellBackward<VanillaCell<true>, Operand>,
       CellBackward<VanillaCell<false>, Operand>,
       CellBackward<LstmCell, Operand>, CellBackward<GruCell, Operand>}};
}

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
    const char* name, const SimdKernels<BFloat16>* bfloat16_kernels = nullptr,
    const PartsKernels* parts_kernels = nullptr) {
  return {name,
          MakeKernels<float>(),
          MakeKernels<double>(),
          bfloat16_kernels,
          parts_kernels,
          {HalfToFloat, FloatToHalf, BFloat16ToFloat, FloatToBFloat16},
          {SigmoidArray<float>, TanhArray<float>},
          {SigmoidArray<double>, TanhArray<double>}};
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_TARGET_INL_H_
