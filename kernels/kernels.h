// Makers of the op kernels; registration.cc gives them their op names.
#ifndef KERNELS_KERNELS_H_
#define KERNELS_KERNELS_H_

#include "kernels/rnn_call.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_cudnn_rnn {

using NewKernel = tensorflow::OpKernel*(tensorflow::OpKernelConstruction*,
                                        const OpVersion&);

NewKernel NewForwardKernel;
NewKernel NewBackpropKernel;
NewKernel NewReadReserveKernel;
NewKernel NewParamsSizeKernel;
NewKernel NewParamsToCanonicalKernel;
NewKernel NewCanonicalToParamsKernel;
NewKernel NewKerasToParamsKernel;
NewKernel NewKerasToParamsBackpropKernel;

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_KERNELS_H_
