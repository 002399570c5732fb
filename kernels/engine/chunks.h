// Time is processed in chunks of whole steps: large enough for the products
// over all their rows to run at full speed, small enough for what passes
// between the products and the recurrence to stay in the caches.
#ifndef KERNELS_ENGINE_CHUNKS_H_
#define KERNELS_ENGINE_CHUNKS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/engine/sequences.h"

namespace rnn {

struct StepRange {
  int64_t begin;
  int64_t end;
};

inline constexpr int64_t kChunkRows = 384;

// Valid rows that chunks should have: about kChunkRows, and all as many, for
// few rows at the end would cost a product with all weights.
inline int64_t TargetChunkRows(const Sequences& sequences) {
  const int64_t rows = sequences.num_valid_rows();
  const int64_t num_chunks =
      std::max<int64_t>(1, (rows + kChunkRows / 2) / kChunkRows);
  return (rows + num_chunks - 1) / num_chunks;
}

// At least the valid rows of the largest chunk.
inline int64_t MaxChunkRows(const Sequences& sequences) {
  return std::min(sequences.num_valid_rows(),
                  TargetChunkRows(sequences) + sequences.batch());
}

// The chunk that begins at `begin`, respectively ends at `end`. A step more
// comes in if most of it is within the target.
inline StepRange ChunkFrom(const Sequences& sequences, int64_t begin) {
  const int64_t limit = sequences.offset(begin) + TargetChunkRows(sequences);
  int64_t end = begin + 1;
  while (end < sequences.num_steps() &&
         sequences.offset(end) + sequences.offset(end + 1) <= 2 * limit) {
    ++end;
  }
  return {begin, end};
}
inline StepRange ChunkUntil(const Sequences& sequences, int64_t end) {
  const int64_t limit = sequences.offset(end) - TargetChunkRows(sequences);
  int64_t begin = end - 1;
  while (begin > 0 &&
         sequences.offset(begin) + sequences.offset(begin - 1) >= 2 * limit) {
    --begin;
  }
  return {begin, end};
}

// Calls row(index in the chunk, step, rank) for each valid row of a chunk.
template <typename Row>
void ForEachRow(const Sequences& sequences, StepRange chunk, Row row) {
  int64_t index = 0;
  for (int64_t step = chunk.begin; step < chunk.end; ++step) {
    const int64_t active = sequences.active(step);
    for (int64_t rank = 0; rank < active; ++rank) row(index++, step, rank);
  }
}

}  // namespace rnn

#endif  // KERNELS_ENGINE_CHUNKS_H_
