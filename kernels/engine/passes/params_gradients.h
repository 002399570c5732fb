// The gradients of weights and biases: where they add up, chunk by chunk, and
// where they go in the end.
#ifndef KERNELS_ENGINE_PASSES_PARAMS_GRADIENTS_H_
#define KERNELS_ENGINE_PASSES_PARAMS_GRADIENTS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/passes/gate_gradients.h"
#include "kernels/engine/passes/tensor_rows.h"
#include "kernels/engine/plan/arena.h"
#include "kernels/engine/products/outer_products.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/weights/keras_weights.h"
#include "network/cell.h"
#include "network/descriptor.h"
#include "network/params_layout.h"
#include "network/sequences.h"

namespace rnn {

template <typename Element, typename Operand>
class ParamsGradients {
 public:
  using F = ComputeType<Element>;

  // The valid rows of a chunk of a pseudo-layer.
  struct ChunkRows {
    int64_t count;
    bool is_first_chunk;  // it writes, others add
    const GateGradients<Operand>* dgates;
    // As the recurrent product saw them: other ones only in a GRU.
    const GateGradients<Operand>* recurrent_dgates;
    const Operand* const* inputs;  // -> [in]; nullptr: there is no W
    const Operand* const* h_prev;  // -> [P]
    // Projection: what it took, and the gradient of what it gave.
    const Operand* const* m;   // -> [H]
    const Operand* const* dh;  // -> [P]
  };

  // Takes from the arena the memory that is needed from Begin() to Store().
  ParamsGradients(const RnnDescriptor& d, const Sequences& sequences,
                  int64_t params_size, Arena& arena)
      : d_(d), sequences_(sequences) {
    if constexpr (kRoundsResults) sums_ = arena.Take<F>(params_size);
  }

  // And that which is needed within Add(), of at most so many rows.
  void TakeProducts(int64_t max_rows, bool has_keras_weights, Arena& arena) {
    products_ = OuterProducts<Operand>::Take(
        arena, sequences_.shape_rows(), max_rows,
        has_keras_weights ? MostFeatures(d_) : d_.gates_size(),
        has_keras_weights ? d_.gates_size() : MostFeatures(d_));
  }

  void Begin(const BackwardArguments<Element>& arguments,
             const ParamsLayout& layout, Executor& executor) {
    a_ = &arguments;
    layout_ = &layout;
    executor_ = &executor;
    const bool is_nothing_written = sequences_.num_valid_rows() == 0;
    for (int gate = 0; gate < d_.num_gates(); ++gate) {
      const int64_t place =
          has_keras_weights() ? KerasGate(d_.mode, gate) : gate;
      gate_begins_[gate] = place * d_.hidden_size;
    }
    if (!has_keras_weights()) {
      if constexpr (kRoundsResults) {
        dparams_ = sums_;
      } else {
        dparams_ = a_->dparams;
      }
      if (is_nothing_written) std::fill_n(dparams_, layout.size(), F{0});
      return;
    }
    const KerasWeights<Element>& results = *a_->keras_dweights;
    if constexpr (kRoundsResults) {
      keras_dweights_.kernel = sums_;
      keras_dweights_.recurrent_kernel = sums_ + KerasKernelSize(d_);
      keras_dweights_.bias =
          results.bias == nullptr
              ? nullptr
              : keras_dweights_.recurrent_kernel + KerasRecurrentKernelSize(d_);
    } else {
      keras_dweights_ = results;
    }
    if (!is_nothing_written) return;
    std::fill_n(keras_dweights_.kernel, KerasKernelSize(d_), F{0});
    std::fill_n(keras_dweights_.recurrent_kernel, KerasRecurrentKernelSize(d_),
                F{0});
    if (results.bias != nullptr) {
      std::fill_n(keras_dweights_.bias, KerasBiasSize(d_), F{0});
    }
  }

  // Adds what a chunk of pseudo-layer k contributes.
  void Add(int64_t k, const ChunkRows& rows) {
    if (has_keras_weights()) {
      AddToKeras(rows);
    } else {
      AddToParams(k, rows);
    }
  }

  // Rounds what has added up into the results.
  void Store() {
    if constexpr (kRoundsResults) {
      if (!has_keras_weights()) {
        StoreRounded(dparams_, a_->dparams, layout_->size());
        return;
      }
      const KerasWeights<Element>& results = *a_->keras_dweights;
      StoreRounded(keras_dweights_.kernel, results.kernel, KerasKernelSize(d_));
      StoreRounded(keras_dweights_.recurrent_kernel, results.recurrent_kernel,
                   KerasRecurrentKernelSize(d_));
      if (results.bias != nullptr) {
        StoreRounded(keras_dweights_.bias, results.bias, KerasBiasSize(d_));
      }
    }
  }

 private:
  // Whether gradients add up in another type and are rounded in the end.
  static constexpr bool kRoundsResults = !kComputesInPlace<Element>;

  // The most columns that a matrix of weights has, as params have them.
  static int64_t MostFeatures(const RnnDescriptor& d) {
    return std::max({d.layer_input_size(0),
                     d.layer_input_size(d.num_layers - 1), d.hidden_size});
  }

  bool has_keras_weights() const { return a_->keras_weights != nullptr; }

  void AddToParams(int64_t k, const ChunkRows& rows) {
    const int64_t gates_size = d_.gates_size();
    AddBiases(rows, dparams_ + layout_->InputBias(k).offset,
              dparams_ + layout_->RecurrentBias(k).offset);
    products_.SetLeft(rows.dgates->operands(), rows.count, gates_size);
    if (rows.inputs != nullptr) {
      AddMatrix(rows, rows.inputs, layout_->InputWeights(k));
    }
    if (rows.recurrent_dgates != rows.dgates) {
      products_.SetLeft(rows.recurrent_dgates->operands(), rows.count,
                        gates_size);
    }
    AddMatrix(rows, rows.h_prev, layout_->RecurrentWeights(k));
    if (d_.has_projection()) {
      products_.SetLeft(rows.dh, rows.count, d_.output_size());
      AddMatrix(rows, rows.m, layout_->Projection(k));
    }
  }

  void AddMatrix(const ChunkRows& rows, const Operand* const* right,
                 const Region& region) {
    products_.Multiply(right, {nullptr, 1, region.columns},
                       !rows.is_first_chunk, *executor_,
                       dparams_ + region.offset);
  }

  // The same transposed: a row of Keras' kernels belongs to an input, not to a
  // gate's unit.
  void AddToKeras(const ChunkRows& rows) {
    if (keras_dweights_.bias != nullptr) {
      AddBiases(rows, keras_dweights_.bias,
                d_.mode == CellMode::kGru
                    ? keras_dweights_.bias + d_.gates_size()
                    : nullptr);
    }
    AddKernel(rows, rows.inputs, d_.input_size, *rows.dgates,
              keras_dweights_.kernel);
    AddKernel(rows, rows.h_prev, d_.hidden_size, *rows.recurrent_dgates,
              keras_dweights_.recurrent_kernel);
  }

  // dkernel is [features, G*H].
  void AddKernel(const ChunkRows& rows, const Operand* const* left,
                 int64_t features, const GateGradients<Operand>& gradients,
                 F* dkernel) {
    products_.SetLeft(left, rows.count, features);
    products_.Multiply(gradients.operands(),
                       {gate_begins_, d_.num_gates(), d_.hidden_size},
                       !rows.is_first_chunk, *executor_, dkernel);
  }

  // Biases += the gates' gradients, summed over the rows; `recurrent` may be
  // nullptr. A chunk's sum is added as a whole, so that rounding errors grow
  // with the chunk and not with time.
  void AddBiases(const ChunkRows& rows, F* input, F* recurrent) {
    AddBiasesOf(0, d_.num_gates(), rows, rows.dgates->exact, input);
    if (recurrent == nullptr) return;
    for (int gate = 0; gate < d_.num_gates(); ++gate) {
      if (d_.mode == CellMode::kGru && gate == kNew) {
        AddBiasesOf(gate, 1, rows, rows.recurrent_dgates->exact, recurrent);
      } else {
        std::copy_n(input + gate_begins_[gate], d_.hidden_size,
                    recurrent + gate_begins_[gate]);
      }
    }
  }

  void AddBiasesOf(int first_gate, int num_gates, const ChunkRows& rows,
                   const RowBuffer<F>& gradients, F* biases) {
    constexpr int64_t kBlock = 128;
    const int64_t H = d_.hidden_size;
    const int64_t blocks_per_gate = (H + kBlock - 1) / kBlock;
    ParallelFor(*executor_, num_gates * blocks_per_gate,
                rows.count * kBlock * kMoveWork,
                [&](int64_t begin, int64_t end) {
                  for (int64_t block = begin; block < end; ++block) {
                    const int64_t gate = first_gate + block / blocks_per_gate;
                    const int64_t first = block % blocks_per_gate * kBlock;
                    Kernels<F>().sum_rows(
                        gradients.rows, rows.count, gate * H + first,
                        std::min(kBlock, H - first), !rows.is_first_chunk,
                        biases + gate_begins_[gate] + first);
                  }
                });
  }

  void StoreRounded(const F* in, Element* out, int64_t size) const {
    ParallelFor(*executor_, size, kMoveWork, [&](int64_t begin, int64_t end) {
      rnn::Store(in + begin, out + begin, end - begin);
    });
  }

  const RnnDescriptor& d_;
  const Sequences& sequences_;
  OuterProducts<Operand> products_;
  const BackwardArguments<Element>* a_ = nullptr;
  const ParamsLayout* layout_ = nullptr;
  Executor* executor_ = nullptr;
  F* sums_ = nullptr;  // if they are rounded in the end
  // Where they add up: in the results, or in sums_.
  F* dparams_ = nullptr;
  KerasWeights<F> keras_dweights_{};  // in place of it
  // Where gates begin in biases, and in rows of Keras' kernels.
  int64_t gate_begins_[kMaxGates];
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_PARAMS_GRADIENTS_H_
