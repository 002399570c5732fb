// The choices of a pass, each a function of the call, the machine and its own
// arguments. Where one choice depends on another, it is an argument.
#ifndef KERNELS_ENGINE_PLAN_CHOICES_H_
#define KERNELS_ENGINE_PLAN_CHOICES_H_

#include <cstdint>

#include "kernels/engine/plan/chunks.h"
#include "kernels/engine/plan/kernel_shape.h"
#include "kernels/engine/plan/machine.h"
#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/plan/plan.h"
#include "kernels/engine/plan/route.h"
#include "kernels/engine/plan/step_range.h"
#include "network/descriptor.h"
#include "network/sequences.h"

namespace rnn {

enum class Pass { kForward, kBackward };

// What threads could share.
struct SharedWork {
  double operations = 0;     // floating-point
  double passed_values = 0;  // that phases read after others made them
};

// What is chosen about operands holds where there are valid rows.
class Choices {
 public:
  // `call`, which has sequences, and `kernels` must outlive the object.
  Choices(const CallDescription& call, int64_t rows_of_chunk,
          const KernelShape& kernels, const Machine& machine);

  // ---- Threads --------------------------------------------------------------

  // Threads that are worth having.
  int NumThreads(const SharedWork& shared) const;
  // Directions do not depend on each other: each can be a thread's, without a
  // barrier at each step. More threads than directions are of use where steps
  // can be split.
  bool RunsDirectionsTogether(int num_threads) const;

  // ---- Operands -------------------------------------------------------------
  // What of their routes changes bits follows from shapes and the instruction
  // set. Between routes of equal bits, packed or in turn, in place or in dot
  // panels and, backward, packed or in place by rows, caches and the threads of
  // a pseudo-layer decide, too.

  // W of a layer: [in, G*H] forward, transposed backward.
  OperandPlan ForwardInput(int64_t layer, int num_threads) const;
  OperandPlan BackwardInput(int64_t layer, int num_threads) const;
  // R: [P, G*H] forward, transposed backward.
  OperandPlan ForwardRecurrent(int num_threads) const;
  OperandPlan BackwardRecurrent(int num_threads) const;
  // See ForwardPlan::reads_whole_rows.
  bool ReadsWholeRows(Route recurrent_route) const;
  // The projection: [H, P] forward, transposed backward.
  OperandPlan Projection(Pass pass) const;
  // What the gradient of a matrix of gates that multiplies `features` is made
  // with: the gates' gradients or the features, by row.
  OperandPlan GatesGradient(int64_t features) const;
  // What the gradient of the projection is made with: what it took, by row.
  OperandPlan ProjectionGradient() const;
  // See BackwardPlan::gradient_chain.
  int64_t GradientChain() const;

  // ---- Choices that change speed only ---------------------------------------

  // Threads that share a step of so many ranks, and wait for each other after
  // it: no more than it is worth tasks.
  int NumStepThreads(int64_t ranks, int num_threads) const;
  // Whether these take such steps in lockstep, or come together for each.
  bool TakesStepsInLockstep(int64_t ranks, int num_threads) const;
  // Whether more than one thread can be at work in the steps of a pass.
  bool SplitsSteps(Pass pass) const;
  // Ranks are independent of each other within a chunk, so a batch that is
  // large enough is split once and its groups never wait for each other.
  // Otherwise, or if weights outgrow the caches and each group would fetch all
  // of them at each step, there is one, and the steps themselves are split, or
  // are a thread's.
  int NumRankGroups(const StepRange& steps, Route recurrent_route, Pass pass,
                    int num_threads) const;
  // Where each thread can have such a group, and rows and steps enough to read
  // all weights for it, it had better take it through all layers: nothing
  // passes between threads, and none waits.
  bool TakesBatchParts(Pass pass, int num_threads) const;

 private:
  // Ranks of a group: below the least, and above the good ones, a pass is
  // slower.
  struct GroupSizes {
    int64_t least;
    int64_t good;
  };
  GroupSizes SizesOfRankGroups() const;
  // Whether R has more bytes than such a share of a core's second-level cache.
  bool RecurrentFills(double share_of_cache) const;

  bool BatchPartsAreEven(int num_parts) const;

  // Floating-point operations: of R times so many rows; of a step of so many
  // ranks; and of the thread that is at work longest in it, of groups that
  // never wait for each other, and of threads that share the step and wait for
  // each other after it.
  double RecurrentWork(int64_t rows) const;
  double StepWork(int64_t ranks) const;
  double GroupedStepWork(int64_t ranks, int64_t groups) const;
  double SharedStepWork(int64_t ranks, int64_t threads, Pass pass) const;

  bool MultipliesInParts(int64_t weight_rows, int64_t weight_columns) const;
  bool IsSmallCall() const;
  bool MayReadInputInPlace() const;
  bool MayReadGatesInPlace() const;
  bool MayReadFeaturesInPlace() const;
  int64_t MaxLeftRowsInPlace(int64_t max_rows) const;
  int64_t RecurrentBytes() const;
  int64_t MaxPackedRecurrentBytes(Pass pass) const;

  // W or R, by what it multiplies forward: [features, G*H], or transposed.
  OperandSize GatesForward(int64_t features) const;
  OperandSize GatesBackward(int64_t features) const;
  // By row of a chunk: [chunk, columns].
  OperandSize ChunkOf(int64_t columns) const;
  OperandPlan Operand(Route route, const OperandSize& size) const;
  // One of a small call.
  OperandPlan ByColumns(const OperandSize& size, int64_t rows) const;
  bool PaysForDotPanels(const OperandSize& size, int64_t rows) const;
  // One that is packed, perhaps in parts.
  OperandPlan Packed(bool in_parts, const OperandSize& size) const;
  // `b`, packed in its turn if that is better for the product of `rows` with
  // it, which is the only one in a chunk.
  OperandPlan InTurnIfUsedOnce(OperandPlan b, int64_t rows,
                               int num_threads) const;
  bool FitsInTurn(int64_t rows, int64_t row_bytes, int64_t num_panels,
                  int num_threads) const;

  const CallDescription& call_;
  const RnnDescriptor& d_;
  const Sequences& sequences_;
  const ChunkCuts cuts_;
  const KernelShape& kernels_;
  const Machine machine_;
  // Keras' kernels: rows of memory hold a feature's weights for all gates.
  // Those of params hold a gate's weights for all features.
  const bool gates_are_columns_;
  const bool are_int8_;  // weights
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_CHOICES_H_
