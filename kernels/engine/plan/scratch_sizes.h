// How much scratch memory each thing that a pass keeps takes.
#ifndef KERNELS_ENGINE_PLAN_SCRATCH_SIZES_H_
#define KERNELS_ENGINE_PLAN_SCRATCH_SIZES_H_

#include "kernels/engine/plan/plan.h"

namespace rnn {

// Set plan->scratch and plan->scratch_bytes; all else has been chosen.
void SizeScratch(ForwardPlan* plan);
void SizeScratch(BackwardPlan* plan);
// Of a part of the batch, which adds up gradients in memory of the whole.
void SizeHalfScratch(BackwardPlan* plan);

// Sets plan->prepared.
void SizePreparedWeights(ForwardPlan* plan);

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_SCRATCH_SIZES_H_
