#ifndef TESTS_ENGINE_SAME_OUTPUTS_H_
#define TESTS_ENGINE_SAME_OUTPUTS_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

namespace rnn {

// Both are EngineCalls of the same type.
template <typename Call, typename OtherCall>
void ExpectSameOutputs(Call& call, OtherCall& other) {
  const auto expected = call.Outputs();
  const auto found = other.Outputs();
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(expected[i]->size(), found[i]->size()) << "output " << i;
    EXPECT_EQ(std::memcmp(expected[i]->data(), found[i]->data(),
                          expected[i]->size() * sizeof(*expected[i]->data())),
              0)
        << "output " << i;
  }
}

}  // namespace rnn

#endif  // TESTS_ENGINE_SAME_OUTPUTS_H_
