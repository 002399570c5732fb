// What stands in a reserve besides what backward reads.
#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/engine/elements/dropout.h"
#include "kernels/engine/elements/elements.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "network/reserve_layout.h"
#include "network/shared_memory.h"

namespace rnn {

namespace {

// Reads the dropout key from a header's values; false if what stands there are
// not bytes.
template <typename F>
[[nodiscard]] bool ReadDropoutKey(const F* header, uint64_t* key) {
  *key = 0;
  for (int byte = 0; byte < 8; ++byte) {
    const F value = header[ReserveHeader::kKeyOffset + byte];
    if (!(value >= 0 && value <= 255)) return false;
    const auto integer = static_cast<uint64_t>(value);
    if (static_cast<F>(integer) != value) return false;
    *key |= integer << (8 * byte);
  }
  return true;
}

}  // namespace

template <typename Element>
Status CheckReserve(const RnnDescriptor& descriptor, const Sequences& sequences,
                    const ReserveLayout& layout,
                    const PaddedLayout& padded_layout, const Element* reserve,
                    int64_t size, uint64_t* dropout_key) {
  if (size != layout.size()) {
    return Status::InvalidArgument(
        "reserve_space must have the " + std::to_string(layout.size()) +
        " elements that the forward op makes for these sizes and options, "
        "got " +
        std::to_string(size) +
        "; pass the reserve_space of the forward call being differentiated, "
        "made with is_training=True.");
  }
  Element copy[ReserveHeader::kSize];
  CopyOnce(reserve, ReserveHeader::kSize, copy);
  ComputeType<Element> values[ReserveHeader::kSize];
  Load(copy, values, ReserveHeader::kSize);
  bool matches = ReadDropoutKey(values, dropout_key);
  if (matches) {
    const ReserveHeader header(descriptor, sequences, padded_layout,
                               *dropout_key);
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

template <typename F>
void DrawDropoutMasks(const RnnDescriptor& descriptor,
                      const Sequences& sequences, uint64_t dropout_key,
                      F* masks, Executor& executor) {
  // Without rows any number of layers is valid, over which the loop would go.
  if (!DropsOut(descriptor.dropout) || sequences.shape_rows() == 0) return;
  const Dropout dropout{descriptor.dropout, dropout_key};
  const int64_t T = sequences.max_time();
  const int64_t B = sequences.batch();
  const int64_t width = descriptor.layer_output_size();
  for (int64_t layer = 0; layer + 1 < descriptor.num_layers; ++layer) {
    F* const layer_masks = masks + layer * T * B * width;
    ParallelFor(executor, T * B, width * speed::kMoveWork,
                [&](int64_t begin, int64_t end) {
                  RowsToDrop<F> rows(dropout, layer, width);
                  for (int64_t i = begin; i < end; ++i) {
                    F* row = layer_masks + i * width;
                    std::fill_n(row, width, F{1});
                    rows.Add(i / B, i % B, row);
                  }
                });
  }
}

#define RNN_INSTANTIATE(Element)                                          \
  template Status CheckReserve(const RnnDescriptor&, const Sequences&,    \
                               const ReserveLayout&, const PaddedLayout&, \
                               const Element*, int64_t, uint64_t*);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(double)
RNN_INSTANTIATE(Half)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

template void DrawDropoutMasks(const RnnDescriptor&, const Sequences&, uint64_t,
                               float*, Executor&);
template void DrawDropoutMasks(const RnnDescriptor&, const Sequences&, uint64_t,
                               double*, Executor&);

}  // namespace rnn
