#include "kernels/tf_adapter.h"

#include <cstdint>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "kernels/memory/huge_pages.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {

bool DefinitionHasAttribute(tensorflow::OpKernelConstruction* context,
                            absl::string_view name) {
  const tensorflow::OpDef* definition = nullptr;
  const absl::Status found = tensorflow::OpRegistry::Global()->LookUpOpDef(
      context->def().op(), &definition);
  if (!found.ok()) return false;
  const auto has_name = [&](const tensorflow::OpDef::AttrDef& attribute) {
    return attribute.name() == name;
  };
  return absl::c_any_of(definition->attr(), has_name);
}

absl::Status AllocateOutput(tensorflow::OpKernelContext* context,
                            const char* name,
                            const tensorflow::TensorShape& shape,
                            tensorflow::Tensor** output) {
  // The C library often takes the memory of such tensors fresh from the system,
  // and gives it back when they are freed.
  constexpr int64_t kOftenFreshBytes = 2 * kHugePageBytes;
  TF_RETURN_IF_ERROR(context->allocate_output(name, shape, output));
  const auto bytes = static_cast<int64_t>((*output)->TotalBytes());
  if (bytes >= kOftenFreshBytes) {
    PreferHugePages((*output)->data(), bytes);
  }
  return absl::OkStatus();
}

absl::Status AllocateZeros(tensorflow::OpKernelContext* context,
                           const char* name,
                           const tensorflow::TensorShape& shape) {
  tensorflow::Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(AllocateOutput(context, name, shape, &output));
  FillWithZeros(output);
  return absl::OkStatus();
}

absl::Status AllocateScratch(int64_t num_bytes,
                             std::optional<Scratch>* scratch) {
  scratch->emplace(num_bytes);
  if ((*scratch)->data() == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "The scratch memory of this call, ", num_bytes,
        " bytes, is more than the system has left; use a smaller batch or "
        "fewer time steps."));
  }
  return absl::OkStatus();
}

}  // namespace tf_cudnn_rnn
