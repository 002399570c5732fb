// CudnnRNN, V2, V3, our own CudnnRNNV3, KerasRNN, and CudnnRNNInt8.
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
#include "network/descriptor.h"
#include "network/shared_memory.h"
#include "ops/engine_status.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

constexpr int kReserveSpaceOutput = 3;

template <typename T>
class ForwardKernel : public GuardedKernel {
 public:
  ForwardKernel(OpKernelConstruction* context, const OpVersion& version)
      : GuardedKernel(context) {
    OP_REQUIRES_OK(context, ReadCallOptions(context, version, &options_));
    if (!version.has_int8_weights) {
      OP_REQUIRES_OK(context, context->GetAttr("is_training", &is_training_));
    }
    if (!version.is_own) {
      OP_REQUIRES_OK(context, built_in_keys_.Initialize(context));
    }
  }

  void Run(OpKernelContext* context) override {
    CallReport report(options_.log);
    absl::StatusOr<RnnCall> call = ReadForwardCall(context, options_);
    OP_REQUIRES_OK(context, call.status());
    uint64_t dropout_key;
    OP_REQUIRES_OK(context,
                   GetDropoutKey(context, call->descriptor, &dropout_key));

    // GPU-made Keras models say is_training=True even to predict. An output
    // that nobody consumes may stay unset, and then nothing needs saving.
    const bool has_reserve =
        is_training_ && context->output_required(kReserveSpaceOutput);
    ThreadPoolExecutor executor(context);
    rnn::ForwardPlan plan;
    OP_REQUIRES_OK(context, FromEngine(rnn::ForwardPlan::Create(
                                call->Describe<T>(), has_reserve,
                                executor.MachineOfCall(), &plan)));

    rnn::ForwardArguments<Element<T>> arguments{};
    arguments.x = Data<T>(*call->input);
    arguments.h0 = Data<T>(*call->input_h);
    arguments.c0 = is_lstm() ? Data<T>(*call->input_c) : nullptr;
    arguments.weights = call->Weights<T>();
    arguments.strides = call->strides;
    arguments.layout = call->layout;
    arguments.apply_dropout = is_training_;
    arguments.dropout_key = dropout_key;
    arguments.observer = report.Begin(plan);
    OP_REQUIRES_OK(context, AllocateOutputs(context, *call, plan, &arguments));

    std::optional<Scratch> scratch;
    OP_REQUIRES_OK(context, AllocateScratch(plan.scratch_bytes, &scratch));
    rnn::Forward(plan, arguments, scratch->data(), executor);
  }

 private:
  bool is_lstm() const { return options_.attributes.is_lstm(); }

  absl::Status GetDropoutKey(OpKernelContext* context,
                             const rnn::RnnDescriptor& descriptor,
                             uint64_t* key) {
    *key = 0;
    if (!options_.version.has_params()) return absl::OkStatus();
    if (options_.version.is_own) {
      const Tensor* rng_seed;
      TF_RETURN_IF_ERROR(context->input("rng_seed", &rng_seed));
      TF_RETURN_IF_ERROR(CheckRngSeedShape(PartialShape(*rng_seed)));
      int64_t words[2];
      rnn::CopyOnce(Data<int64_t>(*rng_seed), 2, words);
      *key = OwnKey(words);
    } else if (is_training_) {
      const bool draws =
          rnn::DropsOut(descriptor.dropout) && descriptor.num_layers > 1;
      return built_in_keys_.Next(draws, key);
    }
    return absl::OkStatus();
  }

  // Also points `arguments` to them.
  absl::Status AllocateOutputs(OpKernelContext* context, const RnnCall& call,
                               const rnn::ForwardPlan& plan,
                               rnn::ForwardArguments<Element<T>>* arguments) {
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(
        AllocateOutput(context, "output", call.output_shape, &output));
    arguments->y = MutableData<T>(output) + call.strides.y_offset;
    TF_RETURN_IF_ERROR(
        AllocateOutput(context, "output_h", call.input_h->shape(), &output));
    arguments->h_n = MutableData<T>(output);
    arguments->c_n = nullptr;
    if (is_lstm()) {
      TF_RETURN_IF_ERROR(
          AllocateOutput(context, "output_c", call.input_c->shape(), &output));
      arguments->c_n = MutableData<T>(output);
    } else {
      TF_RETURN_IF_ERROR(AllocateZeros(context, "output_c", TensorShape()));
    }
    TF_RETURN_IF_ERROR(AllocateHostReserved(context));
    return AllocateReserve(context, plan, &arguments->reserve);
  }

  absl::Status AllocateHostReserved(OpKernelContext* context) {
    const OpVersion& version = options_.version;
    if (!version.has_host_reserved) return absl::OkStatus();
    const bool is_filled = is_training_ && version.fills_host_reserved;
    return AllocateZeros(context, "host_reserved",
                         is_filled ? TensorShape({2}) : TensorShape());
  }

  absl::Status AllocateReserve(OpKernelContext* context,
                               const rnn::ForwardPlan& plan,
                               Element<T>** reserve) {
    *reserve = nullptr;
    if (options_.version.has_int8_weights) return absl::OkStatus();
    if (!is_training_) {
      return AllocateZeros(context, "reserve_space", TensorShape());
    }
    if (!plan.has_reserve) return absl::OkStatus();
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(AllocateOutput(
        context, "reserve_space", TensorShape({plan.reserve.size()}), &output));
    *reserve = MutableData<T>(output);
    return absl::OkStatus();
  }

  CallOptions options_;
  bool is_training_ = false;  // nor are ops that have no such attribute
  BuiltInKeys built_in_keys_;
};

}  // namespace

OpKernel* NewForwardKernel(OpKernelConstruction* context,
                           const OpVersion& version) {
  return NewKernelOfType<ForwardKernel>(context, version);
}

}  // namespace tf_cudnn_rnn
