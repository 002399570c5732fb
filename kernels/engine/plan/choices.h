// The choices of a pass, each a function of the plan as far as it is made.
#ifndef KERNELS_ENGINE_PLAN_CHOICES_H_
#define KERNELS_ENGINE_PLAN_CHOICES_H_

#include <cstdint>

#include "kernels/engine/plan/chunks.h"
#include "kernels/engine/plan/kernel_shape.h"
#include "kernels/engine/plan/machine.h"
#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/plan/plan.h"
#include "network/descriptor.h"
#include "network/sequences.h"

namespace rnn {

enum class Pass { kForward, kBackward };

// The plan must have all but its threads, operands and chunks when a choice is
// asked for, and its threads for all that come after that one; it must outlive
// the object. What is chosen about operands holds where there are valid rows.
class Choices {
 public:
  Choices(const PassPlan& plan, const Machine& machine);

  // ---- Threads --------------------------------------------------------------

  // Threads that are worth having for so many floating-point operations.
  int NumThreads(double work) const;
  // Directions do not depend on each other: each can be a thread's, without a
  // barrier at each step. More threads than directions are of use where steps
  // can be split.
  bool RunsDirectionsTogether(int num_threads) const;

  // ---- Operands -------------------------------------------------------------
  // What of their routes changes bits follows from shapes and the instruction
  // set. Between routes of equal bits, packed or in turn and, backward, in
  // place, caches and threads decide, too.

  // W of a layer: [in, G*H] forward, transposed backward.
  OperandPlan ForwardInput(int64_t layer) const;
  OperandPlan BackwardInput(int64_t layer) const;
  // R: [P, G*H] forward, transposed backward.
  OperandPlan ForwardRecurrent() const;
  OperandPlan BackwardRecurrent() const;
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

  // Ranks are independent of each other within a chunk, so a batch that is
  // large enough is split once and its groups never wait for each other.
  // Otherwise, or if weights outgrow the caches and each group would fetch all
  // of them at each step, the steps themselves are split.
  int NumRankGroups(const StepRange& steps, Route recurrent_route,
                    Pass pass) const;

  // Between products in parts the cells of many rows come in a burst, and wait
  // for the lines that they write. If so: `num_values` activations are written
  // past the caches.
  bool SavesPastCaches(int64_t num_values) const;

 private:
  bool MultipliesInParts(int64_t weight_rows, int64_t weight_columns) const;
  bool RecursInParts(Pass pass) const;
  bool IsSmallCall() const;
  bool MayReadInputInPlace() const;
  bool MayReadGatesInPlace() const;
  int64_t MaxRowsInPlace(int64_t max_rows) const;
  int64_t RecurrentBytes(bool in_parts) const;
  int64_t MaxPackedRecurrentBytes() const;

  OperandPlan Operand(Route route, int64_t depth, int64_t columns,
                      int depth_pieces = 1) const;
  // One that is packed, perhaps in parts.
  OperandPlan Packed(bool in_parts, int64_t depth, int64_t columns,
                     int depth_pieces = 1) const;
  // `b`, packed in its turn if that is better for the product of `rows` with
  // it, which is the only one in a chunk.
  OperandPlan InTurnIfUsedOnce(OperandPlan b, int64_t rows) const;
  bool FitsInTurn(int64_t rows, int64_t row_bytes, int64_t num_panels) const;

  const PassPlan& plan_;
  const RnnDescriptor& d_;
  const Sequences& sequences_;
  const KernelShape& kernels_;
  const Machine machine_;
  // Keras' kernels: rows of memory hold a feature's weights for all gates.
  // Those of params hold a gate's weights for all features.
  const bool gates_are_columns_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_CHOICES_H_
