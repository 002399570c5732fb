// R packed for the cells of forward.
#ifndef KERNELS_ENGINE_WEIGHTS_RECURRENT_PANELS_H_
#define KERNELS_ENGINE_WEIGHTS_RECURRENT_PANELS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/arena.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/weights/packing.h"
#include "network/descriptor.h"

namespace rnn {

// R in the panels CellForwardStep wants, of columns [G][cell_units], tail units
// zero: packed for all steps, or one after another for one step.
template <typename Operand>
struct RecurrentPanels {
  Operand* panels = nullptr;
  int64_t hidden_size;
  int64_t output_size;  // P
  int64_t depth;        // padded
  int num_gates;
  int units;             // per panel
  int columns_together;  // cell_columns

  static RecurrentPanels Take(Arena& arena, const RnnDescriptor& d,
                              bool has_memory) {
    RecurrentPanels p;
    p.hidden_size = d.hidden_size;
    p.output_size = d.output_size();
    p.depth = PaddedDepth<Operand>(p.output_size);
    p.num_gates = d.num_gates();
    p.units = Kernels<Operand>().cell_units[static_cast<int>(d.mode)];
    p.columns_together =
        Kernels<Operand>().cell_columns[static_cast<int>(d.mode)];
    if (has_memory) {
      p.panels = arena.Take<Operand>(p.num_panels() * p.panel_size());
    }
    return p;
  }

  int64_t num_panels() const { return (hidden_size + units - 1) / units; }
  int64_t panel_size() const { return depth * num_gates * units; }

  // `source` is [G*H, P].
  template <typename Element>
  void Pack(const Element* source, Executor& executor) const {
    ForEachPanel(executor, [&](int64_t begin, int64_t end) {
      for (; begin < end; ++begin) {
        PackPanel(source, begin, panels + begin * panel_size());
      }
    });
  }

  // `source` is [P, G*H], as Keras has it, its gates those pieces of a row.
  template <typename Element>
  void PackKeras(const Element* source, const Pieces& gates,
                 Executor& executor) const {
    ForEachPanel(executor, [&](int64_t begin, int64_t end) {
      for (; begin < end; begin += kPanelsTogether) {
        PackPanelsOfKeras(source, gates, begin,
                          std::min(begin + kPanelsTogether, end),
                          panels + begin * panel_size());
      }
    });
  }

  // Packs panels when their turn comes, into memory that stays in the cache,
  // and calls use(index, panel) for each: R is of no use later. `source` is
  // [G*H, P].
  template <typename Element, typename Use>
  void PackInTurn(const Element* source, Executor& executor,
                  int64_t work_per_panel, Use use) const {
    ParallelFor(executor, num_panels(),
                work_per_panel + panel_size() * kMoveWork,
                [&](int64_t begin, int64_t end) {
                  Operand* memory = panels + begin * panel_size();
                  for (int64_t i = begin; i < end; ++i) {
                    PackPanel(source, i, memory);
                    use(i, memory);
                  }
                });
  }

  const Operand* panel(int64_t index) const {
    return panels + index * panel_size();
  }

 private:
  // Calls pack(first panel, panel after the last).
  template <typename PackRange>
  void ForEachPanel(Executor& executor, PackRange pack) const {
    ParallelFor(executor, num_panels(), panel_size() * kMoveWork, pack);
  }

  // `source` is [G*H, P], `out` a panel.
  template <typename Element>
  void PackPanel(const Element* source, int64_t panel, Operand* out) const {
    constexpr int kMaxColumns = 256;
    const Element* rows[kMaxColumns];
    for (int gate = 0; gate < num_gates; ++gate) {
      for (int64_t u = 0; u < units; ++u) {
        const int64_t unit = panel * units + u;
        rows[gate * units + u] =
            unit < hidden_size
                ? source + (gate * hidden_size + unit) * output_size
                : nullptr;
      }
    }
    for (int64_t column = 0; column < num_gates * units;
         column += columns_together) {
      PackColumns(rows + column, columns_together, 0, output_size, 0,
                  out + column * depth);
    }
  }

  // `source` is [P, G*H], `out` as many panels.
  template <typename Element>
  void PackPanelsOfKeras(const Element* source, const Pieces& gates,
                         int64_t panel_begin, int64_t panel_end,
                         Operand* out) const {
    constexpr int64_t kStep = kDepthStep<Operand>;
    const int64_t stride = num_gates * hidden_size;
    // Columns of one gate and of those that are packed together.
    const int64_t width = std::min(units, columns_together);
    const auto pack_step = [&](int64_t k, int64_t column, int64_t panel) {
      const int64_t unit = panel * units + column % units;
      const int64_t count = std::clamp<int64_t>(hidden_size - unit, 0, width);
      const int64_t first = column / columns_together * columns_together;
      Operand* step = out + (panel - panel_begin) * panel_size() +
                      first * depth + k * columns_together +
                      (column - first) * kStep;
      if (count > 0) {
        PackStepOf(k, output_size,
                   gates.begin(static_cast<int>(column / units)) + unit, count,
                   step, [&](int64_t row) { return source + row * stride; });
      }
      std::fill(step + count * kStep, step + width * kStep, Operand{});
    };
    for (int64_t k = 0; k < output_size; k += kStep) {
      for (int64_t column = 0; column < num_gates * units; column += width) {
        for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
          pack_step(k, column, panel);
        }
      }
    }
  }
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_RECURRENT_PANELS_H_
