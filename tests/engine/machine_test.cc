// What plans know of the machine: measured, or told by a variable.

#include "kernels/engine/plan/machine.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/engine/comma_locale.h"

namespace rnn {
namespace {

TEST(MachineTest, IsMeasuredOnce) {
  const Machine machine = Machine::Here(2);
  std::cout << "flops_per_far_byte=" << machine.flops_per_far_byte << std::endl;
  EXPECT_EQ(machine.num_threads, 2);
  EXPECT_GT(machine.core_cache_bytes, 0);
  EXPECT_GT(machine.flops_per_far_byte, 0);
  if (std::getenv("TF_CUDNN_RNN_MACHINE") == nullptr) {
    // A time that was taken, not what stands for one.
    EXPECT_NE(machine.flops_per_far_byte, Machine().flops_per_far_byte);
  }
  EXPECT_EQ(machine.flops_per_far_byte, Machine::Here(3).flops_per_far_byte);
  // Nobody shares anything with one thread.
  EXPECT_EQ(Machine::Here(1).flops_per_far_byte, Machine().flops_per_far_byte);
}

TEST(MachineTest, TheVariableSetsFields) {
  Machine machine;
  EXPECT_EQ(ParseMachine("", &machine), "");
  EXPECT_EQ(ParseMachine("flops_per_far_byte=13.5", &machine), "");
  EXPECT_EQ(machine.flops_per_far_byte, 13.5);
  EXPECT_EQ(machine.core_cache_bytes, 0);
  EXPECT_EQ(
      ParseMachine("core_cache_bytes=2097152,flops_per_far_byte=2", &machine),
      "");
  EXPECT_EQ(machine.core_cache_bytes, 2097152);
  EXPECT_EQ(machine.flops_per_far_byte, 2);
  EXPECT_EQ(ParseMachine("flops_per_passed_value=1", &machine), "");
  EXPECT_EQ(machine.flops_per_passed_value, 1);
  for (const char* text :
       {"x", "core_cache_bytes", "core_cache_bytes=", "core_cache_bytes=0",
        "core_cache_bytes=1x", "core_cache_bytes=nan", "cores=2",
        "flops_per_far_byte=1e99", "flops_per_far_byte=2;core_cache_bytes=3",
        "flops_per_far_byte=inf", "flops_per_far_byte= 2",
        "flops_per_far_byte=2,5", ",core_cache_bytes=3", "core_cache_bytes=3,",
        "core_cache_bytes=3,,flops_per_far_byte=2", ",",
        "core_cache_bytes=3,core_cache_bytes=3", "flops_per_passed_value=2x",
        "flops_per_passed_value=0.5"}) {
    EXPECT_NE(ParseMachine(text, &machine).find(text), std::string::npos)
        << text;
  }
  EXPECT_EQ(machine.flops_per_passed_value, 1);
}

TEST(MachineTest, TheTextOfAMachineSetsItsFields) {
  Machine machine, other;
  machine.core_cache_bytes = int64_t{1} << 40;
  machine.flops_per_far_byte = 13.7251;
  machine.flops_per_passed_value = 1e6;
  EXPECT_EQ(ParseMachine(MachineVariableText(machine), &other), "");
  EXPECT_EQ(other.core_cache_bytes, machine.core_cache_bytes);
  EXPECT_EQ(other.flops_per_far_byte, machine.flops_per_far_byte);
  EXPECT_EQ(other.flops_per_passed_value, machine.flops_per_passed_value);
}

TEST(MachineTest, NumbersAreWrittenAlikeInEachLocale) {
  const CommaLocale locale;
  Machine machine;
  machine.core_cache_bytes = 2097152;
  machine.flops_per_far_byte = 13.5;
  const std::string text = MachineVariableText(machine);
  Machine other;
  const std::string fault = ParseMachine(text, &other);
  EXPECT_EQ(text,
            "core_cache_bytes=2097152,flops_per_far_byte=13.5,"
            "flops_per_passed_value=150");
  EXPECT_EQ(fault, "");
  EXPECT_EQ(other.flops_per_far_byte, 13.5);
}

}  // namespace
}  // namespace rnn
