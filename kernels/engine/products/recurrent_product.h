// What the steps of forward multiply by R, and the cells that follow.
#ifndef KERNELS_ENGINE_PRODUCTS_RECURRENT_PRODUCT_H_
#define KERNELS_ENGINE_PRODUCTS_RECURRENT_PRODUCT_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/products/matrix_product.h"
#include "kernels/engine/products/step_ranks.h"
#include "kernels/engine/products/step_work.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "kernels/engine/weights/cell_panels.h"
#include "kernels/engine/weights/forward_weights.h"
#include "kernels/engine/weights/int8_matrix.h"
#include "network/round.h"

namespace rnn {

// R of one pseudo-layer after another. Packed, cells multiply by it themselves;
// along other routes the products come first, into sums that cells read.
template <typename Element, typename Operand>
class RecurrentProduct {
 public:
  using F = ComputeType<Operand>;

  // `weights` must outlive the object, and have R of the pseudo-layer at hand.
  RecurrentProduct(const ForwardPlan& plan,
                   const ForwardScratch::PseudoLayer& blocks,
                   const ScratchView& scratch,
                   const ForwardWeights<Element, Operand>& weights)
      : d_(plan.descriptor),
        weights_(weights),
        panels_(weights.cell_panels()),
        route_(plan.recurrent_weights.route),
        num_places_(plan.recurrent_weights.places.count),
        reads_whole_rows_(plan.reads_whole_rows),
        batch_(plan.sequences->batch()),
        least_rows_(LeastProductRows(plan.kernels, route_ == Route::kInt8)),
        state_integers_(
            LeftIntegers::In(scratch, blocks.state_integers, d_.output_size())),
        sums_(scratch.At<F>(blocks.recurrent_sums.values)),
        sum_rows_(scratch.At<F*>(blocks.recurrent_sums.rows)),
        zeros_(scratch.At<F>(blocks.zero_sums.values)),
        zero_rows_(scratch.At<F*>(blocks.zero_sums.rows)) {
    // Steps, and groups of ranks, would pack into the same memory.
    if (IsInTurn(route_) && plan.sequences->num_steps() > 1) std::abort();
  }

  // Comes first for each pseudo-layer. If h is zero before its first step, the
  // product of that step is zero, and R is not read.
  void Begin(bool starts_from_zeros) {
    starts_from_zeros_ = starts_from_zeros;
    if (starts_from_zeros) {
      std::fill_n(zeros_, d_.gates_size(), F{0});
      std::fill_n(zero_rows_, batch_, zeros_);
    }
    if (!MultipliesColumnRanges(route_)) return;
    for (int64_t i = 0; i < batch_; ++i) {
      sum_rows_[i] = sums_ + i * d_.gates_size();
    }
  }

  // The cells of a step's ranks panel by panel, with what R adds to them.
  // run_cells(cells, shares, count) gets cells that know R, their units and
  // h_prev, each for the rows of its share; it sets the rest and calls the
  // micro-kernel.
  template <typename Run>
  void RunPanels(Executor& executor, const StepRanks& ranks,
                 const Operand* const* h_prev, Run run_cells) const {
    if (ranks.step == 0 && starts_from_zeros_) {
      RunEachPanel(executor, ranks, zero_rows_, h_prev, run_cells);
      return;
    }
    switch (route_) {
      case Route::kPacked:
        RunPackedPanels(executor, ranks, h_prev, run_cells);
        return;
      case Route::kPackedInTurn:
        panels_.PackInTurn(weights_.recurrent_source(), num_places_, executor,
                           StepWork(ranks) / panels_.num_panels(),
                           [&](int64_t panel, const Operand* packed) {
                             RunCell(AllRanksOf(panel, ranks), packed,
                                     /*sums=*/nullptr, h_prev, run_cells);
                           });
        return;
      case Route::kInt8:
        RoundStates(executor, ranks, h_prev);
        [[fallthrough]];
      case Route::kColumnsInPlace:
        RunEachPanel(executor, ranks, /*sums=*/nullptr, h_prev, run_cells);
        return;
      case Route::kRowsInPlace:
        if (reads_whole_rows_ && ranks.count() == 1) {
          MultiplyRows(executor, ranks, h_prev);
          RunEachPanel(executor, ranks, sum_rows_, h_prev, run_cells);
          return;
        }
        [[fallthrough]];
      case Route::kDotPanels:
        RunFewRanges(executor, ranks, h_prev, run_cells);
        return;
      case Route::kParts:
        break;  // R never comes so
    }
    std::abort();
  }

 private:
  // Rounds the h before a step, for products with int8.
  void RoundStates(Executor& executor, const StepRanks& ranks,
                   const Operand* const* h_prev) const {
    if constexpr (std::is_same_v<Operand, float>) {
      RoundRows(h_prev + ranks.begin, ranks.count(), d_.output_size(), executor,
                state_integers_.From(ranks.begin));
    } else {
      std::abort();  // R is not int8
    }
  }

  // Floating-point operations.
  int64_t StepWork(const StepRanks& ranks) const {
    const int64_t product_rows = std::max(ranks.count(), least_rows_);
    return RecurrentProductWork(d_, product_rows) + CellWork(d_, ranks.count());
  }

  static PanelRows AllRanksOf(int64_t panel, const StepRanks& ranks) {
    return PanelRows::Alone(panel, ranks.begin, ranks.end);
  }

  // Sets what a cell knows of R: the share's panel `packed` or, that being
  // nullptr, `sums` by rank.
  void SetCell(const PanelRows& share, const Operand* packed,
               const F* const* sums, const Operand* const* h_prev,
               CellForwardStep<Operand>& cell) const {
    cell.rows = share.row_end - share.row_begin;
    cell.hidden_size = d_.hidden_size;
    cell.unit = share.panel * panels_.units();
    cell.units = panels_.units_of(share.panel);
    cell.depth = panels_.depth();
    cell.recurrent = packed;
    cell.next_recurrent = nullptr;
    cell.recurrent_sums = packed == nullptr ? sums + share.row_begin : nullptr;
    cell.h_prev = h_prev + share.row_begin;
  }

  template <typename Run>
  void RunCell(const PanelRows& share, const Operand* packed,
               const F* const* sums, const Operand* const* h_prev,
               Run run_cells) const {
    CellForwardStep<Operand> cell;
    SetCell(share, packed, sums, h_prev, cell);
    run_cells(&cell, &share, 1);
  }

  template <typename Run>
  void RunPackedPanels(Executor& executor, const StepRanks& ranks,
                       const Operand* const* h_prev, Run run_cells) const {
    const AllPanels panels =
        PanelsOf(ranks, panels_.num_panels(), StepWork(ranks));
    ParallelPanelGroups(
        executor, panels, [&](const PanelRows* shares, int count) {
          CellForwardStep<Operand> cells[speed::kMaxPanelsTogether];
          for (int i = 0; i < count; ++i) {
            const PanelRows& share = shares[i];
            SetCell(share, panels_.panel(share.panel), /*sums=*/nullptr, h_prev,
                    cells[i]);
            if (share.next_panel != PanelRows::kNone) {
              cells[i].next_recurrent = panels_.panel(share.next_panel);
            }
          }
          run_cells(cells, shares, count);
        });
  }

  // sums = h_prev times R. Each thread reads a range of R's rows that is as
  // long as can be, not one for each gate of its units: some shorter pieces of
  // as many pages.
  void MultiplyRows(Executor& executor, const StepRanks& ranks,
                    const Operand* const* h_prev) const {
    RowsTimesMatrix<Operand> product;
    product.rows = ranks.count();
    product.a = h_prev + ranks.begin;
    product.c = sum_rows_ + ranks.begin;
    Multiply(product, weights_.recurrent_by_columns(), executor);
  }

  // The cells of each panel from `sums`, by rank; if that is nullptr, they are
  // multiplied first.
  template <typename Run>
  void RunEachPanel(Executor& executor, const StepRanks& ranks,
                    const F* const* sums, const Operand* const* h_prev,
                    Run run_cells) const {
    const int64_t work =
        sums == nullptr ? StepWork(ranks) : CellWork(d_, ranks.count());
    const AllPanels panels = PanelsOf(ranks, panels_.num_panels(), work);
    ParallelPanels(executor, panels, [&](const PanelRows& share) {
      if (sums == nullptr) {
        ColumnRows units =
            UnitsOf(share.panel, share.panel + 1, ranks.Of(share));
        if (share.next_panel != PanelRows::kNone) {
          units.next_column = share.next_panel * panels_.units();
        }
        MultiplyGates(h_prev, units);
      }
      RunCell(share, /*packed=*/nullptr, sums == nullptr ? sum_rows_ : sums,
              h_prev, run_cells);
    });
  }

  // On few ranges of panels, for R had better be read in long pieces.
  template <typename Run>
  void RunFewRanges(Executor& executor, const StepRanks& ranks,
                    const Operand* const* h_prev, Run run_cells) const {
    const int64_t together = PanelsTogether();
    const int64_t num_panels = panels_.num_panels();
    ParallelFewRanges(executor, DivideUp(num_panels, together), StepWork(ranks),
                      PanelOrder(ranks.step), [&](int64_t begin, int64_t end) {
                        begin *= together;
                        end = std::min(end * together, num_panels);
                        MultiplyGates(h_prev, UnitsOf(begin, end, ranks));
                        for (; begin < end; ++begin) {
                          RunCell(AllRanksOf(begin, ranks), /*packed=*/nullptr,
                                  sum_rows_, h_prev, run_cells);
                        }
                      });
  }

  // A range begins with the first column of a dot panel, which so many of
  // cells' panels have.
  int64_t PanelsTogether() const {
    if (route_ != Route::kDotPanels) return 1;
    return std::max<int64_t>(1,
                             Kernels<Operand>().dot_columns / panels_.units());
  }

  // The units of panels [begin, end) of cells.
  ColumnRows UnitsOf(int64_t begin, int64_t end, const StepRanks& ranks) const {
    ColumnRows units;
    units.column_begin = begin * panels_.units();
    units.column_end = std::min(end * panels_.units(), d_.hidden_size);
    units.row_begin = ranks.begin;
    units.row_end = ranks.end;
    units.order = PanelOrder(ranks.step);
    return units;
  }

  // sums = h_prev times R by columns, for these units of all gates, as columns
  // of the first.
  void MultiplyGates(const Operand* const* h_prev,
                     const ColumnRows& units) const {
    RowsTimesMatrix<Operand> product;
    product.a = h_prev;
    product.left_integers = state_integers_;
    product.c = sum_rows_;
    ColumnRows shares[kMaxGates];
    for (int gate = 0; gate < d_.num_gates(); ++gate) {
      const int64_t first = gate * d_.hidden_size;
      ColumnRows& share = shares[gate];
      share = units;
      share.column_begin += first;
      share.column_end += first;
      // The next gate's come next; after the last, the first's of other units.
      if (gate + 1 < d_.num_gates()) {
        share.next_column = share.column_begin + d_.hidden_size;
      }
    }
    MultiplyColumns(product, weights_.recurrent_by_columns(), shares,
                    d_.num_gates());
  }

  const RnnDescriptor& d_;
  const ForwardWeights<Element, Operand>& weights_;
  const CellPanels<Operand>& panels_;
  const Route route_;
  const int64_t num_places_;     // packed in its turn
  const bool reads_whole_rows_;  // for one rank
  const int64_t batch_;
  const int64_t least_rows_;  // that a step counts as
  bool starts_from_zeros_ = false;
  LeftIntegers state_integers_;  // int8: h before a step, [B, P]
  F* sums_;                      // by columns: [B, G*H]
  F** sum_rows_;
  F* zeros_;  // the sums of a step that starts from zeros: [G*H] for all ranks
  F** zero_rows_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PRODUCTS_RECURRENT_PRODUCT_H_
