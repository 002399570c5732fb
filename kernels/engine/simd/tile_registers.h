// Permission to use AMX's tile registers, which a process has to ask for.
#ifndef KERNELS_ENGINE_SIMD_TILE_REGISTERS_H_
#define KERNELS_ENGINE_SIMD_TILE_REGISTERS_H_

namespace rnn {

// Asks for it, of a system that saves them (CpuFeatures); returns whether all
// threads of this process may use them from now on. The system may forbid them.
// Once it has agreed, it takes no alternate signal stack that is too small for
// them.
bool RequestTileRegisters();

}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_TILE_REGISTERS_H_
