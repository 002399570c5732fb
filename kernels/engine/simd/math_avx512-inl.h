// Activations of 16 floats from tables that two registers hold: no exponential
// and no division. The table in math-inl.h holds for them, too.
#ifndef KERNELS_ENGINE_SIMD_MATH_AVX512_INL_H_
#define KERNELS_ENGINE_SIMD_MATH_AVX512_INL_H_

#include "kernels/engine/simd/activation_tables.h"
#include "kernels/engine/simd/math-inl.h"
#include "kernels/engine/simd/vec_avx512.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// Lane j: table[the low five bits of lane j of `piece`].
RNN_ALWAYS_INLINE inline Vec<float> LookUp(
    const float (&table)[kActivationPieces], __m512i piece) {
  static_assert(kActivationPieces == 32);
  return {_mm512_permutex2var_ps(_mm512_load_ps(table), piece,
                                 _mm512_load_ps(table + 16))};
}

// The polynomial of each lane's piece at `x`, its distance to the center.
template <int kCoefficients>
RNN_ALWAYS_INLINE inline Vec<float> PiecewisePolynomial(
    const float (&table)[kCoefficients][kActivationPieces], __m512i piece,
    Vec<float> x) {
  Vec<float> value = LookUp(table[kCoefficients - 1], piece);
  Unroll<kCoefficients - 1>([&](auto i) RNN_ALWAYS_INLINE {
    value = MulAdd(value, x, LookUp(table[kCoefficients - 2 - i.value], piece));
  });
  return value;
}

// sigmoid(x) = 1 - sigmoid(-x), and the smaller one from the table, so that
// both are accurate. Beyond it, where cells rarely are, by the exponential:
// lane by lane, for a row must not depend on its neighbours.
inline Vec<float> Sigmoid(Vec<float> x) {
  constexpr float kEnd = (kActivationPieces - 1) / 2.0f + 0.25f;
  // Large enough that its last place is 1/2: adding it rounds to a center.
  const Vec<float> round = Vec<float>::Broadcast(0x1.8p22f);
  const Vec<float> magnitude = Abs(x);
  const Vec<float> near = Min(Vec<float>::Broadcast(kEnd), magnitude);
  const Vec<float> rounded = near + round;
  const Vec<float> small = PiecewisePolynomial(
      kSigmoidPieces, _mm512_castps_si512(rounded.v), near - (rounded - round));
  const __m512 zero = _mm512_setzero_ps();
  const Vec<float> value{
      _mm512_mask_sub_ps(small.v, _mm512_cmp_ps_mask(x.v, zero, _CMP_GT_OQ),
                         _mm512_set1_ps(1.0f), small.v)};
  const __mmask16 is_far =
      _mm512_cmp_ps_mask(magnitude.v, _mm512_set1_ps(kEnd), _CMP_GE_OQ);
  if (__builtin_expect(is_far != 0, 0)) {
    return {_mm512_mask_blend_ps(is_far, value.v, SigmoidByExp(x).v)};
  }
  return value;
}

inline Vec<float> Tanh(Vec<float> x) {
  // Their pieces hold the least and the greatest.
  constexpr float kFirst = 0x1p-4f, kLast = 15.0f;
  // The lowest bits of the exponent and the highest ones of the mantissa.
  constexpr int kPieceShift = 23 - 2;
  const Vec<float> magnitude = Min(Vec<float>::Broadcast(kLast), Abs(x));
  const __m512i piece = _mm512_srli_epi32(
      _mm512_castps_si512(Max(Vec<float>::Broadcast(kFirst), magnitude).v),
      kPieceShift);
  return CopySign(PiecewisePolynomial(kTanhPieces, piece,
                                      magnitude - LookUp(kTanhCenters, piece)),
                  x);
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_MATH_AVX512_INL_H_
