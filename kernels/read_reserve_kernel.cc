// TfCudnnRnn>CudnnRNNReadReserve.
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/engine/engine.h"
#include "kernels/guarded_kernel.h"
#include "kernels/kernels.h"
#include "kernels/rnn_call.h"
#include "kernels/tf_adapter.h"
#include "kernels/thread_pool_executor.h"
#include "network/descriptor.h"
#include "network/reserve_layout.h"
#include "ops/call_shapes.h"
#include "ops/engine_status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

// On success `layout` and `dropout_key` are those that the forward call had.
template <typename E>
absl::Status CheckReserve(const RnnCall& call, const E* reserve, int64_t size,
                          rnn::PaddedLayout* layout, uint64_t* dropout_key) {
  rnn::ReserveLayout reserve_layout;
  TF_RETURN_IF_ERROR(FromEngine(rnn::ReserveLayout::Create(
      call.descriptor, call.sequences, &reserve_layout)));
  *layout = call.layout;
  const absl::Status status = FromEngine(
      rnn::CheckReserve(call.descriptor, call.sequences, reserve_layout,
                        *layout, reserve, size, dropout_key));
  if (status.ok() || layout->states_outer_major) return status;
  // A built-in op may have followed cuDNN in this.
  layout->states_outer_major = true;
  return rnn::CheckReserve(call.descriptor, call.sequences, reserve_layout,
                           *layout, reserve, size, dropout_key)
                 .ok()
             ? absl::OkStatus()
             : status;
}

template <typename T>
class ReadReserveKernel : public GuardedKernel {
 public:
  ReadReserveKernel(OpKernelConstruction* context, const OpVersion& version)
      : GuardedKernel(context) {
    OP_REQUIRES_OK(context, ReadCallOptions(context, version, &options_));
    constexpr DataType kComputeType =
        tensorflow::DataTypeToEnum<rnn::ComputeType<Element<T>>>::value;
    DataType type_of_masks;
    OP_REQUIRES_OK(context, context->GetAttr("M", &type_of_masks));
    OP_REQUIRES(context, type_of_masks == kComputeType,
                absl::InvalidArgumentError(absl::StrCat(
                    "M must be ", tensorflow::DataTypeString(kComputeType),
                    ", the type that T is computed in, got ",
                    tensorflow::DataTypeString(type_of_masks), ".")));
  }

  void Run(OpKernelContext* context) override {
    absl::StatusOr<RnnCall> call = ReadForwardCall(context, options_);
    OP_REQUIRES_OK(context, call.status());
    const Tensor* reserve;
    OP_REQUIRES_OK(context, context->input("reserve_space", &reserve));
    OP_REQUIRES_OK(context, CheckReserveSpaceRank(PartialShape(*reserve)));
    rnn::PaddedLayout layout;
    uint64_t dropout_key;
    OP_REQUIRES_OK(
        context, CheckReserve(*call, Data<T>(*reserve), reserve->NumElements(),
                              &layout, &dropout_key));

    const rnn::RnnDescriptor& d = call->descriptor;
    const rnn::Sequences& sequences = call->sequences;
    const int64_t features = d.layer_output_size();
    TensorShape shape;
    OP_REQUIRES_OK(context,
                   TensorShape::BuildTensorShape(
                       {rnn::DropsOut(d.dropout) ? d.num_layers - 1 : 0,
                        sequences.max_time(), sequences.batch(), features},
                       &shape));
    Tensor* masks = nullptr;
    OP_REQUIRES_OK(context,
                   AllocateOutput(context, "dropout_masks", shape, &masks));
    ThreadPoolExecutor executor(context);
    rnn::DrawDropoutMasks(d, sequences, dropout_key,
                          MutableData<rnn::ComputeType<Element<T>>>(masks),
                          executor);

    Tensor* states_outer_major = nullptr;
    OP_REQUIRES_OK(
        context, context->allocate_output("states_outer_major", TensorShape({}),
                                          &states_outer_major));
    states_outer_major->scalar<bool>()() = layout.states_outer_major;
  }

 private:
  CallOptions options_;
};

}  // namespace

OpKernel* NewReadReserveKernel(OpKernelConstruction* context,
                               const OpVersion& version) {
  return NewKernelOfType<ReadReserveKernel>(context, version);
}

}  // namespace tf_cudnn_rnn
