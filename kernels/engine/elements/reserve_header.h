// What stands in the header of a reserve, as elements.
#ifndef KERNELS_ENGINE_ELEMENTS_RESERVE_HEADER_H_
#define KERNELS_ENGINE_ELEMENTS_RESERVE_HEADER_H_

#include <cstdint>

namespace rnn {

// Reads the dropout key from a reserve's header; false if what stands there are
// not bytes.
template <typename Element>
[[nodiscard]] bool ReadDropoutKey(const Element* reserve, uint64_t* key);

}  // namespace rnn

#endif  // KERNELS_ENGINE_ELEMENTS_RESERVE_HEADER_H_
