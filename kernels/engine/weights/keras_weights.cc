#include "kernels/engine/weights/keras_weights.h"

#include <algorithm>
#include <cstdint>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "network/params_layout.h"
#include "network/round.h"

namespace rnn {

namespace {

// out[k * out_stride + j] = in[j * in_stride + k], j < rows, k < columns, for
// at most speed::kTransposedBlock rows.
template <typename Element>
void TransposeBlock(const Element* in, int64_t in_stride, int64_t rows,
                    int64_t columns, Element* out, int64_t out_stride) {
  if constexpr (kElementIsOperand<Element>) {
    const Element* row_pointers[speed::kTransposedBlock];
    for (int64_t j = 0; j < rows; ++j) row_pointers[j] = in + j * in_stride;
    Kernels<Element>().transpose_rows(row_pointers, rows, 0, columns, out,
                                      out_stride);
  } else {
    for (int64_t k = 0; k < columns; ++k) {
      for (int64_t j = 0; j < rows; ++j) {
        out[k * out_stride + j] = in[j * in_stride + k];
      }
    }
  }
}

// A gate's columns of a kernel, [depth, H] of rows [G*H], and the gate's rows
// in params, [H, depth].
struct GateMatrix {
  int64_t keras_column = 0;
  int64_t params_offset = 0;
};

// Calls block(gate matrix, first unit, units) for blocks of units that cover
// all gates of the kernel whose place in params is `region`.
template <typename Block>
void ForEachGateBlock(const RnnDescriptor& d, const Region& region,
                      Executor& executor, Block block) {
  const int64_t H = d.hidden_size;
  const int64_t blocks_per_gate = DivideUp(H, speed::kTransposedBlock);
  ParallelFor(
      executor, d.num_gates() * blocks_per_gate,
      std::min(H, speed::kTransposedBlock) * region.columns * speed::kMoveWork,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t gate = i / blocks_per_gate;
          const int64_t unit = i % blocks_per_gate * speed::kTransposedBlock;
          GateMatrix matrix;
          matrix.keras_column = gate * H;
          matrix.params_offset =
              region.offset + KerasGate(d.mode, gate) * H * region.columns;
          block(matrix, unit, std::min(speed::kTransposedBlock, H - unit));
        }
      });
}

template <typename Element>
void KernelToParams(const RnnDescriptor& d, const Region& region,
                    const Element* kernel, Element* params,
                    Executor& executor) {
  const int64_t depth = region.columns;
  ForEachGateBlock(
      d, region, executor,
      [&](const GateMatrix& gate, int64_t unit, int64_t units) {
        for (int64_t k = 0; k < depth; k += speed::kTransposedBlock) {
          TransposeBlock(kernel + k * d.gates_size() + gate.keras_column + unit,
                         d.gates_size(),
                         std::min(speed::kTransposedBlock, depth - k), units,
                         params + gate.params_offset + unit * depth + k, depth);
        }
      });
}

template <typename Element>
void ParamsToKernel(const RnnDescriptor& d, const Region& region,
                    const Element* params, Element* kernel,
                    Executor& executor) {
  const int64_t depth = region.columns;
  ForEachGateBlock(
      d, region, executor,
      [&](const GateMatrix& gate, int64_t unit, int64_t units) {
        for (int64_t k = 0; k < depth; k += speed::kTransposedBlock) {
          TransposeBlock(params + gate.params_offset + unit * depth + k, depth,
                         units, std::min(speed::kTransposedBlock, depth - k),
                         kernel + k * d.gates_size() + gate.keras_column + unit,
                         d.gates_size());
        }
      });
}

// Calls bias(offset in Keras' bias, offset in params) for H values each.
template <typename Bias>
void ForEachBias(const RnnDescriptor& d, const ParamsLayout& layout,
                 Bias bias) {
  for (int64_t gate = 0; gate < d.num_gates(); ++gate) {
    const int64_t in_params = KerasGate(d.mode, gate) * d.hidden_size;
    const int64_t in_keras = gate * d.hidden_size;
    bias(in_keras, layout.InputBias(0).offset + in_params);
    if (KerasHasRecurrentBias(d.mode)) {
      bias(d.gates_size() + in_keras,
           layout.RecurrentBias(0).offset + in_params);
    }
  }
}

}  // namespace

template <typename Element>
void KerasToParams(const RnnDescriptor& d, const ParamsLayout& layout,
                   const KerasWeights<const Element>& weights, Element* params,
                   Executor& executor) {
  KernelToParams(d, layout.InputWeights(0), weights.kernel, params, executor);
  KernelToParams(d, layout.RecurrentWeights(0), weights.recurrent_kernel,
                 params, executor);
  const int64_t biases = layout.InputBias(0).offset;
  std::fill(params + biases, params + layout.size(), Element{});
  if (weights.bias == nullptr) return;
  ForEachBias(d, layout, [&](int64_t in_keras, int64_t in_params) {
    std::copy_n(weights.bias + in_keras, d.hidden_size, params + in_params);
  });
}

template <typename Element>
void KerasToParamsBackward(const RnnDescriptor& d, const ParamsLayout& layout,
                           const Element* dparams,
                           const KerasWeights<Element>& dweights,
                           Executor& executor) {
  ParamsToKernel(d, layout.InputWeights(0), dparams, dweights.kernel, executor);
  ParamsToKernel(d, layout.RecurrentWeights(0), dparams,
                 dweights.recurrent_kernel, executor);
  if (dweights.bias == nullptr) return;
  ForEachBias(d, layout, [&](int64_t in_keras, int64_t in_params) {
    std::copy_n(dparams + in_params, d.hidden_size, dweights.bias + in_keras);
  });
}

#define RNN_INSTANTIATE(Element)                                            \
  template void KerasToParams(const RnnDescriptor&, const ParamsLayout&,    \
                              const KerasWeights<const Element>&, Element*, \
                              Executor&);                                   \
  template void KerasToParamsBackward(                                      \
      const RnnDescriptor&, const ParamsLayout&, const Element*,            \
      const KerasWeights<Element>&, Executor&);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(double)
RNN_INSTANTIATE(Half)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

}  // namespace rnn
