#include "kernels/guarded_kernel.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/engine/threads/float_mode.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::OpKernelContext;

absl::Status OutOfMemory(const OpKernelContext& context) {
  constexpr int kFew = 10;  // of the lists that canonical ops take
  const int num_inputs = context.num_inputs();
  std::string shapes;
  for (int i = 0; i < std::min(num_inputs, kFew); ++i) {
    absl::StrAppend(&shapes, i == 0 ? "" : ", ",
                    context.input(i).shape().DebugString());
  }
  if (num_inputs > kFew) absl::StrAppend(&shapes, ", ...");
  return absl::ResourceExhaustedError(absl::StrCat(
      context.op_kernel().type_string(),
      " needs more memory for its tables than the system has left, for inputs "
      "of shapes ",
      shapes, "; use a smaller batch or fewer time steps."));
}

}  // namespace

void GuardedKernel::Compute(OpKernelContext* context) {
  // TensorFlow sets this mode in its own threads, but not where a graph runs in
  // the thread that calls.
  const rnn::ScopedFloatMode mode;
  try {
    Run(context);
  } catch (const std::bad_alloc&) {
    context->SetStatus(OutOfMemory(*context));
  } catch (const std::length_error&) {  // more than a container can have
    context->SetStatus(OutOfMemory(*context));
  }
}

}  // namespace tf_cudnn_rnn
