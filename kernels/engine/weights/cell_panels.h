// R packed for the cells of forward, which multiply by it.
#ifndef KERNELS_ENGINE_WEIGHTS_CELL_PANELS_H_
#define KERNELS_ENGINE_WEIGHTS_CELL_PANELS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "kernels/engine/weights/matrix_source.h"
#include "kernels/engine/weights/packing.h"
#include "network/descriptor.h"

namespace rnn {

// R [P, G*H] in the panels CellForwardStep wants, of columns [G][cell_units],
// tail units zero: packed for all steps, or one after another for one step.
template <typename Operand>
class CellPanels {
 public:
  CellPanels(const RnnDescriptor& d, const CellPanelShape& shape)
      : hidden_size_(d.hidden_size),
        output_size_(d.output_size()),
        num_gates_(d.num_gates()),
        num_panels_(shape.num_panels),
        units_(shape.units),
        depth_(shape.depth),
        panel_size_(shape.panel_size(num_gates_)),
        columns_together_(
            Kernels<Operand>().cell_columns[static_cast<int>(d.mode)]) {}

  // `memory` has room for all panels, or holds what Pack() left there; for
  // PackInTurn() it has room for one panel in each place. Comes before all that
  // packs, or reads what is packed.
  void Use(Operand* memory) { panels_ = memory; }

  int64_t num_panels() const { return num_panels_; }
  int64_t depth() const { return depth_; }  // padded
  int64_t units() const { return units_; }  // per panel
  const Operand* panel(int64_t index) const {
    return panels_ + index * panel_size();
  }

  template <typename Element>
  void Pack(const MatrixSource<Element>& source, Executor& executor) const {
    ParallelFor(executor, num_panels(), panel_size() * speed::kMoveWork,
                [&](int64_t begin, int64_t end) {
                  PackRange(source, begin, end, panels_ + begin * panel_size());
                });
  }

  // Packs panels when their turn comes, into `num_places` places of one panel
  // each, which stay in the cache, and calls use(index, panel) for each. A
  // task's next panel overwrites the one before, so packed R does not outlive
  // the call.
  template <typename Element, typename Use>
  void PackInTurn(const MatrixSource<Element>& source, int64_t num_places,
                  Executor& executor, int64_t work_per_panel, Use use) const {
    ParallelForPlaces(executor, num_panels(),
                      work_per_panel + panel_size() * speed::kMoveWork,
                      Order::kAscending, num_places,
                      [&](int64_t place, int64_t begin, int64_t end) {
                        Operand* memory = panels_ + place * panel_size();
                        for (int64_t i = begin; i < end; ++i) {
                          PackRange(source, i, i + 1, memory);
                          use(i, memory);
                        }
                      });
  }

 private:
  int64_t panel_size() const { return panel_size_; }

  // Panels [begin, end), the first at `out`.
  template <typename Element>
  void PackRange(const MatrixSource<Element>& source, int64_t begin,
                 int64_t end, Operand* out) const {
    if (source.is_transposed) {
      for (int64_t i = begin; i < end; ++i) {
        PackPanelOfColumns(source, i, out + (i - begin) * panel_size());
      }
      return;
    }
    for (int64_t i = begin; i < end; i += speed::kPanelsPackedTogether) {
      PackPanelsOfRows(source, i,
                       std::min(i + speed::kPanelsPackedTogether, end),
                       out + (i - begin) * panel_size());
    }
  }

  template <typename Element>
  void PackPanelOfColumns(const MatrixSource<Element>& source, int64_t panel,
                          Operand* out) const {
    const Element* rows[kMaxPanelColumns];
    for (int gate = 0; gate < num_gates_; ++gate) {
      for (int64_t u = 0; u < units_; ++u) {
        const int64_t unit = panel * units_ + u;
        rows[gate * units_ + u] = unit < hidden_size_
                                      ? source.row(gate * hidden_size_ + unit)
                                      : nullptr;
      }
    }
    ColumnBlock block;
    block.columns = columns_together_;
    block.k_end = output_size_;
    for (int64_t column = 0; column < num_gates_ * units_;
         column += columns_together_) {
      PackColumns(rows + column, block, out + column * depth_);
    }
  }

  // `out`: as many panels.
  template <typename Element>
  void PackPanelsOfRows(const MatrixSource<Element>& source,
                        int64_t panel_begin, int64_t panel_end,
                        Operand* out) const {
    constexpr int64_t kStep = kDepthStep<Operand>;
    const auto row = [&source](int64_t k) { return source.row(k); };
    // Columns of one gate and of those that are packed together.
    const int64_t width = std::min(units_, columns_together_);
    for (int64_t k = 0; k < output_size_; k += speed::kRowsPackedTogether) {
      const int64_t k_end =
          std::min(k + speed::kRowsPackedTogether, output_size_);
      for (int64_t column = 0; column < num_gates_ * units_; column += width) {
        const int64_t first = column / columns_together_ * columns_together_;
        const int64_t gate_begin = source.pieces.begins[column / units_];
        Operand* steps = out + first * depth_ + k * columns_together_ +
                         (column - first) * kStep;
        int64_t unit = panel_begin * units_ + column % units_;
        for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
          const int64_t count =
              std::clamp<int64_t>(hidden_size_ - unit, 0, width);
          PackRowsOf(k, k_end, gate_begin + (count > 0 ? unit : 0), count,
                     width, steps, columns_together_ * kStep, row);
          unit += units_;
          steps += panel_size();
        }
      }
    }
  }

  Operand* panels_ = nullptr;
  int64_t hidden_size_;
  int64_t output_size_;
  int num_gates_;
  int64_t num_panels_;
  int64_t units_;
  int64_t depth_;
  int64_t panel_size_;
  int64_t columns_together_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_CELL_PANELS_H_
