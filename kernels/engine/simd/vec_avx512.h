// Vectors of AVX-512: 16 floats or 8 doubles, tails by mask.
//
// Min and Max return their second argument if either is NaN, on every target:
// a limit comes first, and NaN flows through.
#ifndef KERNELS_ENGINE_SIMD_VEC_AVX512_H_
#define KERNELS_ENGINE_SIMD_VEC_AVX512_H_

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own intrinsics (its bug 105593): their "undefined"
// operand is a variable initialised with itself.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <immintrin.h>
#include <stdint.h>

namespace rnn {
namespace RNN_ISA {
namespace {

// 32 registers: 6 x 4 accumulators, 4 vectors of B, broadcasts from memory.
constexpr int kTileVectors = 4;
constexpr int TileRows(int /*vectors*/) { return 6; }

template <typename F>
struct Vec;

template <>
struct Vec<float> {
  using Element = float;
  static constexpr int kLanes = 16;
  __m512 v;

  static Vec Broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static Vec Load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec Load(const float* p, int64_t count) {
    return {_mm512_maskz_loadu_ps(Mask(count), p)};
  }
  void Store(float* p) const { _mm512_storeu_ps(p, v); }
  void Store(float* p, int64_t count) const {
    _mm512_mask_storeu_ps(p, Mask(count), v);
  }

 private:
  static __mmask16 Mask(int64_t count) {
    return static_cast<__mmask16>((1u << count) - 1);
  }
};

inline Vec<float> operator+(Vec<float> a, Vec<float> b) {
  return {_mm512_add_ps(a.v, b.v)};
}
inline Vec<float> operator-(Vec<float> a, Vec<float> b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
inline Vec<float> operator*(Vec<float> a, Vec<float> b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
inline Vec<float> operator/(Vec<float> a, Vec<float> b) {
  return {_mm512_div_ps(a.v, b.v)};
}
inline Vec<float> MulAdd(Vec<float> a, Vec<float> b, Vec<float> c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
inline Vec<float> Min(Vec<float> a, Vec<float> b) {
  return {_mm512_min_ps(a.v, b.v)};
}
inline Vec<float> Max(Vec<float> a, Vec<float> b) {
  return {_mm512_max_ps(a.v, b.v)};
}
inline Vec<float> Round(Vec<float> a) { return {_mm512_roundscale_ps(a.v, 0)}; }
// a * 2^k for an integral k.
inline Vec<float> Scale(Vec<float> a, Vec<float> k) {
  return {_mm512_scalef_ps(a.v, k.v)};
}
inline Vec<float> Abs(Vec<float> a) { return {_mm512_abs_ps(a.v)}; }
inline Vec<float> CopySign(Vec<float> magnitude, Vec<float> sign) {
  const __m512 bit = _mm512_set1_ps(-0.0f);
  return {_mm512_or_ps(_mm512_andnot_ps(bit, magnitude.v),
                       _mm512_and_ps(bit, sign.v))};
}
// `value` where `condition` > 0, else 0.
inline Vec<float> WherePositive(Vec<float> condition, Vec<float> value) {
  return {_mm512_maskz_mov_ps(
      _mm512_cmp_ps_mask(condition.v, _mm512_setzero_ps(), _CMP_GT_OQ),
      value.v)};
}
// Keeps the compiler from folding the load of `a` into each of its uses: GCC 12
// would load B once per row of a tile and make the loop load-bound.
inline void Pin(Vec<float>& a) { asm volatile("" : "+v"(a.v)); }

template <>
struct Vec<double> {
  using Element = double;
  static constexpr int kLanes = 8;
  __m512d v;

  static Vec Broadcast(double x) { return {_mm512_set1_pd(x)}; }
  static Vec Load(const double* p) { return {_mm512_loadu_pd(p)}; }
  static Vec Load(const double* p, int64_t count) {
    return {_mm512_maskz_loadu_pd(Mask(count), p)};
  }
  void Store(double* p) const { _mm512_storeu_pd(p, v); }
  void Store(double* p, int64_t count) const {
    _mm512_mask_storeu_pd(p, Mask(count), v);
  }

 private:
  static __mmask8 Mask(int64_t count) {
    return static_cast<__mmask8>((1u << count) - 1);
  }
};

inline Vec<double> operator+(Vec<double> a, Vec<double> b) {
  return {_mm512_add_pd(a.v, b.v)};
}
inline Vec<double> operator-(Vec<double> a, Vec<double> b) {
  return {_mm512_sub_pd(a.v, b.v)};
}
inline Vec<double> operator*(Vec<double> a, Vec<double> b) {
  return {_mm512_mul_pd(a.v, b.v)};
}
inline Vec<double> operator/(Vec<double> a, Vec<double> b) {
  return {_mm512_div_pd(a.v, b.v)};
}
inline Vec<double> MulAdd(Vec<double> a, Vec<double> b, Vec<double> c) {
  return {_mm512_fmadd_pd(a.v, b.v, c.v)};
}
inline Vec<double> Min(Vec<double> a, Vec<double> b) {
  return {_mm512_min_pd(a.v, b.v)};
}
inline Vec<double> Max(Vec<double> a, Vec<double> b) {
  return {_mm512_max_pd(a.v, b.v)};
}
inline Vec<double> Round(Vec<double> a) {
  return {_mm512_roundscale_pd(a.v, 0)};
}
inline Vec<double> Scale(Vec<double> a, Vec<double> k) {
  return {_mm512_scalef_pd(a.v, k.v)};
}
inline Vec<double> Abs(Vec<double> a) { return {_mm512_abs_pd(a.v)}; }
inline Vec<double> CopySign(Vec<double> magnitude, Vec<double> sign) {
  const __m512d bit = _mm512_set1_pd(-0.0);
  return {_mm512_or_pd(_mm512_andnot_pd(bit, magnitude.v),
                       _mm512_and_pd(bit, sign.v))};
}
inline Vec<double> WherePositive(Vec<double> condition, Vec<double> value) {
  return {_mm512_maskz_mov_pd(
      _mm512_cmp_pd_mask(condition.v, _mm512_setzero_pd(), _CMP_GT_OQ),
      value.v)};
}
inline void Pin(Vec<double>& a) { asm volatile("" : "+v"(a.v)); }

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_VEC_AVX512_H_
