// Matrices in panels, packed by many threads: the bytes that one thread packs.

#include "kernels/engine/weights/packing.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/weights/matrix_source.h"
#include "kernels/engine/weights/parts.h"
#include "network/element_types.h"
#include "tests/engine/element_values.h"
#include "tests/engine/random_values.h"
#include "tests/engine/threads_in_turn.h"

namespace rnn {
namespace {

constexpr int kManyThreads = 16;

template <typename Element>
std::vector<Element> RandomMatrix(int64_t size) {
  RandomValues random(1);
  std::vector<Element> values(size);
  for (Element& value : values) value = FromDouble<Element>(random.Real(-1, 1));
  return values;
}

// Expects pack(executor, values) to fill `size` values with the same bytes for
// one thread as for many, who share them.
template <typename Value, typename Pack>
void ExpectSharedAndSame(int64_t size, Pack pack) {
  std::vector<Value> one(size), many(size);
  std::memset(one.data(), 0x11, size * sizeof(Value));
  std::memset(many.data(), 0x22, size * sizeof(Value));
  SerialExecutor alone;
  pack(alone, one.data());
  ThreadsInTurn threads(kManyThreads);
  pack(threads, many.data());
  EXPECT_GE(threads.num_tasks(), kManyThreads / 2);
  EXPECT_EQ(std::memcmp(one.data(), many.data(), size * sizeof(Value)), 0);
}

// Depths that neither units of rows nor pairs divide, and columns of a few
// panels or of many, of which the last is not full.
template <typename Element, typename Operand>
void ExpectPanelsAreShared() {
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  for (int64_t depth : {1001, 2999}) {
    for (int64_t columns : {99, 2001}) {
      const auto values = RandomMatrix<Element>(depth * columns);
      const auto rows = MatrixSource<Element>::Rows(
          values.data(), columns, depth, Pieces::Whole(columns));
      const auto transposed =
          MatrixSource<Element>::Columns(values.data(), depth, depth, columns);
      const int64_t size = NumPanels<Operand>(columns) * panel_columns *
                           PaddedDepth<Operand>(depth);
      for (const auto& source : {rows, transposed}) {
        SCOPED_TRACE(testing::Message()
                     << "depth " << depth << ", columns " << columns
                     << (source.is_transposed ? ", transposed" : ""));
        // Of these, threads share whole panels alone.
        if (source.is_transposed &&
            NumPanels<Operand>(columns) < kManyThreads / 2) {
          continue;
        }
        ExpectSharedAndSame<Operand>(size,
                                     [&](Executor& executor, Operand* panels) {
                                       PackPanels(source, executor, panels);
                                     });
      }
    }
  }
}

TEST(PackingTest, ManyThreadsPackPanelsOfFloats) {
  ExpectPanelsAreShared<float, float>();
  ExpectPanelsAreShared<Half, float>();
}

TEST(PackingTest, ManyThreadsPackPanelsOfPairs) {
  if (SelectSimdTarget().bfloat16_kernels == nullptr) {
    GTEST_SKIP() << "this instruction set multiplies no pairs";
  }
  ExpectPanelsAreShared<BFloat16, BFloat16>();
}

TEST(PackingTest, ManyThreadsPackPanelsInParts) {
  if (SelectSimdTarget().parts_kernels == nullptr) {
    GTEST_SKIP() << "this instruction set multiplies no parts";
  }
  // Pieces that groups of depth do not divide.
  const PartsDepth depth{3, 333};
  for (int64_t columns : {35, 1000}) {
    const auto values = RandomMatrix<float>(depth.size() * columns);
    const auto source = MatrixSource<float>::Rows(
        values.data(), columns, depth.size(), Pieces::Whole(columns));
    ExpectSharedAndSame<BFloat16>(
        NumPanels<float>(columns) * PartsPanelSize(depth.padded()),
        [&](Executor& executor, BFloat16* panels) {
          PackPanelsInParts(source, depth, executor, panels);
        });
  }
}

}  // namespace
}  // namespace rnn
