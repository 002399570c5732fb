// TfCudnnRnn>CudnnRNNReadReserve.
#include <cstdint>

#include "kernels/engine/engine.h"
#include "kernels/guarded_kernel.h"
#include "kernels/rnn_call.h"
#include "kernels/tf_adapter.h"
#include "kernels/thread_pool_executor.h"
#include "network/descriptor.h"
#include "network/reserve_layout.h"
#include "ops/call_shapes.h"
#include "ops/engine_status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {
namespace {

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
  explicit ReadReserveKernel(OpKernelConstruction* context)
      : GuardedKernel(context) {
    OP_REQUIRES_OK(context, ReadCallOptions(context, kOwn, &options_));
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

#define REGISTER_READ_RESERVE(T, M)                              \
  REGISTER_KERNEL_BUILDER(Name("TfCudnnRnn>CudnnRNNReadReserve") \
                              .Device(tensorflow::DEVICE_CPU)    \
                              .TypeConstraint<T>("T")            \
                              .TypeConstraint<M>("M"),           \
                          ReadReserveKernel<T>)
REGISTER_READ_RESERVE(Eigen::half, float);
REGISTER_READ_RESERVE(tensorflow::bfloat16, float);
REGISTER_READ_RESERVE(float, float);
REGISTER_READ_RESERVE(double, double);
#undef REGISTER_READ_RESERVE

}  // namespace
}  // namespace tf_cudnn_rnn
