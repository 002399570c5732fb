#ifndef TESTS_ENGINE_SAME_OUTPUTS_H_
#define TESTS_ENGINE_SAME_OUTPUTS_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

namespace rnn {

// Both are EngineCalls of the same sizes and the same type.
template <typename Call, typename OtherCall>
void ExpectSameOutputs(Call& call, OtherCall& other) {
  const auto expected = call.Outputs();
  const auto found = other.Outputs();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::memcmp(expected[i]->data(), found[i]->data(),
                          expected[i]->size() * sizeof(*expected[i]->data())),
              0)
        << "output " << i;
  }
}

}  // namespace rnn

#endif  // TESTS_ENGINE_SAME_OUTPUTS_H_
