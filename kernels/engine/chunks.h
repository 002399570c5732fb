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

// Valid rows of the largest chunk.
inline int64_t MaxChunkRows(const Sequences& sequences) {
  return std::min(sequences.num_valid_rows(), kChunkRows + sequences.batch());
}

// The chunk that begins at `begin`, respectively ends at `end`.
inline StepRange ChunkFrom(const Sequences& sequences, int64_t begin) {
  const int64_t limit = sequences.offset(begin) + kChunkRows;
  int64_t end = begin + 1;
  while (end < sequences.num_steps() && sequences.offset(end) < limit) ++end;
  return {begin, end};
}
inline StepRange ChunkUntil(const Sequences& sequences, int64_t end) {
  const int64_t limit = sequences.offset(end) - kChunkRows;
  int64_t begin = end - 1;
  while (begin > 0 && sequences.offset(begin) > limit) --begin;
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
