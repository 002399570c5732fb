// Which instruction set this process uses. What a call does with what it has,
// tile registers (AMX) say, is chosen in plan/.

#include <stdlib.h>
#include <string.h>

#include <string>

#include "kernels/engine/simd/cpu_features.h"
#include "kernels/engine/simd/instruction_set.h"
#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {

#define RNN_ISA_ENTRY(isa, supported, is_faster) \
  extern const SimdTarget kSimdTarget_##isa;
#include "kernels/engine/simd/isa.inc"
#undef RNN_ISA_ENTRY

int SupportedSimdTargets(const SimdTarget** targets, int capacity) {
  [[maybe_unused]] const CpuFeatures cpu = CpuFeatures::Here();
  int count = 0;
#define RNN_ISA_ENTRY(isa, supported, is_faster) \
  if ((supported) && count < capacity) targets[count++] = &kSimdTarget_##isa;
#include "kernels/engine/simd/isa.inc"
#undef RNN_ISA_ENTRY
  return count;
}

bool IsSimdTargetName(const char* name) {
#define RNN_ISA_ENTRY(isa, supported, is_faster) \
  if (strcmp(name, #isa) == 0) return true;
#include "kernels/engine/simd/isa.inc"
#undef RNN_ISA_ENTRY
  return false;
}

const char* SimdTargetNames() {
  static constexpr char kNames[] =
#define RNN_ISA_ENTRY(isa, supported, is_faster) ", " #isa
#include "kernels/engine/simd/isa.inc"
#undef RNN_ISA_ENTRY
      ;
  return kNames + strlen(", ");
}

std::string SimdTargetVariableFault() {
  const char* const name = getenv(kSimdTargetVariable);
  if (name == nullptr || *name == '\0' || IsSimdTargetName(name)) return "";
  return std::string("The environment variable ") + kSimdTargetVariable +
         " must be one of the instruction sets of this build, " +
         SimdTargetNames() + "; got \"" + name +
         "\". Unset it for the best one.";
}

const SimdTarget& ChooseSimdTarget([[maybe_unused]] const CpuFeatures& cpu,
                                   const char* limit) {
  // Whoever takes the variable from a user says so if it names no target.
  const bool is_limited = limit != nullptr && IsSimdTargetName(limit);
  const auto is_named = [&](const char* name) {
    return is_limited && strcmp(limit, name) == 0;
  };
  bool reached = !is_limited;
#define RNN_ISA_ENTRY(isa, supported, is_faster)                   \
  reached = reached || is_named(#isa);                             \
  if (reached && (supported) && ((is_faster) || is_named(#isa))) { \
    return kSimdTarget_##isa;                                      \
  }
#include "kernels/engine/simd/isa.inc"
#undef RNN_ISA_ENTRY
  return kSimdTarget_scalar;  // isa.inc ends with it
}

const SimdTarget& SelectSimdTarget() {
  static const SimdTarget& target =
      ChooseSimdTarget(CpuFeatures::Here(), getenv(kSimdTargetVariable));
  return target;
}

const char* SelectedSimdTargetName() { return SelectSimdTarget().name; }

}  // namespace rnn
