// Random numbers that every standard library draws alike.
#ifndef TESTS_ENGINE_RANDOM_VALUES_H_
#define TESTS_ENGINE_RANDOM_VALUES_H_

#include <cstdint>
#include <random>
#include <vector>

namespace rnn {

class RandomValues {
 public:
  explicit RandomValues(uint64_t seed) : engine_(seed) {}

  uint64_t Bits() { return engine_(); }
  // In [low, high].
  int64_t Integer(int64_t low, int64_t high) {
    return low +
           static_cast<int64_t>(Bits() % static_cast<uint64_t>(high - low + 1));
  }
  // In [low, high).
  double Real(double low, double high) {
    return low + (high - low) * static_cast<double>(Bits() >> 11) * 0x1p-53;
  }
  template <typename F = double>
  std::vector<F> Reals(int64_t count, double low, double high) {
    std::vector<F> values(count);
    for (F& value : values) value = static_cast<F>(Real(low, high));
    return values;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace rnn

#endif  // TESTS_ENGINE_RANDOM_VALUES_H_
