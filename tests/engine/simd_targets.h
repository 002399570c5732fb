// The instruction sets and the modes that tests and benchmarks go through.
#ifndef TESTS_ENGINE_SIMD_TARGETS_H_
#define TESTS_ENGINE_SIMD_TARGETS_H_

#include <iostream>
#include <iterator>
#include <type_traits>
#include <vector>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "network/cell.h"

namespace rnn {

inline constexpr CellMode kModes[] = {CellMode::kRelu, CellMode::kTanh,
                                      CellMode::kLstm, CellMode::kGru};
inline constexpr const char* kModeNames[] = {"relu", "tanh", "lstm", "gru"};
static_assert(std::size(kModes) == kNumCellModes);

// The ways in which weights may lie (Panel): packed, or by their columns.
enum class PanelKind { kPacked, kTransposed };
inline constexpr PanelKind kPanelKinds[] = {PanelKind::kPacked,
                                            PanelKind::kTransposed};
inline constexpr const char* kPanelKindNames[] = {"packed", "transposed"};

// All that this machine runs, best first, scalar last.
inline std::vector<const SimdTarget*> AllSimdTargets() {
  std::vector<const SimdTarget*> targets(16);
  targets.resize(SupportedSimdTargets(targets.data(), 16));
  return targets;
}

// The same; the log says once which they are.
inline const std::vector<const SimdTarget*>& TestedSimdTargets() {
  static const auto* const targets = [] {
    auto* found = new std::vector<const SimdTarget*>(AllSimdTargets());
    std::cout << "Instruction sets under test:";
    for (const SimdTarget* target : *found) std::cout << ' ' << target->name;
    std::cout << std::endl;
    return found;
  }();
  return *targets;
}

inline const SimdTarget& ScalarTarget() { return *TestedSimdTargets().back(); }

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
