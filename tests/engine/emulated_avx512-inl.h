// In place of <immintrin.h>: what the kernels use of AVX-512, each vector as
// two of AVX2, so that machines with AVX2 alone can test what is written for
// it. Bazel's configuration "emulated_avx512" builds with it. Results are those
// of the instructions to the bit, denormals and other roundings included.
//
// In this namespace, types and functions hide the compiler's of the same names.
//
// Source: Intel, "Intel 64 and IA-32 Architectures Software Developer's
// Manual", volume 2, and "Intel Intrinsics Guide".
#ifndef TESTS_ENGINE_EMULATED_AVX512_INL_H_
#define TESTS_ENGINE_EMULATED_AVX512_INL_H_

#include <immintrin.h>
#include <stdint.h>

#include "kernels/engine/simd/unroll-inl.h"

// What assembler may take in place of a register.
#define RNN_VECTOR_OPERAND "+m"

namespace rnn {
namespace RNN_ISA {
namespace {

struct __m512 {
  __m256 low, high;
};
struct __m512d {
  __m256d low, high;
};
struct __m512i {
  __m256i low, high;
};
using __m512bh = __m512i;

// Instructions trap at addresses that are not aligned as they have to be.
inline void ExpectAligned(const void* p) {
  if (reinterpret_cast<uintptr_t>(p) % 64 != 0) __builtin_trap();
}

// All bits of the lanes whose bits in the mask are set.
struct LanesOfMask {
  RNN_ALWAYS_INLINE explicit LanesOfMask(__mmask16 mask)
      : low(Half(mask)), high(Half(mask >> 8)) {}
  RNN_ALWAYS_INLINE static __m256i Half(int mask) {
    const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(mask), bits),
                              bits);
  }
  __m256i low, high;
};
struct LongLanesOfMask {
  RNN_ALWAYS_INLINE explicit LongLanesOfMask(__mmask8 mask)
      : low(Half(mask)), high(Half(mask >> 4)) {}
  RNN_ALWAYS_INLINE static __m256i Half(int mask) {
    const __m256i bits = _mm256_setr_epi64x(1, 2, 4, 8);
    return _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(mask), bits),
                              bits);
  }
  __m256i low, high;
};

// ---- Each half by the same of AVX2 ------------------------------------------

#define RNN_HALVES_2(type, name)                                         \
  RNN_ALWAYS_INLINE inline type _mm512_##name(type a, type b) {          \
    return {_mm256_##name(a.low, b.low), _mm256_##name(a.high, b.high)}; \
  }
#define RNN_HALVES_OF_FLOATS(name) \
  RNN_HALVES_2(__m512, name##_ps)  \
  RNN_HALVES_2(__m512d, name##_pd)
RNN_HALVES_OF_FLOATS(add)
RNN_HALVES_OF_FLOATS(sub)
RNN_HALVES_OF_FLOATS(mul)
RNN_HALVES_OF_FLOATS(div)
RNN_HALVES_OF_FLOATS(min)
RNN_HALVES_OF_FLOATS(max)
RNN_HALVES_OF_FLOATS(and)
RNN_HALVES_OF_FLOATS(andnot)
RNN_HALVES_OF_FLOATS(or)
RNN_HALVES_OF_FLOATS(unpacklo)
RNN_HALVES_OF_FLOATS(unpackhi)
#undef RNN_HALVES_OF_FLOATS
#undef RNN_HALVES_2

#define RNN_CAST(result, operand, name, name_of_half)                     \
  RNN_ALWAYS_INLINE inline result _mm512_##name(operand a) {              \
    return {_mm256_##name_of_half(a.low), _mm256_##name_of_half(a.high)}; \
  }
RNN_CAST(__m512d, __m512, castps_pd, castps_pd)
RNN_CAST(__m512i, __m512, castps_si512, castps_si256)
RNN_CAST(__m512, __m512d, castpd_ps, castpd_ps)
RNN_CAST(__m512i, __m512d, castpd_si512, castpd_si256)
RNN_CAST(__m512, __m512i, castsi512_ps, castsi256_ps)
RNN_CAST(__m512d, __m512i, castsi512_pd, castsi256_pd)
#undef RNN_CAST

RNN_ALWAYS_INLINE inline __m512i _mm512_and_si512(__m512i a, __m512i b) {
  return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)};
}
RNN_ALWAYS_INLINE inline __m512i _mm512_or_si512(__m512i a, __m512i b) {
  return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
RNN_ALWAYS_INLINE inline __m512 _mm512_fmadd_ps(__m512 a, __m512 b, __m512 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low),
          _mm256_fmadd_ps(a.high, b.high, c.high)};
}
RNN_ALWAYS_INLINE inline __m512d _mm512_fmadd_pd(__m512d a, __m512d b,
                                                 __m512d c) {
  return {_mm256_fmadd_pd(a.low, b.low, c.low),
          _mm256_fmadd_pd(a.high, b.high, c.high)};
}
#undef _mm512_slli_epi32
RNN_ALWAYS_INLINE inline __m512i _mm512_slli_epi32(__m512i a, int count) {
  return {_mm256_slli_epi32(a.low, count), _mm256_slli_epi32(a.high, count)};
}
#undef _mm512_srli_epi32
RNN_ALWAYS_INLINE inline __m512i _mm512_srli_epi32(__m512i a, int count) {
  return {_mm256_srli_epi32(a.low, count), _mm256_srli_epi32(a.high, count)};
}
#undef _mm512_slli_epi64
RNN_ALWAYS_INLINE inline __m512i _mm512_slli_epi64(__m512i a, int count) {
  return {_mm256_slli_epi64(a.low, count), _mm256_slli_epi64(a.high, count)};
}

// ---- Constants, loads and stores --------------------------------------------

RNN_ALWAYS_INLINE inline __m512 _mm512_set1_ps(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
RNN_ALWAYS_INLINE inline __m512d _mm512_set1_pd(double x) {
  return {_mm256_set1_pd(x), _mm256_set1_pd(x)};
}
RNN_ALWAYS_INLINE inline __m512i _mm512_set1_epi32(int32_t x) {
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
RNN_ALWAYS_INLINE inline __m512 _mm512_setzero_ps() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
RNN_ALWAYS_INLINE inline __m512d _mm512_setzero_pd() {
  return {_mm256_setzero_pd(), _mm256_setzero_pd()};
}
RNN_ALWAYS_INLINE inline __m512 _mm512_abs_ps(__m512 a) {
  return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a);
}
RNN_ALWAYS_INLINE inline __m512d _mm512_abs_pd(__m512d a) {
  return _mm512_andnot_pd(_mm512_set1_pd(-0.0), a);
}

RNN_ALWAYS_INLINE inline __m512 _mm512_loadu_ps(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
RNN_ALWAYS_INLINE inline __m512d _mm512_loadu_pd(const double* p) {
  return {_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)};
}
RNN_ALWAYS_INLINE inline __m512i _mm512_loadu_si512(const void* p) {
  const __m256i_u* halves = static_cast<const __m256i_u*>(p);
  return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}
RNN_ALWAYS_INLINE inline __m512 _mm512_load_ps(const void* p) {
  ExpectAligned(p);
  return _mm512_loadu_ps(static_cast<const float*>(p));
}
RNN_ALWAYS_INLINE inline __m512i _mm512_load_si512(const void* p) {
  ExpectAligned(p);
  return _mm512_loadu_si512(p);
}
RNN_ALWAYS_INLINE inline __m512 _mm512_maskz_loadu_ps(__mmask16 mask,
                                                      const float* p) {
  const LanesOfMask lanes(mask);
  return {_mm256_maskload_ps(p, lanes.low),
          _mm256_maskload_ps(p + 8, lanes.high)};
}
RNN_ALWAYS_INLINE inline __m512d _mm512_maskz_loadu_pd(__mmask8 mask,
                                                       const double* p) {
  const LongLanesOfMask lanes(mask);
  return {_mm256_maskload_pd(p, lanes.low),
          _mm256_maskload_pd(p + 4, lanes.high)};
}
RNN_ALWAYS_INLINE inline __m512i _mm512_maskz_loadu_epi32(__mmask16 mask,
                                                          const void* p) {
  const int* values = static_cast<const int*>(p);
  const LanesOfMask lanes(mask);
  return {_mm256_maskload_epi32(values, lanes.low),
          _mm256_maskload_epi32(values + 8, lanes.high)};
}
// AVX2 has no masks of 16-bit lanes.
inline __m256i _mm256_maskz_loadu_epi16(__mmask16 mask, const void* p) {
  uint16_t lanes[16] = {};
  for (int i = 0; i < 16; ++i) {
    if (mask >> i & 1) {
      __builtin_memcpy(&lanes[i], static_cast<const uint16_t*>(p) + i, 2);
    }
  }
  return _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(lanes));
}

inline __m256i _mm256_maskz_loadu_epi8(__mmask32 mask, const void* p) {
  uint8_t lanes[32] = {};
  for (int i = 0; i < 32; ++i) {
    if (mask >> i & 1) lanes[i] = static_cast<const uint8_t*>(p)[i];
  }
  return _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(lanes));
}

RNN_ALWAYS_INLINE inline void _mm512_storeu_ps(float* p, __m512 a) {
  _mm256_storeu_ps(p, a.low);
  _mm256_storeu_ps(p + 8, a.high);
}
RNN_ALWAYS_INLINE inline void _mm512_storeu_pd(double* p, __m512d a) {
  _mm256_storeu_pd(p, a.low);
  _mm256_storeu_pd(p + 4, a.high);
}
RNN_ALWAYS_INLINE inline void _mm512_storeu_si512(void* p, __m512i a) {
  __m256i_u* halves = static_cast<__m256i_u*>(p);
  _mm256_storeu_si256(halves, a.low);
  _mm256_storeu_si256(halves + 1, a.high);
}
RNN_ALWAYS_INLINE inline void _mm512_store_ps(void* p, __m512 a) {
  ExpectAligned(p);
  _mm512_storeu_ps(static_cast<float*>(p), a);
}
RNN_ALWAYS_INLINE inline void _mm512_mask_storeu_ps(float* p, __mmask16 mask,
                                                    __m512 a) {
  const LanesOfMask lanes(mask);
  _mm256_maskstore_ps(p, lanes.low, a.low);
  _mm256_maskstore_ps(p + 8, lanes.high, a.high);
}
RNN_ALWAYS_INLINE inline void _mm512_mask_storeu_pd(double* p, __mmask8 mask,
                                                    __m512d a) {
  const LongLanesOfMask lanes(mask);
  _mm256_maskstore_pd(p, lanes.low, a.low);
  _mm256_maskstore_pd(p + 4, lanes.high, a.high);
}
RNN_ALWAYS_INLINE inline void _mm512_mask_storeu_epi32(void* p, __mmask16 mask,
                                                       __m512i a) {
  int* values = static_cast<int*>(p);
  const LanesOfMask lanes(mask);
  _mm256_maskstore_epi32(values, lanes.low, a.low);
  _mm256_maskstore_epi32(values + 8, lanes.high, a.high);
}
inline void _mm256_mask_storeu_epi16(void* p, __mmask16 mask, __m256i a) {
  uint16_t lanes[16];
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(lanes), a);
  for (int i = 0; i < 16; ++i) {
    if (mask >> i & 1) {
      __builtin_memcpy(static_cast<uint16_t*>(p) + i, &lanes[i], 2);
    }
  }
}

// ---- Lanes by mask ----------------------------------------------------------

RNN_ALWAYS_INLINE inline __m512 _mm512_mask_mov_ps(__m512 otherwise,
                                                   __mmask16 mask, __m512 a) {
  const LanesOfMask lanes(mask);
  return {
      _mm256_blendv_ps(otherwise.low, a.low, _mm256_castsi256_ps(lanes.low)),
      _mm256_blendv_ps(otherwise.high, a.high,
                       _mm256_castsi256_ps(lanes.high))};
}
RNN_ALWAYS_INLINE inline __m512 _mm512_maskz_mov_ps(__mmask16 mask, __m512 a) {
  return _mm512_mask_mov_ps(_mm512_setzero_ps(), mask, a);
}
RNN_ALWAYS_INLINE inline __m512d _mm512_maskz_mov_pd(__mmask8 mask, __m512d a) {
  const LongLanesOfMask lanes(mask);
  return {_mm256_and_pd(_mm256_castsi256_pd(lanes.low), a.low),
          _mm256_and_pd(_mm256_castsi256_pd(lanes.high), a.high)};
}
RNN_ALWAYS_INLINE inline __m512 _mm512_mask_blend_ps(__mmask16 mask, __m512 a,
                                                     __m512 b) {
  return _mm512_mask_mov_ps(a, mask, b);
}
RNN_ALWAYS_INLINE inline __m512 _mm512_mask_sub_ps(__m512 otherwise,
                                                   __mmask16 mask, __m512 a,
                                                   __m512 b) {
  return _mm512_mask_mov_ps(otherwise, mask, _mm512_sub_ps(a, b));
}
RNN_ALWAYS_INLINE inline __m512 _mm512_maskz_sub_ps(__mmask16 mask, __m512 a,
                                                    __m512 b) {
  return _mm512_maskz_mov_ps(mask, _mm512_sub_ps(a, b));
}

template <int kPredicate>
RNN_ALWAYS_INLINE inline __mmask16 CompareFloats(__m512 a, __m512 b) {
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(a.low, b.low, kPredicate));
  const int high =
      _mm256_movemask_ps(_mm256_cmp_ps(a.high, b.high, kPredicate));
  return static_cast<__mmask16>(high << 8 | low);
}
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask(a, b, predicate) CompareFloats<predicate>(a, b)

template <int kPredicate>
RNN_ALWAYS_INLINE inline __mmask8 CompareDoubles(__m512d a, __m512d b) {
  const int low = _mm256_movemask_pd(_mm256_cmp_pd(a.low, b.low, kPredicate));
  const int high =
      _mm256_movemask_pd(_mm256_cmp_pd(a.high, b.high, kPredicate));
  return static_cast<__mmask8>(high << 4 | low);
}
#undef _mm512_cmp_pd_mask
#define _mm512_cmp_pd_mask(a, b, predicate) CompareDoubles<predicate>(a, b)

// Of the classes, these: any NaN, or any NaN and any infinity.
template <int kClasses>
RNN_ALWAYS_INLINE inline __mmask16 ClassOfFloats(__m512 a) {
  static_assert(kClasses == 0x81 || kClasses == 0x99);
  const auto half = [](__m256 x) RNN_ALWAYS_INLINE {
    const __m256i magnitude =
        _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
    return _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(
        magnitude,
        _mm256_set1_epi32(kClasses == 0x81 ? 0x7f800000 : 0x7f7fffff))));
  };
  return static_cast<__mmask16>(half(a.high) << 8 | half(a.low));
}
#undef _mm512_fpclass_ps_mask
#define _mm512_fpclass_ps_mask(a, classes) ClassOfFloats<classes>(a)

// ---- Lanes from elsewhere ---------------------------------------------------

template <int kChoice>
RNN_ALWAYS_INLINE inline __m512 ShuffleFloats(__m512 a, __m512 b) {
  return {_mm256_shuffle_ps(a.low, b.low, kChoice),
          _mm256_shuffle_ps(a.high, b.high, kChoice)};
}
#undef _mm512_shuffle_ps
#define _mm512_shuffle_ps(a, b, choice) ShuffleFloats<choice>(a, b)

// Two 128-bit parts of `a`, each named by two bits.
template <int kLowPart, int kHighPart>
RNN_ALWAYS_INLINE inline __m256d PartsOf(__m512d a) {
  constexpr int kParts = kLowPart % 2 | (2 + kHighPart % 2) << 4;
  return _mm256_permute2f128_pd(kLowPart < 2 ? a.low : a.high,
                                kHighPart < 2 ? a.low : a.high, kParts);
}
template <int kChoice>
RNN_ALWAYS_INLINE inline __m512d ShuffleParts(__m512d a, __m512d b) {
  return {PartsOf<(kChoice & 3), (kChoice >> 2 & 3)>(a),
          PartsOf<(kChoice >> 4 & 3), (kChoice >> 6 & 3)>(b)};
}
#undef _mm512_shuffle_f64x2
#define _mm512_shuffle_f64x2(a, b, choice) ShuffleParts<choice>(a, b)
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4(a, b, choice) \
  _mm512_castpd_ps(                        \
      ShuffleParts<choice>(_mm512_castps_pd(a), _mm512_castps_pd(b)))

// Of 32 floats in `a` and `b`, those that the low five bits name.
RNN_ALWAYS_INLINE inline __m512 _mm512_permutex2var_ps(__m512 a, __m512i lanes,
                                                       __m512 b) {
  const auto half = [&](__m256i lane) RNN_ALWAYS_INLINE {
    const __m256 bit3 = _mm256_castsi256_ps(_mm256_slli_epi32(lane, 28));
    const __m256 bit4 = _mm256_castsi256_ps(_mm256_slli_epi32(lane, 27));
    const auto of = [&](__m512 x) RNN_ALWAYS_INLINE {
      return _mm256_blendv_ps(_mm256_permutevar8x32_ps(x.low, lane),
                              _mm256_permutevar8x32_ps(x.high, lane), bit3);
    };
    return _mm256_blendv_ps(of(a), of(b), bit4);
  };
  return {half(lanes.low), half(lanes.high)};
}

RNN_ALWAYS_INLINE inline __m512i _mm512_cvtepu16_epi32(__m256i a) {
  return {_mm256_cvtepu16_epi32(_mm256_castsi256_si128(a)),
          _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1))};
}

// ---- Integers ---------------------------------------------------------------

RNN_ALWAYS_INLINE inline __m512i _mm512_cvtepi8_epi16(__m256i a) {
  return {_mm256_cvtepi8_epi16(_mm256_castsi256_si128(a)),
          _mm256_cvtepi8_epi16(_mm256_extracti128_si256(a, 1))};
}
RNN_ALWAYS_INLINE inline __m512i _mm512_add_epi32(__m512i a, __m512i b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
RNN_ALWAYS_INLINE inline __m512i _mm512_madd_epi16(__m512i a, __m512i b) {
  return {_mm256_madd_epi16(a.low, b.low), _mm256_madd_epi16(a.high, b.high)};
}
RNN_ALWAYS_INLINE inline __m256i _mm512_castsi512_si256(__m512i a) {
  return a.low;
}
#undef _mm512_extracti64x4_epi64
#define _mm512_extracti64x4_epi64(a, half) ((half) == 0 ? (a).low : (a).high)

// ---- bfloat16 ---------------------------------------------------------------

// To nearest even, denormals to zeros.
RNN_ALWAYS_INLINE inline __m256i _mm512_cvtneps_pbh(__m512 a) {
  const auto half = [](__m256 x) RNN_ALWAYS_INLINE {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i magnitude =
        _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    const __m256i upper = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(bits,
                         _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))),
        16);
    const __m256i is_nan =
        _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    const __m256i is_small =
        _mm256_cmpgt_epi32(_mm256_set1_epi32(0x00800000), magnitude);
    const __m256i number = _mm256_blendv_epi8(
        rounded, _mm256_and_si256(upper, _mm256_set1_epi32(0x8000)), is_small);
    return _mm256_blendv_epi8(
        number, _mm256_or_si256(upper, _mm256_set1_epi32(0x40)), is_nan);
  };
  return _mm256_permute4x64_epi64(
      _mm256_packus_epi32(half(a.low), half(a.high)), 0xd8);
}

// Sums and products of pairs: first the upper ones, then the lower ones. Each
// multiply-add rounds once, to nearest even, and denormals are zeros, whatever
// the floating-point environment says.
RNN_ALWAYS_INLINE inline __m512 _mm512_dpbf16_ps(__m512 sums, __m512bh a,
                                                 __m512bh b) {
  const auto upper = [](__m512bh pairs) RNN_ALWAYS_INLINE {
    return _mm512_and_si512(pairs, _mm512_set1_epi32(-0x10000));
  };
  const __m512i a0 = _mm512_slli_epi32(a, 16), a1 = upper(a);
  const __m512i b0 = _mm512_slli_epi32(b, 16), b1 = upper(b);
  static constexpr unsigned kZeroDenormalsAndRoundToNearest = 0x9fc0;
  unsigned control;
  // In one piece: nothing else is computed in this environment.
  asm("vstmxcsr %[control]\n\t"
      "vldmxcsr %[own]\n\t"
      "vfmadd231ps %[a1l], %[b1l], %[low]\n\t"
      "vfmadd231ps %[a1h], %[b1h], %[high]\n\t"
      "vfmadd231ps %[a0l], %[b0l], %[low]\n\t"
      "vfmadd231ps %[a0h], %[b0h], %[high]\n\t"
      "vldmxcsr %[control]"
      : [low] "+&x"(sums.low), [high] "+&x"(sums.high), [control] "=&m"(control)
      : [a0l] "x"(a0.low), [a0h] "x"(a0.high), [a1l] "x"(a1.low),
        [a1h] "x"(a1.high), [b0l] "x"(b0.low), [b0h] "x"(b0.high),
        [b1l] "x"(b1.low), [b1h] "x"(b1.high),
        [own] "m"(kZeroDenormalsAndRoundToNearest));
  return sums;
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // TESTS_ENGINE_EMULATED_AVX512_INL_H_
