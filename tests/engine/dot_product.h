// The products of columns that are not packed, an element at a time, in the
// order in which the kernels add.
#ifndef TESTS_ENGINE_DOT_PRODUCT_H_
#define TESTS_ENGINE_DOT_PRODUCT_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/engine/elements/elements.h"
#include "tests/engine/simd_targets.h"

namespace rnn {

// a * b + c; the scalar target rounds the product, too.
template <typename F>
F PlainMulAdd(F a, F b, F c, bool is_fused) {
  if (is_fused) return std::fma(a, b, c);
  volatile F product = a * b;  // or a compiler may fuse the two
  return product + c;
}

// The sum of a[k] * b[k] over k < depth, which is one of whole steps: a chain
// of additions for each lane, the last of a step first, and then lanes added up
// in pairs.
template <typename Operand>
ComputeType<Operand> DotProduct(const SimdTarget& target,
                                const ComputeType<Operand>* a,
                                const ComputeType<Operand>* b, int64_t depth) {
  constexpr int64_t kStep = kDepthStep<Operand>;
  const int64_t lanes = KernelsOf<Operand>(target).lanes;
  const bool is_fused = &target != &ScalarTarget();
  std::vector<ComputeType<Operand>> sums(lanes);
  for (int64_t k = 0; k < depth; k += kStep) {
    auto& sum = sums[k / kStep % lanes];
    for (int64_t i = k + kStep - 1; i >= k; --i) {
      sum = PlainMulAdd(a[i], b[i], sum, is_fused);
    }
  }
  for (int64_t stride = 1; stride < lanes; stride *= 2) {
    for (int64_t i = 0; i < lanes; i += 2 * stride) sums[i] += sums[i + stride];
  }
  return sums[0];
}

}  // namespace rnn

#endif  // TESTS_ENGINE_DOT_PRODUCT_H_
