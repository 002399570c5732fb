// Vectors of AVX-512, and 16 pairs of bfloat16 that are multiplied and added to
// 16 floats. These instructions read and write denormals as zeros.
#ifndef KERNELS_ENGINE_SIMD_VEC_AVX512_BF16_H_
#define KERNELS_ENGINE_SIMD_VEC_AVX512_BF16_H_

#include <string.h>

#include "kernels/engine/simd/vec_avx512.h"
#include "network/element_types.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// The first `count` of 16 lanes.
inline __mmask16 FirstLanes(int64_t count) {
  return static_cast<__mmask16>((1u << count) - 1);
}
inline __m256i LoadBits(const BFloat16* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline __m256i LoadBits(const BFloat16* p, int64_t count) {
  return _mm256_maskz_loadu_epi16(FirstLanes(count), p);
}

template <>
struct Vec<BFloat16> {
  using Element = BFloat16;
  static constexpr int kLanes = 16;  // pairs
  __m512i v;

  static Vec BroadcastPair(const BFloat16* p) {
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return {_mm512_set1_epi32(pair)};
  }
  static Vec Load(const BFloat16* p) { return {_mm512_loadu_si512(p)}; }
  static Vec Load(const BFloat16* p, int64_t count) {
    return {_mm512_maskz_loadu_epi32(FirstLanes(count), p)};
  }
  void Store(BFloat16* p) const { _mm512_storeu_si512(p, v); }
  void Store(BFloat16* p, int64_t count) const {
    _mm512_mask_storeu_epi32(p, FirstLanes(count), v);
  }

  static Vec Interleave(__m256i first, __m256i second) {
    return {Joined(first, second)};
  }
  static Vec Interleave(const BFloat16* first, const BFloat16* second) {
    return Interleave(LoadBits(first), LoadBits(second));
  }
  // Pairs of a value of `first` and one of `second`, each of which may be
  // nullptr: zeros.
  static Vec Interleave(const BFloat16* first, const BFloat16* second,
                        int64_t count) {
    const auto load = [&](const BFloat16* p) {
      return LoadBits(p, p == nullptr ? 0 : count < kLanes ? count : kLanes);
    };
    return {Joined(load(first), load(second))};
  }

 private:
  static __m512i Joined(__m256i first, __m256i second) {
    return _mm512_or_si512(
        _mm512_cvtepu16_epi32(first),
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
  }
};

inline Vec<float> MulAdd(Vec<BFloat16> a, Vec<BFloat16> b, Vec<float> c) {
  return {_mm512_dpbf16_ps(c.v, (__m512bh)a.v, (__m512bh)b.v)};
}
inline void Pin(Vec<BFloat16>& a) {
  asm volatile("" : RNN_VECTOR_OPERAND(a.v));
}

RNN_ALWAYS_INLINE inline void Transpose(Vec<BFloat16> (&rows)[16]) {
  Vec<float> lanes[16];
  Unroll<16>([&](auto i) RNN_ALWAYS_INLINE {
    lanes[i.value].v = _mm512_castsi512_ps(rows[i.value].v);
  });
  Transpose(lanes);
  Unroll<16>([&](auto i) RNN_ALWAYS_INLINE {
    rows[i.value].v = _mm512_castps_si512(lanes[i.value].v);
  });
}

inline Vec<float> WidenBits(__m256i bits) {
  return {
      _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
inline Vec<float> Widen(const BFloat16* p) { return WidenBits(LoadBits(p)); }
inline Vec<float> Widen(const BFloat16* p, int64_t count) {
  return WidenBits(LoadBits(p, count));
}
inline __m256i RoundToBits(Vec<float> a) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a.v));
}
inline void StoreRounded(Vec<float> a, BFloat16* p) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), RoundToBits(a));
}
inline void StoreRounded(Vec<float> a, BFloat16* p, int64_t count) {
  _mm256_mask_storeu_epi16(p, FirstLanes(count), RoundToBits(a));
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_VEC_AVX512_BF16_H_
