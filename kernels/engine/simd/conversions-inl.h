// Between float and the 16-bit types, to nearest even. NaN stays NaN.
#ifndef KERNELS_ENGINE_SIMD_CONVERSIONS_INL_H_
#define KERNELS_ENGINE_SIMD_CONVERSIONS_INL_H_

#include <stdint.h>
#include <string.h>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace rnn {
namespace RNN_ISA {
namespace {

inline uint32_t FloatBits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float FloatFromBits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

void BFloat16ToFloat(const uint16_t* in, float* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = FloatFromBits(static_cast<uint32_t>(in[i]) << 16);
  }
}

void FloatToBFloat16(const float* in, uint16_t* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = FloatBits(in[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet_nan = (bits >> 16) | 0x40u;
    out[i] = static_cast<uint16_t>(in[i] == in[i] ? rounded : quiet_nan);
  }
}

#if defined(__F16C__)

void HalfToFloat(const uint16_t* in, float* out, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bits =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(bits));
  }
  for (; i < count; ++i) out[i] = _cvtsh_ss(in[i]);
}

void FloatToHalf(const float* in, uint16_t* out, int64_t count) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), kNearest));
  }
  for (; i < count; ++i) {
    out[i] = static_cast<uint16_t>(_cvtss_sh(in[i], kNearest));
  }
}

#else

void HalfToFloat(const uint16_t* in, float* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t sign = (in[i] & 0x8000u) << 16;
    const uint32_t exponent = (in[i] >> 10) & 0x1fu;
    const uint32_t fraction = in[i] & 0x3ffu;
    if (exponent == 0) {  // zero and subnormal: fraction * 2^-24
      const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
      out[i] = FloatFromBits(FloatBits(magnitude) | sign);
    } else {
      const uint32_t biased = exponent == 31 ? 255 : exponent + (127 - 15);
      out[i] = FloatFromBits(sign | (biased << 23) | (fraction << 13));
    }
  }
}

void FloatToHalf(const float* in, uint16_t* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = FloatBits(in[i]);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t result;
    if (magnitude > 0x7f800000u) {  // NaN
      result = 0x7e00u;
    } else if (magnitude >= 0x477ff000u) {  // rounds to 2^16 or more
      result = 0x7c00u;
    } else if (magnitude < 0x38800000u) {  // below 2^-14: steps of 2^-24
      // Adding 0.5 aligns the last bit of the sum with 2^-24.
      const float aligned = FloatFromBits(magnitude) + 0.5f;
      result = FloatBits(aligned) - FloatBits(0.5f);
    } else {
      const uint32_t odd = (magnitude >> 13) & 1u;
      result = (magnitude - ((127u - 15u) << 23) + 0xfffu + odd) >> 13;
    }
    out[i] = static_cast<uint16_t>(sign | result);
  }
}

#endif  // __F16C__

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_CONVERSIONS_INL_H_
