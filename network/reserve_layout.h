// What Forward saves for Backward, and where.
//
// All values are of the element type and finite as long as the computation is:
//
//   header                   the call's fingerprint, one byte per element
//   for each pseudo-layer k: [num_valid_rows, ReservedRowSize()]  activations,
//                            valid rows in the direction's own step order
//   for each layer < L-1:    [num_valid_rows, D*P]  outputs before dropout,
//                            valid rows in time order
//
// An LSTM row is i, f, g, o, c' (H each); a GRU row is r, z, n and
// q = R_n h + bR_n (H each); a tanh or ReLU cell saves nothing: its derivative
// follows from its output.
#ifndef NETWORK_RESERVE_LAYOUT_H_
#define NETWORK_RESERVE_LAYOUT_H_

#include <array>
#include <cstdint>

#include "network/descriptor.h"
#include "network/sequences.h"
#include "network/status.h"

namespace rnn {

// Everything that must agree between a Forward and its Backward, as bytes:
// every value 0..255 is exact in all element types.
class ReserveHeader {
 public:
  static constexpr int64_t kSize = 96;  // elements

  ReserveHeader(const RnnDescriptor& descriptor, const Sequences& sequences,
                const PaddedLayout& layout, uint64_t dropout_key);

  // Where in the header the dropout key stands, least significant byte first.
  static constexpr int64_t kKeyOffset = 8;

  const std::array<uint8_t, kSize>& bytes() const { return bytes_; }

 private:
  std::array<uint8_t, kSize> bytes_{};
};

// Elements that a row of activations has: 5H, 4H or 0.
inline int64_t ReservedRowSize(const RnnDescriptor& descriptor) {
  return NumReservedPerUnit(descriptor.mode) * descriptor.hidden_size;
}

class ReserveLayout {
 public:
  // Fails if the size overflows.
  static Status Create(const RnnDescriptor& descriptor,
                       const Sequences& sequences, ReserveLayout* layout);

  int64_t size() const { return size_; }  // in elements

  int64_t ActivationsOffset(int64_t k) const {
    return ReserveHeader::kSize + k * activations_size_;
  }
  int64_t LayerOutputOffset(int64_t layer) const {
    return layer_outputs_offset_ + layer * layer_output_size_;
  }

 private:
  int64_t activations_size_ = 0;
  int64_t layer_outputs_offset_ = 0;
  int64_t layer_output_size_ = 0;
  int64_t size_ = 0;
};

}  // namespace rnn

#endif  // NETWORK_RESERVE_LAYOUT_H_
