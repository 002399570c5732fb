// Holds Sigmoid and Tanh to the table in math-inl.h.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "tests/engine/guarded.h"
#include "tests/engine/random_values.h"
#include "tests/engine/simd_targets.h"

namespace rnn {
namespace {

// Repeats the table in math-inl.h.
constexpr double kSigmoidUlps = 4;
constexpr double kTanhUlps = 4;
template <typename F>
constexpr double kSigmoidUlpsFrom = std::is_same_v<F, float> ? -87 : -708;

template <typename F>
using Function = void (*)(const F*, F*, int64_t);

// Of a type wide enough that its own error does not count.
template <typename F>
using Exact = std::conditional_t<std::is_same_v<F, float>, double, long double>;

template <typename F>
Exact<F> ExactSigmoid(F x) {
  return 1 / (1 + std::exp(-static_cast<Exact<F>>(x)));
}
template <typename F>
Exact<F> ExactTanh(F x) {
  return std::tanh(static_cast<Exact<F>>(x));
}

// |value - exact| in units of the last place that F has at `exact`.
template <typename F>
double UlpError(F value, Exact<F> exact) {
  using Limits = std::numeric_limits<F>;
  const int exponent =
      exact == 0 ? Limits::min_exponent
                 : std::max(std::ilogb(exact) + 1, int{Limits::min_exponent});
  const Exact<F> ulp = std::ldexp(Exact<F>{1}, exponent - Limits::digits);
  return static_cast<double>(std::abs(value - exact) / ulp);
}

// Dense by value where the functions bend, dense by bit pattern everywhere, and
// the neighbourhood of every bound in the code.
template <typename F>
const std::vector<F>& Sweep() {
  using Bits = std::conditional_t<sizeof(F) == 4, uint32_t, uint64_t>;
  static const auto* const sweep = [] {
    auto* xs = new std::vector<F>;
    for (double reach : {0.001, 1.0, 12.0, 50.0, 800.0}) {
      constexpr int kSteps = 200000;
      for (int i = -kSteps; i <= kSteps; ++i) {
        xs->push_back(static_cast<F>(reach * i / kSteps));
      }
    }
    RandomValues random(1);
    for (int i = 0; i < 500000; ++i) {
      const Bits bits = static_cast<Bits>(random.Bits());
      F x;
      std::memcpy(&x, &bits, sizeof x);
      if (!std::isnan(x)) xs->push_back(x);
    }
    for (double bound :
         {0.0,  0.0625, 0.078125, 0.25,  0.34657, 0.69315, 9.01, 10.0,
          15.0, 15.75,  16.0,     17.33, 19.06,   20.0,    22.0, 44.0,
          87.0, 88.0,   89.0,     708.0, 709.0,   710.0}) {
      for (F x : {static_cast<F>(bound), static_cast<F>(-bound)}) {
        F up = x, down = x;
        for (int i = 0; i < 100; ++i) {
          xs->push_back(up);
          xs->push_back(down);
          up = std::nextafter(up, std::numeric_limits<F>::infinity());
          down = std::nextafter(down, -std::numeric_limits<F>::infinity());
        }
      }
    }
    return xs;
  }();
  return *sweep;
}

template <typename F>
std::vector<F> Evaluate(Function<F> function, const std::vector<F>& xs) {
  std::vector<F> result(xs.size());
  function(xs.data(), result.data(), static_cast<int64_t>(xs.size()));
  return result;
}
template <typename F>
F Evaluate(Function<F> function, F x) {
  return Evaluate(function, std::vector<F>{x})[0];
}

template <typename F>
class SimdMathTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SimdMathTest, Types);

TYPED_TEST(SimdMathTest, SigmoidKeepsToItsTable) {
  using F = TypeParam;
  const std::vector<F>& xs = Sweep<F>();
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    const std::vector<F> values = Evaluate(MathOf<F>(*target).sigmoid, xs);
    double worst = 0;
    F worst_at = 0;
    for (size_t i = 0; i < xs.size(); ++i) {
      const Exact<F> exact = ExactSigmoid(xs[i]);
      if (xs[i] < kSigmoidUlpsFrom<F>) {
        ASSERT_LT(std::abs(values[i] - exact), std::numeric_limits<F>::min())
            << "at " << xs[i];
        continue;
      }
      const double error = UlpError(values[i], exact);
      ASSERT_EQ(error, error) << "NaN at " << xs[i];
      if (error > worst) {
        worst = error;
        worst_at = xs[i];
      }
    }
    EXPECT_LE(worst, kSigmoidUlps) << "at " << worst_at;
    this->RecordProperty(target->name, std::to_string(worst));
  }
}

TYPED_TEST(SimdMathTest, TanhKeepsToItsTable) {
  using F = TypeParam;
  const std::vector<F>& xs = Sweep<F>();
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    const std::vector<F> values = Evaluate(MathOf<F>(*target).tanh, xs);
    double worst = 0;
    F worst_at = 0;
    for (size_t i = 0; i < xs.size(); ++i) {
      const double error = UlpError(values[i], ExactTanh(xs[i]));
      ASSERT_EQ(error, error) << "NaN at " << xs[i];
      if (error > worst) {
        worst = error;
        worst_at = xs[i];
      }
    }
    EXPECT_LE(worst, kTanhUlps) << "at " << worst_at;
    this->RecordProperty(target->name, std::to_string(worst));
  }
}

TYPED_TEST(SimdMathTest, NanGivesNan) {
  using F = TypeParam;
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    for (F sign : {F{1}, F{-1}}) {
      const F nan = std::copysign(std::numeric_limits<F>::quiet_NaN(), sign);
      EXPECT_TRUE(std::isnan(Evaluate(MathOf<F>(*target).sigmoid, nan)));
      EXPECT_TRUE(std::isnan(Evaluate(MathOf<F>(*target).tanh, nan)));
    }
  }
}

TYPED_TEST(SimdMathTest, InfinityGivesTheLimits) {
  using F = TypeParam;
  constexpr F kInfinity = std::numeric_limits<F>::infinity();
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    const auto sigmoid = MathOf<F>(*target).sigmoid;
    EXPECT_EQ(Evaluate(sigmoid, kInfinity), 1);
    EXPECT_EQ(Evaluate(sigmoid, -kInfinity), 0);
    EXPECT_EQ(Evaluate(MathOf<F>(*target).tanh, kInfinity), 1);
    EXPECT_EQ(Evaluate(MathOf<F>(*target).tanh, -kInfinity), -1);
  }
}

TYPED_TEST(SimdMathTest, TanhKeepsTheSignOfZero) {
  using F = TypeParam;
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    const auto tanh = MathOf<F>(*target).tanh;
    EXPECT_TRUE(SameBits(Evaluate(tanh, F{0}), F{0}));
    EXPECT_TRUE(SameBits(Evaluate(tanh, -F{0}), -F{0}));
  }
}

// Values stay where their gate can be trusted: sigmoid in [0, 1], tanh in
// [-1, 1], tanh odd.
TYPED_TEST(SimdMathTest, ValuesStayInTheirRange) {
  using F = TypeParam;
  const std::vector<F>& xs = Sweep<F>();
  std::vector<F> negated = xs;
  for (F& x : negated) x = -x;
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    for (F value : Evaluate(MathOf<F>(*target).sigmoid, xs)) {
      ASSERT_TRUE(value >= 0 && value <= 1) << value;
    }
    const auto tanh = Evaluate(MathOf<F>(*target).tanh, xs);
    const auto mirrored = Evaluate(MathOf<F>(*target).tanh, negated);
    for (size_t i = 0; i < xs.size(); ++i) {
      ASSERT_LE(std::abs(tanh[i]), 1) << "at " << xs[i];
      ASSERT_EQ(tanh[i], -mirrored[i]) << "at " << xs[i];
    }
  }
}

TYPED_TEST(SimdMathTest, LanesDoNotDependOnEachOther) {
  using F = TypeParam;
  constexpr int kMaxCount = 40;
  RandomValues random(2);
  const std::vector<F> xs = random.Reals<F>(kMaxCount, -30, 30);
  for (const SimdTarget* target : TestedSimdTargets()) {
    SCOPED_TRACE(target->name);
    for (Function<F> function :
         {MathOf<F>(*target).sigmoid, MathOf<F>(*target).tanh}) {
      for (int count = 0; count <= kMaxCount; ++count) {
        Guarded<F> in(std::vector<F>(xs.begin(), xs.begin() + count));
        Guarded<F> out(count);
        function(in.data(), out.data(), count);
        ASSERT_TRUE(out.intact()) << count;
        for (int i = 0; i < count; ++i) {
          ASSERT_TRUE(SameBits(out[i], Evaluate(function, xs[i])))
              << "element " << i << " of " << count;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rnn
