#include "kernels/call_report.h"

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/engine/engine.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/env_var.h"

namespace tf_cudnn_rnn {
namespace {

using Clock = std::chrono::steady_clock;

// What plans know of the machine, as one may pin it.
void LogMachineOnce() {
  static const bool is_logged = [] {
    // For one thread alone nothing would be measured.
    const rnn::Machine machine = rnn::Machine::Here(/*num_threads=*/2);
    std::fprintf(stderr, "tf_cudnn_rnn machine: TF_CUDNN_RNN_MACHINE=%s\n",
                 rnn::MachineVariableText(machine).c_str());
    return true;
  }();
  static_cast<void>(is_logged);
}

// A process whose every call has other sizes would fill its memory with plans.
constexpr size_t kMaxPlans = 1000;

void LogPlanOnce(const std::string& plan) {
  static std::mutex mutex;
  static auto* known = new std::unordered_set<std::string>;
  const std::lock_guard<std::mutex> lock(mutex);
  if (known->size() >= kMaxPlans || !known->insert(plan).second) return;
  std::fprintf(stderr, "tf_cudnn_rnn plan: %s\n", plan.c_str());
  if (known->size() == kMaxPlans) {
    std::fprintf(stderr, "tf_cudnn_rnn plan: that was line %zu and the last.\n",
                 kMaxPlans);
  }
}

}  // namespace

absl::Status ReadLogOptions(LogOptions* options) {
  constexpr char kVariable[] = "TF_CUDNN_RNN_LOG";
  std::string value;
  TF_RETURN_IF_ERROR(tensorflow::ReadStringFromEnvVar(kVariable, "", &value));
  *options = {};
  if (value.empty()) return absl::OkStatus();
  const std::vector<std::string> words = absl::StrSplit(value, ',');
  for (const std::string& word : words) {
    if (word == "plan") {
      options->plans = true;
    } else if (word == "calls") {
      options->calls = true;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("The environment variable ", kVariable,
                       " must be \"plan\", \"calls\" or \"plan,calls\", got \"",
                       value, "\"; unset it for no log."));
    }
  }
  return absl::OkStatus();
}

CallReport::CallReport(const LogOptions& log) : log_(log) {
  if (log_.plans) LogMachineOnce();  // it may measure, which no call takes
  if (log_.calls) start_ = Clock::now();
}

CallReport::~CallReport() {
  if (!log_.calls || plan_.empty()) return;
  const auto microseconds =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() -
                                                            start_);
  std::fprintf(stderr, "tf_cudnn_rnn call: %lld us | %s\n",
               static_cast<long long>(microseconds.count()), plan_.c_str());
}

template <typename Plan>
rnn::Observer* CallReport::BeginPass(const Plan& plan) {
  const bool is_traced = ProfilerRanges::AreRecorded();
  if (!log_.plans && !log_.calls && !is_traced) return nullptr;
  plan_ = Describe(plan);
  if (log_.plans) LogPlanOnce(plan_);
  if (!is_traced) return nullptr;
  return &ranges_.emplace(plan_, PassName(plan));
}

rnn::Observer* CallReport::Begin(const rnn::ForwardPlan& plan) {
  return BeginPass(plan);
}
rnn::Observer* CallReport::Begin(const rnn::BackwardPlan& plan) {
  return BeginPass(plan);
}

}  // namespace tf_cudnn_rnn
