// Running a pass in parts of the batch, each a thread's.
#ifndef KERNELS_ENGINE_PASSES_BATCH_PARTS_H_
#define KERNELS_ENGINE_PASSES_BATCH_PARTS_H_

#include "kernels/engine/plan/scratch.h"
#include "kernels/engine/threads/executor.h"

namespace rnn {

// Calls run(part, its plan, its scratch, executor) for each part of `plan`, all
// at once. `scratch` is that of the whole pass.
template <typename Plan, typename Run>
void RunBatchParts(const Plan& plan, const ScratchView& scratch,
                   Executor& executor, Run run) {
  executor.Run(static_cast<int>(plan.parts.size()), Order::kAscending,
               [&](int part) {
                 char* part_scratch = scratch.At<char>(plan.scratch.parts);
                 for (int i = 0; i < part; ++i) {
                   part_scratch += plan.parts[i]->plan.scratch_bytes;
                 }
                 SerialExecutor alone;
                 run(part, plan.parts[part]->plan, part_scratch, alone);
               });
}

}  // namespace rnn

#endif  // KERNELS_ENGINE_PASSES_BATCH_PARTS_H_
