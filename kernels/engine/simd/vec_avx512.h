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

#include <stdint.h>

#include "kernels/engine/simd/unroll-inl.h"
#ifdef RNN_EMULATED_AVX512  // the header that emulates its intrinsics
#include RNN_EMULATED_AVX512
#else
#include <immintrin.h>
#define RNN_VECTOR_OPERAND "+v"
#endif

namespace rnn {
namespace RNN_ISA {
namespace {

// 32 registers: 6 x 4 accumulators and 4 vectors of B, or 9 x 3 and 3, and one
// for broadcasts.
constexpr int kTileVectors = 4;
constexpr int TileRows(int vectors) { return vectors == 3 ? 9 : 6; }
constexpr int TileSteps(int /*rows*/, int /*vectors*/) { return 1; }

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
// 2^k, respectively infinity, from ExpConstants<F>::kRound + k: what that sum's
// lowest bits hold is the power's biased exponent.
inline Vec<float> PowerOfTwo(Vec<float> rounded) {
  return {_mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_castps_si512(rounded.v), 23))};
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
inline void Pin(Vec<float>& a) { asm volatile("" : RNN_VECTOR_OPERAND(a.v)); }

// Lane j of row i becomes lane i of row j.
RNN_ALWAYS_INLINE inline void Transpose(Vec<float> (&rows)[16]) {
  __m512 pairs[16], quads[16];
  Unroll<8>([&](auto pair) RNN_ALWAYS_INLINE {
    constexpr int i = 2 * pair.value;
    pairs[i] = _mm512_unpacklo_ps(rows[i].v, rows[i + 1].v);
    pairs[i + 1] = _mm512_unpackhi_ps(rows[i].v, rows[i + 1].v);
  });
  // quads[4 g + c], 128-bit quarter p: column 4 p + c of rows 4 g .. 4 g + 3.
  Unroll<8>([&](auto half) RNN_ALWAYS_INLINE {
    constexpr int i = half.value / 2 * 4, j = half.value % 2;
    const __m512d low = _mm512_castps_pd(pairs[i + j]);
    const __m512d high = _mm512_castps_pd(pairs[i + j + 2]);
    quads[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
    quads[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
  });
  Unroll<4>([&](auto column) RNN_ALWAYS_INLINE {
    constexpr int c = column.value;
    const __m512 even_low = _mm512_shuffle_f32x4(quads[c], quads[4 + c], 0x88);
    const __m512 odd_low = _mm512_shuffle_f32x4(quads[c], quads[4 + c], 0xdd);
    const __m512 even_high =
        _mm512_shuffle_f32x4(quads[8 + c], quads[12 + c], 0x88);
    const __m512 odd_high =
        _mm512_shuffle_f32x4(quads[8 + c], quads[12 + c], 0xdd);
    rows[c].v = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
    rows[8 + c].v = _mm512_shuffle_f32x4(even_low, even_high, 0xdd);
    rows[4 + c].v = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
    rows[12 + c].v = _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd);
  });
}

// Lane j: the sum of vectors[j]'s lanes, neighbours first, then pairs of these.
RNN_ALWAYS_INLINE inline Vec<float> SumLanes(const Vec<float> (&vectors)[16]) {
  // 128-bit quarter p of quads[q]: quarters p of vectors 4 q .. 4 q + 3, added
  // up.
  __m512 quads[4];
  Unroll<4>([&](auto quad) RNN_ALWAYS_INLINE {
    constexpr int i = 4 * quad.value;
    const __m512 a = vectors[i].v, b = vectors[i + 1].v;
    const __m512 c = vectors[i + 2].v, d = vectors[i + 3].v;
    const __m512 ab = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88),
                                    _mm512_shuffle_ps(a, b, 0xdd));
    const __m512 cd = _mm512_add_ps(_mm512_shuffle_ps(c, d, 0x88),
                                    _mm512_shuffle_ps(c, d, 0xdd));
    quads[quad.value] = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x88),
                                      _mm512_shuffle_ps(ab, cd, 0xdd));
  });
  const auto add_quarters = [](__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88),
                         _mm512_shuffle_f32x4(a, b, 0xdd));
  };
  return {add_quarters(add_quarters(quads[0], quads[1]),
                       add_quarters(quads[2], quads[3]))};
}

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
inline Vec<double> PowerOfTwo(Vec<double> rounded) {
  return {_mm512_castsi512_pd(
      _mm512_slli_epi64(_mm512_castpd_si512(rounded.v), 52))};
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
inline void Pin(Vec<double>& a) { asm volatile("" : RNN_VECTOR_OPERAND(a.v)); }

RNN_ALWAYS_INLINE inline void Transpose(Vec<double> (&rows)[8]) {
  __m512d pairs[8];
  Unroll<4>([&](auto pair) RNN_ALWAYS_INLINE {
    constexpr int i = 2 * pair.value;
    pairs[i] = _mm512_unpacklo_pd(rows[i].v, rows[i + 1].v);
    pairs[i + 1] = _mm512_unpackhi_pd(rows[i].v, rows[i + 1].v);
  });
  // pairs[2 g + c], 128-bit quarter p: column 2 p + c of rows 2 g, 2 g + 1.
  Unroll<2>([&](auto column) RNN_ALWAYS_INLINE {
    constexpr int c = column.value;
    const __m512d even_low = _mm512_shuffle_f64x2(pairs[c], pairs[2 + c], 0x88);
    const __m512d odd_low = _mm512_shuffle_f64x2(pairs[c], pairs[2 + c], 0xdd);
    const __m512d even_high =
        _mm512_shuffle_f64x2(pairs[4 + c], pairs[6 + c], 0x88);
    const __m512d odd_high =
        _mm512_shuffle_f64x2(pairs[4 + c], pairs[6 + c], 0xdd);
    rows[c].v = _mm512_shuffle_f64x2(even_low, even_high, 0x88);
    rows[4 + c].v = _mm512_shuffle_f64x2(even_low, even_high, 0xdd);
    rows[2 + c].v = _mm512_shuffle_f64x2(odd_low, odd_high, 0x88);
    rows[6 + c].v = _mm512_shuffle_f64x2(odd_low, odd_high, 0xdd);
  });
}

RNN_ALWAYS_INLINE inline Vec<double> SumLanes(const Vec<double> (&vectors)[8]) {
  // 128-bit quarter p of pairs[q]: quarters p of vectors 2 q and 2 q + 1, added
  // up.
  __m512d pairs[4];
  Unroll<4>([&](auto pair) RNN_ALWAYS_INLINE {
    constexpr int i = 2 * pair.value;
    const __m512d a = vectors[i].v, b = vectors[i + 1].v;
    pairs[pair.value] =
        _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
  });
  const auto add_quarters = [](__m512d a, __m512d b) {
    return _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x88),
                         _mm512_shuffle_f64x2(a, b, 0xdd));
  };
  return {add_quarters(add_quarters(pairs[0], pairs[1]),
                       add_quarters(pairs[2], pairs[3]))};
}

// Sums of products of 16-bit integers, and of 8-bit ones that are widened:
// exact, as long as they have room.
constexpr int kIntegerSums = 16;  // that the registers have room for

struct IntegerSums {
  static constexpr int kDepth = 32;
#if defined(__AVX512VNNI__)
  static constexpr bool kKeepsUp = true;
#else
  static constexpr bool kKeepsUp = false;
#endif
  using Wide = __m512i;
  __m512i v;

  static IntegerSums Zero() { return {_mm512_set1_epi32(0)}; }
  static Wide Load(const int16_t* p) { return _mm512_loadu_si512(p); }
  static Wide Load(const int8_t* p) {
    return _mm512_cvtepi8_epi16(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Wide Load(const int8_t* p, int64_t count) {
    return _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(
        static_cast<__mmask32>((uint32_t{1} << count) - 1), p));
  }
  void MulAdd(Wide a, Wide b) {
#if defined(__AVX512VNNI__)
    v = _mm512_dpwssd_epi32(v, a, b);
#else
    v = _mm512_add_epi32(v, _mm512_madd_epi16(a, b));
#endif
  }
  // totals[i] = the sum of all lanes of sums[i].
  static void SumLanes(const IntegerSums* sums, int32_t* totals) {
    const auto halves = [](IntegerSums s) RNN_ALWAYS_INLINE {
      return _mm256_add_epi32(_mm512_castsi512_si256(s.v),
                              _mm512_extracti64x4_epi64(s.v, 1));
    };
    const __m256i pairs =
        _mm256_hadd_epi32(_mm256_hadd_epi32(halves(sums[0]), halves(sums[1])),
                          _mm256_hadd_epi32(halves(sums[2]), halves(sums[3])));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(totals),
                     _mm_add_epi32(_mm256_castsi256_si128(pairs),
                                   _mm256_extracti128_si256(pairs, 1)));
  }
};

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_VEC_AVX512_H_
