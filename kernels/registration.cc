// Registers the kernels, as the library is loaded: for our own op names, and
// for those of TensorFlow's built-in ops that have no CPU kernel yet.
#include <algorithm>

#include "kernels/kernels.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;

template <NewKernel* new_kernel, const OpVersion& version>
OpKernel* Create(OpKernelConstruction* context) {
  return new_kernel(context, version);
}

struct Registration {
  const char* op;
  OpKernel* (*create)(OpKernelConstruction*);
  bool has_type = true;  // the attribute T; otherwise tensors are float
};

constexpr Registration kRegistrations[] = {
    {"CudnnRNN", Create<NewForwardKernel, kV1>},
    {"CudnnRNNV2", Create<NewForwardKernel, kV2>},
    {"CudnnRNNV3", Create<NewForwardKernel, kV3>},
    {"TfCudnnRnn>CudnnRNNV3", Create<NewForwardKernel, kOwn>},

    {"CudnnRNNBackprop", Create<NewBackpropKernel, kV1>},
    {"CudnnRNNBackpropV2", Create<NewBackpropKernel, kV2>},
    {"CudnnRNNBackpropV3", Create<NewBackpropKernel, kV3>},
    {"TfCudnnRnn>CudnnRNNBackpropV3", Create<NewBackpropKernel, kOwn>},

    {"CudnnRNNParamsSize", Create<NewParamsSizeKernel, kV1>},
    {"TfCudnnRnn>CudnnRNNParamsSize", Create<NewParamsSizeKernel, kOwn>},

    {"CudnnRNNParamsToCanonical", Create<NewParamsToCanonicalKernel, kV1>},
    {"CudnnRNNParamsToCanonicalV2", Create<NewParamsToCanonicalKernel, kV2>},
    {"TfCudnnRnn>CudnnRNNParamsToCanonicalV2",
     Create<NewParamsToCanonicalKernel, kOwn>},

    {"CudnnRNNCanonicalToParams", Create<NewCanonicalToParamsKernel, kV1>},
    {"CudnnRNNCanonicalToParamsV2", Create<NewCanonicalToParamsKernel, kV2>},
    {"TfCudnnRnn>CudnnRNNCanonicalToParamsV2",
     Create<NewCanonicalToParamsKernel, kOwn>},

    {"TfCudnnRnn>CudnnRNNReadReserve", Create<NewReadReserveKernel, kOwn>},

    {"TfCudnnRnn>CudnnRNNInt8", Create<NewForwardKernel, kInt8>,
     /*has_type=*/false},

    {"TfCudnnRnn>KerasRNN", Create<NewForwardKernel, kKeras>},
    {"TfCudnnRnn>KerasRNNBackprop", Create<NewBackpropKernel, kKeras>},
    {"TfCudnnRnn>KerasToParams", Create<NewKerasToParamsKernel, kOwn>},
    {"TfCudnnRnn>KerasToParamsBackprop",
     Create<NewKerasToParamsBackpropKernel, kOwn>},
};

// A second registration would make every call fail; builds for GPUs list GPU
// kernels, which do not matter.
bool HasCpuKernel(const char* op) {
  const tensorflow::KernelList kernels =
      tensorflow::GetRegisteredKernelsForOp(op);
  return std::any_of(kernels.kernel().begin(), kernels.kernel().end(),
                     [](const tensorflow::KernelDef& kernel) {
                       return kernel.device_type() == tensorflow::DEVICE_CPU;
                     });
}

void Register(const Registration& registration) {
  tensorflow::KernelDefBuilder definition(registration.op);
  definition.Device(tensorflow::DEVICE_CPU);
  if (registration.has_type) {
    definition.TypeConstraint("T",
                              {tensorflow::DT_HALF, tensorflow::DT_BFLOAT16,
                               tensorflow::DT_FLOAT, tensorflow::DT_DOUBLE});
  }
  // The registrar takes the definition and needs nothing to stay alive.
  tensorflow::kernel_factory::OpKernelRegistrar(
      definition.Build(), registration.op, registration.create);
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const Registration& registration : kRegistrations) {
    if (!HasCpuKernel(registration.op)) Register(registration);
  }
  return true;
}();

}  // namespace
}  // namespace tf_cudnn_rnn
