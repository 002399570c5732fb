// CudnnRNNBackprop, V2, V3, our own CudnnRNNBackpropV3, and KerasRNNBackprop.
#include <cstdint>
#include <optional>

#include "kernels/call_report.h"
#include "kernels/dropout_keys.h"
#include "kernels/engine/engine.h"
#include "kernels/guarded_kernel.h"
#include "kernels/kernels.h"
#include "kernels/rnn_call.h"
#include "kernels/tf_adapter.h"
#include "kernels/thread_pool_executor.h"
#include "ops/engine_status.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::OpOutputList;
using ::tensorflow::Tensor;

template <typename T>
class BackpropKernel : public GuardedKernel {
 public:
  BackpropKernel(OpKernelConstruction* context, const OpVersion& version)
      : GuardedKernel(context) {
    OP_REQUIRES_OK(context, ReadCallOptions(context, version, &options_));
    if (!version.is_own) {
      // Only checked: what was dropped stands in reserve_space.
      uint64_t seed;
      OP_REQUIRES_OK(context, ReadSeed(context, &seed));
    }
  }

  void Run(OpKernelContext* context) override {
    CallReport report(options_.log);
    BackpropInputs inputs;
    absl::StatusOr<RnnCall> call = ReadBackpropCall(context, options_, &inputs);
    OP_REQUIRES_OK(context, call.status());
    ThreadPoolExecutor executor(context);
    rnn::BackwardPlan plan;
    OP_REQUIRES_OK(context,
                   FromEngine(rnn::BackwardPlan::Create(
                       call->Describe<T>(), executor.MachineOfCall(), &plan)));
    uint64_t dropout_key;
    OP_REQUIRES_OK(context,
                   FromEngine(rnn::CheckReserve(
                       call->descriptor, call->sequences, plan.reserve,
                       call->layout, Data<T>(*inputs.reserve_space),
                       inputs.reserve_space->NumElements(), &dropout_key)));

    rnn::BackwardArguments<Element<T>> arguments{};
    arguments.x = Data<T>(*call->input);
    arguments.h0 = Data<T>(*call->input_h);
    arguments.c0 = LstmData(*call->input_c);
    arguments.weights = call->Weights<T>();
    arguments.y = Data<T>(*inputs.output) + call->strides.y_offset;
    arguments.reserve = Data<T>(*inputs.reserve_space);
    arguments.dropout_key = dropout_key;
    arguments.observer = report.Begin(plan);
    arguments.dy = Data<T>(*inputs.output_backprop) + call->strides.y_offset;
    arguments.dh_n = Data<T>(*inputs.output_h_backprop);
    arguments.dc_n = LstmData(*inputs.output_c_backprop);
    arguments.strides = call->strides;
    OP_REQUIRES_OK(context, AllocateOutputs(context, *call, &arguments));
    std::optional<Scratch> scratch;
    OP_REQUIRES_OK(context, AllocateScratch(plan.scratch_bytes, &scratch));
    rnn::Backward(plan, arguments, scratch->data(), executor);
  }

 private:
  bool is_lstm() const { return options_.attributes.is_lstm(); }
  bool has_keras_weights() const { return options_.version.has_keras_weights; }

  // The data of a cell state, which other modes do not have.
  const Element<T>* LstmData(const Tensor& tensor) const {
    return is_lstm() ? Data<T>(tensor) : nullptr;
  }

  // Also points `arguments` to them.
  absl::Status AllocateOutputs(OpKernelContext* context, const RnnCall& call,
                               rnn::BackwardArguments<Element<T>>* arguments) {
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(AllocateOutput(context, "input_backprop",
                                      call.input->shape(), &output));
    arguments->dx = MutableData<T>(output);
    TF_RETURN_IF_ERROR(AllocateOutput(context, "input_h_backprop",
                                      call.input_h->shape(), &output));
    arguments->dh0 = MutableData<T>(output);
    if (has_keras_weights()) {
      TF_RETURN_IF_ERROR(AllocateKerasOutputs(context, call.keras_weights,
                                              arguments->dweights.keras));
    } else {
      TF_RETURN_IF_ERROR(AllocateOutput(context, "params_backprop",
                                        call.params->shape(), &output));
      arguments->dweights.params = MutableData<T>(output);
    }
    TF_RETURN_IF_ERROR(AllocateOutput(context, "input_c_backprop",
                                      call.input_c->shape(), &output));
    arguments->dc0 = is_lstm() ? MutableData<T>(output) : nullptr;
    if (!is_lstm()) FillWithZeros(output);
    return absl::OkStatus();
  }

  // For each direction that there is.
  static absl::Status AllocateKerasOutputs(
      OpKernelContext* context, const KerasWeightTensors (&weights)[2],
      rnn::KerasWeights<Element<T>> (&dweights)[2]) {
    const auto& [forward, backward] = weights;
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(AllocateOutput(context, "kernel_backprop",
                                      forward.kernel->shape(), &output));
    dweights[0].kernel = MutableData<T>(output);
    TF_RETURN_IF_ERROR(AllocateOutput(context, "recurrent_kernel_backprop",
                                      forward.recurrent_kernel->shape(),
                                      &output));
    dweights[0].recurrent_kernel = MutableData<T>(output);
    OpOutputList list;
    TF_RETURN_IF_ERROR(context->output_list("biases_backprop", &list));
    TF_RETURN_IF_ERROR(
        AllocateOfList(forward.bias, 0, &list, &dweights[0].bias));
    TF_RETURN_IF_ERROR(
        context->output_list("backward_weights_backprop", &list));
    TF_RETURN_IF_ERROR(
        AllocateOfList(backward.kernel, 0, &list, &dweights[1].kernel));
    TF_RETURN_IF_ERROR(AllocateOfList(backward.recurrent_kernel, 1, &list,
                                      &dweights[1].recurrent_kernel));
    return AllocateOfList(backward.bias, 2, &list, &dweights[1].bias);
  }

  // The gradient of `tensor` in a list of outputs; none of no tensor.
  static absl::Status AllocateOfList(const Tensor* tensor, int index,
                                     OpOutputList* list, Element<T>** data) {
    *data = nullptr;
    if (tensor == nullptr) return absl::OkStatus();
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(list->allocate(index, tensor->shape(), &output));
    *data = MutableData<T>(output);
    return absl::OkStatus();
  }

  CallOptions options_;
};

}  // namespace

OpKernel* NewBackpropKernel(OpKernelConstruction* context,
                            const OpVersion& version) {
  return NewKernelOfType<BackpropKernel>(context, version);
}

}  // namespace tf_cudnn_rnn
