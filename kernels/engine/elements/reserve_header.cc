#include "kernels/engine/elements/reserve_header.h"

#include "kernels/engine/elements/elements.h"
#include "network/element_types.h"
#include "network/reserve_layout.h"

namespace rnn {

template <typename Element>
bool ReadDropoutKey(const Element* reserve, uint64_t* key) {
  constexpr int kBytes = 8;
  ComputeType<Element> values[kBytes];
  Load(reserve + ReserveHeader::kKeyOffset, values, kBytes);
  *key = 0;
  for (int byte = 0; byte < kBytes; ++byte) {
    const auto value = values[byte];
    if (!(value >= 0 && value <= 255)) return false;
    const auto integer = static_cast<uint64_t>(value);
    if (static_cast<ComputeType<Element>>(integer) != value) return false;
    *key |= integer << (8 * byte);
  }
  return true;
}

#define RNN_INSTANTIATE(Element) \
  template bool ReadDropoutKey(const Element*, uint64_t*);
RNN_INSTANTIATE(float)
RNN_INSTANTIATE(double)
RNN_INSTANTIATE(Half)
RNN_INSTANTIATE(BFloat16)
#undef RNN_INSTANTIATE

}  // namespace rnn
