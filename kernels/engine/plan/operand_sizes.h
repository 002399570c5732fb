// How much memory prepared operands of products take.
#ifndef KERNELS_ENGINE_PLAN_OPERAND_SIZES_H_
#define KERNELS_ENGINE_PLAN_OPERAND_SIZES_H_

#include <cstdint>

#include "kernels/engine/plan/kernel_shape.h"
#include "kernels/engine/plan/route.h"

namespace rnn {

// The depth of an operand in parts: one piece or more, each of which is filled
// up with zeros to whole chunks. What is computed a piece at a time can be
// split a piece at a time.
struct PartsDepth {
  int num_pieces;
  int64_t width;  // of a piece

  int64_t padded_width() const;
  int64_t size() const { return num_pieces * width; }
  int64_t padded() const { return num_pieces * padded_width(); }
};

// A right operand [depth, columns], and how it comes.
struct OperandShape {
  Route route = Route::kPacked;
  int64_t depth = 0;
  int64_t columns = 0;
  int depth_pieces = 1;  // in parts

  PartsDepth parts_depth() const {
    return {depth_pieces, depth / depth_pieces};
  }
  // As deep as the left operand's rows are.
  int64_t PaddedDepth(const KernelShape& kernels) const;
  // Bytes that one more row of depth adds to a column.
  int64_t ElementBytes(const KernelShape& kernels) const;
  // Bytes of memory for what is prepared.
  int64_t Bytes(const KernelShape& kernels) const;
};

// Left operands in parts: from row to row, in bfloat16, and for so many rows.
int64_t LeftPartsStride(int64_t padded_depth);
int64_t LeftPartsBytes(int64_t rows, int64_t padded_depth);

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_OPERAND_SIZES_H_
