// Each micro-kernel by itself, on one thread and on every instruction set, with
// operands in the caches.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "benchmarks/aligned_buffer.h"
#include "benchmarks/machine.h"
#include "benchmarks/registration.h"
#include "tests/engine/element_values.h"
#include "tests/engine/random_values.h"
#include "tests/engine/simd_targets.h"

namespace rnn {

namespace {

template <typename Operand>
constexpr ElementType kTypeOf =
    std::is_same_v<Operand, BFloat16> ? ElementType::kBFloat16
    : std::is_same_v<Operand, double> ? ElementType::kDouble
                                      : ElementType::kFloat;

// [rows, columns] of random values in [-1, 1), and a pointer to each row.
// Vectors that lay in two cache lines would come half as fast from the
// second-level cache.
template <typename Value>
struct Matrix {
  Matrix(int64_t rows, int64_t columns) : values(rows * columns) {
    RandomValues random(1);
    for (int64_t i = 0; i < values.size(); ++i) {
      values.data()[i] = FromDouble<Value>(random.Real(-1, 1));
    }
    for (int64_t i = 0; i < rows; ++i) {
      rows_of_values.push_back(values.data() + i * columns);
    }
  }
  Value* data() { return values.data(); }
  Value* const* rows() { return rows_of_values.data(); }

  TensorBuffer<Value> values;
  std::vector<Value*> rows_of_values;
};

// Runs the kernel, and counts what a call of it does.
void Measure(benchmark::State& state, const char* counter, double per_call,
             double peak, const std::function<void()>& kernel) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (auto _ : state) {
    kernel();
    benchmark::ClobberMemory();
  }
  const double seconds =
      std::chrono::duration<double>(Clock::now() - begin).count();
  const double rate =
      per_call * static_cast<double>(state.iterations()) / seconds;
  state.counters[counter] = rate;
  if (peak > 0) state.counters["share_of_peak"] = rate / peak;
}

// B [depth][columns] in one of the ways in which kernels take it.
template <typename Operand>
struct Weights {
  Weights(PanelKind kind, int64_t depth, int64_t columns)
      : values(kind == PanelKind::kTransposed ? columns : depth,
               kind == PanelKind::kTransposed ? depth : columns) {
    switch (kind) {
      case PanelKind::kPacked:
        panel.packed = values.data();
        break;
      case PanelKind::kTransposed:
        panel.transposed = values.data();
        panel.stride = depth;
        break;
    }
  }

  Matrix<Operand> values;
  Panel<Operand> panel{};
};

template <typename Operand>
void RunMultiplyPanel(benchmark::State& state, const SimdTarget& target,
                      PanelKind kind) {
  const SimdKernels<Operand>& kernels = KernelsOf<Operand>(target);
  const int64_t rows = state.range(0), depth = state.range(1);
  const int64_t columns = kernels.panel_columns;
  Matrix<Operand> a(rows, depth);
  Matrix<ComputeType<Operand>> c(rows, columns);
  Weights<Operand> weights(kind, depth, columns);
  PanelProduct<Operand> product{};
  product.rows = rows;
  product.depth = depth;
  product.columns = columns;
  product.a = a.rows();
  product.b = weights.panel;
  product.c = c.rows();
  Measure(state, "flops_per_second",
          2.0 * static_cast<double>(rows * depth * columns),
          PeakFlops(target, kTypeOf<Operand>, 1),
          [&] { kernels.multiply_panel(product); });
}

template <typename Operand>
void RunMultiplyRows(benchmark::State& state, const SimdTarget& target) {
  const int64_t rows = state.range(0), depth = state.range(1);
  const int64_t columns = state.range(2);
  Matrix<Operand> a(rows, depth), b(depth, columns);
  Matrix<ComputeType<Operand>> c(rows, columns);
  RowsProduct<Operand> product{};
  product.rows = rows;
  product.depth = depth;
  product.columns = columns;
  product.a = a.rows();
  product.b = b.data();
  product.stride = columns;
  product.c = c.rows();
  Measure(state, "flops_per_second",
          2.0 * static_cast<double>(rows * depth * columns),
          PeakFlops(target, kTypeOf<Operand>, 1),
          [&] { KernelsOf<Operand>(target).multiply_rows(product); });
}

template <typename Operand>
void RunTransposeRows(benchmark::State& state, const SimdTarget& target) {
  const int64_t columns = state.range(0), depth = state.range(1);
  Matrix<Operand> in(columns, depth), out(depth, columns);
  Measure(state, "bytes_per_second",
          static_cast<double>(2 * columns * depth * int64_t{sizeof(Operand)}),
          0, [&] {
            KernelsOf<Operand>(target).transpose_rows(
                in.rows(), columns, 0, depth, out.data(), columns);
          });
}

template <typename Operand>
void RunCellForward(benchmark::State& state, const SimdTarget& target,
                    CellMode mode) {
  using F = ComputeType<Operand>;
  const SimdKernels<Operand>& kernels = KernelsOf<Operand>(target);
  const int64_t rows = state.range(0), depth = state.range(1);
  const int64_t units = kernels.cell_units[static_cast<int>(mode)];
  const int64_t columns = NumGates(mode) * units;
  // The panel is all there is, but for the GRU, which reads its own units of h.
  const int64_t H = std::max(units, depth);
  Weights<Operand> weights(PanelKind::kPacked, depth, columns);
  Matrix<Operand> h_prev(rows, H), h(rows, H);
  Matrix<F> input_sums(rows, NumGates(mode) * H), new_bias(1, H), c(rows, H);
  Matrix<Operand> saved(rows, NumReservedPerUnit(mode) * H);
  CellForwardStep<Operand> step{};
  step.rows = rows;
  step.hidden_size = H;
  step.units = units;
  step.depth = depth;
  step.recurrent = weights.panel.packed;
  step.h_prev = h_prev.rows();
  step.input_sums = input_sums.data();
  step.recurrent_new_bias = new_bias.data();
  step.c = c.data();
  step.h = h.rows();
  step.saved = saved.rows();
  Measure(state, "flops_per_second",
          2.0 * static_cast<double>(rows * depth * columns),
          PeakFlops(target, kTypeOf<Operand>, 1),
          [&] { kernels.cell_forward[static_cast<int>(mode)](&step, 1); });
}

template <typename Operand>
void RunCellBackward(benchmark::State& state, const SimdTarget& target,
                     CellMode mode) {
  using F = ComputeType<Operand>;
  const int64_t rows = state.range(0), H = state.range(1);
  const int64_t gates = NumGates(mode) * H;
  Matrix<Operand> saved(rows, NumReservedPerUnit(mode) * H), c_prev(rows, H);
  Matrix<Operand> h_prev(rows, H), h(rows, H);
  Matrix<F> dy(rows, H), dh(rows, H), dc(rows, H);
  Matrix<F> dgates(rows, gates), recurrent_dgates(rows, gates);
  Matrix<Operand> rounded(rows, gates), rounded_recurrent(rows, gates);
  CellBackwardStep<Operand> step{};
  step.rows = rows;
  step.hidden_size = H;
  step.units = H;
  step.saved = saved.rows();
  step.c_prev = c_prev.rows();
  step.h_prev = h_prev.rows();
  step.h = h.rows();
  step.dy = dy.rows();
  step.dh = dh.data();
  step.dc = dc.data();
  step.dgates = dgates.data();
  step.recurrent_dgates = recurrent_dgates.data();
  if constexpr (!std::is_same_v<F, Operand>) {
    step.rounded_dgates = rounded.rows();
    step.rounded_recurrent_dgates = rounded_recurrent.rows();
  }
  Measure(state, "units_per_second", static_cast<double>(rows * H), 0, [&] {
    KernelsOf<Operand>(target).cell_backward[static_cast<int>(mode)](step);
  });
}

template <typename In, typename Out>
void RunElementwise(benchmark::State& state,
                    void (*function)(const In*, Out*, int64_t)) {
  const int64_t count = state.range(0);
  TensorBuffer<In> in(count);
  TensorBuffer<Out> out(count);
  std::fill_n(in.data(), count, In{1});
  Measure(state, "elements_per_second", static_cast<double>(count), 0,
          [&] { function(in.data(), out.data(), count); });
}

void RegisterOnSizes(const std::string& name,
                     const std::vector<std::string>& arg_names,
                     const std::vector<std::vector<int64_t>>& args,
                     const std::function<void(benchmark::State&)>& run) {
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->ArgNames(arg_names)
      ->ArgsProduct(args);
}

template <typename Operand>
void RegisterOfType(const SimdTarget& target) {
  const std::string suffix =
      std::string("/") + target.name + "/" + ElementName(kTypeOf<Operand>);
  for (PanelKind kind : {PanelKind::kPacked, PanelKind::kTransposed}) {
    std::vector<int64_t> rows = {1, 2, 4, 6, 8, 16};
    if (kind == PanelKind::kPacked) rows.push_back(64);
    RegisterOnSizes(std::string("Kernel/multiply_panel/") +
                        kPanelKindNames[static_cast<int>(kind)] + suffix,
                    {"rows", "depth"}, {rows, {64, 512}},
                    [&target, kind](benchmark::State& state) {
                      RunMultiplyPanel<Operand>(state, target, kind);
                    });
  }
  RegisterOnSizes("Kernel/multiply_rows" + suffix, {"rows", "depth", "columns"},
                  {{1, 4, 16, 32}, {64, 512}, {512}},
                  [&target](benchmark::State& state) {
                    RunMultiplyRows<Operand>(state, target);
                  });
  RegisterOnSizes("Kernel/transpose_rows" + suffix, {"columns", "depth"},
                  {{64}, {64, 512}}, [&target](benchmark::State& state) {
                    RunTransposeRows<Operand>(state, target);
                  });
  for (CellMode mode : kModes) {
    const std::string mode_name = kModeNames[static_cast<int>(mode)];
    RegisterOnSizes("Kernel/cell_forward/" + mode_name + suffix,
                    {"rows", "depth"}, {{1, 4, 16, 64}, {64, 512}},
                    [&target, mode](benchmark::State& state) {
                      RunCellForward<Operand>(state, target, mode);
                    });
    RegisterOnSizes("Kernel/cell_backward/" + mode_name + suffix,
                    {"rows", "units"}, {{1, 16}, {512}},
                    [&target, mode](benchmark::State& state) {
                      RunCellBackward<Operand>(state, target, mode);
                    });
  }
}

template <typename F>
void RegisterActivations(const SimdTarget& target) {
  const auto register_activation = [&](const char* name, auto function) {
    RegisterOnSizes(std::string("Kernel/activation/") + name + "/" +
                        target.name + "/" + ElementName(kTypeOf<F>),
                    {"count"}, {{4096}}, [function](benchmark::State& state) {
                      RunElementwise(state, function);
                    });
  };
  register_activation("sigmoid", MathOf<F>(target).sigmoid);
  register_activation("tanh", MathOf<F>(target).tanh);
}

void RegisterConversions(const SimdTarget& target) {
  const auto register_conversion = [&](const char* name, auto function) {
    RegisterOnSizes(
        std::string("Kernel/conversion/") + name + "/" + target.name, {"count"},
        {{4096}}, [function](benchmark::State& state) {
          RunElementwise(state, function);
        });
  };
  const SimdConversions& conversions = target.conversions;
  register_conversion("half_to_float", conversions.half_to_float);
  register_conversion("float_to_half", conversions.float_to_half);
  register_conversion("bfloat16_to_float", conversions.bfloat16_to_float);
  register_conversion("float_to_bfloat16", conversions.float_to_bfloat16);
}

}  // namespace

void RegisterKernelBenchmarks() {
  for (const SimdTarget* target : AllSimdTargets()) {
    RegisterOfType<float>(*target);
    RegisterOfType<double>(*target);
    if (target->bfloat16_kernels != nullptr) {
      RegisterOfType<BFloat16>(*target);
    }
    RegisterActivations<float>(*target);
    RegisterActivations<double>(*target);
    RegisterConversions(*target);
  }
}

}  // namespace rnn
