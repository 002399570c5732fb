#include "network/reserve_layout.h"

#include "network/float_bits.h"
#include "network/sizes.h"

namespace rnn {

namespace {

// Changes whenever the meaning of a reserve does.
constexpr uint64_t kReserveVersion = 1;

}  // namespace

ReserveHeader::ReserveHeader(const RnnDescriptor& descriptor,
                             const Sequences& sequences,
                             const PaddedLayout& layout, uint64_t dropout_key) {
  int64_t next = 0;
  const auto append = [&](uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      bytes_[next++] = static_cast<uint8_t>(value >> (8 * byte));
    }
  };
  append(kReserveVersion | static_cast<uint64_t>(descriptor.mode) << 8 |
         uint64_t{descriptor.skip_input} << 16 |
         uint64_t{layout.time_major} << 17 |
         uint64_t{layout.states_outer_major} << 18 |
         static_cast<uint64_t>(descriptor.num_directions) << 24 |
         uint64_t{BitsOf(descriptor.dropout)} << 32);
  static_assert(kKeyOffset == 8);
  append(dropout_key);
  append(static_cast<uint64_t>(descriptor.num_layers));
  append(static_cast<uint64_t>(descriptor.input_size));
  append(static_cast<uint64_t>(descriptor.hidden_size));
  append(static_cast<uint64_t>(descriptor.output_size()));
  append(static_cast<uint64_t>(sequences.max_time()));
  append(static_cast<uint64_t>(sequences.batch()));
  append(static_cast<uint64_t>(sequences.num_valid_rows()));
  append(sequences.fingerprint());
}

Status ReserveLayout::Create(const RnnDescriptor& descriptor,
                             const Sequences& sequences,
                             ReserveLayout* layout) {
  const RnnDescriptor& d = descriptor;
  const Wide rows = sequences.num_valid_rows();
  const Wide layer_output = rows * d.num_directions * d.output_size();
  // Not ReservedRowSize, which may overflow where nothing has been checked.
  const Wide activations = rows * NumReservedPerUnit(d.mode) * d.hidden_size;
  const bool parts_fit =
      layer_output <= kMaxTensorSize && activations <= kMaxTensorSize;
  const Wide size = parts_fit ? ReserveHeader::kSize +
                                    d.num_pseudo_layers() * activations +
                                    (d.num_layers - 1) * layer_output
                              : Wide{kMaxTensorSize} + 1;
  if (size > kMaxTensorSize) {
    return Status::ResourceExhausted(
        "the size of reserve_space overflows: num_layers = " +
        std::to_string(d.num_layers) +
        ", num_units = " + std::to_string(d.hidden_size) + ", " +
        std::to_string(sequences.num_valid_rows()) + " valid time steps.");
  }
  layout->activations_size_ = static_cast<int64_t>(activations);
  layout->layer_output_size_ = static_cast<int64_t>(layer_output);
  layout->layer_outputs_offset_ =
      ReserveHeader::kSize + d.num_pseudo_layers() * layout->activations_size_;
  layout->size_ = static_cast<int64_t>(size);
  return Status();
}

}  // namespace rnn
