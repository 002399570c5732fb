// Memory for the gradients of gates before their activation, exact and as
// operands. cells-inl.h computes them.
#ifndef KERNELS_ENGINE_PASSES_GATE_GRADIENT_ROWS_H_
#define KERNELS_ENGINE_PASSES_GATE_GRADIENT_ROWS_H_

#include <cstdint>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/passes/rows.h"
#include "kernels/engine/plan/scratch.h"
#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {

// [rows, G*H]
template <typename Operand>
struct GateGradients {
  using F = ComputeType<Operand>;
  RowBuffer<F> exact;
  RowBuffer<Operand> rounded;  // if products take it so; rows are padded

  static GateGradients In(const ScratchView& scratch, const RowsBlock& exact,
                          const RowsBlock& rounded) {
    return {RowBuffer<F>::In(scratch, exact),
            RowBuffer<Operand>::In(scratch, rounded)};
  }

  void SetRows(int64_t rows, int64_t gates_size) {
    exact.SetRows(rows, gates_size);
    if constexpr (kRoundsOperands<Operand>) {
      const int64_t row_size = PaddedDepth<Operand>(gates_size);
      rounded.SetRows(rows, row_size);
      if (row_size > gates_size) {
        for (int64_t i = 0; i < rows; ++i) {
          rounded.rows[i][gates_size] = Operand{};
        }
      }
    }
  }

  // As products take them.
  Operand* const* operands() const {
    if constexpr (kRoundsOperands<Operand>) {
      return rounded.rows;
    } else {
      return exact.rows;
    }
  }
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_GATE_GRADIENT_ROWS_H_
