// Fills an instruction set's table of probes. Include a vec_<isa>.h first.
#ifndef BENCHMARKS_PROBES_INL_H_
#define BENCHMARKS_PROBES_INL_H_

#include "benchmarks/probes.h"
#include "kernels/engine/simd/tile-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

// Of 32 registers, or of 16, so many hold independent sums: enough to hide the
// latency of an operation by those after it.
constexpr int kAccumulators = kTileVectors >= 4 ? 24 : 12;

// The value is used: its register is not to be optimised away.
template <typename V>
inline void Use(V& value) {
#if defined(__aarch64__)
  asm volatile("" : "+w"(value.v));
#elif defined(RNN_VECTOR_OPERAND)
  asm volatile("" : RNN_VECTOR_OPERAND(value.v));
#else
  asm volatile("" : "+x"(value.v));
#endif
}

template <typename V>
RNN_ALWAYS_INLINE inline typename V::Element FirstLaneOfSum(
    V (&sums)[kAccumulators]) {
  V total = V::Broadcast(0);
  Unroll<kAccumulators>(
      [&](auto i) RNN_ALWAYS_INLINE { total = total + sums[i.value]; });
  typename V::Element lanes[V::kLanes];
  total.Store(lanes);
  return lanes[0];
}

// A step of a sum that no step before or after it could be folded into, and
// that neither under- nor overflows.
template <typename V>
inline V AddProduct(V sum, V half, V one) {
#if defined(__FMA__) || defined(__aarch64__)
  return MulAdd(half, one, sum);  // the form that Arm has
#else
  return MulAdd(sum, half, one);  // else the product would be taken once
#endif
}

template <typename F>
double MultiplyAdd(int64_t rounds, F* sink) {
  using V = Vec<F>;
  V sums[kAccumulators];
  Unroll<kAccumulators>([&](auto i) RNN_ALWAYS_INLINE {
    sums[i.value] = V::Broadcast(0);
    Use(sums[i.value]);
  });
  V half = V::Broadcast(static_cast<F>(0.5));
  V one = V::Broadcast(1);
  Use(half);
  Use(one);
  for (int64_t round = 0; round < rounds; ++round) {
    Unroll<kAccumulators>([&](auto i) RNN_ALWAYS_INLINE {
      sums[i.value] = AddProduct(sums[i.value], half, one);
    });
  }
  *sink = FirstLaneOfSum(sums);
  return 2.0 * V::kLanes * kAccumulators * static_cast<double>(rounds);
}

// Loads and nothing else.
void Read(const float* data, int64_t count) {
  using V = Vec<float>;
  constexpr int kTogether = 8;
  static_assert(kReadGranule % (kTogether * V::kLanes) == 0);
  for (int64_t i = 0; i < count; i += kTogether * V::kLanes) {
    Unroll<kTogether>([&](auto j) RNN_ALWAYS_INLINE {
      V vector = V::Load(data + i + j.value * V::kLanes);
      Use(vector);
    });
  }
}

#if defined(__AVX512BF16__)
double MultiplyAddBFloat16(int64_t rounds, float* sink) {
  Vec<float> sums[kAccumulators];
  Unroll<kAccumulators>([&](auto i) RNN_ALWAYS_INLINE {
    sums[i.value] = Vec<float>::Broadcast(0);
    Use(sums[i.value]);
  });
  // Ones: sums of up to 2^24 are exact, and what is more stays there.
  Vec<float> ones{_mm512_castsi512_ps(_mm512_set1_epi16(0x3f80))};
  Use(ones);
  const __m512bh pairs = (__m512bh)ones.v;
  for (int64_t round = 0; round < rounds; ++round) {
    Unroll<kAccumulators>([&](auto i) RNN_ALWAYS_INLINE {
      sums[i.value].v = _mm512_dpbf16_ps(sums[i.value].v, pairs, pairs);
    });
  }
  *sink = FirstLaneOfSum(sums);
  return 4.0 * Vec<float>::kLanes * kAccumulators * static_cast<double>(rounds);
}
#else
constexpr double (*MultiplyAddBFloat16)(int64_t, float*) = nullptr;
#endif

constexpr Probes MakeProbes() {
  return {MultiplyAdd<float>, MultiplyAdd<double>, MultiplyAddBFloat16, Read};
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // BENCHMARKS_PROBES_INL_H_
