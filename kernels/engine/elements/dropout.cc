#include "kernels/engine/elements/dropout.h"

#include <algorithm>
#include <cmath>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/thresholds.h"

namespace rnn {

template <typename Element>
void Dropout::Apply(int64_t layer, int64_t time, int64_t batch_row,
                    int64_t count, const Element* in, Element* out) const {
  using F = ComputeType<Element>;
  DropoutRow<F> row;
  row.counter[0] = static_cast<uint32_t>(batch_row);
  row.counter[1] = static_cast<uint32_t>(time);
  row.counter[2] = static_cast<uint32_t>(layer);
  row.key = key;
  row.min_kept_word = static_cast<uint64_t>(
      std::floor(static_cast<double>(probability) * 0x1p32));
  // With probability 1 nothing is kept, so the scale does not matter.
  row.scale = probability < 1 ? F{1} / (F{1} - F{probability}) : F{0};
  row.first = 0;
  row.count = count;
  if constexpr (kElementIsOperand<Element>) {
    row.in = in;
    row.out = out;
    Kernels<F>().drop_out(row);
  } else {
    constexpr int64_t kBlock = speed::kDroppedFeatures;
    F values[kBlock];
    row.in = row.out = values;
    for (int64_t j = 0; j < count; j += kBlock) {
      row.first = j;
      row.count = std::min(kBlock, count - j);
      Load(in + j, values, row.count);
      Kernels<F>().drop_out(row);
      Store(values, out + j, row.count);
    }
  }
}

template void Dropout::Apply(int64_t, int64_t, int64_t, int64_t, const float*,
                             float*) const;
template void Dropout::Apply(int64_t, int64_t, int64_t, int64_t, const double*,
                             double*) const;
template void Dropout::Apply(int64_t, int64_t, int64_t, int64_t,
                             const BFloat16*, BFloat16*) const;

}  // namespace rnn
