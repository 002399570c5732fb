// Tensors may begin at any element: where they do changes how some values are
// stored, and none of them.

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>

#include "kernels/engine/simd/simd_kernels.h"
#include "tests/engine/engine_call.h"
#include "tests/engine/guarded.h"
#include "tests/engine/make_sequences.h"
#include "tests/engine/plans.h"
#include "tests/engine/same_outputs.h"

namespace rnn {
namespace {

// Memory that begins one element after a cache line does, but for scratch.
template <typename Value>
class OffLine {
 public:
  explicit OffLine(int64_t size) : memory_(size + kOffset) {}

  Value* data() { return memory_.data() + kOffset; }
  int64_t size() const { return memory_.size() - kOffset; }

 private:
  static constexpr int64_t kOffset =
      std::is_same_v<Value, unsigned char> ? 0 : 1;
  Guarded<Value> memory_;
};

template <typename Element>
void ExpectSameBitsAnywhere(const EngineSizes& sizes) {
  SerialExecutor alone;
  EngineCall<Element, Guarded> at_line(sizes);
  EngineCall<Element, OffLine> off_line(sizes);
  const auto run = [&](auto& call) {
    call.Forward(alone);
    call.Backward(alone);
  };
  run(at_line);
  run(off_line);
  ExpectSameOutputs(at_line, off_line);
}

EngineSizes SizesOf(CellMode mode, int64_t hidden_size, int64_t max_time,
                    int64_t batch) {
  EngineSizes sizes;
  sizes.descriptor.mode = mode;
  sizes.descriptor.hidden_size = hidden_size;
  sizes.descriptor.input_size = 24;
  sizes.max_time = max_time;
  sizes.batch = batch;
  return sizes;
}

constexpr CellMode kModes[] = {CellMode::kRelu, CellMode::kTanh,
                               CellMode::kLstm, CellMode::kGru};

TEST(EngineAlignmentTest, SmallCalls) {
  for (CellMode mode : kModes) {
    SCOPED_TRACE(static_cast<int>(mode));
    const EngineSizes sizes = SizesOf(mode, 32, 5, 7);
    ExpectSameBitsAnywhere<float>(sizes);
    ExpectSameBitsAnywhere<double>(sizes);
    ExpectSameBitsAnywhere<Half>(sizes);
    ExpectSameBitsAnywhere<BFloat16>(sizes);
  }
}

// 10 MB of activations and more, and products in parts where there are any.
TEST(EngineAlignmentTest, LargeReserves) {
  for (CellMode mode : {CellMode::kLstm, CellMode::kGru}) {
    SCOPED_TRACE(static_cast<int>(mode));
    const EngineSizes sizes = SizesOf(mode, 160, 64, 64);
    if (SelectSimdTarget().parts_kernels != nullptr) {
      const Sequences sequences =
          MakeSequences(sizes.max_time, sizes.batch, nullptr);
      EXPECT_TRUE(HasRecurrentGradientsInParts(
          CallOf<float>(sizes.descriptor, sequences)));
    }
    ExpectSameBitsAnywhere<float>(sizes);
    ExpectSameBitsAnywhere<Half>(sizes);
  }
}

}  // namespace
}  // namespace rnn
