// What users see of a call: lines on stderr where TF_CUDNN_RNN_LOG asks for
// them, and ranges in TensorFlow's profiler while a trace runs.
#ifndef KERNELS_CALL_REPORT_H_
#define KERNELS_CALL_REPORT_H_

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "kernels/engine/observer.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/profiler_ranges.h"

namespace tf_cudnn_rnn {

// What the environment variable TF_CUDNN_RNN_LOG asks for.
struct LogOptions {
  bool plans = false;  // a line for each new plan, up to some 1000
  bool calls = false;  // a line for each call that was planned, with its time
};

// Fails if the variable says anything but "plan", "calls", or both with a comma
// between them.
absl::Status ReadLogOptions(LogOptions* options);

// Made as the kernel's call begins, and gone as it ends. Costs nothing that can
// be measured where nobody looks.
class CallReport {
 public:
  explicit CallReport(const LogOptions& log);
  // Writes the call's line, if Begin() was called: a call that failed before
  // has none.
  ~CallReport();
  CallReport(const CallReport&) = delete;
  CallReport& operator=(const CallReport&) = delete;

  // What comes now is the plan's. Returns who watches it, for the engine, or
  // nullptr.
  rnn::Observer* Begin(const rnn::ForwardPlan& plan);
  rnn::Observer* Begin(const rnn::BackwardPlan& plan);

 private:
  template <typename Plan>
  rnn::Observer* BeginPass(const Plan& plan);

  const LogOptions log_;
  std::chrono::steady_clock::time_point start_;  // if calls are logged
  std::string plan_;                             // empty if nobody looks
  std::optional<ProfilerRanges> ranges_;
};

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_CALL_REPORT_H_
