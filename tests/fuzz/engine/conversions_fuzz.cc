// Conversions of any bits from and to the 16-bit types, activations and
// dropout, on every instruction set of this machine, between guard pages.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/engine/simd/simd_kernels.h"
#include "tests/engine/guard_pages.h"
#include "tests/engine/guarded.h"
#include "tests/engine/philox.h"
#include "tests/engine/short_formats.h"
#include "tests/engine/simd_targets.h"
#include "tests/engine/unused.h"
#include "tests/fuzz/engine/fuzz.h"
#include "tests/fuzz/engine/input.h"

namespace rnn {
namespace fuzz {
namespace {

constexpr int64_t kMaxCount = 150;

// Memory that all inputs use in turn.
template <typename Value>
class Room {
 public:
  // `count` values, unused, at the end or the begin.
  Value* Take(GuardedSide side, int64_t count) {
    Value* values = pages_.At(side, count);
    FillUnused(values, kPoison, count * int64_t{sizeof(Value)});
    return values;
  }

 private:
  GuardPages<Value> pages_{kMaxCount};
};

template <typename Value>
Value* TakeIn(GuardedSide side, int64_t count) {
  static auto* const room = new Room<Value>;
  return room->Take(side, count);
}
template <typename Value>
Value* TakeOut(GuardedSide side, int64_t count) {
  static auto* const room = new Room<Value>;
  return room->Take(side, count);
}

// What is left after the bytes end repeats, so that vectors are not zeros.
template <typename Value>
std::vector<Value> AnyValues(Input& input, int64_t count) {
  std::vector<Value> values(count);
  const int64_t given = std::min<int64_t>(count, 1 + input.Byte() % 16);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = i < given ? input.Any<Value>() : values[i - given];
  }
  return values;
}

uint32_t FloatBits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

void CheckToFloat(Input& input, const ShortFormat& format, GuardedSide side,
                  int64_t count) {
  const std::vector<uint16_t> in = AnyValues<uint16_t>(input, count);
  for (const SimdTarget* target : AllSimdTargets()) {
    SetGuardedCase(target->name);
    uint16_t* from = TakeIn<uint16_t>(side, count);
    float* to = TakeOut<float>(side, count);
    std::copy(in.begin(), in.end(), from);
    (target->conversions.*format.to_float)(from, to, count);
    for (int64_t i = 0; i < count; ++i) {
      if (format.IsNan(in[i])) {
        FUZZ_REQUIRE(std::isnan(to[i]));
      } else {
        FUZZ_REQUIRE(FloatBits(to[i]) ==
                     FloatBits(static_cast<float>(format.Value(in[i]))));
      }
    }
  }
}

void CheckFromFloat(Input& input, const ShortFormat& format, GuardedSide side,
                    int64_t count) {
  const std::vector<float> in = AnyValues<float>(input, count);
  for (const SimdTarget* target : AllSimdTargets()) {
    SetGuardedCase(target->name);
    float* from = TakeIn<float>(side, count);
    uint16_t* to = TakeOut<uint16_t>(side, count);
    std::copy(in.begin(), in.end(), from);
    (target->conversions.*format.from_float)(from, to, count);
    for (int64_t i = 0; i < count; ++i) {
      if (std::isnan(in[i])) {
        FUZZ_REQUIRE(format.IsNan(to[i]));
      } else {
        FUZZ_REQUIRE(to[i] == format.Rounded(in[i]));
      }
    }
  }
}

// Of any number.
template <typename F>
void CheckActivation(Input& input, bool is_tanh, GuardedSide side,
                     int64_t count) {
  const std::vector<F> in = AnyValues<F>(input, count);
  for (const SimdTarget* target : AllSimdTargets()) {
    SetGuardedCase(target->name);
    F* from = TakeIn<F>(side, count);
    F* to = TakeOut<F>(side, count);
    std::copy(in.begin(), in.end(), from);
    const SimdMath<F>& math = MathOf<F>(*target);
    (is_tanh ? math.tanh : math.sigmoid)(from, to, count);
    for (int64_t i = 0; i < count; ++i) {
      if (std::isnan(in[i])) {
        FUZZ_REQUIRE(std::isnan(to[i]));
        continue;
      }
      const long double x = in[i];
      const long double exact = is_tanh ? std::tanh(x) : 1 / (1 + std::exp(-x));
      // The table in math-inl.h.
      constexpr long double kUlps = 4;
      FUZZ_REQUIRE(std::abs(to[i] - exact) <=
                   kUlps * std::numeric_limits<F>::epsilon() * std::abs(exact) +
                       std::numeric_limits<F>::min());
      FUZZ_REQUIRE(std::abs(to[i]) <= 1);
    }
  }
}

template <typename F>
void CheckDropout(Input& input, GuardedSide side, int64_t max_values) {
  constexpr int64_t kMaxRows = 3;
  DropoutRows<F> dropout;
  dropout.layer = input.Any<uint32_t>();
  dropout.key = input.Any<uint64_t>();
  dropout.min_kept_word = std::min<uint64_t>(
      uint64_t{input.Any<uint32_t>()} + input.Byte() % 2, uint64_t{1} << 32);
  dropout.scale = static_cast<F>(1 + input.Byte());
  dropout.count = 1 + input.Byte() % kMaxRows;
  dropout.features = max_values / dropout.count;
  DroppedRow<F> rows[kMaxRows];
  for (DroppedRow<F>& row : rows) {
    row.batch_row = input.Any<uint32_t>();
    row.time = input.Any<uint32_t>();
  }
  dropout.rows = rows;
  const int64_t count = dropout.count * dropout.features;
  std::vector<F> in(count);
  for (F& value : in) value = static_cast<F>(input.Byte() - 128);
  for (const SimdTarget* target : AllSimdTargets()) {
    SetGuardedCase(target->name);
    F* const values = TakeIn<F>(side, count);
    std::copy(in.begin(), in.end(), values);
    for (int64_t i = 0; i < dropout.count; ++i) {
      rows[i].values = values + i * dropout.features;
    }
    if constexpr (std::is_same_v<F, double>) {
      target->double_kernels->drop_out(dropout);
    } else {
      target->float_kernels->drop_out(dropout);
    }
    for (int64_t i = 0; i < count; ++i) {
      const DroppedRow<F>& row = rows[i / dropout.features];
      const int64_t j = i % dropout.features;
      const bool is_kept =
          Philox4x32({static_cast<uint32_t>(j / 4), row.batch_row, row.time,
                      dropout.layer},
                     dropout.key)[j % 4] >= dropout.min_kept_word;
      FUZZ_REQUIRE(values[i] == (is_kept ? in[i] * dropout.scale : 0));
    }
  }
}

void Run(Input input) {
  const int kind = input.Byte() % 10;
  const GuardedSide side =
      input.Flag() ? GuardedSide::kBegin : GuardedSide::kEnd;
  const int64_t count = input.Between(0, kMaxCount - 1);
  const ShortFormat& format = kShortFormats[kind % 2];
  switch (kind) {
    case 0:
    case 1:
      return CheckToFloat(input, format, side, count);
    case 2:
    case 3:
      return CheckFromFloat(input, format, side, count);
    case 4:
    case 5:
      return CheckActivation<float>(input, kind % 2 == 0, side, count);
    case 6:
    case 7:
      return CheckActivation<double>(input, kind % 2 == 0, side, count);
    case 8:
      return CheckDropout<float>(input, side, count);
    default:
      return CheckDropout<double>(input, side, count);
  }
}

}  // namespace
}  // namespace fuzz
}  // namespace rnn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rnn::fuzz::Run(rnn::fuzz::Input(data, size));
  return 0;
}
