#include "kernels/plan_log.h"

#include <cstdio>
#include <mutex>
#include <string>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/env_var.h"

namespace tf_cudnn_rnn {
namespace {

// A process whose every call has other sizes would fill its memory with lines.
constexpr size_t kMaxLines = 1000;

void LogOnce(const std::string& line) {
  static std::mutex mutex;
  static auto* known = new std::unordered_set<std::string>;
  const std::lock_guard<std::mutex> lock(mutex);
  if (known->size() >= kMaxLines || !known->insert(line).second) return;
  std::fprintf(stderr, "tf_cudnn_rnn plan: %s\n", line.c_str());
  if (known->size() == kMaxLines) {
    std::fprintf(stderr, "tf_cudnn_rnn plan: that was line %zu and the last.\n",
                 kMaxLines);
  }
}

}  // namespace

absl::Status ReadWhetherToLogPlans(bool* logs_plans) {
  constexpr char kVariable[] = "TF_CUDNN_RNN_LOG";
  std::string value;
  TF_RETURN_IF_ERROR(tensorflow::ReadStringFromEnvVar(kVariable, "", &value));
  *logs_plans = value == "plan";
  if (*logs_plans || value.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "The environment variable ", kVariable, " must be \"plan\", got \"",
      value, "\"; unset it for no log."));
}

void LogPlan(const rnn::ForwardPlan& plan) { LogOnce(Describe(plan)); }
void LogPlan(const rnn::BackwardPlan& plan) { LogOnce(Describe(plan)); }

}  // namespace tf_cudnn_rnn
