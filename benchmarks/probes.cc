#include "benchmarks/probes.h"

#include <string.h>

namespace rnn {

#define RNN_ISA_ENTRY(isa, supported, is_faster) \
  extern const Probes kProbes_##isa;
#include "kernels/engine/simd/isa.inc"
#undef RNN_ISA_ENTRY

const Probes* ProbesOf(const char* isa_name) {
#define RNN_ISA_ENTRY(isa, supported, is_faster) \
  if (strcmp(isa_name, #isa) == 0) return &kProbes_##isa;
#include "kernels/engine/simd/isa.inc"
#undef RNN_ISA_ENTRY
  return nullptr;
}

}  // namespace rnn
