// What stands in a reserve besides what backward reads.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "kernels/engine/elements/dropout.h"
#include "kernels/engine/elements/elements.h"
#include "kernels/engine/elements/reserve_header.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "network/reserve_layout.h"

namespace rnn {

template <typename Element>
Status CheckReserve(const RnnDescriptor& descriptor, const Sequences& sequences,
                    const ReserveLayout& layout,
                    const PaddedLayout& padded_layout, const Element* reserve,
                    int64_t size) {
  if (size != layout.size()) {
    return Status::InvalidArgument(
        "reserve_space must have the " + std::to_string(layout.size()) +
        " elements that the forward op makes for these sizes and options, "
        "got " +
        std::to_string(size) +
        "; pass the reserve_space of the forward call being differentiated, "
        "made with is_training=True.");
  }
  uint64_t key;
  bool matches = ReadDropoutKey(reserve, &key);
  if (matches) {
    ComputeType<Element> values[ReserveHeader::kSize];
    Load(reserve, values, ReserveHeader::kSize);
    const ReserveHeader header(descriptor, sequences, padded_layout, key);
    matches = std::equal(header.bytes().begin(), header.bytes().end(), values);
  }
  if (!matches) {
    return Status::InvalidArgument(
        "reserve_space was made by a call of other options, sizes or "
        "sequence_lengths; pass the reserve_space of the forward call being "
        "differentiated, with the same attributes and inputs.");
  }
  return Status();
}

template <typename Element>
void ReadDropoutMasks(const RnnDescriptor& descriptor,
                      const Sequences& sequences, const Element* reserve,
                      ComputeType<Element>* masks, Executor& executor) {
  if (descriptor.dropout == 0) return;
  using F = ComputeType<Element>;
  Dropout dropout{descriptor.dropout, 0};
  if (!ReadDropoutKey(reserve, &dropout.key)) std::abort();
  const int64_t T = sequences.max_time();
  const int64_t B = sequences.batch();
  const int64_t width = descriptor.num_directions * descriptor.output_size();
  ParallelFor(executor, (descriptor.num_layers - 1) * T * B,
              width * speed::kMoveWork, [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  F* row = masks + i * width;
                  std::fill_n(row, width, F{1});
                  dropout.Apply(i / B / T, i / B % T, i % B, width, row, row);
                }
              });
}

#define RNN_INSTANTIATE(Element)                                          \
  template Status CheckReserve(const RnnDescriptor&, const Sequences&,    \
                               const ReserveLayout&, const PaddedLayout&, \
                               const Element*, int64_t);                  \
  template void ReadDropoutMasks(const RnnDescriptor&, const Sequences&,  \
                                 const Element*, ComputeType<Element>*,   \
                                 Executor&);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(double)
RNN_INSTANTIATE(Half)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

}  // namespace rnn
