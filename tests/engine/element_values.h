// Element types by name, and their values as numbers.
#ifndef TESTS_ENGINE_ELEMENT_VALUES_H_
#define TESTS_ENGINE_ELEMENT_VALUES_H_

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/engine/elements/elements.h"
#include "network/element_types.h"

namespace rnn {

inline constexpr ElementType kElementTypes[] = {
    ElementType::kFloat, ElementType::kDouble, ElementType::kHalf,
    ElementType::kBFloat16};

// As tests, files of tests and benchmarks call them.
inline const char* ElementName(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
      return "float";
    case ElementType::kDouble:
      return "double";
    case ElementType::kHalf:
      return "half";
    case ElementType::kBFloat16:
      return "bfloat16";
  }
  std::abort();
}

// function(Element{}) for this type.
template <typename Function>
auto WithElement(ElementType type, Function function) {
  switch (type) {
    case ElementType::kFloat:
      return function(float{});
    case ElementType::kDouble:
      return function(double{});
    case ElementType::kHalf:
      return function(Half{});
    case ElementType::kBFloat16:
      return function(BFloat16{});
  }
  std::abort();
}

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

// Many at once, in far less time.
template <typename Element>
std::vector<Element> FromDoubles(const std::vector<double>& values) {
  std::vector<ComputeType<Element>> computed(values.begin(), values.end());
  if constexpr (kElementIsOperand<Element>) {
    return computed;
  } else {
    std::vector<Element> elements(values.size());
    // A vector without values may have no memory to point into.
    if (!elements.empty()) {
      Store(computed.data(), elements.data(),
            static_cast<int64_t>(elements.size()));
    }
    return elements;
  }
}
template <typename Element>
std::vector<double> ToDoubles(const std::vector<Element>& elements) {
  if constexpr (kElementIsOperand<Element>) {
    return {elements.begin(), elements.end()};
  } else {
    std::vector<ComputeType<Element>> computed(elements.size());
    if (!elements.empty()) {
      Load(elements.data(), computed.data(),
           static_cast<int64_t>(elements.size()));
    }
    return {computed.begin(), computed.end()};
  }
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
