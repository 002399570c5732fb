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

// R [P, G*H] in the panels CellForwardStep wants, of columns [G][units], zeros
// after those of a panel of fewer units than others: packed for all steps, or
// one after another for one step.
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
  int64_t units() const { return units_; }  // per panel, but the last
  int64_t units_of(int64_t panel) const {
    return std::min(units_, hidden_size_ - panel * units_);
  }
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
    const int64_t whole_end = std::min(end, hidden_size_ / units_);
    for (int64_t i = begin; i < end;) {
      const int64_t group_end =
          i < whole_end ? std::min(i + speed::kPanelsPackedTogether, whole_end)
                        : end;
      PackPanelsOfRows(source, i, group_end, out + (i - begin) * panel_size());
      i = group_end;
    }
  }

  template <typename Element>
  void PackPanelOfColumns(const MatrixSource<Element>& source, int64_t panel,
                          Operand* out) const {
    const Element* rows[kMaxPanelColumns] = {};
    const int64_t units = units_of(panel);
    for (int gate = 0; gate < num_gates_; ++gate) {
      for (int64_t u = 0; u < units; ++u) {
        rows[gate * units + u] =
            source.row(gate * hidden_size_ + panel * units_ + u);
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

  // Panels of as many units each; `out`: as many panels.
  template <typename Element>
  void PackPanelsOfRows(const MatrixSource<Element>& source,
                        int64_t panel_begin, int64_t panel_end,
                        Operand* out) const {
    const int64_t num_columns = num_gates_ * units_;
    Piece piece;
    piece.panel_begin = panel_begin;
    piece.panel_end = panel_end;
    for (int64_t k = 0; k < output_size_; k += speed::kRowsPackedTogether) {
      piece.k_begin = k;
      piece.k_end = std::min(k + speed::kRowsPackedTogether, output_size_);
      for (piece.begin = 0; piece.begin < num_columns;
           piece.begin = piece.end) {
        piece.end = EndOfPiece(piece.begin, units_of(panel_begin));
        PackPiece(source, piece, out);
      }
    }
  }

  // Columns from `column` on that are of one gate, or of none, and packed
  // together.
  int64_t EndOfPiece(int64_t column, int64_t units) const {
    const int64_t end_of_gate = column < num_gates_ * units
                                    ? (column / units + 1) * units
                                    : num_gates_ * units_;
    return std::min(end_of_gate,
                    (column / columns_together_ + 1) * columns_together_);
  }

  // Some rows of R, and columns [begin, end) of each of some panels.
  struct Piece {
    int64_t k_begin;
    int64_t k_end;
    int64_t panel_begin;
    int64_t panel_end;
    int64_t begin;
    int64_t end;
  };
  template <typename Element>
  void PackPiece(const MatrixSource<Element>& source, const Piece& piece,
                 Operand* out) const {
    constexpr int64_t kStep = kDepthStep<Operand>;
    const auto row = [&source](int64_t k) { return source.row(k); };
    const int64_t units = units_of(piece.panel_begin);
    const int64_t width = piece.end - piece.begin;
    const bool is_of_gate = piece.begin < num_gates_ * units;
    const int64_t first = piece.begin / columns_together_ * columns_together_;
    RowBlock block;
    block.k_begin = piece.k_begin;
    block.k_end = piece.k_end;
    block.offset = is_of_gate
                       ? source.pieces.begins[piece.begin / units] +
                             piece.panel_begin * units_ + piece.begin % units
                       : 0;
    block.columns = is_of_gate ? width : 0;
    block.padded_columns = width;
    Operand* steps = out + first * depth_ + piece.k_begin * columns_together_ +
                     (piece.begin - first) * kStep;
    for (int64_t i = piece.panel_begin; i < piece.panel_end; ++i) {
      PackRowsOf(block, steps, columns_together_ * kStep, row);
      if (is_of_gate) block.offset += units_;
      steps += panel_size();
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
