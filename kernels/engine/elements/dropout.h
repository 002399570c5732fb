// Inverted dropout between layers, from a counter-based generator: mask element
// (layer, step, batch row, feature) is a function of these four and the key, so
// Backward draws the same mask again and no order of work can change it.
#ifndef KERNELS_ENGINE_ELEMENTS_DROPOUT_H_
#define KERNELS_ENGINE_ELEMENTS_DROPOUT_H_

#include <array>
#include <cstdint>

#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {

struct Dropout {
  float probability;  // in [0, 1]
  uint64_t key;
};

// Applies dropout to rows of the features that one layer emits: each becomes
// itself / (1 - probability) where kept, 0 where dropped. Feature j takes word
// j of the generator (DropoutRows in simd_kernels.h) and is kept iff that word
// is at least floor(probability * 2^32). Operand is float, double or BFloat16,
// which is rounded.
//
// Rows wait until there are so many that the generator is well used, and until
// this object goes at the latest. There is a feature at least.
template <typename Operand>
class RowsToDrop {
 public:
  RowsToDrop(const Dropout& dropout, int64_t layer, int64_t features);
  RowsToDrop(const RowsToDrop&) = delete;
  RowsToDrop& operator=(const RowsToDrop&) = delete;
  ~RowsToDrop() { DropOut(); }

  // `values` are those of `batch_row` at `time`, until this object goes.
  void Add(int64_t time, int64_t batch_row, Operand* values) {
    waiting_[num_waiting_++] = {static_cast<uint32_t>(batch_row),
                                static_cast<uint32_t>(time), values};
    if (num_waiting_ == max_waiting_) DropOut();
  }

 private:
  // So many rows have whole vectors of counters, however many each has.
  static constexpr int64_t kMaxWaiting = 32;

  void DropOut();

  DropoutRows<Operand> rows_;
  int64_t max_waiting_;
  int64_t num_waiting_ = 0;
  std::array<DroppedRow<Operand>, kMaxWaiting> waiting_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_ELEMENTS_DROPOUT_H_
