// The shapes of tile registers, as the instruction ldtilecfg reads them.
#ifndef KERNELS_ENGINE_SIMD_TILE_CONFIGURATION_INL_H_
#define KERNELS_ENGINE_SIMD_TILE_CONFIGURATION_INL_H_

#include <stdint.h>

namespace rnn {
namespace RNN_ISA {
namespace {

constexpr int kNumRegisters = 8;
constexpr int kRegisterRows = 16;  // at most

struct RegisterConfiguration {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(RegisterConfiguration) == 64);

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_TILE_CONFIGURATION_INL_H_
