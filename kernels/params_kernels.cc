// CudnnRNNParamsSize, CudnnRNNParamsToCanonical, CudnnRNNCanonicalToParams and
// their V2: they know where weights lie, and copy bytes.
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "kernels/dropout_keys.h"
#include "kernels/guarded_kernel.h"
#include "kernels/kernels.h"
#include "kernels/tf_adapter.h"
#include "network/descriptor.h"
#include "network/params_layout.h"
#include "ops/attributes.h"
#include "ops/engine_status.h"
#include "ops/params_rules.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::OpInputList;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::OpOutputList;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

// A network whose sizes are the inputs num_layers, num_units and input_size.
class ParamsKernel : public GuardedKernel {
 public:
  ParamsKernel(OpKernelConstruction* context, const OpVersion& version)
      : GuardedKernel(context) {
    OP_REQUIRES_OK(context, ReadRnnAttributes(context, DefinedByOp(context),
                                              &attributes_));
    if (!version.is_own) {
      uint64_t seed;  // only checked
      OP_REQUIRES_OK(context, ReadSeed(context, &seed));
    }
  }

 protected:
  absl::Status ReadLayout(OpKernelContext* context,
                          rnn::RnnDescriptor* descriptor,
                          rnn::ParamsLayout* layout) const {
    NetworkSizes sizes;
    TF_RETURN_IF_ERROR(ReadSize(context, "num_layers", &sizes.num_layers));
    TF_RETURN_IF_ERROR(ReadSize(context, "num_units", &sizes.hidden_size));
    TF_RETURN_IF_ERROR(ReadSize(context, "input_size", &sizes.input_size));
    *descriptor = MakeDescriptor(attributes_, sizes);
    return FromEngine(rnn::ParamsLayout::Create(*descriptor, layout));
  }

 private:
  static absl::Status ReadSize(OpKernelContext* context, const char* name,
                               std::optional<int64_t>* value) {
    const Tensor* tensor;
    TF_RETURN_IF_ERROR(context->input(name, &tensor));
    TF_RETURN_IF_ERROR(CheckScalar(name, PartialShape(*tensor)));
    *value = ReadScalar<int32_t>(*tensor);
    return absl::OkStatus();
  }

  RnnAttributes attributes_;
};

class ParamsSizeKernel : public ParamsKernel {
 public:
  using ParamsKernel::ParamsKernel;

  void Run(OpKernelContext* context) override {
    rnn::RnnDescriptor descriptor;
    rnn::ParamsLayout layout;
    OP_REQUIRES_OK(context, ReadLayout(context, &descriptor, &layout));
    const bool is_wide = output_type(0) == tensorflow::DT_INT64;
    OP_REQUIRES(context,
                is_wide || layout.size() <= std::numeric_limits<int32_t>::max(),
                absl::InvalidArgumentError(absl::StrCat(
                    "params_size does not fit S = int32: params must have ",
                    layout.size(), " elements; use S = int64.")));
    Tensor* params_size = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(
                                "params_size", TensorShape({1}), &params_size));
    if (is_wide) {
      params_size->flat<int64_t>()(0) = layout.size();
    } else {
      params_size->flat<int32_t>()(0) = static_cast<int32_t>(layout.size());
    }
  }
};

// Both directions between params and the lists of its weights and biases.
class CanonicalKernel : public ParamsKernel {
 public:
  CanonicalKernel(OpKernelConstruction* context, const OpVersion& version)
      : ParamsKernel(context, version) {
    const bool has_one_count =
        !DefinitionHasAttribute(context, "num_params_weights");
    counts_.weights_attribute =
        has_one_count ? "num_params" : "num_params_weights";
    counts_.biases_attribute =
        has_one_count ? "num_params" : "num_params_biases";
    OP_REQUIRES_OK(
        context, context->GetAttr(counts_.weights_attribute, &counts_.weights));
    OP_REQUIRES_OK(context,
                   context->GetAttr(counts_.biases_attribute, &counts_.biases));
  }

 protected:
  absl::Status ReadCheckedLayout(OpKernelContext* context,
                                 rnn::RnnDescriptor* descriptor,
                                 rnn::ParamsLayout* layout) const {
    TF_RETURN_IF_ERROR(ReadLayout(context, descriptor, layout));
    return CheckCanonicalCounts(counts_, *descriptor, *layout);
  }

  // Copies `region`'s elements, as bytes of any type.
  static void Copy(const rnn::Region& region, size_t element_bytes,
                   const char* source, char* destination) {
    if (region.size() == 0) return;
    std::memcpy(destination, source, region.size() * element_bytes);
  }

 private:
  CanonicalCounts counts_;
};

class ParamsToCanonicalKernel : public CanonicalKernel {
 public:
  using CanonicalKernel::CanonicalKernel;

  void Run(OpKernelContext* context) override {
    rnn::RnnDescriptor descriptor;
    rnn::ParamsLayout layout;
    OP_REQUIRES_OK(context, ReadCheckedLayout(context, &descriptor, &layout));
    const Tensor* params;
    OP_REQUIRES_OK(context, context->input("params", &params));
    const tensorflow::PartialTensorShape shape = PartialShape(*params);
    OP_REQUIRES_OK(context, CheckParamsRank(shape));
    OP_REQUIRES_OK(context, CheckParamsLength(shape, descriptor, layout));

    OpOutputList weights, biases;
    OP_REQUIRES_OK(context, context->output_list("weights", &weights));
    OP_REQUIRES_OK(context, context->output_list("biases", &biases));
    for (int i = 0; i < weights.size(); ++i) {
      const rnn::Region region = layout.CanonicalWeight(i);
      OP_REQUIRES_OK(
          context,
          CopyOut(*params, region, TensorShape({region.rows, region.columns}),
                  i, &weights));
    }
    for (int i = 0; i < biases.size(); ++i) {
      const rnn::Region region = layout.CanonicalBias(i);
      OP_REQUIRES_OK(context, CopyOut(*params, region,
                                      TensorShape({region.rows}), i, &biases));
    }
  }

 private:
  static absl::Status CopyOut(const Tensor& params, const rnn::Region& region,
                              const TensorShape& shape, int index,
                              OpOutputList* list) {
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(list->allocate(index, shape, &output));
    const size_t element_bytes = tensorflow::DataTypeSize(params.dtype());
    Copy(
        region, element_bytes,
        static_cast<const char*>(params.data()) + region.offset * element_bytes,
        static_cast<char*>(output->data()));
    return absl::OkStatus();
  }
};

class CanonicalToParamsKernel : public CanonicalKernel {
 public:
  using CanonicalKernel::CanonicalKernel;

  void Run(OpKernelContext* context) override {
    rnn::RnnDescriptor descriptor;
    rnn::ParamsLayout layout;
    OP_REQUIRES_OK(context, ReadCheckedLayout(context, &descriptor, &layout));
    OpInputList weights, biases;
    OP_REQUIRES_OK(context, context->input_list("weights", &weights));
    OP_REQUIRES_OK(context, context->input_list("biases", &biases));
    for (int i = 0; i < weights.size(); ++i) {
      OP_REQUIRES_OK(context,
                     CheckCanonicalSize("weights", i, PartialShape(weights[i]),
                                        layout.CanonicalWeight(i)));
    }
    for (int i = 0; i < biases.size(); ++i) {
      OP_REQUIRES_OK(context,
                     CheckCanonicalSize("biases", i, PartialShape(biases[i]),
                                        layout.CanonicalBias(i)));
    }

    Tensor* params = nullptr;
    OP_REQUIRES_OK(
        context, AllocateOutput(context, "params", TensorShape({layout.size()}),
                                &params));
    for (int i = 0; i < weights.size(); ++i) {
      CopyIn(weights[i], layout.CanonicalWeight(i), params);
    }
    for (int i = 0; i < biases.size(); ++i) {
      CopyIn(biases[i], layout.CanonicalBias(i), params);
    }
  }

 private:
  static void CopyIn(const Tensor& part, const rnn::Region& region,
                     Tensor* params) {
    const size_t element_bytes = tensorflow::DataTypeSize(params->dtype());
    Copy(region, element_bytes, static_cast<const char*>(part.data()),
         static_cast<char*>(params->data()) + region.offset * element_bytes);
  }
};

}  // namespace

OpKernel* NewParamsSizeKernel(OpKernelConstruction* context,
                              const OpVersion& version) {
  return new ParamsSizeKernel(context, version);
}

OpKernel* NewParamsToCanonicalKernel(OpKernelConstruction* context,
                                     const OpVersion& version) {
  return new ParamsToCanonicalKernel(context, version);
}

OpKernel* NewCanonicalToParamsKernel(OpKernelConstruction* context,
                                     const OpVersion& version) {
  return new CanonicalToParamsKernel(context, version);
}

}  // namespace tf_cudnn_rnn
