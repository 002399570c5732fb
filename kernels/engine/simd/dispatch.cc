#include <stdlib.h>
#include <string.h>

#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {

#define RNN_ISA_ENTRY(isa, supported) extern const SimdTarget kSimdTarget_##isa;
#include "kernels/engine/simd/isa.inc"
#undef RNN_ISA_ENTRY

int SupportedSimdTargets(const SimdTarget** targets, int capacity) {
  int count = 0;
#define RNN_ISA_ENTRY(isa, supported) \
  if ((supported) && count < capacity) targets[count++] = &kSimdTarget_##isa;
#include "kernels/engine/simd/isa.inc"
#undef RNN_ISA_ENTRY
  return count;
}

static const SimdTarget& Choose() {
  constexpr int kMaxTargets = 16;
  const SimdTarget* targets[kMaxTargets];
  const int count = SupportedSimdTargets(targets, kMaxTargets);
  // An unknown or unsupported name limits nothing.
  const char* limit = getenv("TF_CUDNN_RNN_ISA");
  for (int i = 0; limit != nullptr && i < count; ++i) {
    if (strcmp(targets[i]->name, limit) == 0) return *targets[i];
  }
  return *targets[0];
}

const SimdTarget& SelectSimdTarget() {
  static const SimdTarget& target = Choose();
  return target;
}

}  // namespace rnn
