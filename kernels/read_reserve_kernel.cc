// TfCudnnRnn>CudnnRNNReadReserve.
#include <algorithm>
#include <cstdint>

#include "kernels/engine/elements/dropout.h"
#include "kernels/engine/elements/reserve_header.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/plan/thresholds.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/rnn_call.h"
#include "kernels/tf_adapter.h"
#include "kernels/thread_pool_executor.h"
#include "network/reserve_layout.h"
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

// On success `layout` is the one that the forward call had.
template <typename E>
absl::Status CheckReserve(const RnnCall& call, const E* reserve, int64_t size,
                          rnn::PaddedLayout* layout) {
  *layout = call.layout;
  const absl::Status status = FromEngine(rnn::CheckReserve(
      call.descriptor, call.sequences, *layout, reserve, size));
  if (status.ok() || layout->states_outer_major) return status;
  // A built-in op may have followed cuDNN in this.
  layout->states_outer_major = true;
  return rnn::CheckReserve(call.descriptor, call.sequences, *layout, reserve,
                           size)
                 .ok()
             ? absl::OkStatus()
             : status;
}

template <typename T>
class ReadReserveKernel : public OpKernel {
 public:
  explicit ReadReserveKernel(OpKernelConstruction* context)
      : OpKernel(context) {
    OP_REQUIRES_OK(context, ReadCallOptions(context, kOwn, &options_));
  }

  void Compute(OpKernelContext* context) override {
    absl::StatusOr<RnnCall> call = ReadForwardCall(context, options_);
    OP_REQUIRES_OK(context, call.status());
    const Tensor* reserve;
    OP_REQUIRES_OK(context, context->input("reserve_space", &reserve));
    rnn::PaddedLayout layout;
    OP_REQUIRES_OK(context, CheckReserve(*call, Data<T>(*reserve),
                                         reserve->NumElements(), &layout));

    const rnn::RnnDescriptor& d = call->descriptor;
    const rnn::Sequences& sequences = call->sequences;
    const int64_t features = d.num_directions * d.output_size();
    TensorShape shape;
    OP_REQUIRES_OK(context,
                   TensorShape::BuildTensorShape(
                       {d.dropout > 0 ? d.num_layers - 1 : 0,
                        sequences.max_time(), sequences.batch(), features},
                       &shape));
    Tensor* masks = nullptr;
    OP_REQUIRES_OK(context,
                   AllocateOutput(context, "dropout_masks", shape, &masks));
    ThreadPoolExecutor executor(context);
    uint64_t key = 0;
    rnn::ReadDropoutKey(Data<T>(*reserve), &key);  // which has been checked
    FillMasks({d.dropout, key}, shape, MutableData<ComputeType>(masks),
              executor);

    Tensor* states_outer_major = nullptr;
    OP_REQUIRES_OK(
        context, context->allocate_output("states_outer_major", TensorShape({}),
                                          &states_outer_major));
    states_outer_major->scalar<bool>()() = layout.states_outer_major;
  }

 private:
  using ComputeType = rnn::ComputeType<Element<T>>;

  // Writes what dropout makes of ones. `shape` is [L-1, T, B, D*P].
  static void FillMasks(const rnn::Dropout& dropout, const TensorShape& shape,
                        ComputeType* masks, rnn::Executor& executor) {
    const int64_t time = shape.dim_size(1);
    const int64_t batch = shape.dim_size(2);
    const int64_t features = shape.dim_size(3);
    const int64_t rows = shape.dim_size(0) * time * batch;
    rnn::ParallelFor(executor, rows, features * rnn::speed::kMoveWork,
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i) {
                         ComputeType* row = masks + i * features;
                         std::fill_n(row, features, ComputeType{1});
                         dropout.Apply(i / batch / time, i / batch % time,
                                       i % batch, features, row, row);
                       }
                     });
  }

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
