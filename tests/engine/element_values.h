// Values of any element type, as numbers.
#ifndef TESTS_ENGINE_ELEMENT_VALUES_H_
#define TESTS_ENGINE_ELEMENT_VALUES_H_

#include <limits>
#include <type_traits>

#include "kernels/engine/elements/elements.h"

namespace rnn {

template <typename Element>
Element FromDouble(double value) {
  const auto compute = static_cast<ComputeType<Element>>(value);
  Element element;
  Store(&compute, &element, 1);
  return element;
}
template <typename Element>
double ToDouble(Element element) {
  ComputeType<Element> compute;
  Load(&element, &compute, 1);
  return compute;
}

// Distance from 1 to the next number.
template <typename Element>
double Epsilon() {
  if constexpr (std::is_same_v<Element, Half>) {
    return 0x1p-10;
  } else if constexpr (std::is_same_v<Element, BFloat16>) {
    return 0x1p-7;
  } else {
    return std::numeric_limits<Element>::epsilon();
  }
}

}  // namespace rnn

#endif  // TESTS_ENGINE_ELEMENT_VALUES_H_
