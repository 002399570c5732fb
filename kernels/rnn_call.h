// From a node's attributes and tensors to what the engine wants to know: the
// one extraction and validation, for forward and backward and all op versions.
#ifndef KERNELS_RNN_CALL_H_
#define KERNELS_RNN_CALL_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/call_report.h"
#include "kernels/engine/engine.h"
#include "kernels/int8_weight_tensors.h"
#include "kernels/keras_weight_tensors.h"
#include "kernels/tf_adapter.h"
#include "network/descriptor.h"
#include "network/sequences.h"
#include "network/weights.h"
#include "ops/attributes.h"
#include "ops/call_shapes.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_cudnn_rnn {

// What distinguishes the versions of an op; they share everything else.
struct OpVersion {
  // V3: input sequence_lengths, attributes num_proj and time_major.
  bool has_sequence_lengths = false;
  // V2 and V3: host_reserved, which holds something in V2 only.
  bool has_host_reserved = false;
  bool fills_host_reserved = false;
  // Our own op: seeds are an input of the forward op, not attributes.
  bool is_own = false;
  // KerasRNN: kernel, recurrent_kernel and biases instead of params; no dropout
  // and so no seeds.
  bool has_keras_weights = false;
  // CudnnRNNInt8: weights, scales and biases instead of params; inference
  // alone, and so no reserve_space and no seeds.
  bool has_int8_weights = false;

  constexpr bool has_params() const {
    return !has_keras_weights && !has_int8_weights;
  }
  constexpr OpVersion With(bool OpVersion::* trait) const {
    OpVersion version = *this;
    version.*trait = true;
    return version;
  }
};
inline constexpr OpVersion kV1{};
inline constexpr OpVersion kV2 = kV1.With(&OpVersion::has_host_reserved)
                                     .With(&OpVersion::fills_host_reserved);
inline constexpr OpVersion kV3 = kV1.With(&OpVersion::has_sequence_lengths)
                                     .With(&OpVersion::has_host_reserved);
inline constexpr OpVersion kOwn = kV3.With(&OpVersion::is_own);
inline constexpr OpVersion kKeras = kV1.With(&OpVersion::has_sequence_lengths)
                                        .With(&OpVersion::is_own)
                                        .With(&OpVersion::has_keras_weights);
inline constexpr OpVersion kInt8 = kV1.With(&OpVersion::has_sequence_lengths)
                                       .With(&OpVersion::is_own)
                                       .With(&OpVersion::has_int8_weights);

// What a forward or backward kernel knows before its first call.
struct CallOptions {
  OpVersion version;
  RnnAttributes attributes;
  // Whether states are [L*D, B, ...], else [B, L*D, ...].
  bool states_outer_major = true;
  // Of KerasRNN: the attributes of these names.
  bool go_backwards = false;
  bool zero_output_for_mask = true;
  LogOptions log;
};

absl::Status ReadCallOptions(tensorflow::OpKernelConstruction* context,
                             const OpVersion& version, CallOptions* options);

// A valid call. Tensors are those of the context.
struct RnnCall {
  const tensorflow::Tensor* input = nullptr;
  const tensorflow::Tensor* input_h = nullptr;
  const tensorflow::Tensor* input_c = nullptr;
  // The op's version tells in which order weights are. Of the three that
  // follow one is set, that of the order.
  rnn::WeightOrder weight_order = rnn::WeightOrder::kParams;
  const tensorflow::Tensor* params = nullptr;
  KerasWeightTensors keras_weights[2];  // of each direction that there is
  Int8WeightTensors int8_weights;

  tensorflow::TensorShape output_shape;
  rnn::RnnDescriptor descriptor;
  rnn::Sequences sequences;
  rnn::PaddedLayout layout;
  rnn::CallStrides strides;
  bool repeats_outputs = false;

  // For the engine, with elements of TensorFlow's type T. The sequences are
  // those of this object, which must outlive what is returned.
  template <typename T>
  rnn::CallDescription Describe() const {
    rnn::CallDescription call;
    call.descriptor = descriptor;
    call.sequences = &sequences;
    call.element_type = rnn::kElementTypeOf<Element<T>>;
    call.weight_order = weight_order;
    call.repeats_outputs = repeats_outputs;
    return call;
  }
  template <typename T>
  rnn::Weights<const Element<T>> Weights() const {
    rnn::Weights<const Element<T>> weights;
    switch (weight_order) {
      case rnn::WeightOrder::kParams:
        weights.params = Data<T>(*params);
        break;
      case rnn::WeightOrder::kKeras:
        for (int64_t k = 0; k < descriptor.num_directions; ++k) {
          weights.keras[k] = keras_weights[k].Data<T>();
        }
        break;
      case rnn::WeightOrder::kInt8:
        weights.int8 = int8_weights.Data();
        break;
    }
    return weights;
  }
};

// What a backward call has beside that.
struct BackpropInputs {
  const tensorflow::Tensor* output;
  const tensorflow::Tensor* output_h;
  const tensorflow::Tensor* output_c;
  const tensorflow::Tensor* output_backprop;
  const tensorflow::Tensor* output_h_backprop;
  const tensorflow::Tensor* output_c_backprop;
  const tensorflow::Tensor* reserve_space;
};

absl::StatusOr<RnnCall> ReadForwardCall(tensorflow::OpKernelContext* context,
                                        const CallOptions& options);
absl::StatusOr<RnnCall> ReadBackpropCall(tensorflow::OpKernelContext* context,
                                         const CallOptions& options,
                                         BackpropInputs* inputs);

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_RNN_CALL_H_
