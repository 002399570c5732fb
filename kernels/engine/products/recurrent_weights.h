// R of a pseudo-layer in forward, and what its steps multiply by it.
#ifndef KERNELS_ENGINE_PRODUCTS_RECURRENT_WEIGHTS_H_
#define KERNELS_ENGINE_PRODUCTS_RECURRENT_WEIGHTS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/passes/tensor_rows.h"
#include "kernels/engine/plan/arena.h"
#include "kernels/engine/plan/recurrence.h"
#include "kernels/engine/products/matrix_product.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/weights/packing.h"
#include "kernels/engine/weights/parts.h"
#include "kernels/engine/weights/recurrent_panels.h"
#include "network/cell.h"
#include "network/descriptor.h"
#include "network/sequences.h"

namespace rnn {

// R of so many bytes is packed, larger ones are read in place. Few steps do not
// pay for packing; nor do few rows a step, where packed weights, too, would
// come from beyond a core's cache. Keras' R, of whose rows each thread needs a
// part, is slower to read in place. Constants, whatever the machine's caches
// are: bits depend on them.
inline int64_t MaxPackedRecurrentBytes(const Sequences& sequences,
                                       bool is_canonical) {
  constexpr int64_t kMaxStepsInPlace = 8;
  constexpr int64_t kMegabyte = int64_t{1} << 20;
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  if (!PacksInputWeights(sequences)) {
    if (sequences.max_time() <= kMaxStepsInPlace) return 0;
    return (is_canonical ? 2 : 12) * kMegabyte;
  }
  if (!is_canonical || sequences.batch() > 4) return kAll;
  return (sequences.batch() == 4 ? 12 : 2) * kMegabyte;
}

template <typename Operand>
bool PacksRecurrent(const RnnDescriptor& d, const Sequences& sequences,
                    bool is_canonical) {
  return RecurrentBytes<Operand>(d, /*in_parts=*/false) <=
         MaxPackedRecurrentBytes(sequences, is_canonical);
}

// SetParams() or SetKeras() comes first for each pseudo-layer; only the states
// before its first step may be split earlier.
template <typename Element, typename Operand>
class RecurrentWeights {
 public:
  using F = ComputeType<Operand>;

  // Takes from the arena all the memory that is needed later but for panels.
  RecurrentWeights(const RnnDescriptor& d, const Sequences& sequences,
                   Arena& arena)
      : d_(d),
        sequences_(sequences),
        in_parts_(RecursInParts<Operand>(d, sequences, Pass::kForward)) {
    const int64_t B = sequences.batch();
    if (in_parts_) {
      const int64_t depth = PaddedPartsDepth(d.output_size());
      for (LeftParts& parts : h_parts_) {
        parts = LeftParts::In(
            arena.Take<BFloat16>(LeftParts::Size(B + kPartsRows, depth)),
            depth);
      }
    }
    // Keras' R is read in place only where params' is.
    if (in_parts_ ||
        (kInPlace && !PacksRecurrent<Operand>(d, sequences, true))) {
      sums_ = RowBuffer<F>::Take(arena, B, d.gates_size());
    }
  }

  // And that, which is in use from SetParams() or SetKeras() on.
  void TakePanels(Arena& arena) {
    panels_ = RecurrentPanels<Operand>::Take(arena, d_, !in_parts_);
    if (!in_parts_) return;
    for (int gate = 0; gate < d_.num_gates(); ++gate) {
      parts_[gate] = PackedMatrix<Operand>::Take(arena, d_.output_size(),
                                                 d_.hidden_size, true);
    }
  }

  // `source` is [G*H, P].
  void SetParams(const Element* source, Executor& executor) {
    const int64_t H = d_.hidden_size;
    const int64_t P = d_.output_size();
    Set(source, /*is_canonical=*/true, executor);
    if (form_ == Form::kInParts) {
      for (int gate = 0; gate < d_.num_gates(); ++gate) {
        PackParts(
            MatrixSource<Element>::Columns(source + gate * H * P, P, P, H),
            executor, &parts_[gate]);
      }
    } else if (form_ == Form::kPacked) {
      panels_.Pack(source, executor);
    }
  }

  // `source` is [P, G*H], as Keras has it, its gates those pieces of a row.
  void SetKeras(const Element* source, const Pieces& gates,
                Executor& executor) {
    keras_gates_ = gates;
    Set(source, /*is_canonical=*/false, executor);
    if (form_ == Form::kInParts) {
      for (int gate = 0; gate < d_.num_gates(); ++gate) {
        PackParts(MatrixSource<Element>::Rows(source + gates.begin(gate),
                                              d_.gates_size(), d_.output_size(),
                                              d_.hidden_size),
                  executor, &parts_[gate]);
      }
    } else if (form_ == Form::kPacked) {
      panels_.PackKeras(source, gates, executor);
    }
  }

  bool in_parts() const { return in_parts_; }
  // Whether a step packs R itself, so that parts of the batch had better not
  // run one each.
  bool packs_in_turn() const { return form_ == Form::kPackedInTurn; }

  // Splits units [begin, end) of the h that these ranks' step leaves.
  void SplitStates(const StepRanks& ranks, const Operand* const* h,
                   int64_t begin, int64_t end) const {
    if constexpr (std::is_same_v<Operand, float>) {
      if (!in_parts_) return;
      SplitPartOfRows(h + ranks.begin, ranks.count(), {1, d_.output_size()},
                      begin, end,
                      h_parts_[(ranks.step + 2) % 2].From(ranks.begin));
    }
  }

  // The cells of a step's ranks, with what R adds to them. run_cells(cells,
  // parts, count) gets cells that know R, their units and h_prev, each for the
  // rows of its part; it sets the rest and calls the micro-kernel. Splits h,
  // which is what the cells leave, unless they leave what is projected.
  template <typename Run>
  void RunCells(Executor& executor, const StepRanks& ranks,
                const Operand* const* h_prev, const Operand* const* h,
                Run run_cells) {
    const auto run_cell = [&](const PanelRows& part, const Operand* packed) {
      CellForwardStep<Operand> cell;
      SetCell(part, packed, h_prev, &cell);
      run_cells(&cell, &part, 1);
    };
    const auto all_ranks_of = [&](int64_t panel) {
      return PanelRows{panel, PanelRows::kNone, ranks.begin, ranks.end};
    };
    switch (form_) {
      case Form::kPacked:
        ParallelPanelGroups(
            executor, PanelsOf(ranks), [&](const PanelRows* parts, int count) {
              CellForwardStep<Operand> cells[kMaxPanelsTogether];
              for (int i = 0; i < count; ++i) {
                const PanelRows& part = parts[i];
                SetCell(part, panels_.panel(part.panel), h_prev, &cells[i]);
                if (part.next_panel != PanelRows::kNone) {
                  cells[i].next_recurrent = panels_.panel(part.next_panel);
                }
              }
              run_cells(cells, parts, count);
            });
        return;
      case Form::kPackedInTurn:
        panels_.PackInTurn(source_, executor,
                           StepWork(ranks) / panels_.num_panels(),
                           [&](int64_t panel, const Operand* packed) {
                             run_cell(all_ranks_of(panel), packed);
                           });
        return;
      case Form::kParamsInPlace:
        ParallelPanels(executor, PanelsOf(ranks), [&](const PanelRows& part) {
          MultiplyByParams(h_prev, part);
          run_cell(part, nullptr);
        });
        return;
      case Form::kKerasInPlace:
        ParallelFewRanges(executor, ranks, [&](int64_t begin, int64_t end) {
          MultiplyByKeras(h_prev, ranks, begin, end);
          for (; begin < end; ++begin) run_cell(all_ranks_of(begin), nullptr);
        });
        return;
      case Form::kInParts:
        ParallelPanels(
            executor, PartsPanelsOf(ranks), [&](const PanelRows& part) {
              MultiplyByParts(ranks.step, part);
              const int64_t width = Kernels<Operand>().panel_columns;
              const int64_t unit = part.panel * width;
              const int64_t unit_end = std::min(unit + width, d_.hidden_size);
              for (int64_t u = unit; u < unit_end; u += panels_.units) {
                run_cell({u / panels_.units, PanelRows::kNone, part.row_begin,
                          part.row_end},
                         nullptr);
              }
              if (d_.has_projection()) return;
              SplitStates({ranks.step, part.row_begin, part.row_end}, h, unit,
                          unit_end);
            });
        return;
    }
  }

 private:
  static constexpr bool kInPlace = kComputesInPlace<Element, Operand>;

  enum class Form {
    kPacked,
    kPackedInTurn,   // panel after panel, by the only step
    kParamsInPlace,  // only if Element is Operand
    kKerasInPlace,   // the same
    kInParts,
  };

  void Set(const Element* source, bool is_canonical, Executor& executor) {
    source_ = source;
    form_ = ChooseForm(is_canonical, executor);
    if (form_ != Form::kPacked && form_ != Form::kPackedInTurn) {
      sums_.SetRows(sequences_.batch(), d_.gates_size());
    }
  }

  Form ChooseForm(bool is_canonical, const Executor& executor) const {
    if (in_parts_) return Form::kInParts;
    // Rows of whole steps of depth.
    if (kInPlace && d_.output_size() % kDepthStep<Operand> == 0 &&
        !PacksRecurrent<Operand>(d_, sequences_, is_canonical)) {
      return is_canonical ? Form::kParamsInPlace : Form::kKerasInPlace;
    }
    // One step needs R once. Keras' rows would come in pieces of a panel:
    // nothing gained.
    if (is_canonical && sequences_.num_steps() == 1 &&
        PacksPanelsInTurn(executor, sequences_.active(0),
                          panels_.depth * int64_t{sizeof(Operand)},
                          panels_.num_panels())) {
      return Form::kPackedInTurn;
    }
    return Form::kPacked;
  }

  // Floating-point operations.
  int64_t StepWork(const StepRanks& ranks) const {
    return ranks.count() * (2 * d_.gates_size() * d_.output_size() +
                            kCellWork * d_.hidden_size);
  }

  AllPanels PanelsOf(const StepRanks& ranks) const {
    return {panels_.num_panels(), PanelOrder(ranks.step), ranks.begin,
            ranks.end, StepWork(ranks)};
  }
  AllPanels PartsPanelsOf(const StepRanks& ranks) const {
    return {
        parts_[0].num_panels(), PanelOrder(ranks.step), ranks.begin, ranks.end,
        StepWork(ranks),        kPartsRowsTogether};
  }

  // Calls run(begin, end) on few ranges of panels, for they should be wide.
  template <typename RunRange>
  void ParallelFewRanges(Executor& executor, const StepRanks& ranks,
                         RunRange run) const {
    const int64_t num_panels = panels_.num_panels();
    const int64_t num_ranges =
        std::min<int64_t>(num_panels, 2 * executor.num_threads());
    ParallelFor(executor, num_ranges, StepWork(ranks) / num_ranges,
                [&](int64_t begin, int64_t end) {
                  run(num_panels * begin / num_ranges,
                      num_panels * end / num_ranges);
                });
  }

  // What a cell knows of R, of which `packed` is the part's panel; nullptr if
  // sums_ are there in its place.
  void SetCell(const PanelRows& part, const Operand* packed,
               const Operand* const* h_prev,
               CellForwardStep<Operand>* cell) const {
    *cell = {};
    cell->rows = part.row_end - part.row_begin;
    cell->hidden_size = d_.hidden_size;
    cell->unit = part.panel * panels_.units;
    cell->units = std::min<int64_t>(panels_.units, d_.hidden_size - cell->unit);
    cell->depth = panels_.depth;
    cell->recurrent = packed;
    if (packed == nullptr) cell->recurrent_sums = sums_.rows + part.row_begin;
    cell->h_prev = h_prev + part.row_begin;
  }

  static void PackParts(const MatrixSource<Element>& source, Executor& executor,
                        PackedMatrix<Operand>* parts) {
    parts->SetInParts(true);
    Pack(source, executor, parts);
  }

  // sums_ = h_prev times R in parts, for the units of a panel.
  void MultiplyByParts(int64_t step, const PanelRows& part) {
    if constexpr (std::is_same_v<Operand, float>) {
      static_assert(kMaxGates <= kMaxProductsInParts);
      RowsTimesMatrix<float> products[kMaxGates];
      for (int gate = 0; gate < d_.num_gates(); ++gate) {
        RowsTimesMatrix<float>& product = products[gate];
        product.left_parts = h_parts_[(step + 1) % 2];
        product.b = &parts_[gate];
        product.c = sums_.rows;
        product.c_offset = gate * d_.hidden_size;
      }
      MultiplyPanelsInParts(products, d_.num_gates(), part);
    }
  }

  // sums_ = h_prev times params' R, for the units of a panel.
  void MultiplyByParams(const Operand* const* h_prev, const PanelRows& part) {
    if constexpr (kInPlace) {
      const int64_t H = d_.hidden_size;
      const int64_t P = d_.output_size();
      const int64_t unit = part.panel * panels_.units;
      PanelProduct<Operand> product{};
      product.rows = part.row_end - part.row_begin;
      product.depth = P;
      product.columns = std::min<int64_t>(panels_.units, H - unit);
      product.a = h_prev + part.row_begin;
      product.b.stride = P;
      product.c = sums_.rows + part.row_begin;
      for (int gate = 0; gate < d_.num_gates(); ++gate) {
        product.b.transposed = source_ + (gate * H + unit) * P;
        product.b.next = nullptr;
        if (gate + 1 < d_.num_gates()) {
          product.b.next = product.b.transposed + H * P;
        } else if (part.next_panel != PanelRows::kNone) {
          product.b.next = source_ + part.next_panel * panels_.units * P;
        }
        product.c_offset = gate * H + unit;
        Kernels<Operand>().multiply_panel(product);
      }
    }
  }

  // sums_ = h_prev times Keras' R, for the units of panels [begin, end): rows
  // of R are read from end to end.
  void MultiplyByKeras(const Operand* const* h_prev, const StepRanks& ranks,
                       int64_t begin, int64_t end) {
    if constexpr (kInPlace) {
      const int64_t H = d_.hidden_size;
      const int64_t unit = begin * panels_.units;
      for (int gate = 0; gate < d_.num_gates(); ++gate) {
        RowsProduct<Operand> product{};
        product.rows = ranks.count();
        product.depth = H;
        product.columns = std::min(end * panels_.units, H) - unit;
        product.a = h_prev + ranks.begin;
        product.b = source_ + keras_gates_.begin(gate) + unit;
        product.stride = d_.gates_size();
        product.c = sums_.rows + ranks.begin;
        product.c_offset = gate * H + unit;
        Kernels<Operand>().multiply_rows(product);
      }
    }
  }

  const RnnDescriptor& d_;
  const Sequences& sequences_;
  const bool in_parts_;
  Form form_ = Form::kPacked;
  const Element* source_ = nullptr;  // [G*H, P]; Keras': [P, G*H]
  Pieces keras_gates_{};
  RecurrentPanels<Operand> panels_;
  // R in parts, a matrix [P, H] for each gate, and h before and after a step.
  PackedMatrix<Operand> parts_[kMaxGates];
  LeftParts h_parts_[2];  // [B, P]
  RowBuffer<F> sums_;     // R in place or in parts: [B, G*H]
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PRODUCTS_RECURRENT_WEIGHTS_H_
