// Time is processed in chunks of whole steps: large enough for the products
// over all their rows to run at full speed, small enough for what passes
// between the products and the recurrence to stay in the caches.
#ifndef KERNELS_ENGINE_PLAN_CHUNKS_H_
#define KERNELS_ENGINE_PLAN_CHUNKS_H_

#include <algorithm>
#include <cstdint>

#include "network/sequences.h"

namespace rnn {

struct StepRange {
  int64_t begin;
  int64_t end;
};

inline constexpr int64_t kChunkRows = 384;

// Chunks have about kChunkRows, and each as many as whole steps allow: a few
// rows at the end would cost a product with all weights.
inline int64_t NumChunks(const Sequences& sequences) {
  return std::max<int64_t>(
      1, (sequences.num_valid_rows() + kChunkRows / 2) / kChunkRows);
}

// If so, all rows are one chunk, forward and backward.
inline bool IsSingleChunk(const Sequences& sequences) {
  return sequences.num_steps() <= 1 || NumChunks(sequences) == 1;
}

// At least the valid rows of the largest chunk.
inline int64_t MaxChunkRows(const Sequences& sequences) {
  const int64_t rows = sequences.num_valid_rows();
  const int64_t num_chunks = NumChunks(sequences);
  return std::min(rows,
                  (rows + num_chunks - 1) / num_chunks + sequences.batch());
}

// Where the chunk before or after `row` would end, respectively begin, if steps
// could be cut: the row that many chunks from the nearest such place.
inline int64_t ChunkLimit(const Sequences& sequences, int64_t row,
                          int64_t chunks) {
  const int64_t rows = sequences.num_valid_rows();
  const int64_t num_chunks = NumChunks(sequences);
  const int64_t nearest = (row * num_chunks + rows / 2) / rows;
  return rows * (nearest + chunks) / num_chunks;
}

// The chunk that begins at `begin`, respectively ends at `end`: up to the step
// that is nearest to where it should end.
inline StepRange ChunkFrom(const Sequences& sequences, int64_t begin) {
  const int64_t limit = ChunkLimit(sequences, sequences.offset(begin), 1);
  int64_t end = begin + 1;
  while (end < sequences.num_steps() &&
         sequences.offset(end) + sequences.offset(end + 1) <= 2 * limit) {
    ++end;
  }
  return {begin, end};
}
inline StepRange ChunkUntil(const Sequences& sequences, int64_t end) {
  const int64_t limit = ChunkLimit(sequences, sequences.offset(end), -1);
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

#endif  // KERNELS_ENGINE_PLAN_CHUNKS_H_
