// Moving values between a tensor's element type and the type computed in.
#ifndef KERNELS_ENGINE_ELEMENTS_H_
#define KERNELS_ENGINE_ELEMENTS_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/engine/element_types.h"
#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {

// Whether tensors hold what the engine computes in, so that it may work on them
// directly.
template <typename Element>
inline constexpr bool kComputesInPlace =
    std::is_same_v<Element, ComputeType<Element>>;

template <typename F>
const SimdKernels<F>& Kernels() {
  if constexpr (std::is_same_v<F, double>) {
    return SelectSimdTarget().double_kernels;
  } else {
    return SelectSimdTarget().float_kernels;
  }
}

template <typename Element>
void Load(const Element* in, ComputeType<Element>* out, int64_t count) {
  if constexpr (kComputesInPlace<Element>) {
    std::memcpy(out, in, count * sizeof *in);
  } else if constexpr (std::is_same_v<Element, Half>) {
    SelectSimdTarget().conversions.half_to_float(&in->bits, out, count);
  } else {
    SelectSimdTarget().conversions.bfloat16_to_float(&in->bits, out, count);
  }
}

template <typename Element>
void Store(const ComputeType<Element>* in, Element* out, int64_t count) {
  if constexpr (kComputesInPlace<Element>) {
    std::memcpy(out, in, count * sizeof *in);
  } else if constexpr (std::is_same_v<Element, Half>) {
    SelectSimdTarget().conversions.float_to_half(in, &out->bits, count);
  } else {
    SelectSimdTarget().conversions.float_to_bfloat16(in, &out->bits, count);
  }
}

}  // namespace rnn

#endif  // KERNELS_ENGINE_ELEMENTS_H_
