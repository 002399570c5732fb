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

#include "benchmarks/machine.h"
#include "benchmarks/registration.h"
#include "tests/engine/random_values.h"
#include "tests/engine/simd_targets.h"

namespace rnn {

namespace {

template <typename F>
constexpr ElementType kTypeOf =
    std::is_same_v<F, double> ? ElementType::kDouble : ElementType::kFloat;

// [rows, columns] of random values in [-1, 1), and a pointer to each row.
template <typename F>
struct Matrix {
  Matrix(int64_t rows, int64_t columns)
      : values(RandomValues(1).Reals<F>(rows * columns, -1, 1)) {
    for (int64_t i = 0; i < rows; ++i) {
      rows_of_values.push_back(values.data() + i * columns);
    }
  }
  F* data() { return values.data(); }
  F* const* rows() { return rows_of_values.data(); }

  std::vector<F> values;
  std::vector<F*> rows_of_values;
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
template <typename F>
struct Weights {
  Weights(PanelKind kind, int64_t depth, int64_t columns, int lanes)
      : values(kind == PanelKind::kTransposed ? columns : depth,
               kind == PanelKind::kTransposed ? depth : columns) {
    switch (kind) {
      case PanelKind::kPacked:
        panel.packed = values.data();
        break;
      case PanelKind::kTransposed:
        panel.rows = values.rows();
        break;
      case PanelKind::kVectors:
        panel.stride = columns;
        for (int64_t v = 0; v * lanes < columns; ++v) {
          panel.vectors[v] = values.data() + v * lanes;
        }
        break;
    }
  }

  Matrix<F> values;
  Panel<F> panel{};
};

template <typename F>
void RunMultiplyPanel(benchmark::State& state, const SimdTarget& target,
                      PanelKind kind) {
  const SimdKernels<F>& kernels = KernelsOf<F>(target);
  const int64_t rows = state.range(0), depth = state.range(1);
  const int64_t columns = kernels.panel_columns;
  Matrix<F> a(rows, depth), c(rows, columns);
  Weights<F> weights(kind, depth, columns, kernels.lanes);
  PanelProduct<F> product{};
  product.rows = rows;
  product.depth = depth;
  product.columns = columns;
  product.a = a.rows();
  product.b = weights.panel;
  product.c = c.rows();
  Measure(state, "flops_per_second",
          2.0 * static_cast<double>(rows * depth * columns),
          PeakFlops(target, kTypeOf<F>, 1),
          [&] { kernels.multiply_panel(product); });
}

template <typename F>
void RunTransposeRows(benchmark::State& state, const SimdTarget& target) {
  const int64_t columns = state.range(0), depth = state.range(1);
  Matrix<F> in(columns, depth), out(depth, columns);
  Measure(state, "bytes_per_second",
          static_cast<double>(2 * columns * depth * int64_t{sizeof(F)}), 0,
          [&] {
            KernelsOf<F>(target).transpose_rows(in.rows(), columns, 0, depth,
                                                out.data(), columns);
          });
}

template <typename F>
void RunCellForward(benchmark::State& state, const SimdTarget& target,
                    CellMode mode) {
  const SimdKernels<F>& kernels = KernelsOf<F>(target);
  const int64_t rows = state.range(0), depth = state.range(1);
  const int64_t units = kernels.cell_units[static_cast<int>(mode)];
  const int64_t columns = NumGates(mode) * units;
  // The panel is all there is, but for the GRU, which reads its own units of h.
  const int64_t H = std::max(units, depth);
  Weights<F> weights(PanelKind::kPacked, depth, columns, kernels.lanes);
  Matrix<F> h_prev(rows, H), input_gates(rows, NumGates(mode) * H);
  Matrix<F> new_bias(1, H), c(rows, H), h(rows, H);
  Matrix<F> saved(rows, NumReservedPerUnit(mode) * H);
  CellForwardStep<F> step{};
  step.rows = rows;
  step.hidden_size = H;
  step.units = units;
  step.depth = depth;
  step.recurrent = weights.panel;
  step.h_prev = h_prev.rows();
  step.input_gates = input_gates.data();
  step.recurrent_new_bias = new_bias.data();
  step.c = c.data();
  step.h = h.rows();
  step.saved = saved.rows();
  Measure(state, "flops_per_second",
          2.0 * static_cast<double>(rows * depth * columns),
          PeakFlops(target, kTypeOf<F>, 1),
          [&] { kernels.cell_forward[static_cast<int>(mode)](step); });
}

template <typename F>
void RunCellBackward(benchmark::State& state, const SimdTarget& target,
                     CellMode mode) {
  const int64_t rows = state.range(0), H = state.range(1);
  const int64_t gates = NumGates(mode) * H;
  Matrix<F> saved(rows, NumReservedPerUnit(mode) * H), c_prev(rows, H);
  Matrix<F> h_prev(rows, H), h(rows, H), dy(rows, H), dh(rows, H), dc(rows, H);
  Matrix<F> dgates(rows, gates), dgates_recurrent(rows, gates);
  CellBackwardStep<F> step{};
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
  step.dgates_recurrent = dgates_recurrent.data();
  Measure(state, "units_per_second", static_cast<double>(rows * H), 0, [&] {
    KernelsOf<F>(target).cell_backward[static_cast<int>(mode)](step);
  });
}

template <typename In, typename Out>
void RunElementwise(benchmark::State& state,
                    void (*function)(const In*, Out*, int64_t)) {
  const int64_t count = state.range(0);
  std::vector<In> in(count, In{1});
  std::vector<Out> out(count);
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

template <typename F>
void RegisterOfType(const SimdTarget& target) {
  const std::string suffix =
      std::string("/") + target.name + "/" + ElementTypeName(kTypeOf<F>);
  for (PanelKind kind :
       {PanelKind::kPacked, PanelKind::kTransposed, PanelKind::kVectors}) {
    std::vector<int64_t> rows = {1, 2, 4, 6, 8, 16};
    if (kind == PanelKind::kPacked) rows.push_back(64);
    RegisterOnSizes(std::string("Kernel/multiply_panel/") +
                        kPanelKindNames[static_cast<int>(kind)] + suffix,
                    {"rows", "depth"}, {rows, {64, 512}},
                    [&target, kind](benchmark::State& state) {
                      RunMultiplyPanel<F>(state, target, kind);
                    });
  }
  RegisterOnSizes("Kernel/transpose_rows" + suffix, {"columns", "depth"},
                  {{64}, {64, 512}}, [&target](benchmark::State& state) {
                    RunTransposeRows<F>(state, target);
                  });
  for (CellMode mode : kModes) {
    const std::string mode_name = kModeNames[static_cast<int>(mode)];
    RegisterOnSizes("Kernel/cell_forward/" + mode_name + suffix,
                    {"rows", "depth"}, {{1, 4, 16, 64}, {64, 512}},
                    [&target, mode](benchmark::State& state) {
                      RunCellForward<F>(state, target, mode);
                    });
    RegisterOnSizes("Kernel/cell_backward/" + mode_name + suffix,
                    {"rows", "units"}, {{1, 16}, {512}},
                    [&target, mode](benchmark::State& state) {
                      RunCellBackward<F>(state, target, mode);
                    });
  }
  const auto register_activation = [&](const char* name, auto function) {
    RegisterOnSizes(std::string("Kernel/activation/") + name + suffix,
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
    RegisterConversions(*target);
  }
}

}  // namespace rnn
