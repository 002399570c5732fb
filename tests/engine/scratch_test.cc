// Scratch memory stays within what docs/decisions/scratch-memory.md says of it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/chunks.h"
#include "kernels/engine/thresholds.h"
#include "network/element_types.h"
#include "network/params_layout.h"
#include "tests/engine/make_sequences.h"
#include "tests/engine/plans.h"
#include "tests/engine/random_values.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

// The bounds of the document, in bytes.
template <typename Element>
struct Bounds {
  Bounds(const RnnDescriptor& d, const Sequences& sequences, int num_threads) {
    constexpr int64_t kPanel = 64;     // widths are rounded up
    constexpr int64_t kPointers = 32;  // to rows
    const int64_t size = sizeof(ComputeType<Element>);
    const int64_t H = d.hidden_size + kPanel;
    const int64_t X =
        std::max(d.layer_input_size(0), d.layer_input_size(d.num_layers - 1)) +
        kPanel;
    const int64_t P = d.output_size() + kPanel;
    const int64_t gates = d.num_gates() * H;
    const int64_t B = sequences.batch();
    const int64_t N = sequences.num_valid_rows();
    const ChunkCuts cuts(sequences, bits::kChunkRows);
    const int64_t rows = cuts.max_rows() + B;
    const int64_t projection = d.has_projection() ? H * P : 0;
    const int64_t weights = (X + P) * gates + projection;
    const int64_t layers =
        d.num_layers > 1 ? 2 * N * d.num_directions * d.output_size() : 0;
    const int64_t together =
        B <= speed::kMaxTogetherBatch ? d.num_directions : 1;
    const int64_t dgates = d.mode == CellMode::kGru ? 2 : 1;
    ParamsLayout params;
    EXPECT_TRUE(ParamsLayout::Create(d, &params).ok());
    const int64_t panels =
        cuts.is_single() ? std::max(X, P) * gates + projection : weights;
    forward =
        together * (panels + rows * (X + gates + kPointers) + B * (P + 2 * H));
    const int64_t part_rows = num_threads *
                                  std::max(bits::kChunkRows / num_threads,
                                           speed::kMinBatchPartChunkRows) *
                                  3 / 2 +
                              2 * B;
    in_parts = d.num_pseudo_layers() * (weights + 2 * gates) +
               part_rows * (X + gates + kPointers) + B * (P + 2 * H);
    const CallDescription call = CallOf<Element>(d, sequences);
    const BackwardPlan backward_plan = MakeBackwardPlan(call, num_threads);
    const ChunkCuts backward_cuts(
        sequences, bits::kChunkRows * backward_plan.num_halves());
    const int64_t copies = backward_plan.parts.empty() ? 1 : 2;
    const bool are_equal = sequences.length(B - 1) == sequences.max_time();
    const int64_t backward_rows =
        (are_equal ? 1 : copies) * backward_cuts.max_rows() + 2 * B;
    const int64_t products = backward_rows * (std::max(X, H) + gates);
    const bool takes_turns =
        backward_cuts.is_single() && N > speed::kMaxLeftRowsInPlace;
    backward =
        takes_turns
            ? std::max({copies * X * gates, copies * P * gates, products}) +
                  copies * projection
            : copies * weights + products;
    backward += (backward_plan.num_halves() - 1) * params.size() +
                B * (P + 2 * H) +
                backward_rows * (X + dgates * gates + 2 * kPointers);
    if (d.has_projection()) backward += backward_rows * (P + H);
    if (sizeof(Element) == 2) {
      forward += together * rows * (P + 5 * H);
      in_parts += part_rows * (P + 5 * H);
      backward += backward_rows * (2 * P + 5 * H + dgates * gates) +
                  params.size() + N * d.input_size;
    }
    // A value has three parts of 16 bits.
    const int64_t left = rows + 2 * kPanel;
    const ForwardPlan forward_plan = MakeForwardPlan(call);
    if (forward_plan.input_weights.is_any_in_parts()) {
      forward += together * (X * gates / 2 + left * X * 3 / 2);
      in_parts += d.num_pseudo_layers() * X * gates / 2 +
                  (part_rows + num_threads * 2 * kPanel) * X * 3 / 2;
    }
    if (backward_plan.input_weights.is_any_in_parts() ||
        backward_plan.input_weights_gradient.is_any_in_parts() ||
        IsInParts(backward_plan.recurrent_weights_gradient.route) ||
        IsInParts(backward_plan.projection_gradient.route)) {
      const int64_t widest = std::max(X, H);
      const int64_t left_rows = backward_rows + copies * 2 * kPanel;
      backward += copies * X * gates / 2 +
                  left_rows * std::max(widest, gates) / 2 +
                  left_rows * (std::max(widest, gates) + gates) * 3 / 2;
    }
    forward = size * (forward + layers);
    in_parts = size * (in_parts + layers);
    backward = size * (backward + layers);
  }

  int64_t forward, in_parts, backward;
};

template <typename Element>
void ExpectWithin(const RnnDescriptor& d, const Sequences& sequences) {
  SCOPED_TRACE(testing::Message()
               << "mode " << static_cast<int>(d.mode) << ", L " << d.num_layers
               << ", D " << d.num_directions << ", I " << d.input_size << ", H "
               << d.hidden_size << ", num_proj " << d.num_proj << ", T "
               << sequences.max_time() << ", B " << sequences.batch());
  CallDescription call = CallOf<Element>(d, sequences);
  for (int num_threads : {1, 2, 8}) {
    const Bounds<Element> bounds(d, sequences, num_threads);
    for (bool has_reserve : {false, true}) {
      const ForwardPlan plan = MakeForwardPlan(call, has_reserve, num_threads);
      EXPECT_LE(plan.scratch_bytes,
                plan.parts.empty() ? bounds.forward : bounds.in_parts);
    }
    EXPECT_LE(MakeBackwardPlan(call, num_threads).scratch_bytes,
              bounds.backward);
  }
  if (d.num_pseudo_layers() > 1 || d.has_projection()) return;
  call.weight_order = WeightOrder::kKeras;
  EXPECT_LE(MakeBackwardPlan(call).scratch_bytes,
            Bounds<Element>(d, sequences, /*num_threads=*/1).backward);
}

TEST(ScratchTest, IsBounded) {
  RandomValues random(4);
  for (int i = 0; i < 2000; ++i) {
    RnnDescriptor d;
    d.mode = kModes[i % 4];
    d.num_layers = random.Integer(1, 4);
    d.num_directions = random.Integer(1, 2);
    d.input_size = random.Integer(1, i % 3 == 0 ? 2000 : 40);
    d.hidden_size = random.Integer(1, i % 5 == 0 ? 1500 : 100);
    if (d.mode == CellMode::kLstm && i % 2 == 0 && d.hidden_size > 1) {
      d.num_proj = random.Integer(1, d.hidden_size - 1);
    }
    const int64_t T = random.Integer(1, 200);
    std::vector<int32_t> lengths(random.Integer(1, 70),
                                 static_cast<int32_t>(T));
    if (i % 2 == 0) {
      const bool are_many_empty = i % 4 == 0;
      for (int32_t& length : lengths) {
        length = static_cast<int32_t>(random.Integer(0, T));
        if (are_many_empty && random.Integer(0, 3) > 0) length = 0;
      }
    }
    const Sequences sequences = MakeSequences(T, lengths);
    ExpectWithin<float>(d, sequences);
    ExpectWithin<double>(d, sequences);
    ExpectWithin<Half>(d, sequences);
    ExpectWithin<BFloat16>(d, sequences);
    if (HasFailure()) return;
  }
}

TEST(ScratchTest, WeightsThatOneStepPacksInTurnTakeNoRoomForAll) {
  RnnDescriptor d;
  d.mode = CellMode::kGru;
  d.input_size = d.hidden_size = 512;
  const Sequences sequences =
      MakeSequences(/*max_time=*/1, /*batch=*/40, nullptr);
  const CallDescription call = CallOf<float>(d, sequences);
  const int64_t one_matrix =
      d.gates_size() * d.output_size() * int64_t{sizeof(float)};
  for (int num_threads : {1, 2}) {
    const ForwardPlan forward =
        MakeForwardPlan(call, /*has_reserve=*/true, num_threads);
    const BackwardPlan backward = MakeBackwardPlan(call, num_threads);
    ASSERT_TRUE(IsInTurn(forward.input_weights.first.route));
    ASSERT_TRUE(IsInTurn(forward.recurrent_weights.route));
    ASSERT_TRUE(IsInTurn(backward.input_weights.first.route));
    ASSERT_TRUE(IsInTurn(backward.recurrent_weights.route));
    const int64_t bound = num_threads * one_matrix / 2;
    EXPECT_LT(forward.scratch_bytes, bound);
    EXPECT_LT(backward.scratch_bytes, bound);
  }
}

TEST(ScratchTest, TheBoundsAreNotFarOff) {
  RnnDescriptor d;
  d.mode = CellMode::kLstm;
  d.input_size = d.hidden_size = 512;
  const Sequences sequences = MakeSequences(100, 32, nullptr);
  const Bounds<float> bounds(d, sequences, /*num_threads=*/1);
  const CallDescription call = CallOf<float>(d, sequences);
  EXPECT_GT(1.5 * MakeForwardPlan(call).scratch_bytes, bounds.forward);
  EXPECT_GT(1.5 * MakeBackwardPlan(call).scratch_bytes, bounds.backward);
  const ForwardPlan in_parts =
      MakeForwardPlan(call, /*has_reserve=*/true, /*num_threads=*/2);
  ASSERT_EQ(in_parts.parts.size(), 2u);
  EXPECT_GT(1.5 * in_parts.scratch_bytes,
            Bounds<float>(d, sequences, 2).in_parts);
}

}  // namespace
}  // namespace rnn
