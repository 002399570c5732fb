#include "kernels/engine/weights/int8_matrix.h"

#include <cstdint>

#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"

namespace rnn {

void RoundRows(const float* const* rows, int64_t num_rows, int64_t depth,
               Executor& executor, const LeftIntegers& left) {
  ParallelFor(executor, num_rows, depth * speed::kMoveWork,
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  KernelsOfInt8().round_row(rows[i], depth,
                                            left.values + i * left.stride,
                                            left.scales + i);
                }
              });
}

}  // namespace rnn
