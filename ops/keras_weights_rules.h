// The rules of ops of one layer of Keras: which lists of tensors they may have,
// and the shapes of masks and of weights as Keras keeps them: kernel [I, G*H],
// recurrent_kernel [H, G*H], and one bias [G*H], or [2, G*H] of a GRU.
#ifndef OPS_KERAS_WEIGHTS_RULES_H_
#define OPS_KERAS_WEIGHTS_RULES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "network/descriptor.h"
#include "ops/attributes.h"
#include "ops/call_shapes.h"
#include "ops/params_rules.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {

// Attributes that all ops with Keras' weights have.
struct KerasWeightsAttributes {
  rnn::CellMode mode = rnn::CellMode::kLstm;
  int64_t num_biases = 1;
};

// How many tensors the list `biases` may have: none or one.
absl::Status CheckNumBiases(int64_t num_biases);

// How many tensors the list `masks` may have: none or one.
absl::Status CheckNumMasks(int64_t num_masks);

// How many tensors the list `backward_weights` may have, none or those of a
// layer, and what may not be asked for if there are any.
absl::Status CheckBackwardWeights(int64_t num_biases,
                                  int64_t num_backward_weights,
                                  bool go_backwards, bool zero_output_for_mask);

absl::Status ParseKerasWeightsAttributes(const std::string& rnn_mode,
                                         int64_t num_biases,
                                         KerasWeightsAttributes* attributes);

// Context is an OpKernelConstruction or a shape function's InferenceContext.
template <typename Context>
absl::Status ReadKerasWeightsAttributes(Context* context,
                                        KerasWeightsAttributes* attributes) {
  std::string rnn_mode;
  TF_RETURN_IF_ERROR(context->GetAttr("rnn_mode", &rnn_mode));
  int64_t num_biases;
  TF_RETURN_IF_ERROR(context->GetAttr("num_biases", &num_biases));
  return ParseKerasWeightsAttributes(rnn_mode, num_biases, attributes);
}

// Of KerasRNN and its gradient: the directions, which are two if there are
// backward_weights, and the attributes of these names.
template <typename Context>
absl::Status ReadKerasSteps(Context* context, RnnAttributes* attributes,
                            bool* go_backwards, bool* zero_output_for_mask) {
  int64_t num_biases, num_backward_weights;
  TF_RETURN_IF_ERROR(context->GetAttr("num_biases", &num_biases));
  TF_RETURN_IF_ERROR(
      context->GetAttr("num_backward_weights", &num_backward_weights));
  TF_RETURN_IF_ERROR(context->GetAttr("go_backwards", go_backwards));
  TF_RETURN_IF_ERROR(
      context->GetAttr("zero_output_for_mask", zero_output_for_mask));
  attributes->num_directions = num_backward_weights == 0 ? 1 : 2;
  return CheckBackwardWeights(num_biases, num_backward_weights, *go_backwards,
                              *zero_output_for_mask);
}

// I and H, as far as they are known.
struct KerasSizes {
  std::optional<int64_t> input_size;
  std::optional<int64_t> hidden_size;
};

// One layer in one direction.
absl::Status MakeKerasNetwork(rnn::CellMode mode, const KerasSizes& sizes,
                              Network* network);

struct KerasShapes {
  tensorflow::PartialTensorShape kernel;
  tensorflow::PartialTensorShape recurrent_kernel;
  std::optional<tensorflow::PartialTensorShape> bias;
};

// What errors call the tensors of a direction.
struct KerasNames {
  const char* kernel;
  const char* recurrent_kernel;
  const char* bias;
};
inline constexpr KerasNames kForwardNames = {"kernel", "recurrent_kernel",
                                             "biases[0]"};
inline constexpr KerasNames kBackwardNames = {
    "backward_weights[0]", "backward_weights[1]", "backward_weights[2]"};

absl::Status CheckKerasShapes(rnn::CellMode mode, const KerasShapes& shapes,
                              KerasSizes* sizes,
                              const KerasNames& names = kForwardNames);

// Checks a call of KerasRNN; `shapes.params` is of unknown rank. There are
// weights of each direction of `attributes`. There may be no mask.
absl::Status CheckKerasCall(
    const RnnAttributes& attributes, const ForwardShapes& shapes,
    const KerasShapes (&weights)[2],
    const std::optional<tensorflow::PartialTensorShape>& mask,
    CallSizes* sizes);

// The sizes that a params_backprop of this shape belongs to. `num_units` may be
// unknown.
absl::Status CheckKerasBackpropShapes(
    rnn::CellMode mode, const tensorflow::PartialTensorShape& params_backprop,
    std::optional<int64_t> num_units, KerasSizes* sizes);

// [G*H], or [2, G*H] of a GRU.
tensorflow::PartialTensorShape KerasBiasShape(rnn::CellMode mode,
                                              std::optional<int64_t> num_units);

}  // namespace tf_cudnn_rnn

#endif  // OPS_KERAS_WEIGHTS_RULES_H_
