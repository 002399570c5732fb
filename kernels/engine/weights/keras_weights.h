// Between params and the weights of a Keras layer. Whose gates stand where is
// KerasGate() (network/weights.h).
#ifndef KERNELS_ENGINE_WEIGHTS_KERAS_WEIGHTS_H_
#define KERNELS_ENGINE_WEIGHTS_KERAS_WEIGHTS_H_

#include "kernels/engine/threads/executor.h"
#include "network/descriptor.h"
#include "network/params_layout.h"
#include "network/weights.h"

namespace rnn {

// `d` has one pseudo-layer and neither projects nor skips its input; `layout`
// is that of its params.
template <typename Element>
void KerasToParams(const RnnDescriptor& d, const ParamsLayout& layout,
                   const KerasWeights<const Element>& weights, Element* params,
                   Executor& executor);

// The adjoint of KerasToParams: what of dparams belongs to which weight. The
// recurrent bias of an LSTM or simple RNN is a constant and gets nothing.
template <typename Element>
void KerasToParamsBackward(const RnnDescriptor& d, const ParamsLayout& layout,
                           const Element* dparams,
                           const KerasWeights<Element>& dweights,
                           Executor& executor);

}  // namespace rnn

#endif  // KERNELS_ENGINE_WEIGHTS_KERAS_WEIGHTS_H_
