// The 16-bit element types, by their bits alone, and the type each element type
// is computed in. Without C++ headers, as the files compiled for one
// instruction set read them.
#ifndef NETWORK_ELEMENT_TYPES_H_
#define NETWORK_ELEMENT_TYPES_H_

#include <stdint.h>

namespace rnn {

struct Half {  // IEEE 754 binary16
  uint16_t bits;
};

struct BFloat16 {  // the upper half of a float
  uint16_t bits;
};

// 16-bit tensors are stored rounded; products, gates and the LSTM cell state
// are float.
template <typename Element>
struct ComputeTypeOf {
  using type = float;
};
template <>
struct ComputeTypeOf<double> {
  using type = double;
};
template <typename Element>
using ComputeType = typename ComputeTypeOf<Element>::type;

enum class ElementType { kFloat, kDouble, kHalf, kBFloat16 };

template <typename Element>
inline constexpr ElementType kElementTypeOf = ElementType::kFloat;
template <>
inline constexpr ElementType kElementTypeOf<double> = ElementType::kDouble;
template <>
inline constexpr ElementType kElementTypeOf<Half> = ElementType::kHalf;
template <>
inline constexpr ElementType kElementTypeOf<BFloat16> = ElementType::kBFloat16;

constexpr int64_t ElementBytes(ElementType type) {
  return type == ElementType::kFloat ? 4 : type == ElementType::kDouble ? 8 : 2;
}

// As TensorFlow names them.
constexpr const char* ElementTypeName(ElementType type) {
  return type == ElementType::kFloat    ? "float32"
         : type == ElementType::kDouble ? "float64"
         : type == ElementType::kHalf   ? "float16"
                                        : "bfloat16";
}

}  // namespace rnn

#endif  // NETWORK_ELEMENT_TYPES_H_
