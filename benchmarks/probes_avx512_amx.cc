// clang-format off: the vector type comes first.
#define RNN_ISA avx512_amx
#include "kernels/engine/simd/vec_avx512_bf16.h"
#include "kernels/engine/simd/target-inl.h"
#include "kernels/engine/simd/amx-inl.h"
#include "benchmarks/probes-inl.h"
// clang-format on

namespace rnn {
namespace avx512_amx {
namespace {

double MultiplyAddTiles(int64_t rounds, float* sink) {
  TileShapes shapes;
  shapes.SetRows(kTileRows, kTileRows);
  Unroll<kFirstB + 1>([](auto i) RNN_ALWAYS_INLINE { ZeroTile<i.value>(); });
  for (int64_t round = 0; round < rounds; ++round) {
    Unroll<kFirstA>([](auto i) RNN_ALWAYS_INLINE {
      MultiplyAddTile<i.value, kFirstA, kFirstB>();
    });
  }
  *sink = 0;
  return 2.0 * kFirstA * kTileRows * kTileLanes * kTileDepth *
         static_cast<double>(rounds);
}

constexpr Probes MakeTileProbes() {
  Probes probes = MakeProbes();
  probes.multiply_add_bfloat16 = MultiplyAddTiles;
  return probes;
}

}  // namespace
}  // namespace avx512_amx

extern const Probes kProbes_avx512_amx;
const Probes kProbes_avx512_amx = avx512_amx::MakeTileProbes();
}  // namespace rnn
