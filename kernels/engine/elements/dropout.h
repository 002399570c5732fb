// Inverted dropout between layers, from a counter-based generator: mask element
// (layer, step, batch row, feature) is a function of these four and the key, so
// Backward draws the same mask again and no order of work can change it.
#ifndef KERNELS_ENGINE_ELEMENTS_DROPOUT_H_
#define KERNELS_ENGINE_ELEMENTS_DROPOUT_H_

#include <cstdint>

namespace rnn {

struct Dropout {
  float probability;  // in [0, 1]
  uint64_t key;

  // out[j] = in[j] / (1 - probability) where kept, 0 where dropped, for the
  // `count` features that `layer` emits at `time` for `batch_row`. Feature j
  // takes word j of the generator (DropoutRow in simd_kernels.h) with counter
  // (j / 4, batch_row, time, layer) and is kept iff that word is at least
  // floor(probability * 2^32). `out` may be `in`. Element is float, double or
  // BFloat16, which is rounded.
  template <typename Element>
  void Apply(int64_t layer, int64_t time, int64_t batch_row, int64_t count,
             const Element* in, Element* out) const;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_ELEMENTS_DROPOUT_H_
