// Linked into tests that TF_CUDNN_RNN_ISA puts on one instruction set: where
// the CPU lacks it, or where the test runs on it anyway, they are skipped.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/engine/simd/instruction_set.h"
#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {
namespace {

class OtherIsa : public testing::Environment {
 public:
  void SetUp() override {
    const char* wanted = std::getenv(kSimdTargetVariable);
    ASSERT_NE(wanted, nullptr);
    const SimdTarget* best = nullptr;
    SupportedSimdTargets(&best, 1);
    if (best->name == std::string(wanted)) {
      GTEST_SKIP() << wanted << " is what the test takes by itself";
    }
    if (SelectSimdTarget().name != std::string(wanted)) {
      GTEST_SKIP() << "this CPU has no " << wanted;
    }
  }
};

const auto* const kOtherIsa = testing::AddGlobalTestEnvironment(new OtherIsa);

}  // namespace
}  // namespace rnn
