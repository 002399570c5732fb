// The layout of a reserve, whatever stands in its header; and weights of Keras
// layers, which become params and come back.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/engine/engine.h"
#include "kernels/engine/weights/keras_weights.h"
#include "network/element_types.h"
#include "network/params_layout.h"
#include "network/reserve_layout.h"
#include "network/weights.h"
#include "tests/engine/element_values.h"
#include "tests/engine/guard_pages.h"
#include "tests/engine/guarded.h"
#include "tests/engine/keras_order.h"
#include "tests/engine/keras_tensors.h"
#include "tests/engine/make_sequences.h"
#include "tests/engine/threads_in_turn.h"
#include "tests/engine/unused.h"
#include "tests/fuzz/engine/fuzz.h"
#include "tests/fuzz/engine/input.h"

namespace rnn {
namespace fuzz {
namespace {

struct Call {
  RnnDescriptor d;
  int64_t max_time;
  std::vector<int32_t> lengths;
  PaddedLayout padded;

  Sequences sequences() const { return MakeSequences(max_time, lengths); }
};

Call SmallCall(Input& input) {
  Call call;
  RnnDescriptor& d = call.d;
  d.mode = static_cast<CellMode>(input.Between(0, kNumCellModes - 1));
  d.num_layers = input.Between(1, 4);
  d.num_directions = input.Between(1, 2);
  d.hidden_size = input.Between(1, 12);
  d.skip_input = input.Flag();
  d.input_size = d.skip_input ? d.hidden_size : input.Between(1, 12);
  if (d.mode == CellMode::kLstm) d.num_proj = input.Between(0, d.hidden_size);
  d.dropout = input.OneOf({0.0f, 0.25f, 1.0f});
  call.max_time = input.Between(0, 6);
  call.lengths.resize(input.Between(0, 5));
  for (int32_t& length : call.lengths) {
    length = static_cast<int32_t>(input.Between(0, call.max_time));
  }
  call.padded = {input.Flag(), input.Flag()};
  return call;
}

// A call that differs from `call` in one thing, or in nothing.
Call Altered(Call call, Input& input) {
  RnnDescriptor& d = call.d;
  const Call before = call;
  switch (input.Between(0, 9)) {
    case 0:
      d.mode = static_cast<CellMode>(input.Between(0, kNumCellModes - 1));
      if (d.mode != CellMode::kLstm) d.num_proj = 0;
      break;
    case 1:
      d.num_layers = input.Between(1, 4);
      break;
    case 2:
      d.num_directions = 3 - d.num_directions;
      break;
    case 3:
      d.input_size = input.Between(1, 12);
      if (d.input_size != d.hidden_size) d.skip_input = false;
      break;
    case 4:
      d.dropout = input.OneOf({0.0f, 0.25f, 0.5f, 1.0f});
      break;
    case 5:
      if (d.input_size == d.hidden_size) d.skip_input = !d.skip_input;
      break;
    case 6:
      call.padded.time_major = !call.padded.time_major;
      break;
    case 7:
      d.hidden_size = input.Between(1, 12);
      if (d.input_size != d.hidden_size) d.skip_input = false;
      break;
    case 8:
      call.padded.states_outer_major = !call.padded.states_outer_major;
      break;
    default:
      if (!call.lengths.empty()) {
        call.lengths[input.Byte() % call.lengths.size()] =
            static_cast<int32_t>(input.Between(0, call.max_time));
      }
  }
  return Validate(d).ok() ? call : before;
}

bool AreAlike(const Call& a, const Call& b) {
  return a.d.mode == b.d.mode && a.d.num_layers == b.d.num_layers &&
         a.d.num_directions == b.d.num_directions &&
         a.d.input_size == b.d.input_size &&
         a.d.hidden_size == b.d.hidden_size &&
         a.d.output_size() == b.d.output_size() &&
         a.d.skip_input == b.d.skip_input && a.d.dropout == b.d.dropout &&
         a.max_time == b.max_time && a.lengths == b.lengths &&
         a.padded.time_major == b.padded.time_major &&
         a.padded.states_outer_major == b.padded.states_outer_major;
}

ReserveLayout LayoutOf(const Call& call, const Sequences& sequences) {
  ReserveLayout layout;
  FUZZ_REQUIRE(ReserveLayout::Create(call.d, sequences, &layout).ok());
  return layout;
}

void CheckReserveLayout(const Call& call) {
  const Sequences s = call.sequences();
  const ReserveLayout layout = LayoutOf(call, s);
  int64_t next = ReserveHeader::kSize;
  for (int64_t k = 0; k < call.d.num_pseudo_layers(); ++k) {
    FUZZ_REQUIRE(layout.ActivationsOffset(k) == next);
    next += s.num_valid_rows() * ReservedRowSize(call.d);
  }
  for (int64_t layer = 0; layer + 1 < call.d.num_layers; ++layer) {
    FUZZ_REQUIRE(layout.LayerOutputOffset(layer) == next);
    next += s.num_valid_rows() * call.d.num_directions * call.d.output_size();
  }
  FUZZ_REQUIRE(layout.size() == next);
}

// The header of `call`, with one element perhaps replaced, is read for another
// call, too.
template <typename Element>
void CheckHeader(const Call& call, Input& input) {
  const Sequences s = call.sequences();
  const ReserveLayout layout = LayoutOf(call, s);
  const auto key = input.Any<uint64_t>();
  const ReserveHeader header(call.d, s, call.padded, key);
  EndGuarded<Element> reserve(layout.size());
  FillUnused(reserve.data(), kPoison, layout.size() * sizeof(Element));
  for (int64_t i = 0; i < ReserveHeader::kSize; ++i) {
    reserve[i] = FromDouble<Element>(header.bytes()[i]);
  }
  const Call other = Altered(call, input);
  const Sequences t = other.sequences();
  const ReserveLayout other_layout = LayoutOf(other, t);
  uint64_t key_read;
  const auto accepts = [&] {
    return CheckReserve(other.d, t, other_layout, other.padded, reserve.data(),
                        reserve.size(), &key_read)
        .ok();
  };
  FUZZ_REQUIRE(accepts() == AreAlike(call, other));
  FUZZ_REQUIRE(!AreAlike(call, other) || key_read == key);

  const int64_t place = input.Between(0, ReserveHeader::kSize - 1);
  const Element before = reserve[place];
  reserve[place] =
      input.Flag() ? FromDouble<Element>(input.Byte()) : input.Any<Element>();
  const double value = ToDouble(reserve[place]);
  const bool is_byte = value >= 0 && value <= 255 && value == std::floor(value);
  const bool is_in_key = place >= ReserveHeader::kKeyOffset &&
                         place < ReserveHeader::kKeyOffset + 8;
  const bool is_unchanged = value == ToDouble(before);
  // (Otherwise it may have become the other's.)
  if (AreAlike(call, other)) {
    FUZZ_REQUIRE(accepts() == (is_in_key ? is_byte : is_unchanged));
  }
  FUZZ_REQUIRE(!CheckReserve(call.d, s, layout, call.padded, reserve.data(),
                             reserve.size() + 1 + input.Byte(), &key_read)
                    .ok());
}

// A layer of Keras: what each element becomes, and the way back of gradients.
template <typename Element>
void CheckKerasWeights(Call call, Input& input) {
  RnnDescriptor& d = call.d;
  d.num_layers = d.num_directions = 1;
  d.num_proj = 0;
  d.skip_input = false;
  d.input_size = input.Between(1, 70);
  d.hidden_size = input.Between(1, 70);
  ParamsLayout layout;
  FUZZ_REQUIRE(ParamsLayout::Create(d, &layout).ok());
  const bool has_bias = input.Flag();
  const auto size = [&](int tensor) { return KerasTensorSize(d, tensor); };
  EndGuarded<Element> weights[kKerasTensors] = {EndGuarded<Element>(size(0)),
                                                EndGuarded<Element>(size(1)),
                                                EndGuarded<Element>(size(2))};
  BeginGuarded<Element> gradients[kKerasTensors] = {
      BeginGuarded<Element>(size(0)), BeginGuarded<Element>(size(1)),
      BeginGuarded<Element>(size(2))};
  uint32_t next = input.Any<uint32_t>();
  for (auto& values : weights) {
    for (int64_t i = 0; i < values.size(); ++i) {
      next = next * 1664525 + 1013904223;
      values[i] = FromDouble<Element>(next >> 20);
    }
    values.MakeReadOnly();
  }
  for (auto& values : gradients) {
    FillUnused(values.data(), kPoison, values.size() * sizeof(Element));
  }
  ThreadsInTurn executor(static_cast<int>(input.Between(1, 4)));
  BeginGuarded<Element> params(layout.size());
  FillUnused(params.data(), kPoison, params.size() * sizeof(Element));
  KerasToParams<Element>(d, layout,
                         {weights[0].data(), weights[1].data(),
                          has_bias ? weights[2].data() : nullptr},
                         params.data(), executor);
  std::vector<double> expected(layout.size());
  ForEachKerasWeight(d, [&](int tensor, int64_t index, int64_t place) {
    if (tensor < 2 || has_bias) {
      expected[place] = ToDouble(weights[tensor][index]);
    }
  });
  for (int64_t i = 0; i < params.size(); ++i) {
    FUZZ_REQUIRE(ToDouble(params[i]) == expected[i]);
  }
  params.MakeReadOnly();
  KerasToParamsBackward<Element>(d, layout, params.data(),
                                 {gradients[0].data(), gradients[1].data(),
                                  has_bias ? gradients[2].data() : nullptr},
                                 executor);
  for (int i = 0; i < (has_bias ? 3 : 2); ++i) {
    for (int64_t j = 0; j < gradients[i].size(); ++j) {
      FUZZ_REQUIRE(ToDouble(gradients[i][j]) == ToDouble(weights[i][j]));
    }
  }
}

template <typename Element>
void CheckElement(const Call& call, Input& input) {
  CheckHeader<Element>(call, input);
  if (input.Byte() % 4 == 0) CheckKerasWeights<Element>(call, input);
}

void Run(Input input) {
  const auto element = static_cast<ElementType>(input.Between(0, 3));
  const Call call = SmallCall(input);
  CheckReserveLayout(call);
  switch (element) {
    case ElementType::kFloat:
      return CheckElement<float>(call, input);
    case ElementType::kDouble:
      return CheckElement<double>(call, input);
    case ElementType::kHalf:
      return CheckElement<Half>(call, input);
    case ElementType::kBFloat16:
      return CheckElement<BFloat16>(call, input);
  }
}

}  // namespace
}  // namespace fuzz
}  // namespace rnn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rnn::fuzz::Run(rnn::fuzz::Input(data, size));
  return 0;
}
