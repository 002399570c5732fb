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

namespace rnn {
namespace RNN_ISA {
namespace {

template <typename F>
struct ExpConstants;

// ln 2 in two parts, the first with enough trailing zeros that k * kLn2High is
// exact; 1/2! .. 1/n!, highest first, so that the remainder of the series is
// below half an ULP on |r| <= ln 2 / 2.
template <>
struct ExpConstants<float> {
  static constexpr float kLog2E = 1.44269504f;
  static constexpr float kLn2High = 0.693359375f;
  static constexpr float kLn2Low = -2.12194440e-4f;
  static constexpr float kMaxArgument = 89.0f;
  static constexpr float kMinArgument = -87.0f;
  static constexpr float kTanhSaturation = 20.0f;  // of 2|x|
  static constexpr int kTerms = 6;
  static constexpr float kSeries[kTerms] = {1.0f / 5040, 1.0f / 720, 1.0f / 120,
                                            1.0f / 24,   1.0f / 6,   0.5f};
};

template <>
struct ExpConstants<double> {
  static constexpr double kLog2E = 1.4426950408889634;
  static constexpr double kLn2High = 6.93147180369123816490e-01;
  static constexpr double kLn2Low = 1.90821492927058770002e-10;
  static constexpr double kMaxArgument = 710.0;
  static constexpr double kMinArgument = -708.0;
  static constexpr double kTanhSaturation = 44.0;
  static constexpr int kTerms = 12;
  static constexpr double kSeries[kTerms] = {
      1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
      1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
      1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5};
};

// x = k ln 2 + r with integral k and |r| <= ln 2 / 2; returns exp(r) - 1.
template <typename V>
inline V Expm1Reduced(V x, V* k) {
  using C = ExpConstants<typename V::Element>;
  *k = Round(x * V::Broadcast(C::kLog2E));
  const V minus_k = V::Broadcast(0) - *k;
  V r = MulAdd(minus_k, V::Broadcast(C::kLn2High), x);
  r = MulAdd(minus_k, V::Broadcast(C::kLn2Low), r);
  V series = V::Broadcast(C::kSeries[0]);
  for (int i = 1; i < C::kTerms; ++i) {
    series = MulAdd(series, r, V::Broadcast(C::kSeries[i]));
  }
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
  V k;
  const V expm1 = Expm1Reduced(argument, &k);
  return one / (one + Scale(one + expm1, k));
}

// tanh |x| = e / (e + 2) with e = exp(2|x|) - 1, accurate near zero because e
// is computed without cancellation.
template <typename V>
inline V Tanh(V x) {
  using C = ExpConstants<typename V::Element>;
  const V one = V::Broadcast(1);
  const V magnitude = Abs(x);
  V k;
  const V reduced = Expm1Reduced(
      Min(V::Broadcast(C::kTanhSaturation), magnitude + magnitude), &k);
  const V power = Scale(one, k);
  const V e = MulAdd(reduced, power, power - one);
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
