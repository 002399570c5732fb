// What the products and cells of a step cost, in floating-point operations:
// threads share a step by it. What a plan reckons (plan/choices.h) leaves cells
// out.
#ifndef KERNELS_ENGINE_PRODUCTS_STEP_WORK_H_
#define KERNELS_ENGINE_PRODUCTS_STEP_WORK_H_

#include <cstdint>

#include "kernels/engine/thresholds.h"
#include "network/descriptor.h"

namespace rnn {

// Of rows with R, or with R transposed.
inline int64_t RecurrentProductWork(const RnnDescriptor& d, int64_t rows) {
  return rows * 2 * d.gates_size() * d.output_size();
}

// Of rows with the projection, or with it transposed.
inline int64_t ProjectionWork(const RnnDescriptor& d, int64_t rows) {
  return rows * 2 * d.hidden_size * d.output_size();
}

// Of the cells of so many rows.
inline int64_t CellWork(const RnnDescriptor& d, int64_t rows) {
  return rows * speed::kCellWork * d.hidden_size;
}

}  // namespace rnn

#endif  // KERNELS_ENGINE_PRODUCTS_STEP_WORK_H_
