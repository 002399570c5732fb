// The engine neither sets nor relies on the floating-point mode. TensorFlow
// runs kernels with denormals flushed to zero; other callers may not. BUILD
// makes a test for each instruction set.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/engine.h"
#include "tests/engine/engine_call.h"
#include "tests/engine/float_mode.h"
#include "tests/engine/simd_targets.h"
#include "tests/engine/thread_pool.h"

namespace rnn {
namespace {

template <typename Value>
class VectorBuffer {
 public:
  explicit VectorBuffer(int64_t size)
      : size_(size), room_(size * sizeof(Value) + kAlignment) {
    const auto address = reinterpret_cast<uintptr_t>(room_.data());
    begin_ = (kAlignment - address % kAlignment) % kAlignment;
  }
  Value* data() { return reinterpret_cast<Value*>(room_.data() + begin_); }
  Value& operator[](int64_t i) { return data()[i]; }
  int64_t size() const { return size_; }

 private:
  static constexpr size_t kAlignment = 64;

  int64_t size_;
  std::vector<unsigned char> room_;
  size_t begin_;
};

template <typename Element>
using Call = EngineCall<Element, VectorBuffer>;

// Large enough for all parts of a team to get work.
EngineSizes Sizes(CellMode mode) {
  EngineSizes sizes;
  sizes.descriptor.mode = mode;
  sizes.descriptor.num_layers = 2;
  sizes.descriptor.num_directions = 2;
  sizes.descriptor.input_size = 37;
  sizes.descriptor.hidden_size = 83;
  sizes.descriptor.num_proj = mode == CellMode::kLstm ? 41 : 0;
  sizes.max_time = 7;
  sizes.batch = 19;
  return sizes;
}

// Of so few rows that weights are read where they are.
EngineSizes SizesOfSmallCall(CellMode mode) {
  EngineSizes sizes = Sizes(mode);
  sizes.descriptor.input_size = 128;
  sizes.descriptor.hidden_size = 212;
  sizes.descriptor.num_proj = mode == CellMode::kLstm ? 42 : 0;
  sizes.max_time = 4;
  sizes.batch = 2;
  return sizes;
}

// Restores the mode of the test's thread.
class FloatModeTest : public testing::Test {
 protected:
  void TearDown() override { SetFloatMode(mode_); }

 private:
  const uint64_t mode_ = FloatMode();
};

TEST_F(FloatModeTest, IsSetAndRead) {
  SetFloatMode(FloatMode() & ~kFlushDenormals);
  volatile float denormal = std::numeric_limits<float>::denorm_min();
  EXPECT_NE(denormal * 1.0f, 0);
  FlushDenormals();
  EXPECT_EQ(denormal * 1.0f, 0);
}

// Runs tasks one after another, and looks at the mode after each.
class WatchingExecutor : public Executor {
 public:
  int num_threads() const override { return 3; }
  void Run(int num_tasks, Order /*order*/,
           FunctionRef<void(int)> task) override {
    for (int i = 0; i < num_tasks; ++i) {
      const uint64_t before = FloatMode();
      task(i);
      EXPECT_EQ(FloatMode(), before) << "task " << i;
    }
    ++runs_;
  }
  int runs() const { return runs_; }

 private:
  int runs_ = 0;
};

template <typename Element>
void ExpectLeavesModeAlone(const EngineSizes& sizes) {
  const uint64_t initial = FloatMode();
  for (uint64_t flushing : {uint64_t{0}, kFlushDenormals}) {
    const uint64_t float_mode = (initial & ~kFlushDenormals) | flushing;
    SetFloatMode(float_mode);
    Call<Element> call(sizes);
    EXPECT_EQ(FloatMode(), float_mode);
    WatchingExecutor executor;
    call.Forward(executor);
    EXPECT_EQ(FloatMode(), float_mode);
    EXPECT_GT(executor.runs(), 0);  // or the tasks would not be seen
    call.Backward(executor);
    EXPECT_EQ(FloatMode(), float_mode);
  }
}

template <typename Element>
void ExpectLeavesModeAlone() {
  for (CellMode mode : kModes) {
    ExpectLeavesModeAlone<Element>(Sizes(mode));
    ExpectLeavesModeAlone<Element>(SizesOfSmallCall(mode));
  }
}

TEST_F(FloatModeTest, StaysAsItWas) {
  ExpectLeavesModeAlone<float>();
  ExpectLeavesModeAlone<double>();
  ExpectLeavesModeAlone<Half>();
  ExpectLeavesModeAlone<BFloat16>();
}

// Numbers around the smallest normal one, so that a good part of all values and
// gradients are denormal or would be.
template <typename Element>
std::unique_ptr<Call<Element>> TinyCall(const EngineSizes& sizes) {
  auto call = std::make_unique<Call<Element>>(sizes);
  using F = ComputeType<Element>;
  constexpr F kScale = std::numeric_limits<F>::min() * 4;
  for (auto* values :
       {&call->x, &call->h0, &call->c0, &call->dy, &call->dh_n, &call->dc_n}) {
    for (int64_t i = 0; i < values->size(); ++i) (*values)[i] *= kScale;
  }
  return call;
}

template <typename Element>
void ExpectFlushingChangesLittle(EngineSizes (*sizes_of)(CellMode)) {
  const uint64_t initial = FloatMode();
  for (CellMode mode : kModes) {
    SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(mode));
    SerialExecutor executor;
    SetFloatMode(initial & ~kFlushDenormals);
    const auto kept = TinyCall<Element>(sizes_of(mode));
    const auto flushed = TinyCall<Element>(sizes_of(mode));
    kept->Forward(executor);
    kept->Backward(executor);
    FlushDenormals();
    flushed->Forward(executor);
    flushed->Backward(executor);
    SetFloatMode(initial & ~kFlushDenormals);
    int64_t num_denormal = 0;
    for (size_t k = 0; k < kept->Outputs().size(); ++k) {
      auto& a = *kept->Outputs()[k];
      auto& b = *flushed->Outputs()[k];
      for (int64_t i = 0; i < a.size(); ++i) {
        // Each of some thousand terms may have been flushed, and differs by at
        // most the smallest normal number; weights are at most 1.
        const Element tolerance =
            4096 * std::numeric_limits<Element>::min() +
            64 * std::numeric_limits<Element>::epsilon() * std::abs(a[i]);
        ASSERT_NEAR(a[i], b[i], tolerance) << "output " << k << ", " << i;
        if (std::fpclassify(a[i]) == FP_SUBNORMAL) ++num_denormal;
      }
    }
    // Or this would show nothing.
    EXPECT_GT(num_denormal, 0);
  }
}

TEST_F(FloatModeTest, FlushingChangesLittle) {
  for (auto sizes_of : {Sizes, SizesOfSmallCall}) {
    ExpectFlushingChangesLittle<float>(sizes_of);
    ExpectFlushingChangesLittle<double>(sizes_of);
  }
}

}  // namespace
}  // namespace rnn
