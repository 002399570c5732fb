// TF_CUDNN_RNN_LOG=plan: a line on stderr for each new plan.
#ifndef KERNELS_PLAN_LOG_H_
#define KERNELS_PLAN_LOG_H_

#include "absl/status/status.h"
#include "kernels/engine/plan/plan.h"

namespace tf_cudnn_rnn {

// What the environment variable asks for; fails if it does not say "plan" or
// nothing.
absl::Status ReadWhetherToLogPlans(bool* logs_plans);

// Writes the plan's description, unless it was written before. May be called
// by several threads at once.
void LogPlan(const rnn::ForwardPlan& plan);
void LogPlan(const rnn::BackwardPlan& plan);

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_PLAN_LOG_H_
