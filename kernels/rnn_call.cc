#include "kernels/rnn_call.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/simd/instruction_set.h"
#include "kernels/tf_adapter.h"
#include "ops/engine_status.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/env_var.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

// Fetches an input and notes its shape, if anyone wants it.
absl::Status GetInput(OpKernelContext* context, const char* name,
                      const Tensor** tensor,
                      tensorflow::PartialTensorShape* shape) {
  TF_RETURN_IF_ERROR(context->input(name, tensor));
  *shape = PartialShape(**tensor);
  return absl::OkStatus();
}

// The tensors of a call under validation.
struct ForwardInputs {
  const Tensor* input;
  const Tensor* input_h;
  const Tensor* input_c;
  const Tensor* params = nullptr;       // if the op has them
  KerasWeightTensors keras_weights[2];  // of each direction
  Int8WeightTensors int8_weights;
  const Tensor* sequence_lengths = nullptr;  // if the op has them
  const Tensor* mask = nullptr;              // if there is one
};

absl::Status GetForwardInputs(OpKernelContext* context,
                              const OpVersion& version, ForwardInputs* inputs,
                              ForwardShapes* shapes) {
  TF_RETURN_IF_ERROR(
      GetInput(context, "input", &inputs->input, &shapes->input));
  TF_RETURN_IF_ERROR(
      GetInput(context, "input_h", &inputs->input_h, &shapes->input_h));
  TF_RETURN_IF_ERROR(
      GetInput(context, "input_c", &inputs->input_c, &shapes->input_c));
  if (version.has_params()) {
    TF_RETURN_IF_ERROR(
        GetInput(context, "params", &inputs->params, &shapes->params));
  }
  if (!version.has_sequence_lengths) return absl::OkStatus();
  return GetInput(context, "sequence_lengths", &inputs->sequence_lengths,
                  &shapes->sequence_lengths);
}

absl::Status CheckKerasWeights(OpKernelContext* context,
                               const RnnAttributes& attributes,
                               const ForwardShapes& shapes,
                               ForwardInputs* inputs, CallSizes* sizes) {
  KerasShapes weights[2];
  TF_RETURN_IF_ERROR(
      GetKerasWeights(context, &inputs->keras_weights[0], &weights[0]));
  if (attributes.num_directions == 2) {
    TF_RETURN_IF_ERROR(GetBackwardKerasWeights(
        context, &inputs->keras_weights[1], &weights[1]));
  }
  tensorflow::OpInputList masks;
  TF_RETURN_IF_ERROR(context->input_list("masks", &masks));
  TF_RETURN_IF_ERROR(CheckNumMasks(masks.size()));
  std::optional<tensorflow::PartialTensorShape> mask;
  if (masks.size() > 0) {
    inputs->mask = &masks[0];
    mask = PartialShape(masks[0]);
  }
  return CheckKerasCall(attributes, shapes, weights, mask, sizes);
}

absl::Status CheckInt8Weights(OpKernelContext* context,
                              const RnnAttributes& attributes,
                              const ForwardShapes& shapes,
                              ForwardInputs* inputs, CallSizes* sizes) {
  Int8Shapes weights;
  TF_RETURN_IF_ERROR(GetInt8Weights(context, &inputs->int8_weights, &weights));
  TF_RETURN_IF_ERROR(CheckInt8Call(attributes, shapes, weights, sizes));
  return inputs->int8_weights.CheckScales();
}

rnn::WeightOrder WeightOrderOf(const OpVersion& version) {
  return version.has_keras_weights  ? rnn::WeightOrder::kKeras
         : version.has_int8_weights ? rnn::WeightOrder::kInt8
                                    : rnn::WeightOrder::kParams;
}

absl::Status GetBackpropInputs(OpKernelContext* context, BackpropInputs* inputs,
                               BackpropShapes* shapes) {
  TF_RETURN_IF_ERROR(
      GetInput(context, "output", &inputs->output, &shapes->output));
  TF_RETURN_IF_ERROR(
      GetInput(context, "output_h", &inputs->output_h, &shapes->output_h));
  TF_RETURN_IF_ERROR(
      GetInput(context, "output_c", &inputs->output_c, &shapes->output_c));
  TF_RETURN_IF_ERROR(GetInput(context, "output_backprop",
                              &inputs->output_backprop,
                              &shapes->output_backprop));
  TF_RETURN_IF_ERROR(GetInput(context, "output_h_backprop",
                              &inputs->output_h_backprop,
                              &shapes->output_h_backprop));
  TF_RETURN_IF_ERROR(GetInput(context, "output_c_backprop",
                              &inputs->output_c_backprop,
                              &shapes->output_c_backprop));
  return GetInput(context, "reserve_space", &inputs->reserve_space,
                  &shapes->reserve_space);
}

// What CudnnRNNV2 returns in training.
absl::Status CheckHostReserved(OpKernelContext* context) {
  const Tensor* host_reserved;
  TF_RETURN_IF_ERROR(context->input("host_reserved", &host_reserved));
  if (host_reserved->shape() == TensorShape({2})) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("host_reserved must have shape [2], got ",
                   host_reserved->shape().DebugString(),
                   "; pass what CudnnRNNV2 returned with is_training=True."));
}

rnn::ValidSteps GetValidSteps(const CallOptions& options,
                              const ForwardInputs& inputs,
                              const CallSizes& sizes) {
  rnn::ValidSteps steps;
  steps.go_backwards = options.go_backwards;
  if (inputs.sequence_lengths != nullptr) {
    steps.lengths = Data<int32_t>(*inputs.sequence_lengths);
  }
  if (inputs.mask != nullptr) {
    steps.mask = reinterpret_cast<const uint8_t*>(Data<bool>(*inputs.mask));
    const auto strides =
        rnn::Strides::Of(options.attributes.time_major, sizes.time, sizes.batch,
                         /*features=*/1);
    steps.mask_time = strides.outer;
    steps.mask_batch = strides.batch;
  }
  return steps;
}

// The last step of validation, after the shapes.
absl::StatusOr<RnnCall> MakeCall(const CallOptions& options,
                                 ForwardInputs inputs, const CallSizes& sizes) {
  RnnCall call;
  const RnnAttributes& attributes = options.attributes;
  TF_RETURN_IF_ERROR(FromEngine(rnn::Sequences::Create(
      sizes.time, sizes.batch, GetValidSteps(options, inputs, sizes),
      &call.sequences)));
  const int64_t output_features = attributes.num_directions * sizes.output_size;
  TensorShape output_shape = inputs.input->shape();
  TF_RETURN_IF_ERROR(output_shape.SetDimWithStatus(2, output_features));

  call.input = inputs.input;
  call.input_h = inputs.input_h;
  call.input_c = inputs.input_c;
  call.weight_order = WeightOrderOf(options.version);
  call.params = inputs.params;
  std::copy_n(inputs.keras_weights, 2, call.keras_weights);
  call.int8_weights = std::move(inputs.int8_weights);
  call.output_shape = std::move(output_shape);
  call.descriptor = MakeDescriptor(attributes, sizes.network(attributes));
  call.layout.time_major = attributes.time_major;
  call.layout.states_outer_major = options.states_outer_major;
  call.strides =
      rnn::CallStrides::Of(call.descriptor, call.layout, sizes.time,
                           sizes.batch, /*reverses_y=*/options.go_backwards);
  call.repeats_outputs = !options.zero_output_for_mask;
  return call;
}

// Whether TF_CUDNN_RNN_BATCH_MAJOR_STATES asks for the meaning that TensorFlow
// gives batch-major states on GPUs: it declares them [B, L*D, ...] and hands
// the same memory to cuDNN as [L*D, B, ...].
absl::Status ReadStatesAsCudnn(bool* as_cudnn) {
  constexpr char kVariable[] = "TF_CUDNN_RNN_BATCH_MAJOR_STATES";
  std::string value;
  TF_RETURN_IF_ERROR(
      tensorflow::ReadStringFromEnvVar(kVariable, "documented", &value));
  *as_cudnn = value == "cudnn";
  if (*as_cudnn || value == "documented") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("The environment variable ", kVariable,
                   " must be \"documented\" or \"cudnn\", got \"", value,
                   "\"; unset it for the documented meaning."));
}

}  // namespace

absl::Status ReadCallOptions(OpKernelConstruction* context,
                             const OpVersion& version, CallOptions* options) {
  options->version = version;
  for (const std::string& fault :
       {rnn::SimdTargetVariableFault(), rnn::MachineVariableFault()}) {
    if (!fault.empty()) return absl::InvalidArgumentError(fault);
  }
  TF_RETURN_IF_ERROR(ReadLogOptions(&options->log));
  TF_RETURN_IF_ERROR(
      ReadRnnAttributes(context, DefinedByOp(context), &options->attributes));
  options->states_outer_major = options->attributes.time_major;
  if (version.has_keras_weights) {
    TF_RETURN_IF_ERROR(ReadKerasSteps(context, &options->attributes,
                                      &options->go_backwards,
                                      &options->zero_output_for_mask));
  }
  if (version.is_own || !version.has_sequence_lengths) return absl::OkStatus();
  bool as_cudnn = false;
  TF_RETURN_IF_ERROR(ReadStatesAsCudnn(&as_cudnn));
  options->states_outer_major |= as_cudnn;
  return absl::OkStatus();
}

absl::StatusOr<RnnCall> ReadForwardCall(OpKernelContext* context,
                                        const CallOptions& options) {
  ForwardInputs inputs;
  ForwardShapes shapes;
  TF_RETURN_IF_ERROR(
      GetForwardInputs(context, options.version, &inputs, &shapes));
  CallSizes sizes;
  if (options.version.has_keras_weights) {
    TF_RETURN_IF_ERROR(CheckKerasWeights(context, options.attributes, shapes,
                                         &inputs, &sizes));
  } else if (options.version.has_int8_weights) {
    TF_RETURN_IF_ERROR(
        CheckInt8Weights(context, options.attributes, shapes, &inputs, &sizes));
  } else {
    TF_RETURN_IF_ERROR(CheckForwardShapes(options.attributes, shapes, &sizes));
  }
  return MakeCall(options, std::move(inputs), sizes);
}

absl::StatusOr<RnnCall> ReadBackpropCall(OpKernelContext* context,
                                         const CallOptions& options,
                                         BackpropInputs* backprop_inputs) {
  ForwardInputs inputs;
  BackpropShapes shapes;
  TF_RETURN_IF_ERROR(
      GetForwardInputs(context, options.version, &inputs, &shapes.forward));
  TF_RETURN_IF_ERROR(GetBackpropInputs(context, backprop_inputs, &shapes));
  CallSizes sizes;
  if (options.version.has_keras_weights) {
    TF_RETURN_IF_ERROR(CheckKerasWeights(context, options.attributes,
                                         shapes.forward, &inputs, &sizes));
  }
  TF_RETURN_IF_ERROR(CheckBackpropShapes(options.attributes, shapes, &sizes));
  if (options.version.fills_host_reserved) {
    TF_RETURN_IF_ERROR(CheckHostReserved(context));
  }
  return MakeCall(options, std::move(inputs), sizes);
}

}  // namespace tf_cudnn_rnn
