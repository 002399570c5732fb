// Vectors for any CPU: loops over 4 lanes that the compiler may vectorise for
// the baseline it targets. See vec_avx512.h for the contract of Min and Max.
#ifndef KERNELS_ENGINE_SIMD_VEC_SCALAR_H_
#define KERNELS_ENGINE_SIMD_VEC_SCALAR_H_

#include <math.h>
#include <stdint.h>

namespace rnn {
namespace RNN_ISA {
namespace {

constexpr int kTileVectors = 2;
constexpr int TileRows(int vectors) { return vectors <= 2 ? 4 : 2; }

template <typename F>
struct Vec {
  using Element = F;
  static constexpr int kLanes = 4;
  F v[kLanes];

  static Vec Broadcast(F x) { return {{x, x, x, x}}; }
  static Vec Load(const F* p) { return {{p[0], p[1], p[2], p[3]}}; }
  static Vec Load(const F* p, int64_t count) {
    Vec result = Broadcast(0);
    for (int64_t i = 0; i < count; ++i) result.v[i] = p[i];
    return result;
  }
  void Store(F* p) const { Store(p, kLanes); }
  void Store(F* p, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) p[i] = v[i];
  }
};

template <typename F, typename Function>
inline Vec<F> Map(Vec<F> a, Vec<F> b, Function function) {
  Vec<F> result;
  for (int i = 0; i < Vec<F>::kLanes; ++i) {
    result.v[i] = function(a.v[i], b.v[i]);
  }
  return result;
}

template <typename F>
inline Vec<F> operator+(Vec<F> a, Vec<F> b) {
  return Map(a, b, [](F x, F y) { return x + y; });
}
template <typename F>
inline Vec<F> operator-(Vec<F> a, Vec<F> b) {
  return Map(a, b, [](F x, F y) { return x - y; });
}
template <typename F>
inline Vec<F> operator*(Vec<F> a, Vec<F> b) {
  return Map(a, b, [](F x, F y) { return x * y; });
}
template <typename F>
inline Vec<F> operator/(Vec<F> a, Vec<F> b) {
  return Map(a, b, [](F x, F y) { return x / y; });
}
// Rounds twice: a fused operation without hardware would be a library call.
template <typename F>
inline Vec<F> MulAdd(Vec<F> a, Vec<F> b, Vec<F> c) {
  return a * b + c;
}
template <typename F>
inline Vec<F> Min(Vec<F> a, Vec<F> b) {
  return Map(a, b, [](F x, F y) { return x < y ? x : y; });
}
template <typename F>
inline Vec<F> Max(Vec<F> a, Vec<F> b) {
  return Map(a, b, [](F x, F y) { return x > y ? x : y; });
}
template <typename F>
inline Vec<F> Round(Vec<F> a) {
  return Map(a, a, [](F x, F) { return static_cast<F>(rint(x)); });
}
template <typename F>
inline Vec<F> Scale(Vec<F> a, Vec<F> k) {
  return Map(a, k, [](F x, F y) {
    // NaN has no integer to convert to; it stays itself.
    return y == y ? static_cast<F>(ldexp(x, static_cast<int>(y))) : y;
  });
}
template <typename F>
inline Vec<F> Abs(Vec<F> a) {
  return Map(a, a, [](F x, F) { return static_cast<F>(fabs(x)); });
}
template <typename F>
inline Vec<F> CopySign(Vec<F> magnitude, Vec<F> sign) {
  return Map(magnitude, sign,
             [](F x, F y) { return static_cast<F>(copysign(x, y)); });
}
template <typename F>
inline Vec<F> WherePositive(Vec<F> condition, Vec<F> value) {
  return Map(condition, value, [](F x, F y) { return x > 0 ? y : F{0}; });
}
template <typename F>
inline void Pin(Vec<F>&) {}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_VEC_SCALAR_H_
