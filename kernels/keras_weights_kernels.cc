// KerasToParams and its gradient.
#include <cstdint>

#include "kernels/engine/weights/keras_weights.h"
#include "kernels/guarded_kernel.h"
#include "kernels/keras_weight_tensors.h"
#include "kernels/kernels.h"
#include "kernels/tf_adapter.h"
#include "kernels/thread_pool_executor.h"
#include "ops/keras_weights_rules.h"
#include "ops/params_rules.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::OpOutputList;
using ::tensorflow::PartialTensorShape;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

template <typename T>
class KerasToParamsKernel : public GuardedKernel {
 public:
  explicit KerasToParamsKernel(OpKernelConstruction* context)
      : GuardedKernel(context) {
    OP_REQUIRES_OK(context, ReadKerasWeightsAttributes(context, &attributes_));
  }

  void Run(OpKernelContext* context) override {
    KerasWeightTensors weights;
    KerasShapes shapes;
    OP_REQUIRES_OK(context, GetKerasWeights(context, &weights, &shapes));
    KerasSizes sizes;
    OP_REQUIRES_OK(context, CheckKerasShapes(attributes_.mode, shapes, &sizes));
    Network network;
    OP_REQUIRES_OK(context,
                   MakeKerasNetwork(attributes_.mode, sizes, &network));

    Tensor* params = nullptr;
    OP_REQUIRES_OK(
        context,
        AllocateOutput(context, "params", TensorShape({network.layout->size()}),
                       &params));
    ThreadPoolExecutor executor(context);
    rnn::KerasToParams<Element<T>>(network.descriptor, *network.layout,
                                   weights.Data<T>(), MutableData<T>(params),
                                   executor);
  }

 private:
  KerasWeightsAttributes attributes_;
};

template <typename T>
class KerasToParamsBackpropKernel : public GuardedKernel {
 public:
  explicit KerasToParamsBackpropKernel(OpKernelConstruction* context)
      : GuardedKernel(context) {
    OP_REQUIRES_OK(context, ReadKerasWeightsAttributes(context, &attributes_));
  }

  void Run(OpKernelContext* context) override {
    const Tensor* params_backprop;
    const Tensor* num_units;
    OP_REQUIRES_OK(context,
                   context->input("params_backprop", &params_backprop));
    OP_REQUIRES_OK(context, context->input("num_units", &num_units));
    OP_REQUIRES_OK(context, CheckScalar("num_units", PartialShape(*num_units)));
    KerasSizes sizes;
    OP_REQUIRES_OK(context,
                   CheckKerasBackpropShapes(
                       attributes_.mode, PartialShape(*params_backprop),
                       ReadScalar<int32_t>(*num_units), &sizes));
    Network network;
    OP_REQUIRES_OK(context,
                   MakeKerasNetwork(attributes_.mode, sizes, &network));
    const rnn::RnnDescriptor& descriptor = network.descriptor;

    const int64_t gates_size = descriptor.gates_size();
    Tensor* kernel = nullptr;
    Tensor* recurrent_kernel = nullptr;
    OpOutputList biases;
    OP_REQUIRES_OK(
        context,
        AllocateOutput(context, "kernel_backprop",
                       TensorShape({descriptor.input_size, gates_size}),
                       &kernel));
    OP_REQUIRES_OK(
        context,
        AllocateOutput(context, "recurrent_kernel_backprop",
                       TensorShape({descriptor.hidden_size, gates_size}),
                       &recurrent_kernel));
    OP_REQUIRES_OK(context, context->output_list("biases_backprop", &biases));
    Tensor* bias = nullptr;
    if (biases.size() > 0) {
      TensorShape shape;
      KerasBiasShape(attributes_.mode, descriptor.hidden_size)
          .AsTensorShape(&shape);
      OP_REQUIRES_OK(context, biases.allocate(0, shape, &bias));
    }
    ThreadPoolExecutor executor(context);
    rnn::KerasWeights<Element<T>> gradients;
    gradients.kernel = MutableData<T>(kernel);
    gradients.recurrent_kernel = MutableData<T>(recurrent_kernel);
    gradients.bias = bias == nullptr ? nullptr : MutableData<T>(bias);
    rnn::KerasToParamsBackward<Element<T>>(descriptor, *network.layout,
                                           Data<T>(*params_backprop), gradients,
                                           executor);
  }

 private:
  KerasWeightsAttributes attributes_;
};

}  // namespace

OpKernel* NewKerasToParamsKernel(OpKernelConstruction* context,
                                 const OpVersion&) {
  return NewKernelOfType<KerasToParamsKernel>(context);
}

OpKernel* NewKerasToParamsBackpropKernel(OpKernelConstruction* context,
                                         const OpVersion&) {
  return NewKernelOfType<KerasToParamsBackpropKernel>(context);
}

}  // namespace tf_cudnn_rnn
