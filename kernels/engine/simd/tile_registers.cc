#include "kernels/engine/simd/tile_registers.h"

#if defined(__linux__) && defined(__x86_64__)
#include <syscall.h>
#include <unistd.h>
#endif

namespace rnn {

bool RequestTileRegisters() {
#if defined(RNN_EMULATED_TILE_REGISTERS)
  return true;
#elif defined(__linux__) && defined(__x86_64__)
  // Linux, Documentation/arch/x86/xstate.rst. Asking again does no harm.
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  static const bool is_granted =
      syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return is_granted;
#else
  return false;
#endif
}

}  // namespace rnn
