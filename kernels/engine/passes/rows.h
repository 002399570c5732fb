// Finding the row of features that belongs to a step and a batch row.
#ifndef KERNELS_ENGINE_PASSES_ROWS_H_
#define KERNELS_ENGINE_PASSES_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "kernels/engine/elements/dropout.h"
#include "kernels/engine/elements/elements.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/passes/chunk_rows.h"
#include "kernels/engine/plan/scratch.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "network/sequences.h"

namespace rnn {

// Rows by (time, rank) of a tensor that is either padded, with strides, or
// dense: one row of `outer` values per valid row, in time order. A dense tensor
// is of these sequences or, if it is kept in a reserve, of the whole batch that
// they may be a part of.
template <typename Value>
class TimeRows {
 public:
  TimeRows() = default;

  static TimeRows Padded(const Sequences& sequences, Value* data,
                         Strides strides) {
    return TimeRows(&sequences, data, strides, Kind::kPadded);
  }
  static TimeRows Dense(const Sequences& sequences, Value* data,
                        int64_t row_size) {
    return TimeRows(&sequences, data, {row_size, 0}, Kind::kDense);
  }
  static TimeRows Kept(const Sequences& sequences, Value* data,
                       int64_t row_size) {
    return TimeRows(&sequences, data, {row_size, 0}, Kind::kKept);
  }

  Value* Row(int64_t time, int64_t rank) const {
    switch (kind_) {
      case Kind::kPadded:
        return AtPlace(sequences_->place(time, rank), rank);
      case Kind::kDense:
        return data_ + (sequences_->offset(time) + rank) * strides_.outer;
      case Kind::kKept:
        return data_ + sequences_->row_of_whole(time, rank) * strides_.outer;
    }
    return nullptr;
  }
  // That of any place in a padded tensor, valid or not.
  Value* AtPlace(int64_t place, int64_t rank) const {
    return data_ + place * strides_.outer +
           sequences_->batch_row(rank) * strides_.batch;
  }

  // These rows, seen from feature `offset` on. A tensor without elements may be
  // nullptr, and stays so.
  TimeRows From(int64_t offset) const {
    return TimeRows(sequences_, data_ == nullptr ? nullptr : data_ + offset,
                    strides_, kind_);
  }

 private:
  enum class Kind { kPadded, kDense, kKept };

  TimeRows(const Sequences* sequences, Value* data, Strides strides, Kind kind)
      : sequences_(sequences), data_(data), strides_(strides), kind_(kind) {}

  const Sequences* sequences_ = nullptr;
  Value* data_ = nullptr;
  Strides strides_{};
  Kind kind_ = Kind::kDense;
};

// The states of one pseudo-layer by rank.
template <typename Value>
class StateRows {
 public:
  // `data` is [L*D, B, .] with these strides, or nullptr if there is none.
  StateRows(const Sequences& sequences, Value* data, const Strides& strides,
            int64_t pseudo_layer)
      : sequences_(sequences),
        data_(data == nullptr ? nullptr : data + pseudo_layer * strides.outer),
        batch_stride_(strides.batch) {}

  Value* Row(int64_t rank) const {
    return data_ + sequences_.batch_row(rank) * batch_stride_;
  }

  // Whether all `features` of all rows are +0, of the whole batch that the
  // sequences may be a part of: so that all parts find the same.
  bool AreZero(int64_t features) const {
    for (int64_t row = 0; row < sequences_.whole_batch(); ++row) {
      if (!HasZeroBytes(data_ + row * batch_stride_,
                        features * sizeof(Value))) {
        return false;
      }
    }
    return true;
  }

 private:
  static bool HasZeroBytes(const void* data, size_t size) {
    // If each byte is like the one after it, all are like the first.
    const char* const bytes = static_cast<const char*>(data);
    return bytes[0] == 0 && std::memcmp(bytes, bytes + 1, size - 1) == 0;
  }

  const Sequences& sequences_;
  Value* data_;
  int64_t batch_stride_;
};

// Rows of one buffer, and pointers to them.
template <typename Value>
struct RowBuffer {
  Value* values = nullptr;
  Value** rows = nullptr;

  static RowBuffer In(const ScratchView& scratch, const RowsBlock& block) {
    return {scratch.At<Value>(block.values), scratch.At<Value*>(block.rows)};
  }
  void SetRows(int64_t count, int64_t row_size) {
    for (int64_t i = 0; i < count; ++i) rows[i] = values + i * row_size;
  }
};

// Fills the padding of a [T, B, features] tensor with zeros or, if `repeats`,
// with the valid row before it.
template <typename Element>
void FillPadding(const Sequences& sequences, Element* data, Strides strides,
                 int64_t features, bool repeats, Executor& executor) {
  const auto fill = [&](int64_t rank, const StepGap& gap, int64_t before) {
    Element* row = data + sequences.batch_row(rank) * strides.batch;
    for (int64_t place = gap.begin; place < gap.end; ++place) {
      Element* padding = row + place * strides.outer;
      if (repeats && before >= 0) {
        std::copy_n(row + before * strides.outer, features, padding);
      } else {
        std::fill_n(padding, features, Element{});
      }
    }
  };
  // Of an empty tensor any number of steps is allowed.
  if (sequences.batch() == 0) return;
  ParallelFor(executor, sequences.batch(),
              sequences.max_time() * features * speed::kMoveWork,
              [&](int64_t begin, int64_t end) {
                for (int64_t rank = begin; rank < end; ++rank) {
                  sequences.ForEachGap(rank,
                                       [&](const StepGap& gap, int64_t before) {
                                         fill(rank, gap, before);
                                       });
                }
              });
}

// What enters a layer, as rows of operands: the network's input, or the outputs
// of the layer below with dropout applied.
template <typename Element, typename Operand>
class LayerInput {
 public:
  LayerInput(const Sequences& sequences, TimeRows<const Element> source,
             int64_t features)
      : sequences_(sequences), source_(source), features_(features) {}

  // `layer` is the one whose outputs are dropped.
  void SetDropout(int64_t layer, const Dropout& dropout) {
    dropped_layer_ = layer;
    dropout_ = &dropout;
  }

  // Points rows[i] at the input of the chunk's i-th row, in `direction`. Rows
  // are as deep as a product wants them, if need be in `staging` [chunk rows,
  // padded features].
  void Gather(int direction, const ChunkRows& chunk, Executor& executor,
              Operand* staging, const Operand** rows) const {
    if constexpr (kElementIsOperand<Element, Operand>) {
      if (dropout_ == nullptr && row_size() == features_) {
        chunk.ForEach([&](int64_t i, int64_t step, int64_t rank) {
          rows[i] = source_.Row(sequences_.time(direction, step, rank), rank);
        });
        return;
      }
    }
    chunk.ParallelForRanges(
        executor, features_ * speed::kMoveWork, [&](const StepRange& steps) {
          std::optional<RowsToDrop<Operand>> to_drop;
          if (dropout_ != nullptr) {
            to_drop.emplace(*dropout_, dropped_layer_, features_);
          }
          chunk.ForEachOf(steps, [&](int64_t i, int64_t step, int64_t rank) {
            const int64_t time = sequences_.time(direction, step, rank);
            Operand* row = staging + i * row_size();
            LoadOperands(source_.Row(time, rank), row, features_);
            std::fill(row + features_, row + row_size(), Operand{});
            if (to_drop) to_drop->Add(time, sequences_.batch_row(rank), row);
            rows[i] = row;
          });
        });
  }

 private:
  int64_t row_size() const { return PaddedDepth<Operand>(features_); }

  const Sequences& sequences_;
  TimeRows<const Element> source_;
  int64_t features_;
  int64_t dropped_layer_ = 0;
  const Dropout* dropout_ = nullptr;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_ROWS_H_
