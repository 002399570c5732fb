// Small conversions between TensorFlow's tensors and the engine's pointers.
#ifndef KERNELS_TF_ADAPTER_H_
#define KERNELS_TF_ADAPTER_H_

#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/memory/scratch_pool.h"
#include "network/element_types.h"
#include "network/shared_memory.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace tf_cudnn_rnn {

// The engine's name of TensorFlow's element type T; the bits are the same.
template <typename T>
struct ElementOf {
  using type = T;
};
template <>
struct ElementOf<Eigen::half> {
  using type = rnn::Half;
};
template <>
struct ElementOf<tensorflow::bfloat16> {
  using type = rnn::BFloat16;
};
template <typename T>
using Element = typename ElementOf<T>::type;

template <typename T>
const Element<T>* Data(const tensorflow::Tensor& tensor) {
  static_assert(sizeof(Element<T>) == sizeof(T));
  return static_cast<const Element<T>*>(tensor.data());
}
template <typename T>
Element<T>* MutableData(tensorflow::Tensor* tensor) {
  return static_cast<Element<T>*>(tensor->data());
}

// The value of a scalar, checked to be one. (Tensor::scalar() wants memory that
// is aligned to lines, and aborts the process where a program has lent other.)
template <typename T>
T ReadScalar(const tensorflow::Tensor& tensor) {
  return rnn::ReadOnce(Data<T>(tensor));
}

inline tensorflow::PartialTensorShape PartialShape(
    const tensorflow::Tensor& tensor) {
  return tensorflow::PartialTensorShape(tensor.shape().dim_sizes());
}

// Zero has only zero bits in every type the ops know.
inline void FillWithZeros(tensorflow::Tensor* tensor) {
  if (tensor->NumElements() > 0) {
    std::memset(tensor->data(), 0, tensor->TotalBytes());
  }
}

// Allocates an output and, if it is large, asks for large pages.
absl::Status AllocateOutput(tensorflow::OpKernelContext* context,
                            const char* name,
                            const tensorflow::TensorShape& shape,
                            tensorflow::Tensor** output);

// Allocates an output and fills it with zeros.
absl::Status AllocateZeros(tensorflow::OpKernelContext* context,
                           const char* name,
                           const tensorflow::TensorShape& shape);

// Scratch memory for the length of a call.
absl::Status AllocateScratch(int64_t num_bytes,
                             std::optional<Scratch>* scratch);

// Whether the definition of the kernel's op has an attribute; its node may have
// others.
bool DefinitionHasAttribute(tensorflow::OpKernelConstruction* context,
                            absl::string_view name);

// What asks that, for ReadRnnAttributes().
inline auto DefinedByOp(tensorflow::OpKernelConstruction* context) {
  return [context](absl::string_view name) {
    return DefinitionHasAttribute(context, name);
  };
}

// Makes the kernel for the node's type T; for float where an op has none.
template <template <typename> class Kernel, typename... Options>
tensorflow::OpKernel* NewKernelOfType(tensorflow::OpKernelConstruction* context,
                                      const Options&... options) {
  tensorflow::DataType type = tensorflow::DT_FLOAT;
  if (DefinitionHasAttribute(context, "T")) {
    tensorflow::TryGetNodeAttr(context->def(), "T", &type);
  }
  switch (type) {
    case tensorflow::DT_HALF:
      return new Kernel<Eigen::half>(context, options...);
    case tensorflow::DT_BFLOAT16:
      return new Kernel<tensorflow::bfloat16>(context, options...);
    case tensorflow::DT_DOUBLE:
      return new Kernel<double>(context, options...);
    default:  // the registrations allow no fifth type
      return new Kernel<float>(context, options...);
  }
}

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_TF_ADAPTER_H_
