// Moving values between a tensor's element type and the type computed in.
#ifndef KERNELS_ENGINE_ELEMENTS_ELEMENTS_H_
#define KERNELS_ENGINE_ELEMENTS_ELEMENTS_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/engine/simd/simd_kernels.h"
#include "network/element_types.h"

namespace rnn {

// Whether tensors hold what the kernels read and write, so that these may work
// on them directly.
template <typename Element, typename Operand = ComputeType<Element>>
inline constexpr bool kElementIsOperand = std::is_same_v<Element, Operand>;

// Whether results are computed in another type and rounded in the end.
template <typename Element>
inline constexpr bool kRoundsResults =
    !std::is_same_v<Element, ComputeType<Element>>;

// Whether products take another type than they give: rounded operands.
template <typename Operand>
inline constexpr bool kRoundsOperands =
    !std::is_same_v<Operand, ComputeType<Operand>>;

template <typename Operand>
const SimdKernels<Operand>& KernelsOf(const SimdTarget& target) {
  if constexpr (std::is_same_v<Operand, double>) {
    return *target.double_kernels;
  } else if constexpr (std::is_same_v<Operand, float>) {
    return *target.float_kernels;
  } else {
    return *target.bfloat16_kernels;
  }
}

template <typename Operand>
const SimdKernels<Operand>& Kernels() {
  return KernelsOf<Operand>(SelectSimdTarget());
}

// function(Operand{}) for the operands in which tensors of Element are
// computed: their own, or else F.
template <typename Element, typename Function>
auto WithOperand(Function function) {
  if constexpr (std::is_same_v<Element, BFloat16>) {
    if (SelectSimdTarget().bfloat16_kernels != nullptr) {
      return function(BFloat16{});
    }
  }
  return function(ComputeType<Element>{});
}

template <typename Element>
void Load(const Element* in, ComputeType<Element>* out, int64_t count) {
  if constexpr (kElementIsOperand<Element>) {
    std::memcpy(out, in, count * sizeof *in);
  } else if constexpr (std::is_same_v<Element, Half>) {
    SelectSimdTarget().conversions.half_to_float(&in->bits, out, count);
  } else {
    SelectSimdTarget().conversions.bfloat16_to_float(&in->bits, out, count);
  }
}

template <typename Element>
void Store(const ComputeType<Element>* in, Element* out, int64_t count) {
  if constexpr (kElementIsOperand<Element>) {
    std::memcpy(out, in, count * sizeof *in);
  } else if constexpr (std::is_same_v<Element, Half>) {
    SelectSimdTarget().conversions.float_to_half(in, &out->bits, count);
  } else {
    SelectSimdTarget().conversions.float_to_bfloat16(in, &out->bits, count);
  }
}

// From tensors to operands: Load() if these are of another type.
template <typename Element, typename Operand>
void LoadOperands(const Element* in, Operand* out, int64_t count) {
  if constexpr (std::is_same_v<Element, Operand>) {
    std::memcpy(out, in, count * sizeof *in);
  } else {
    Load(in, out, count);
  }
}

}  // namespace rnn

#endif  // KERNELS_ENGINE_ELEMENTS_ELEMENTS_H_
