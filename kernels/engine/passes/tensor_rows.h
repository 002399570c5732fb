// Finding the row of features that belongs to a step and a batch row.
#ifndef KERNELS_ENGINE_PASSES_TENSOR_ROWS_H_
#define KERNELS_ENGINE_PASSES_TENSOR_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/engine/elements/dropout.h"
#include "kernels/engine/elements/elements.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/plan/arena.h"
#include "kernels/engine/plan/chunks.h"
#include "kernels/engine/threads/parallel.h"
#include "network/sequences.h"

namespace rnn {

// Rows by (time, rank) of a tensor that is either padded, with strides, or
// dense: one row of `outer` values per valid row, in time order.
template <typename Value>
class TimeRows {
 public:
  TimeRows() = default;

  static TimeRows Padded(const Sequences& sequences, Value* data,
                         Strides strides) {
    return TimeRows(&sequences, data, strides, /*padded=*/true);
  }
  static TimeRows Dense(const Sequences& sequences, Value* data,
                        int64_t row_size) {
    return TimeRows(&sequences, data, {row_size, 0}, /*padded=*/false);
  }

  Value* Row(int64_t time, int64_t rank) const {
    return padded_ ? data_ + time * strides_.outer +
                         sequences_->batch_row(rank) * strides_.batch
                   : data_ + (sequences_->offset(time) + rank) * strides_.outer;
  }

  // The same rows, seen from feature `offset` on.
  TimeRows From(int64_t offset) const {
    return TimeRows(sequences_, data_ + offset, strides_, padded_);
  }

 private:
  TimeRows(const Sequences* sequences, Value* data, Strides strides,
           bool padded)
      : sequences_(sequences),
        data_(data),
        strides_(strides),
        padded_(padded) {}

  const Sequences* sequences_ = nullptr;
  Value* data_ = nullptr;
  Strides strides_{};
  bool padded_ = false;
};

// Rows of one buffer: pointers to [count] rows of `row_size`.
template <typename F>
struct RowBuffer {
  F* values = nullptr;
  F** rows = nullptr;

  static RowBuffer Take(Arena& arena, int64_t count, int64_t row_size) {
    RowBuffer buffer;
    buffer.values = arena.Take<F>(count * row_size);
    buffer.rows = arena.Take<F*>(count);
    return buffer;
  }
  void SetRows(int64_t count, int64_t row_size) {
    for (int64_t i = 0; i < count; ++i) rows[i] = values + i * row_size;
  }
};

// Zeroes the padding of a [T, B, features] tensor.
template <typename Element>
void ZeroPadding(const Sequences& sequences, Element* data, Strides strides,
                 int64_t features, Executor& executor) {
  ParallelFor(
      executor, sequences.batch(), sequences.max_time() * features * kMoveWork,
      [&](int64_t begin, int64_t end) {
        for (int64_t rank = begin; rank < end; ++rank) {
          Element* row = data + sequences.batch_row(rank) * strides.batch;
          for (int64_t time = sequences.length(rank);
               time < sequences.max_time(); ++time) {
            std::fill_n(row + time * strides.outer, features, Element{});
          }
        }
      });
}

// Where the step before `step` begins among `rows`, which have an entry for
// each rank before the chunk and then one for each of the chunk's rows.
template <typename Row>
Row* RowsBefore(const Sequences& sequences, StepRange chunk, int64_t step,
                Row* rows) {
  if (step == chunk.begin) return rows;
  return rows + sequences.batch() + sequences.offset(step - 1) -
         sequences.offset(chunk.begin);
}

// As ForEachRow(), by all threads.
template <typename Row>
void ParallelForEachRow(Executor& executor, const Sequences& sequences,
                        StepRange chunk, int64_t work_per_row, Row row) {
  if (chunk.begin == chunk.end) return;
  ParallelFor(
      executor, chunk.end - chunk.begin,
      sequences.active(chunk.begin) * work_per_row,
      [&](int64_t begin, int64_t end) {
        const StepRange part = {chunk.begin + begin, chunk.begin + end};
        const int64_t first =
            sequences.offset(part.begin) - sequences.offset(chunk.begin);
        ForEachRow(sequences, part, [&](int64_t i, int64_t step, int64_t rank) {
          row(first + i, step, rank);
        });
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
  void Gather(int direction, StepRange chunk, Executor& executor,
              Operand* staging, const Operand** rows) const {
    if constexpr (kComputesInPlace<Element, Operand>) {
      if (dropout_ == nullptr && row_size() == features_) {
        ForEachRow(
            sequences_, chunk, [&](int64_t i, int64_t step, int64_t rank) {
              rows[i] =
                  source_.Row(sequences_.time(direction, step, rank), rank);
            });
        return;
      }
    }
    ParallelForEachRow(executor, sequences_, chunk, features_ * kMoveWork,
                       [&](int64_t i, int64_t step, int64_t rank) {
                         Operand* row = staging + i * row_size();
                         StageRow(sequences_.time(direction, step, rank), rank,
                                  row);
                         rows[i] = row;
                       });
  }

 private:
  int64_t row_size() const { return PaddedDepth<Operand>(features_); }

  void StageRow(int64_t time, int64_t rank, Operand* row) const {
    LoadOperands(source_.Row(time, rank), row, features_);
    std::fill(row + features_, row + row_size(), Operand{});
    if (dropout_ != nullptr) {
      dropout_->Apply(dropped_layer_, time, sequences_.batch_row(rank),
                      features_, row, row);
    }
  }

  const Sequences& sequences_;
  TimeRows<const Element> source_;
  int64_t features_;
  int64_t dropped_layer_ = 0;
  const Dropout* dropout_ = nullptr;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_TENSOR_ROWS_H_
