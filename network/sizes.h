// How large a tensor may be, and integers to compute a size with before that is
// known.
#ifndef NETWORK_SIZES_H_
#define NETWORK_SIZES_H_

#include <cstdint>
#include <limits>

namespace rnn {

// The most elements, or bytes, of a tensor: their number in bytes, and the sum
// of two such numbers, are counted by 64 bits.
constexpr int64_t kMaxTensorSize = std::numeric_limits<int64_t>::max() / 16;

// Holds the product of two sizes of 64 bits.
__extension__ typedef __int128 Wide;

}  // namespace rnn

#endif  // NETWORK_SIZES_H_
