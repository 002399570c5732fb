// Passes in parts of the batch, each a thread's, give the bits of one that a
// thread makes of all rows.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/thresholds.h"
#include "tests/engine/engine_call.h"
#include "tests/engine/guarded.h"
#include "tests/engine/random_values.h"
#include "tests/engine/same_outputs.h"
#include "tests/engine/simd_targets.h"
#include "tests/engine/thread_pool.h"
#include "tests/engine/threads_in_turn.h"

namespace rnn {
namespace {

struct Case {
  const char* name;
  EngineSizes sizes;
};

EngineSizes SizesOf(CellMode mode) {
  EngineSizes sizes;
  sizes.descriptor.mode = mode;
  sizes.descriptor.input_size = 20;
  sizes.descriptor.hidden_size = 33;  // rows share cache lines
  sizes.max_time = 60;                // in more than one chunk
  sizes.batch = 44;
  return sizes;
}

void MakeRagged(EngineSizes* sizes) {
  RandomValues random(3);
  for (int64_t i = 0; i < sizes->batch; ++i) {
    const bool is_empty = i % 6 == 0;
    sizes->lengths.push_back(static_cast<int32_t>(
        is_empty ? 0
                 : random.Integer(sizes->max_time * 3 / 4, sizes->max_time)));
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (CellMode mode : kModes) {
    cases.push_back({"stacked, with dropout", SizesOf(mode)});
    EngineSizes& sizes = cases.back().sizes;
    sizes.descriptor.num_layers = 3;
    sizes.descriptor.dropout = 0.4f;
  }
  const auto add = [&](const char* name, EngineSizes sizes) {
    cases.push_back({name, sizes});
  };
  EngineSizes ragged = SizesOf(CellMode::kLstm);
  ragged.descriptor.num_layers = 2;
  ragged.descriptor.num_directions = 2;
  MakeRagged(&ragged);
  add("ragged, both directions", ragged);
  ragged.time_major = false;
  add("ragged, both directions, batch-major", ragged);
  EngineSizes projected = SizesOf(CellMode::kLstm);
  projected.descriptor.num_layers = 2;
  projected.descriptor.num_proj = 13;
  MakeRagged(&projected);
  add("projected", projected);
  EngineSizes skipped = SizesOf(CellMode::kGru);
  skipped.descriptor.input_size = skipped.descriptor.hidden_size;
  skipped.descriptor.skip_input = true;
  skipped.descriptor.num_layers = 2;
  add("without W", skipped);
  EngineSizes keras = SizesOf(CellMode::kGru);
  keras.keras_weights = true;
  keras.repeats_outputs = true;
  keras.go_backwards = true;
  for (int64_t i = 0; i < keras.max_time * keras.batch; ++i) {
    keras.mask.push_back(i % 3 > 0 || i % keras.batch % 4 == 1);
  }
  add("Keras' weights, masked, backwards, repeating", keras);
  EngineSizes keras_both = SizesOf(CellMode::kLstm);
  keras_both.keras_weights = true;
  keras_both.descriptor.num_directions = 2;
  MakeRagged(&keras_both);
  add("Keras' weights, ragged, both directions", keras_both);
  return cases;
}

template <typename Element>
void ExpectSameBits(const EngineSizes& sizes, Executor& executor,
                    int64_t num_parts) {
  SerialExecutor alone;
  EngineCall<Element, Guarded> whole(sizes);
  EngineCall<Element, Guarded> in_parts(sizes);
  in_parts.FillScratchWith(0xff);  // nobody reads what nobody wrote
  whole.Forward(alone);
  in_parts.Forward(executor);
  ASSERT_EQ(in_parts.forward_plan().parts.size(), num_parts);
  if (sizes.training) {
    whole.Backward(alone);
    in_parts.Backward(executor);
    ASSERT_EQ(in_parts.backward_plan().parts.size(), num_parts == 2 ? 2 : 0);
    ASSERT_EQ(whole.backward_plan().num_halves(), bits::kGradientHalves);
    ASSERT_GT(whole.backward_plan().chunks.size(), 1);
  }
  ExpectSameOutputs(whole, in_parts);
}

template <typename Element>
class EngineBatchPartsTest : public testing::Test {};
using Elements = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(EngineBatchPartsTest, Elements);

TYPED_TEST(EngineBatchPartsTest, HaveTheBitsOfTheWhole) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(testing::Message()
                 << "mode " << static_cast<int>(c.sizes.descriptor.mode) << ", "
                 << c.name);
    for (bool training : {false, true}) {
      for (bool are_prepared : {false, true}) {
        SCOPED_TRACE(testing::Message() << (training ? "training" : "inference")
                                        << (are_prepared ? ", prepared" : ""));
        EngineSizes sizes = c.sizes;
        sizes.training = training;
        sizes.prepared_weights = are_prepared;
        if (training && are_prepared) continue;
        ThreadsInTurn two(2);
        ExpectSameBits<TypeParam>(sizes, two, 2);
      }
    }
  }
}

// Whether rows start from zeros, and so whether NaN in R is multiplied, is a
// matter of the whole batch, not of a thread's part.
TEST(EngineBatchPartsZerosTest, PartsAskTheWholeBatch) {
  for (CellMode mode : kModes) {
    SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(mode));
    EngineSizes sizes = SizesOf(mode);
    sizes.training = false;
    SerialExecutor alone;
    ThreadsInTurn two(2);
    EngineCall<float, Guarded> whole(sizes);
    EngineCall<float, Guarded> in_parts(sizes);
    for (auto* call : {&whole, &in_parts}) {
      const int64_t zeros = call->h0.size() / 2;  // the rows of one part
      std::fill_n(call->h0.data(), zeros, 0.0f);
      // The first element of R.
      const RnnDescriptor& d = sizes.descriptor;
      call->params.data()[d.gates_size() * d.input_size] = std::nanf("");
    }
    whole.Forward(alone);
    in_parts.Forward(two);
    ASSERT_EQ(in_parts.forward_plan().parts.size(), 2);
    EXPECT_TRUE(std::isnan(whole.y.data()[0]));
    EXPECT_TRUE(std::isnan(in_parts.y.data()[0]));
  }
}

// Of several threads that are at work at once.
TYPED_TEST(EngineBatchPartsTest, HaveTheBitsOfTheWholeFromATeam) {
  ThreadPool pool(3);
  for (CellMode mode : {CellMode::kLstm, CellMode::kGru}) {
    EngineSizes sizes = SizesOf(mode);
    sizes.descriptor.num_layers = 2;
    MakeRagged(&sizes);
    for (int i = 0; i < 3; ++i) {
      for (int num_threads : {2, 4}) {
        Team team(num_threads, pool.AsSchedule());
        ExpectSameBits<TypeParam>(sizes, team, num_threads);
      }
    }
  }
}

// The second half has no row: it is not added up.
TYPED_TEST(EngineBatchPartsTest, AHalfMayBeEmpty) {
  EngineSizes sizes = SizesOf(CellMode::kGru);
  sizes.max_time = 100;
  sizes.batch = bits::kMinHalvedBatch;
  sizes.lengths.assign(sizes.batch, 0);
  sizes.lengths[2] = 100;
  SerialExecutor alone;
  ThreadsInTurn three(3);
  EngineCall<TypeParam, Guarded> a(sizes), b(sizes);
  a.FillScratchWith(0xff);
  a.Forward(alone);
  a.Backward(alone);
  b.Forward(three);
  b.Backward(three);
  ASSERT_EQ(a.backward_plan().num_halves(), bits::kGradientHalves);
  ExpectSameOutputs(a, b);
  for (int64_t i = 0; i < a.dparams.size(); ++i) {
    ASSERT_TRUE(std::isfinite(ToDouble(a.dparams.data()[i]))) << i;
  }
}

// The last chunk has rows of the first half alone: the second half's sums begin
// with a chunk before it, on whatever lies in their memory.
TYPED_TEST(EngineBatchPartsTest, AHalfMayEndChunksBeforeTheOther) {
  EngineSizes sizes = SizesOf(CellMode::kLstm);
  sizes.descriptor.num_layers = 2;
  sizes.max_time = 300;
  sizes.batch = 74;
  sizes.lengths.assign(sizes.batch, 20);
  std::fill_n(sizes.lengths.begin(), 4, 300);
  SerialExecutor alone;
  EngineCall<TypeParam, Guarded> a(sizes), b(sizes);
  a.FillScratchWith(0xff);
  b.FillScratchWith(0);
  for (auto* call : {&a, &b}) {
    call->Forward(alone);
    call->Backward(alone);
  }
  const BackwardPlan& plan = a.backward_plan();
  ASSERT_EQ(plan.num_halves(), bits::kGradientHalves);
  ASSERT_TRUE(plan.parts.empty());
  ASSERT_LE(plan.num_steps_of(1), plan.chunks.front().steps.begin);
  ExpectSameOutputs(a, b);
  for (int64_t i = 0; i < a.dparams.size(); ++i) {
    ASSERT_TRUE(std::isfinite(ToDouble(a.dparams.data()[i]))) << i;
  }
}

TEST(EngineInt8BatchPartsTest, HaveTheBitsOfTheWhole) {
  EngineSizes sizes = SizesOf(CellMode::kLstm);
  sizes.descriptor.num_layers = 2;
  sizes.descriptor.num_proj = 17;
  sizes.training = false;
  sizes.int8_weights = true;
  ThreadsInTurn two(2);
  ExpectSameBits<float>(sizes, two, 2);
}

}  // namespace
}  // namespace rnn
