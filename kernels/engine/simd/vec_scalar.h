// Vectors of 16 bytes for any CPU: the compiler's own vector type, which it
// lowers to what the baseline has. See vec_avx512.h for the contract of Min and
// Max.
#ifndef KERNELS_ENGINE_SIMD_VEC_SCALAR_H_
#define KERNELS_ENGINE_SIMD_VEC_SCALAR_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace rnn {
namespace RNN_ISA {
namespace {

// 16 registers: 4 x 2 accumulators, products, the vectors of B.
constexpr int kTileVectors = 2;
constexpr int TileRows(int vectors) { return vectors <= 2 ? 4 : 2; }
constexpr int TileSteps(int /*rows*/, int /*vectors*/) { return 1; }

template <typename F>
struct Vec {
  using Element = F;
  static constexpr int kLanes = 16 / sizeof(F);
  typedef F Native __attribute__((vector_size(16)));
  Native v;

  static Vec Broadcast(F x) { return {Native{} + x}; }
  static Vec Load(const F* p) {
    Vec result;
    memcpy(&result.v, p, sizeof result.v);
    return result;
  }
  static Vec Load(const F* p, int64_t count) {
    Vec result{};
    for (int i = 0; i < kLanes && i < count; ++i) result.v[i] = p[i];
    return result;
  }
  void Store(F* p) const { memcpy(p, &v, sizeof v); }
  void Store(F* p, int64_t count) const {
    for (int i = 0; i < kLanes && i < count; ++i) p[i] = v[i];
  }
};

template <typename F>
inline Vec<F> operator+(Vec<F> a, Vec<F> b) {
  return {a.v + b.v};
}
template <typename F>
inline Vec<F> operator-(Vec<F> a, Vec<F> b) {
  return {a.v - b.v};
}
template <typename F>
inline Vec<F> operator*(Vec<F> a, Vec<F> b) {
  return {a.v * b.v};
}
template <typename F>
inline Vec<F> operator/(Vec<F> a, Vec<F> b) {
  return {a.v / b.v};
}
// Rounds twice: a fused operation without hardware would be a library call.
template <typename F>
inline Vec<F> MulAdd(Vec<F> a, Vec<F> b, Vec<F> c) {
  return {a.v * b.v + c.v};
}
template <typename F>
inline Vec<F> Min(Vec<F> a, Vec<F> b) {
  return {a.v < b.v ? a.v : b.v};
}
template <typename F>
inline Vec<F> Max(Vec<F> a, Vec<F> b) {
  return {a.v > b.v ? a.v : b.v};
}

template <typename F, typename Function>
inline Vec<F> MapLanes(Vec<F> a, Vec<F> b, Function function) {
  Vec<F> result;
  for (int i = 0; i < Vec<F>::kLanes; ++i) {
    result.v[i] = static_cast<F>(function(a.v[i], b.v[i]));
  }
  return result;
}
inline Vec<float> PowerOfTwo(Vec<float> rounded) {
  typedef uint32_t Bits __attribute__((vector_size(16)));
  return {reinterpret_cast<Vec<float>::Native>(reinterpret_cast<Bits>(rounded.v)
                                               << 23)};
}
inline Vec<double> PowerOfTwo(Vec<double> rounded) {
  typedef uint64_t Bits __attribute__((vector_size(16)));
  return {reinterpret_cast<Vec<double>::Native>(
      reinterpret_cast<Bits>(rounded.v) << 52)};
}
template <typename F>
inline Vec<F> Abs(Vec<F> a) {
  return MapLanes(a, a, [](F x, F) { return fabs(x); });
}
template <typename F>
inline Vec<F> CopySign(Vec<F> magnitude, Vec<F> sign) {
  return MapLanes(magnitude, sign, [](F x, F y) { return copysign(x, y); });
}
template <typename F>
inline Vec<F> WherePositive(Vec<F> condition, Vec<F> value) {
  const Vec<F> zero{};
  return {condition.v > zero.v ? value.v : zero.v};
}
template <typename F>
inline void Pin(Vec<F>&) {}

// Lane j of row i becomes lane i of row j.
template <typename F>
inline void Transpose(Vec<F> (&rows)[Vec<F>::kLanes]) {
  for (int i = 0; i < Vec<F>::kLanes; ++i) {
    for (int j = 0; j < i; ++j) {
      const F lane = rows[i].v[j];
      rows[i].v[j] = rows[j].v[i];
      rows[j].v[i] = lane;
    }
  }
}

// Lane j: the sum of vectors[j]'s lanes, neighbours first, then pairs of these.
template <typename F>
inline Vec<F> SumLanes(const Vec<F> (&vectors)[Vec<F>::kLanes]) {
  Vec<F> sums;
  for (int j = 0; j < Vec<F>::kLanes; ++j) {
    Vec<F> lanes = vectors[j];
    for (int stride = 1; stride < Vec<F>::kLanes; stride *= 2) {
      for (int i = 0; i < Vec<F>::kLanes; i += 2 * stride) {
        lanes.v[i] += lanes.v[i + stride];
      }
    }
    sums.v[j] = lanes.v[0];
  }
  return sums;
}

// Sums of products of 16-bit integers, and of 8-bit ones that are widened:
// exact, as long as they have room.
constexpr int kIntegerSums = 8;  // that the registers have room for

struct IntegerSums {
  static constexpr int kDepth = 1;
  static constexpr bool kKeepsUp = false;
  using Wide = int32_t;
  int32_t v;

  static IntegerSums Zero() { return {0}; }
  static Wide Load(const int16_t* p) { return *p; }
  static Wide Load(const int8_t* p) { return *p; }
  static Wide Load(const int8_t* p, int64_t /*count*/) { return *p; }
  void MulAdd(Wide a, Wide b) { v += a * b; }
  // totals[i] = the sum of all lanes of sums[i].
  static void SumLanes(const IntegerSums* sums, int32_t* totals) {
    for (int i = 0; i < 4; ++i) totals[i] = sums[i].v;
  }
};

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_VEC_SCALAR_H_
