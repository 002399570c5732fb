// Where the pieces of a call's scratch memory lie. scratch_sizes.cc says how
// large each is.
#ifndef KERNELS_ENGINE_PLAN_SCRATCH_H_
#define KERNELS_ENGINE_PLAN_SCRATCH_H_

#include <algorithm>
#include <cstdint>

#include "network/round.h"

namespace rnn {

// A piece of scratch memory, or none.
struct Block {
  int64_t offset = -1;  // in bytes, a multiple of a cache line

  bool exists() const { return offset >= 0; }
};

// Rows of values: [count, row size], and a pointer to each.
struct RowsBlock {
  Block values;
  Block rows;
};

// Rows of a left operand of int8 weights, and the scale of each.
struct IntegersBlock {
  Block values;
  Block scales;
};

// Hands out pieces one after another. Sizes are such as pass
// CheckSizes() (plan.cc): no product or sum of theirs overflows.
class ScratchBuilder {
 public:
  // Room for `count` values of so many bytes.
  Block Take(int64_t count, int64_t value_bytes) {
    constexpr int64_t kAlignment = 64;
    const Block block{bytes_};
    bytes_ += RoundUp(count * value_bytes, kAlignment);
    return block;
  }
  Block TakePointers(int64_t count) { return Take(count, sizeof(void*)); }
  RowsBlock TakeRows(int64_t count, int64_t row_size, int64_t value_bytes) {
    return {Take(count * row_size, value_bytes), TakePointers(count)};
  }

  IntegersBlock TakeIntegers(int64_t count, int64_t stride) {
    return {Take(count * stride, sizeof(int16_t)), Take(count, sizeof(float))};
  }

  // Calls `takes`, which take pieces. If `in_one_place`, those of each lie
  // where those of the others do, and only one of them may be in use at a time.
  template <typename... Takes>
  void TakeOverlaid(bool in_one_place, const Takes&... takes) {
    const int64_t begin = bytes_;
    int64_t end = begin;
    const auto call = [&](const auto& take) {
      if (in_one_place) bytes_ = begin;
      take();
      end = std::max(end, bytes_);
    };
    (call(takes), ...);
    bytes_ = end;
  }

  // Taken so far.
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

// Where the blocks that a ScratchBuilder took lie in memory. Owns nothing.
class ScratchView {
 public:
  // `base` is aligned to a cache line.
  explicit ScratchView(void* base) : base_(static_cast<char*>(base)) {}

  // nullptr if there is no such piece.
  template <typename Value>
  Value* At(const Block& block) const {
    return block.exists() ? reinterpret_cast<Value*>(base_ + block.offset)
                          : nullptr;
  }

 private:
  char* base_;
};

// The weights of a forward pseudo-layer as products want them, and its biases.
// Matrices that are read in place have no block.
struct WeightBlocks {
  Block input;       // W: [in, G*H]
  Block recurrent;   // R: panels of cells, or dot panels
  Block projection;  // [H, P]
  Block biases;      // [2, G*H] (ForwardBiases)
};

// Where WeightBlocks lie in memory.
class WeightsPlace {
 public:
  WeightsPlace(const WeightBlocks& blocks, const ScratchView& memory)
      : blocks_(blocks), memory_(memory) {}

  void* input() const { return memory_.At<void>(blocks_.input); }
  void* recurrent() const { return memory_.At<void>(blocks_.recurrent); }
  void* projection() const { return memory_.At<void>(blocks_.projection); }
  template <typename F>
  F* biases() const {
    return memory_.At<F>(blocks_.biases);
  }

 private:
  WeightBlocks blocks_;
  ScratchView memory_;
};

// What a forward pass takes. Where the elements of tensors are not operands of
// products, they are converted.
struct ForwardScratch {
  // Without a reserve: outputs of two layers, in turn, [valid rows, D*P].
  Block layer_outputs[2];

  // What runs one pseudo-layer after another. Operands' rows are padded to
  // whole steps of depth; `chunk` counts the rows of the largest chunk.
  struct PseudoLayer {
    WeightBlocks weights;          // none if they were prepared before the pass
    Block input_parts;             // in parts: [chunk, in]
    RowsBlock recurrent_sums;      // by columns: [B, G*H]
    RowsBlock zero_sums;           // [B] -> the same [G*H]
    IntegersBlock input_integers;  // int8: [chunk, in]
    IntegersBlock state_integers;  // int8: h before a step, [B, P]
    IntegersBlock m_integers;      // int8 and projection: [B, H]
    Block input_rows;              // [chunk] -> [in]
    Block input_staging;           // [chunk, in]
    RowsBlock input_sums;          // [chunk, G*H]
    Block h_rows;                  // [B + chunk] -> [P]
    Block h_values;                // [B, P], or [B + chunk, P] (ForwardPlan)
    Block c;                       // LSTM: [B, H]
    RowsBlock m;                   // projection: [B, H]
    RowsBlock projected;           // projection of rounded operands: [B, P]
    Block saved_rows;              // [chunk] -> [reserved row]
    Block saved;                   // converted: [chunk, reserved row]
  };
  // The second if both directions run at once.
  PseudoLayer pseudo_layers[2];

  // With parts of the batch, instead: the weights of all pseudo-layers, unless
  // they were prepared before the pass, and the scratch of each part, one after
  // another.
  Block prepared_weights;
  Block parts;
};

// Where the weights of all pseudo-layers lie that were prepared before the
// pass, one pseudo-layer after another.
struct PreparedNetwork {
  WeightBlocks first;  // of a pseudo-layer of the first layer, ...
  WeightBlocks upper;  // ... and of the others
  int64_t first_bytes = 0;
  int64_t upper_bytes = 0;
  int64_t num_directions = 1;
  int64_t bytes = 0;  // of all

  // Where pseudo-layer k begins.
  int64_t offset(int64_t k) const {
    return k < num_directions ? k * first_bytes
                              : num_directions * first_bytes +
                                    (k - num_directions) * upper_bytes;
  }
  // Of pseudo-layer k, in memory of all.
  WeightsPlace Place(int64_t k, void* memory) const {
    return {k < num_directions ? first : upper,
            ScratchView(static_cast<char*>(memory) + offset(k))};
  }
};

// What a backward pass takes.
struct BackwardScratch {
  // Sums over halves of the batch, [params] each: of all but the first, and of
  // that, too, if gradients are rounded in the end. A half's own plan has none.
  Block weight_gradients;

  // With parts of the batch: the scratch of each, one after another. Without,
  // all that follows.
  Block parts;

  // Gradients of what enters two layers, in turn, [valid rows, D*P].
  Block layer_gradients[2];
  Block input_gradient;  // if it is rounded in the end: [valid rows, I]

  // What runs one pseudo-layer after another. `chunk` counts the rows of the
  // largest chunk; operands' rows are padded to whole steps of depth. Matrices
  // that are read in place have no block.
  struct PseudoLayer {
    Block input_weights;         // prepared: [G*H, in]
    Block recurrent_weights;     // prepared: [G*H, P]
    Block projection;            // prepared: [P, H]
    Block input_rows;            // [chunk] -> [in]
    Block input_staging;         // [chunk, in]
    Block saved_rows;            // [chunk] -> [reserved row]
    Block saved;                 // converted: [chunk, reserved row]
    Block c_prev_rows;           // LSTM: [chunk] -> [H]
    Block c_prev;                // converted: [B, H]
    Block h_rows;                // [B + chunk] -> [P]
    Block h_values;              // converted: [B + chunk, P]
    Block h_prev_rows;           // [chunk] -> [P]
    Block dy_rows;               // [chunk] -> [P]
    Block dy_values;             // converted: [chunk, P]
    Block dx_rows;               // [chunk] -> [in]
    RowsBlock dgates;            // [chunk, G*H]
    RowsBlock rounded_dgates;    // if operands are: [chunk, G*H]
    Block dgates_parts;          // [chunk, G*H] in parts
    RowsBlock recurrent_dgates;  // GRU: as the recurrent product saw them
    RowsBlock rounded_recurrent_dgates;
    RowsBlock dh;        // [B, P]
    Block dc;            // LSTM: [B, H]
    RowsBlock dh_total;  // projection: [chunk, P]
    RowsBlock m;         // projection: [chunk, H]
    RowsBlock dm;        // projection: [B, H]

    // Sums of outer products: operands of the one at hand.
    Block product_right;       // prepared: [chunk, columns]
    RowsBlock product_left;    // transposed: [rows, chunk]
    Block product_left_parts;  // transposed, in parts: [rows, chunk]
    Block product_rows;        // pointers to the rows of its result
    // The tables of WeightGradients::Rows for the rows of one half of the
    // batch, if there are halves: [kNumHalfTables, chunk] pointers.
    Block half_rows;
    static constexpr int kNumHalfTables = 8;
  };
  PseudoLayer pseudo_layer;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_SCRATCH_H_
