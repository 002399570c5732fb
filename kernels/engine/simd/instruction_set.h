// The name of the instruction set that the engine uses, and of those it could:
// for those who ask without seeing micro-kernels.
#ifndef KERNELS_ENGINE_SIMD_INSTRUCTION_SET_H_
#define KERNELS_ENGINE_SIMD_INSTRUCTION_SET_H_

#include <string>

namespace rnn {

// TF_CUDNN_RNN_ISA=<name> in the environment limits the choice to that one and
// those below it in isa.inc.
inline constexpr char kSimdTargetVariable[] = "TF_CUDNN_RNN_ISA";

// Of the best target that this CPU runs, within that limit. Decided once.
const char* SelectedSimdTargetName();

// What is wrong with the variable now, in a sentence, or "". A wrong name would
// be the best target, silently: so whoever begins something asks.
std::string SimdTargetVariableFault();

// Whether isa.inc has a target of this name, which this CPU may not run.
bool IsSimdTargetName(const char* name);
// All of them, best first, with commas between.
const char* SimdTargetNames();

}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_INSTRUCTION_SET_H_
