// Activations. Include a vec_<isa>.h first.
//
//               valid range    maximum error, ULP (float and double)
//   Sigmoid     all x          4 for x >= -87 (double: -708); below, absolute
//                              error under the smallest normal number; 0 at
//                              -infinity
//   Tanh        all x          4
//
// NaN gives NaN. The table is held to by tests/engine/simd_math_test.cc, also
// for what an instruction set has of its own (math_avx512-inl.h).
#ifndef KERNELS_ENGINE_SIMD_MATH_INL_H_
#define KERNELS_ENGINE_SIMD_MATH_INL_H_

#include "kernels/engine/simd/activation_tables.h"
#include "kernels/engine/simd/unroll-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

template <typename F>
struct ExpConstants;

// ln 2 as a sum of two, the first with enough trailing zeros that k * kLn2High
// is exact. kRound is large enough that adding it rounds to an integer, and
// holds the bias of exponents for PowerOfTwo().
template <>
struct ExpConstants<float> {
  static constexpr float kLog2E = 1.44269504f;
  static constexpr float kLn2High = 0.693359375f;
  static constexpr float kLn2Low = -2.12194440e-4f;
  static constexpr float kRound = 0x1.8p23f + 127;
  static constexpr float kMaxArgument = 89.0f;
  static constexpr float kMinArgument = -87.0f;
  static constexpr float kTanhSaturation = 20.0f;  // of 2|x|
  static constexpr const auto& kSeries = kFloatExpm1Series;
};

template <>
struct ExpConstants<double> {
  static constexpr double kLog2E = 1.4426950408889634;
  static constexpr double kLn2High = 6.93147180369123816490e-01;
  static constexpr double kLn2Low = 1.90821492927058770002e-10;
  static constexpr double kRound = 0x1.8p52 + 1023;
  static constexpr double kMaxArgument = 710.0;
  static constexpr double kMinArgument = -708.0;
  static constexpr double kTanhSaturation = 44.0;
  static constexpr const auto& kSeries = kDoubleExpm1Series;
};

// x = k ln 2 + r with integral k and |r| <= ln 2 / 2. Returns exp(r) - 1, and
// exp(k ln 2) in `power`.
template <typename V>
RNN_ALWAYS_INLINE inline V Expm1Reduced(V x, V* power) {
  using C = ExpConstants<typename V::Element>;
  constexpr int kTerms = sizeof C::kSeries / sizeof C::kSeries[0];
  const V round = V::Broadcast(C::kRound);
  const V rounded = MulAdd(x, V::Broadcast(C::kLog2E), round);
  *power = PowerOfTwo(rounded);
  const V k = rounded - round;
  V r = MulAdd(k, V::Broadcast(-C::kLn2High), x);
  r = MulAdd(k, V::Broadcast(-C::kLn2Low), r);
  V series = V::Broadcast(C::kSeries[kTerms - 1]);
  Unroll<kTerms - 1>([&](auto i) RNN_ALWAYS_INLINE {
    series = MulAdd(series, r, V::Broadcast(C::kSeries[kTerms - 2 - i.value]));
  });
  return MulAdd(series, r * r, r);
}

// 1 / (1 + exp(-x)). exp of the largest argument is infinity.
template <typename V>
inline V SigmoidByExp(V x) {
  using C = ExpConstants<typename V::Element>;
  const V one = V::Broadcast(1);
  const V argument =
      Min(V::Broadcast(C::kMaxArgument),
          Max(V::Broadcast(C::kMinArgument), V::Broadcast(0) - x));
  V power;
  const V expm1 = Expm1Reduced(argument, &power);
  return one / (one + (one + expm1) * power);
}

// tanh |x| = e / (e + 2) with e = exp(2|x|) - 1, accurate near zero because e
// is computed without cancellation.
template <typename V>
inline V Tanh(V x) {
  using C = ExpConstants<typename V::Element>;
  const V magnitude = Abs(x);
  V power;
  const V reduced = Expm1Reduced(
      Min(V::Broadcast(C::kTanhSaturation), magnitude + magnitude), &power);
  const V e = MulAdd(reduced, power, power - V::Broadcast(1));
  return CopySign(e / (e + V::Broadcast(2)), x);
}

template <typename V>
inline V Sigmoid(V x) {
  return SigmoidByExp(x);
}

template <typename V>
inline V Relu(V x) {
  return Max(V::Broadcast(0), x);
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_MATH_INL_H_
