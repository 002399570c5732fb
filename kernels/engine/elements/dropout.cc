#include "kernels/engine/elements/dropout.h"

#include <algorithm>
#include <cmath>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/thresholds.h"

namespace rnn {

template <typename Operand>
RowsToDrop<Operand>::RowsToDrop(const Dropout& dropout, int64_t layer,
                                int64_t features)
    : max_waiting_(std::clamp<int64_t>(speed::kDroppedFeatures / features, 1,
                                       kMaxWaiting)) {
  using F = ComputeType<Operand>;
  const float probability = dropout.probability;
  rows_.layer = static_cast<uint32_t>(layer);
  rows_.key = dropout.key;
  rows_.min_kept_word = static_cast<uint64_t>(
      std::floor(static_cast<double>(probability) * 0x1p32));
  // With probability 1 nothing is kept, so the scale does not matter.
  rows_.scale = probability < 1 ? F{1} / (F{1} - F{probability}) : F{0};
  rows_.features = features;
}

template <typename Operand>
void RowsToDrop<Operand>::DropOut() {
  rows_.rows = waiting_.data();
  rows_.count = num_waiting_;
  Kernels<Operand>().drop_out(rows_);
  num_waiting_ = 0;
}

template class RowsToDrop<float>;
template class RowsToDrop<double>;
template class RowsToDrop<BFloat16>;

}  // namespace rnn
