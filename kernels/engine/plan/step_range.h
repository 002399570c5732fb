#ifndef KERNELS_ENGINE_PLAN_STEP_RANGE_H_
#define KERNELS_ENGINE_PLAN_STEP_RANGE_H_

#include <cstdint>

namespace rnn {

// Steps [begin, end).
struct StepRange {
  int64_t begin;
  int64_t end;

  int64_t count() const { return end - begin; }
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_STEP_RANGE_H_
