// Vectors of NEON on 64-bit Arm: 4 floats or 2 doubles. See vec_avx512.h for
// the contract of Min and Max.
#ifndef KERNELS_ENGINE_SIMD_VEC_NEON_H_
#define KERNELS_ENGINE_SIMD_VEC_NEON_H_

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#include "kernels/engine/simd/unroll-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// 32 registers: 6 x 4 accumulators, 4 vectors of B, broadcasts.
constexpr int kTileVectors = 4;
constexpr int TileRows(int /*vectors*/) { return 6; }
constexpr int TileSteps(int /*rows*/, int /*vectors*/) { return 1; }

template <typename F>
struct Vec;

template <>
struct Vec<float> {
  using Element = float;
  static constexpr int kLanes = 4;
  float32x4_t v;

  static Vec Broadcast(float x) { return {vdupq_n_f32(x)}; }
  static Vec Load(const float* p) { return {vld1q_f32(p)}; }
  static Vec Load(const float* p, int64_t count) {
    float lanes[kLanes] = {};
    memcpy(lanes, p, count * sizeof(float));
    return Load(lanes);
  }
  void Store(float* p) const { vst1q_f32(p, v); }
  void Store(float* p, int64_t count) const {
    float lanes[kLanes];
    Store(lanes);
    memcpy(p, lanes, count * sizeof(float));
  }
};

inline Vec<float> operator+(Vec<float> a, Vec<float> b) {
  return {vaddq_f32(a.v, b.v)};
}
inline Vec<float> operator-(Vec<float> a, Vec<float> b) {
  return {vsubq_f32(a.v, b.v)};
}
inline Vec<float> operator*(Vec<float> a, Vec<float> b) {
  return {vmulq_f32(a.v, b.v)};
}
inline Vec<float> operator/(Vec<float> a, Vec<float> b) {
  return {vdivq_f32(a.v, b.v)};
}
inline Vec<float> MulAdd(Vec<float> a, Vec<float> b, Vec<float> c) {
  return {vfmaq_f32(c.v, a.v, b.v)};
}
inline Vec<float> Min(Vec<float> a, Vec<float> b) {
  return {vbslq_f32(vcltq_f32(a.v, b.v), a.v, b.v)};
}
inline Vec<float> Max(Vec<float> a, Vec<float> b) {
  return {vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)};
}
inline Vec<float> PowerOfTwo(Vec<float> rounded) {
  return {
      vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(rounded.v), 23))};
}
inline Vec<float> Abs(Vec<float> a) { return {vabsq_f32(a.v)}; }
inline Vec<float> CopySign(Vec<float> magnitude, Vec<float> sign) {
  return {vbslq_f32(vdupq_n_u32(0x80000000u), sign.v, magnitude.v)};
}
inline Vec<float> WherePositive(Vec<float> condition, Vec<float> value) {
  return {vbslq_f32(vcgtzq_f32(condition.v), value.v, vdupq_n_f32(0))};
}
inline void Pin(Vec<float>& a) { asm volatile("" : "+w"(a.v)); }

// Lane j of row i becomes lane i of row j.
RNN_ALWAYS_INLINE inline void Transpose(Vec<float> (&rows)[4]) {
  // Pairs of columns 0 and 2, respectively 1 and 3, of two rows.
  const float32x4x2_t top = vtrnq_f32(rows[0].v, rows[1].v);
  const float32x4x2_t bottom = vtrnq_f32(rows[2].v, rows[3].v);
  Unroll<2>([&](auto column) RNN_ALWAYS_INLINE {
    constexpr int c = column.value;
    rows[c].v =
        vcombine_f32(vget_low_f32(top.val[c]), vget_low_f32(bottom.val[c]));
    rows[2 + c].v =
        vcombine_f32(vget_high_f32(top.val[c]), vget_high_f32(bottom.val[c]));
  });
}

// Lane j: the sum of vectors[j]'s lanes, neighbours first, then pairs of these.
inline Vec<float> SumLanes(const Vec<float> (&vectors)[4]) {
  return {vpaddq_f32(vpaddq_f32(vectors[0].v, vectors[1].v),
                     vpaddq_f32(vectors[2].v, vectors[3].v))};
}

template <>
struct Vec<double> {
  using Element = double;
  static constexpr int kLanes = 2;
  float64x2_t v;

  static Vec Broadcast(double x) { return {vdupq_n_f64(x)}; }
  static Vec Load(const double* p) { return {vld1q_f64(p)}; }
  static Vec Load(const double* p, int64_t count) {
    double lanes[kLanes] = {};
    memcpy(lanes, p, count * sizeof(double));
    return Load(lanes);
  }
  void Store(double* p) const { vst1q_f64(p, v); }
  void Store(double* p, int64_t count) const {
    double lanes[kLanes];
    Store(lanes);
    memcpy(p, lanes, count * sizeof(double));
  }
};

inline Vec<double> operator+(Vec<double> a, Vec<double> b) {
  return {vaddq_f64(a.v, b.v)};
}
inline Vec<double> operator-(Vec<double> a, Vec<double> b) {
  return {vsubq_f64(a.v, b.v)};
}
inline Vec<double> operator*(Vec<double> a, Vec<double> b) {
  return {vmulq_f64(a.v, b.v)};
}
inline Vec<double> operator/(Vec<double> a, Vec<double> b) {
  return {vdivq_f64(a.v, b.v)};
}
inline Vec<double> MulAdd(Vec<double> a, Vec<double> b, Vec<double> c) {
  return {vfmaq_f64(c.v, a.v, b.v)};
}
inline Vec<double> Min(Vec<double> a, Vec<double> b) {
  return {vbslq_f64(vcltq_f64(a.v, b.v), a.v, b.v)};
}
inline Vec<double> Max(Vec<double> a, Vec<double> b) {
  return {vbslq_f64(vcgtq_f64(a.v, b.v), a.v, b.v)};
}
inline Vec<double> PowerOfTwo(Vec<double> rounded) {
  return {
      vreinterpretq_f64_s64(vshlq_n_s64(vreinterpretq_s64_f64(rounded.v), 52))};
}
inline Vec<double> Abs(Vec<double> a) { return {vabsq_f64(a.v)}; }
inline Vec<double> CopySign(Vec<double> magnitude, Vec<double> sign) {
  return {vbslq_f64(vdupq_n_u64(uint64_t{1} << 63), sign.v, magnitude.v)};
}
inline Vec<double> WherePositive(Vec<double> condition, Vec<double> value) {
  return {vbslq_f64(vcgtzq_f64(condition.v), value.v, vdupq_n_f64(0))};
}
inline void Pin(Vec<double>& a) { asm volatile("" : "+w"(a.v)); }

inline void Transpose(Vec<double> (&rows)[2]) {
  const float64x2_t first = vzip1q_f64(rows[0].v, rows[1].v);
  rows[1].v = vzip2q_f64(rows[0].v, rows[1].v);
  rows[0].v = first;
}

inline Vec<double> SumLanes(const Vec<double> (&vectors)[2]) {
  return {vpaddq_f64(vectors[0].v, vectors[1].v)};
}

// Sums of products of 16-bit integers, and of 8-bit ones that are widened:
// exact, as long as they have room.
constexpr int kIntegerSums = 16;  // that the registers have room for

struct IntegerSums {
  static constexpr int kDepth = 8;
  static constexpr bool kKeepsUp = false;
  using Wide = int16x8_t;
  int32x4_t v;

  static IntegerSums Zero() { return {vdupq_n_s32(0)}; }
  static Wide Load(const int16_t* p) { return vld1q_s16(p); }
  static Wide Load(const int8_t* p) { return vmovl_s8(vld1_s8(p)); }
  static Wide Load(const int8_t* p, int64_t count) {
    int8_t values[kDepth] = {};
    memcpy(values, p, count);
    return Load(values);
  }
  void MulAdd(Wide a, Wide b) {
    v = vmlal_s16(v, vget_low_s16(a), vget_low_s16(b));
    v = vmlal_high_s16(v, a, b);
  }
  // totals[i] = the sum of all lanes of sums[i].
  static void SumLanes(const IntegerSums* sums, int32_t* totals) {
    vst1q_s32(totals, vpaddq_s32(vpaddq_s32(sums[0].v, sums[1].v),
                                 vpaddq_s32(sums[2].v, sums[3].v)));
  }
};

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_VEC_NEON_H_
