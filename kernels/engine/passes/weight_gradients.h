// The gradients of weights and biases: where they add up, by halves of the
// batch and chunk by chunk, and where they go in the end.
#ifndef KERNELS_ENGINE_PASSES_WEIGHT_GRADIENTS_H_
#define KERNELS_ENGINE_PASSES_WEIGHT_GRADIENTS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/products/outer_products.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "kernels/engine/weights/matrix_source.h"
#include "kernels/engine/weights/weight_targets.h"
#include "network/cell.h"
#include "network/round.h"
#include "network/weights.h"

namespace rnn {

// Where the gradients of weights add up: a sum for each half of the batch.
template <typename Element>
class GradientSums {
 public:
  using F = ComputeType<Element>;

  // `plan` and `results` must outlive the object; `scratch` is that of the
  // whole pass.
  GradientSums(const BackwardPlan& plan, const Weights<Element>& results,
               const ScratchView& scratch)
      : plan_(plan),
        results_(results),
        targets_(plan.descriptor, plan.params, plan.weight_order) {
    F* memory = scratch.At<F>(plan.scratch.weight_gradients);
    for (int half = 0; half < plan.num_halves(); ++half) {
      if constexpr (!kRoundsResults<Element>) {
        if (half == 0) {
          sums_[0] = results;
          continue;
        }
      }
      targets_.SetMemoryAs(results, memory);
      sums_[half] = targets_.memory();
      memory += plan.params.size();
    }
    targets_.SetMemory(sums_[0]);
  }

  // Those of the plan's halves from this one on, not initialised: the first
  // rows write them (WeightGradients::Rows::is_first_chunk).
  const Weights<F>* from(int half) const { return &sums_[half]; }

  // What comes after all halves.
  void Finish(Executor& executor) const {
    const bool is_empty = plan_.sequences->num_valid_rows() == 0;
    if (!kRoundsResults<Element> && plan_.num_halves() == 1 && !is_empty)
      return;
    targets_.ForEachTensor([&](auto tensor_of, int64_t size) {
      F* const sum = tensor_of(sums_[0]);
      ParallelFor(
          executor, size, speed::kMoveWork, [&](int64_t begin, int64_t end) {
            if (is_empty) std::fill(sum + begin, sum + end, F{0});
            for (int half = 1; half < plan_.num_halves(); ++half) {
              if (plan_.num_steps_of(half) == 0) continue;
              const F* const more = tensor_of(sums_[half]);
              for (int64_t i = begin; i < end; ++i) sum[i] += more[i];
            }
            if constexpr (kRoundsResults<Element>) {
              Store(sum + begin, tensor_of(results_) + begin, end - begin);
            }
          });
    });
  }

 private:
  const BackwardPlan& plan_;
  const Weights<Element>& results_;
  WeightTargets<F> targets_;
  Weights<F> sums_[bits::kGradientHalves];
};

template <typename Element, typename Operand>
class WeightGradients {
 public:
  using F = ComputeType<Element>;

  // Valid rows of a chunk of a pseudo-layer.
  struct Rows {
    static constexpr int kNumTables =
        BackwardScratch::PseudoLayer::kNumHalfTables;

    int64_t count;
    bool is_first_chunk;           // it writes, others add
    const Operand* const* dgates;  // -> [G*H]
    const F* const* exact_dgates;  // -> [G*H], not rounded
    // The gates' gradients as the recurrent product saw them: others than those
    // in a GRU alone.
    const Operand* const* recurrent_dgates;
    const F* const* exact_recurrent_dgates;
    const Operand* const* inputs;  // -> [in]; nullptr: there is no W
    const Operand* const* h_prev;  // -> [P]; nullptr: all are zero
    // Projection: what it took, and the gradient of what it gave.
    const Operand* const* m;   // -> [H]
    const Operand* const* dh;  // -> [P]
  };
  static_assert(sizeof(Rows) ==
                    2 * sizeof(int64_t) + Rows::kNumTables * sizeof(void*),
                "kNumTables, of which the plan takes memory, counts the tables "
                "of Rows");

  WeightGradients(const BackwardPlan& plan, const ScratchView& scratch)
      : plan_(plan),
        d_(plan.descriptor),
        products_(plan.gradient_chain, plan.scratch.pseudo_layer, scratch),
        targets_(d_, plan.params, plan.weight_order) {}

  // Adds to `sums` what rows of a chunk of `layer`, pseudo-layer k, contribute.
  void Add(const Weights<F>& sums, int64_t layer, int64_t k, const Rows& rows,
           Executor& executor) {
    targets_.SetMemory(sums);
    AddBiases(k, rows, executor);
    products_.ForgetLeft();
    if (rows.inputs != nullptr) {
      AddMatrix(rows, rows.dgates, rows.inputs,
                plan_.input_weights_gradient.of_layer(layer), targets_.Input(k),
                executor);
    }
    if (rows.h_prev != nullptr) {
      AddMatrix(rows, rows.recurrent_dgates, rows.h_prev,
                plan_.recurrent_weights_gradient, targets_.Recurrent(k),
                executor);
    } else if (rows.is_first_chunk) {
      Clear(targets_.Recurrent(k), executor);
    }
    if (d_.has_projection()) {
      products_.SetLeft(rows.dh, rows.count, d_.output_size());
      products_.Multiply(rows.m, Pieces::Whole(d_.hidden_size),
                         plan_.projection_gradient, !rows.is_first_chunk,
                         executor, targets_.Projection(k));
    }
  }

 private:
  // The gradient of a matrix that was multiplied by `features`.
  void AddMatrix(const Rows& rows, const Operand* const* dgates,
                 const Operand* const* features, const OperandPlan& plan,
                 const GatesMatrix<F>& matrix, Executor& executor) {
    const GatesGradientShape shape =
        GatesGradientShape::Of(d_, plan_.weight_order, matrix.features);
    if (shape.features_are_left) {
      products_.SetLeft(features, rows.count, shape.left_columns);
      products_.Multiply(dgates, matrix.gates, plan, !rows.is_first_chunk,
                         executor, matrix.values);
    } else {
      products_.SetLeft(dgates, rows.count, shape.left_columns);
      products_.Multiply(features, Pieces::Whole(shape.right_columns), plan,
                         !rows.is_first_chunk, executor, matrix.values);
    }
  }

  void Clear(const GatesMatrix<F>& matrix, Executor& executor) const {
    ParallelFor(executor, matrix.features * d_.gates_size(), speed::kMoveWork,
                [&](int64_t begin, int64_t end) {
                  std::fill(matrix.values + begin, matrix.values + end, F{0});
                });
  }

  // Biases += the gates' gradients, summed over the rows.
  void AddBiases(int64_t k, const Rows& rows, Executor& executor) {
    F* input = targets_.InputBias(k);
    if (input == nullptr) return;
    AddBiasesOf(0, d_.num_gates(), rows, rows.exact_dgates, input, executor);
    F* recurrent = targets_.RecurrentBias(k);
    if (recurrent == nullptr) return;
    const Pieces gates = targets_.gates();
    for (int gate = 0; gate < gates.count; ++gate) {
      if (HasRecurrentBiasApart(d_.mode, gate)) {
        AddBiasesOf(gate, 1, rows, rows.exact_recurrent_dgates, recurrent,
                    executor);
      } else {
        std::copy_n(input + gates.begins[gate], gates.width,
                    recurrent + gates.begins[gate]);
      }
    }
  }

  void AddBiasesOf(int first_gate, int num_gates, const Rows& rows,
                   const F* const* gradients, F* biases, Executor& executor) {
    constexpr int64_t kBlock = speed::kSummedColumns;
    const int64_t H = d_.hidden_size;
    const int64_t blocks_per_gate = DivideUp(H, kBlock);
    const Pieces gates = targets_.gates();
    ParallelFor(executor, num_gates * blocks_per_gate,
                rows.count * kBlock * speed::kMoveWork,
                [&](int64_t begin, int64_t end) {
                  for (int64_t block = begin; block < end; ++block) {
                    const int64_t gate = first_gate + block / blocks_per_gate;
                    const int64_t first = block % blocks_per_gate * kBlock;
                    SumRows(rows, gradients, gate * H + first,
                            std::min(kBlock, H - first),
                            biases + gates.begins[gate] + first);
                  }
                });
  }

  // sums[j] (+)= the sum of gradients[i][first_column + j], in chains as the
  // products with these gradients are.
  void SumRows(const Rows& rows, const F* const* gradients,
               int64_t first_column, int64_t columns, F* sums) const {
    const int64_t chain = plan_.gradient_chain;
    for (int64_t row = 0; row < rows.count; row += chain) {
      Kernels<F>().sum_rows(gradients + row, std::min(chain, rows.count - row),
                            first_column, columns,
                            row > 0 || !rows.is_first_chunk, sums);
    }
  }

  const BackwardPlan& plan_;
  const RnnDescriptor& d_;
  OuterProducts<Operand> products_;
  WeightTargets<F> targets_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_WEIGHT_GRADIENTS_H_
