// Vectors of AVX2 with FMA: 8 floats or 4 doubles, tails by mask.
// See vec_avx512.h for the contract of Min and Max.
#ifndef KERNELS_ENGINE_SIMD_VEC_AVX2_H_
#define KERNELS_ENGINE_SIMD_VEC_AVX2_H_

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "kernels/engine/simd/unroll-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// 16 registers: 6 x 2 or 4 x 3 accumulators, the vectors of B, a broadcast.
constexpr int kTileVectors = 2;
constexpr int TileRows(int vectors) { return vectors <= 2 ? 6 : 4; }

// Steps of depth in one turn of a tile's loop. What the loop itself needs is
// then paid once for all of them: where another thread uses the same core, the
// core is short of instructions, not of multiply-adds. A tile that takes all
// registers has none for the values of the next step.
constexpr int TileSteps(int rows, int vectors) {
  return rows * vectors + vectors + 1 < 16 ? 4 : 1;
}

template <typename F>
struct Vec;

template <>
struct Vec<float> {
  using Element = float;
  static constexpr int kLanes = 8;
  __m256 v;

  static Vec Broadcast(float x) { return {_mm256_set1_ps(x)}; }
  static Vec Load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Vec Load(const float* p, int64_t count) {
    return {_mm256_maskload_ps(p, Mask(count))};
  }
  void Store(float* p) const { _mm256_storeu_ps(p, v); }
  void Store(float* p, int64_t count) const {
    _mm256_maskstore_ps(p, Mask(count), v);
  }

 private:
  static __m256i Mask(int64_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

inline Vec<float> operator+(Vec<float> a, Vec<float> b) {
  return {_mm256_add_ps(a.v, b.v)};
}
inline Vec<float> operator-(Vec<float> a, Vec<float> b) {
  return {_mm256_sub_ps(a.v, b.v)};
}
inline Vec<float> operator*(Vec<float> a, Vec<float> b) {
  return {_mm256_mul_ps(a.v, b.v)};
}
inline Vec<float> operator/(Vec<float> a, Vec<float> b) {
  return {_mm256_div_ps(a.v, b.v)};
}
inline Vec<float> MulAdd(Vec<float> a, Vec<float> b, Vec<float> c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
inline Vec<float> Min(Vec<float> a, Vec<float> b) {
  return {_mm256_min_ps(a.v, b.v)};
}
inline Vec<float> Max(Vec<float> a, Vec<float> b) {
  return {_mm256_max_ps(a.v, b.v)};
}
inline Vec<float> PowerOfTwo(Vec<float> rounded) {
  return {_mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_castps_si256(rounded.v), 23))};
}
inline Vec<float> Abs(Vec<float> a) {
  return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)};
}
inline Vec<float> CopySign(Vec<float> magnitude, Vec<float> sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(_mm256_andnot_ps(bit, magnitude.v),
                       _mm256_and_ps(bit, sign.v))};
}
inline Vec<float> WherePositive(Vec<float> condition, Vec<float> value) {
  return {_mm256_and_ps(
      _mm256_cmp_ps(condition.v, _mm256_setzero_ps(), _CMP_GT_OQ), value.v)};
}
inline void Pin(Vec<float>& a) { asm volatile("" : "+x"(a.v)); }
// As an instruction that leaves the sum where it is: in long loops GCC moves
// sums from register to register, and some of them to memory.
inline void AccumulateProduct(Vec<float> a, Vec<float> b, Vec<float>& sum) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum.v) : "x"(a.v), "x"(b.v));
}

// Lane j of row i becomes lane i of row j.
RNN_ALWAYS_INLINE inline void Transpose(Vec<float> (&rows)[8]) {
  __m256 pairs[8];
  Unroll<4>([&](auto pair) RNN_ALWAYS_INLINE {
    constexpr int i = 2 * pair.value;
    pairs[i] = _mm256_unpacklo_ps(rows[i].v, rows[i + 1].v);
    pairs[i + 1] = _mm256_unpackhi_ps(rows[i].v, rows[i + 1].v);
  });
  // quads[4 g + c], 128-bit half p: column 4 p + c of rows 4 g .. 4 g + 3.
  __m256 quads[8];
  Unroll<4>([&](auto half) RNN_ALWAYS_INLINE {
    constexpr int i = half.value / 2 * 4, j = half.value % 2;
    const __m256d low = _mm256_castps_pd(pairs[i + j]);
    const __m256d high = _mm256_castps_pd(pairs[i + j + 2]);
    quads[i + 2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
    quads[i + 2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
  });
  Unroll<4>([&](auto column) RNN_ALWAYS_INLINE {
    constexpr int c = column.value;
    rows[c].v = _mm256_permute2f128_ps(quads[c], quads[4 + c], 0x20);
    rows[4 + c].v = _mm256_permute2f128_ps(quads[c], quads[4 + c], 0x31);
  });
}

// Lane j: the sum of vectors[j]'s lanes, neighbours first, then pairs of these.
RNN_ALWAYS_INLINE inline Vec<float> SumLanes(const Vec<float> (&vectors)[8]) {
  // Half p of quads[q]: halves p of vectors 4 q .. 4 q + 3, added up.
  __m256 quads[2];
  Unroll<2>([&](auto quad) RNN_ALWAYS_INLINE {
    constexpr int i = 4 * quad.value;
    quads[quad.value] =
        _mm256_hadd_ps(_mm256_hadd_ps(vectors[i].v, vectors[i + 1].v),
                       _mm256_hadd_ps(vectors[i + 2].v, vectors[i + 3].v));
  });
  return {_mm256_add_ps(_mm256_permute2f128_ps(quads[0], quads[1], 0x20),
                        _mm256_permute2f128_ps(quads[0], quads[1], 0x31))};
}

template <>
struct Vec<double> {
  using Element = double;
  static constexpr int kLanes = 4;
  __m256d v;

  static Vec Broadcast(double x) { return {_mm256_set1_pd(x)}; }
  static Vec Load(const double* p) { return {_mm256_loadu_pd(p)}; }
  static Vec Load(const double* p, int64_t count) {
    return {_mm256_maskload_pd(p, Mask(count))};
  }
  void Store(double* p) const { _mm256_storeu_pd(p, v); }
  void Store(double* p, int64_t count) const {
    _mm256_maskstore_pd(p, Mask(count), v);
  }

 private:
  static __m256i Mask(int64_t count) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count),
                              _mm256_setr_epi64x(0, 1, 2, 3));
  }
};

inline Vec<double> operator+(Vec<double> a, Vec<double> b) {
  return {_mm256_add_pd(a.v, b.v)};
}
inline Vec<double> operator-(Vec<double> a, Vec<double> b) {
  return {_mm256_sub_pd(a.v, b.v)};
}
inline Vec<double> operator*(Vec<double> a, Vec<double> b) {
  return {_mm256_mul_pd(a.v, b.v)};
}
inline Vec<double> operator/(Vec<double> a, Vec<double> b) {
  return {_mm256_div_pd(a.v, b.v)};
}
inline Vec<double> MulAdd(Vec<double> a, Vec<double> b, Vec<double> c) {
  return {_mm256_fmadd_pd(a.v, b.v, c.v)};
}
inline Vec<double> Min(Vec<double> a, Vec<double> b) {
  return {_mm256_min_pd(a.v, b.v)};
}
inline Vec<double> Max(Vec<double> a, Vec<double> b) {
  return {_mm256_max_pd(a.v, b.v)};
}
inline Vec<double> PowerOfTwo(Vec<double> rounded) {
  return {_mm256_castsi256_pd(
      _mm256_slli_epi64(_mm256_castpd_si256(rounded.v), 52))};
}
inline Vec<double> Abs(Vec<double> a) {
  return {_mm256_andnot_pd(_mm256_set1_pd(-0.0), a.v)};
}
inline Vec<double> CopySign(Vec<double> magnitude, Vec<double> sign) {
  const __m256d bit = _mm256_set1_pd(-0.0);
  return {_mm256_or_pd(_mm256_andnot_pd(bit, magnitude.v),
                       _mm256_and_pd(bit, sign.v))};
}
inline Vec<double> WherePositive(Vec<double> condition, Vec<double> value) {
  return {_mm256_and_pd(
      _mm256_cmp_pd(condition.v, _mm256_setzero_pd(), _CMP_GT_OQ), value.v)};
}
inline void Pin(Vec<double>& a) { asm volatile("" : "+x"(a.v)); }
inline void AccumulateProduct(Vec<double> a, Vec<double> b, Vec<double>& sum) {
  asm("vfmadd231pd %2, %1, %0" : "+x"(sum.v) : "x"(a.v), "x"(b.v));
}

RNN_ALWAYS_INLINE inline void Transpose(Vec<double> (&rows)[4]) {
  __m256d pairs[4];
  Unroll<2>([&](auto pair) RNN_ALWAYS_INLINE {
    constexpr int i = 2 * pair.value;
    pairs[i] = _mm256_unpacklo_pd(rows[i].v, rows[i + 1].v);
    pairs[i + 1] = _mm256_unpackhi_pd(rows[i].v, rows[i + 1].v);
  });
  Unroll<2>([&](auto column) RNN_ALWAYS_INLINE {
    constexpr int c = column.value;
    rows[c].v = _mm256_permute2f128_pd(pairs[c], pairs[2 + c], 0x20);
    rows[2 + c].v = _mm256_permute2f128_pd(pairs[c], pairs[2 + c], 0x31);
  });
}

RNN_ALWAYS_INLINE inline Vec<double> SumLanes(const Vec<double> (&vectors)[4]) {
  // Half p: halves p of two vectors, added up.
  const __m256d low = _mm256_hadd_pd(vectors[0].v, vectors[1].v);
  const __m256d high = _mm256_hadd_pd(vectors[2].v, vectors[3].v);
  return {_mm256_add_pd(_mm256_permute2f128_pd(low, high, 0x20),
                        _mm256_permute2f128_pd(low, high, 0x31))};
}

// Sums of products of 16-bit integers, and of 8-bit ones that are widened:
// exact, as long as they have room.
constexpr int kIntegerSums = 12;  // that the registers have room for

struct IntegerSums {
  static constexpr int kDepth = 16;
  static constexpr bool kKeepsUp = false;
  using Wide = __m256i;
  __m256i v;

  static IntegerSums Zero() { return {_mm256_setzero_si256()}; }
  static Wide Load(const int16_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Wide Load(const int8_t* p) {
    return _mm256_cvtepi8_epi16(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static Wide Load(const int8_t* p, int64_t count) {
    int8_t values[kDepth] = {};
    memcpy(values, p, count);
    return Load(values);
  }
  // As AccumulateProduct() of floats.
  void MulAdd(Wide a, Wide b) {
    asm("vpaddd %1, %0, %0" : "+x"(v) : "x"(_mm256_madd_epi16(a, b)));
  }
  // totals[i] = the sum of all lanes of sums[i].
  static void SumLanes(const IntegerSums* sums, int32_t* totals) {
    const __m256i pairs =
        _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0].v, sums[1].v),
                          _mm256_hadd_epi32(sums[2].v, sums[3].v));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(totals),
                     _mm_add_epi32(_mm256_castsi256_si128(pairs),
                                   _mm256_extracti128_si256(pairs, 1)));
  }
};

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_VEC_AVX2_H_
