// A kernel whose calls end in an error, not with the process, where memory runs
// out, and in which denormals count as zeros.
#ifndef KERNELS_GUARDED_KERNEL_H_
#define KERNELS_GUARDED_KERNEL_H_

#include "tensorflow/core/framework/op_kernel.h"

namespace tf_cudnn_rnn {

// Tables of sequences, plans and messages are the C++ library's, which throws
// where the system has no memory. This is the one place that catches it: as
// ResourceExhausted. What a call has by then, it gives back on the way here.
// Once the engine has begun to compute, it allocates nothing that it cannot do
// without (threads/team.h).
class GuardedKernel : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) final;

 protected:
  // What the kernel does. May throw what `new` and containers throw.
  virtual void Run(tensorflow::OpKernelContext* context) = 0;
};

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_GUARDED_KERNEL_H_
