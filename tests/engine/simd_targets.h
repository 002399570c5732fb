// The instruction sets that a test goes through.
#ifndef TESTS_ENGINE_SIMD_TARGETS_H_
#define TESTS_ENGINE_SIMD_TARGETS_H_

#include <iostream>
#include <type_traits>
#include <vector>

#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {

// All that this machine runs, scalar included; the log says which, once.
inline const std::vector<const SimdTarget*>& TestedSimdTargets() {
  static const auto* const targets = [] {
    auto* found = new std::vector<const SimdTarget*>(16);
    found->resize(SupportedSimdTargets(found->data(), 16));
    std::cout << "Instruction sets under test:";
    for (const SimdTarget* target : *found) std::cout << ' ' << target->name;
    std::cout << std::endl;
    return found;
  }();
  return *targets;
}

inline const SimdTarget& ScalarTarget() { return *TestedSimdTargets().back(); }

template <typename Operand>
const SimdKernels<Operand>& KernelsOf(const SimdTarget& target) {
  if constexpr (std::is_same_v<Operand, double>) {
    return target.double_kernels;
  } else if constexpr (std::is_same_v<Operand, float>) {
    return target.float_kernels;
  } else {
    return *target.bfloat16_kernels;
  }
}

// Those of the tested ones that have kernels for these operands.
template <typename Operand>
std::vector<const SimdTarget*> TestedSimdTargetsOf() {
  std::vector<const SimdTarget*> targets;
  for (const SimdTarget* target : TestedSimdTargets()) {
    if (!std::is_same_v<Operand, BFloat16> ||
        target->bfloat16_kernels != nullptr) {
      targets.push_back(target);
    }
  }
  return targets;
}

template <typename F>
const SimdMath<F>& MathOf(const SimdTarget& target) {
  if constexpr (std::is_same_v<F, double>) {
    return target.double_math;
  } else {
    return target.float_math;
  }
}

}  // namespace rnn

#endif  // TESTS_ENGINE_SIMD_TARGETS_H_
