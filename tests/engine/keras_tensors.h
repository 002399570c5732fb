// The weights of a Keras layer, or their gradients, in three tensors, in which
// those of the backward direction follow.
#ifndef TESTS_ENGINE_KERAS_TENSORS_H_
#define TESTS_ENGINE_KERAS_TENSORS_H_

#include <cstdint>

#include "network/descriptor.h"
#include "network/weights.h"

namespace rnn {

inline constexpr int kKerasTensors = 3;  // kernel, recurrent kernel, bias

// Elements of a tensor for one direction.
inline int64_t KerasTensorSize(const RnnDescriptor& d, int tensor) {
  const int64_t sizes[kKerasTensors] = {
      KerasKernelSize(d), KerasRecurrentKernelSize(d), KerasBiasSize(d)};
  return sizes[tensor];
}

// Where an engine finds them. `bias` may be nullptr.
template <typename Value>
void SetKeras(const RnnDescriptor& d, Value* kernel, Value* recurrent_kernel,
              Value* bias, KerasWeights<Value> (&keras)[2]) {
  for (int64_t k = 0; k < d.num_directions; ++k) {
    keras[k].kernel = kernel + k * KerasTensorSize(d, 0);
    keras[k].recurrent_kernel = recurrent_kernel + k * KerasTensorSize(d, 1);
    keras[k].bias =
        bias == nullptr ? nullptr : bias + k * KerasTensorSize(d, 2);
  }
}

}  // namespace rnn

#endif  // TESTS_ENGINE_KERAS_TENSORS_H_
