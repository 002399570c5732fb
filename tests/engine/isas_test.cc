// The instruction sets that are built (kernels/isa.bzl) are those that the
// engine chooses from (isa.inc). BUILD makes a test of each.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/engine/simd/instruction_set.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

std::vector<std::string> IsasOfEngine() {
  return {
#define RNN_ISA_ENTRY(isa, supported, is_faster) #isa,
#include "kernels/engine/simd/isa.inc"
#undef RNN_ISA_ENTRY
  };
}

TEST(IsasTest, AreBuiltAndTested) {
  const char* variable = std::getenv("BUILD_ISAS");
  if (variable == nullptr) GTEST_SKIP() << "Bazel sets BUILD_ISAS";
  std::istringstream words(variable);
  std::vector<std::string> built{std::istream_iterator<std::string>(words), {}};
  std::vector<std::string> chosen_from = IsasOfEngine();
  std::sort(built.begin(), built.end());
  std::sort(chosen_from.begin(), chosen_from.end());
  EXPECT_EQ(built, chosen_from) << "kernels/isa.bzl and isa.inc disagree";

  std::string of_machine;
  for (const SimdTarget* target : TestedSimdTargets()) {
    of_machine += (of_machine.empty() ? "" : ", ") + std::string(target->name);
  }
  std::cout << "Instruction sets of this machine: " << of_machine
            << "; each is tested." << std::endl;
}

TEST(IsasTest, TheEngineChoosesTheBest) {
  if (std::getenv(kSimdTargetVariable) != nullptr) GTEST_SKIP();
  EXPECT_EQ(&SelectSimdTarget(), TestedSimdTargets().front());
}

}  // namespace
}  // namespace rnn
