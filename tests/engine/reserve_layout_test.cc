#include "network/reserve_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/engine.h"
#include "tests/engine/make_sequences.h"
#include "tests/engine/random_values.h"

namespace rnn {
namespace {

RnnDescriptor Lstm() {
  RnnDescriptor d;
  d.mode = CellMode::kLstm;
  d.num_layers = 2;
  d.num_directions = 2;
  d.input_size = 5;
  d.hidden_size = 5;
  d.dropout = 0.25f;
  return d;
}
constexpr int64_t kTime = 6;
constexpr uint64_t kKey = 0xfedcba9876543210;
const std::vector<int32_t> kLengths = {4, 0, 6};

TEST(ReserveLayoutTest, PartsFollowEachOther) {
  const Sequences sequences = MakeSequences(kTime, kLengths);
  RnnDescriptor d = Lstm();
  d.num_layers = 3;
  d.num_proj = 2;
  ReserveLayout layout;
  ASSERT_TRUE(ReserveLayout::Create(d, sequences, &layout).ok());
  constexpr int64_t kValidRows = 10;
  EXPECT_EQ(ReservedRowSize(d), 25);
  int64_t next = ReserveHeader::kSize;
  for (int64_t k = 0; k < 6; ++k) {
    EXPECT_EQ(layout.ActivationsOffset(k), next) << k;
    next += kValidRows * 25;
  }
  for (int64_t layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(layout.LayerOutputOffset(layer), next) << layer;
    next += kValidRows * 2 * 2;
  }
  EXPECT_EQ(layout.size(), next);
}

TEST(ReserveLayoutTest, RowsHoldWhatTheirCellSaves) {
  const Sequences sequences = MakeSequences(kTime, kLengths);
  ReserveLayout layout;
  RnnDescriptor d = Lstm();
  d.num_layers = 1;
  for (const auto& [mode, row_size] :
       std::vector<std::pair<CellMode, int64_t>>{{CellMode::kRelu, 0},
                                                 {CellMode::kTanh, 0},
                                                 {CellMode::kLstm, 25},
                                                 {CellMode::kGru, 20}}) {
    d.mode = mode;
    ASSERT_TRUE(ReserveLayout::Create(d, sequences, &layout).ok());
    EXPECT_EQ(ReservedRowSize(d), row_size);
    EXPECT_EQ(layout.size(), ReserveHeader::kSize + 2 * 10 * row_size);
  }
}

TEST(ReserveLayoutTest, RefusesSizesThatOverflow) {
  RnnDescriptor d = Lstm();
  const int32_t most = std::numeric_limits<int32_t>::max();
  d.hidden_size = int64_t{1} << 61;
  ReserveLayout layout;
  const Status status =
      ReserveLayout::Create(d, MakeSequences(kTime, {1, 2}), &layout);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("the size of reserve_space overflows"),
            std::string::npos)
      << status.message();
  d = Lstm();
  d.num_layers = most;
  d.hidden_size = int64_t{1} << 30;
  EXPECT_EQ(
      ReserveLayout::Create(d, MakeSequences(kTime, {1, 2}), &layout).code(),
      StatusCode::kResourceExhausted);
}

template <typename Element>
class CheckReserveTest : public testing::Test {
 protected:
  // What Forward leaves, as far as CheckReserve looks.
  static std::vector<Element> Reserve(const RnnDescriptor& d,
                                      const Sequences& sequences,
                                      uint64_t key) {
    ReserveLayout layout;
    EXPECT_TRUE(ReserveLayout::Create(d, sequences, &layout).ok());
    std::vector<ComputeType<Element>> values(layout.size());
    const ReserveHeader header(d, sequences, PaddedLayout{}, key);
    std::copy(header.bytes().begin(), header.bytes().end(), values.begin());
    std::vector<Element> reserve(layout.size());
    Store(values.data(), reserve.data(), layout.size());
    return reserve;
  }

  static Status Check(const RnnDescriptor& d, const Sequences& sequences,
                      const std::vector<Element>& reserve,
                      const PaddedLayout& layout = {},
                      uint64_t* dropout_key = nullptr) {
    ReserveLayout reserve_layout;
    EXPECT_TRUE(ReserveLayout::Create(d, sequences, &reserve_layout).ok());
    uint64_t key;
    return CheckReserve(d, sequences, reserve_layout, layout, reserve.data(),
                        static_cast<int64_t>(reserve.size()),
                        dropout_key == nullptr ? &key : dropout_key);
  }

  static void SetHeader(std::vector<Element>* reserve, int64_t index,
                        double value) {
    const auto compute = static_cast<ComputeType<Element>>(value);
    Store(&compute, &(*reserve)[index], 1);
  }
};
using Types = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(CheckReserveTest, Types);

constexpr char kOtherSize[] = "reserve_space must have the ";
constexpr char kOtherCall[] =
    "reserve_space was made by a call of other options, sizes or "
    "sequence_lengths";

void ExpectRefused(const Status& status, const std::string& message) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().substr(0, message.size()), message);
}

TYPED_TEST(CheckReserveTest, AcceptsItsOwn) {
  for (uint64_t key : {uint64_t{0}, kKey, ~uint64_t{0}}) {
    const Sequences sequences = MakeSequences(kTime, kLengths);
    uint64_t read_key;
    const Status status =
        this->Check(Lstm(), sequences, this->Reserve(Lstm(), sequences, key),
                    PaddedLayout{}, &read_key);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(read_key, key);
  }
}

TYPED_TEST(CheckReserveTest, RefusesOtherSizes) {
  const Sequences sequences = MakeSequences(kTime, kLengths);
  const auto reserve = this->Reserve(Lstm(), sequences, kKey);
  auto longer = reserve;
  longer.push_back({});
  ExpectRefused(this->Check(Lstm(), sequences, longer), kOtherSize);
  auto shorter = reserve;
  shorter.pop_back();
  ExpectRefused(this->Check(Lstm(), sequences, shorter), kOtherSize);
  // Nothing is read of what is too short to have a header.
  ReserveLayout layout;
  ASSERT_TRUE(ReserveLayout::Create(Lstm(), sequences, &layout).ok());
  for (int64_t size : {0, 1, 8, 95}) {
    uint64_t key;
    ExpectRefused(CheckReserve<TypeParam>(Lstm(), sequences, layout, {},
                                          nullptr, size, &key),
                  kOtherSize);
  }
}

// Each of these needs a reserve of the very same size.
TYPED_TEST(CheckReserveTest, RefusesOtherOptionsOfEqualSize) {
  const Sequences sequences = MakeSequences(kTime, kLengths);
  const auto expect_refused =
      [&](const std::function<void(RnnDescriptor*)>& change,
          RnnDescriptor made_by) {
        RnnDescriptor d = made_by;
        change(&d);
        const auto reserve = this->Reserve(made_by, sequences, kKey);
        ASSERT_EQ(this->Reserve(d, sequences, kKey).size(), reserve.size());
        ExpectRefused(this->Check(d, sequences, reserve), kOtherCall);
      };
  expect_refused([](RnnDescriptor* d) { d->dropout = 0.5f; }, Lstm());
  expect_refused([](RnnDescriptor* d) { d->dropout = 0; }, Lstm());
  expect_refused([](RnnDescriptor* d) { d->input_size = 6; }, Lstm());
  expect_refused([](RnnDescriptor* d) { d->skip_input = true; }, Lstm());
  RnnDescriptor vanilla = Lstm();
  vanilla.mode = CellMode::kTanh;
  expect_refused([](RnnDescriptor* d) { d->mode = CellMode::kRelu; }, vanilla);
  RnnDescriptor one_layer = Lstm();
  one_layer.num_layers = 1;
  one_layer.num_directions = 1;
  expect_refused(
      [](RnnDescriptor* d) {
        d->mode = CellMode::kGru;
        d->hidden_size = 25;
        d->input_size = 5;
      },
      [&] {
        RnnDescriptor d = one_layer;
        d.hidden_size = 20;
        return d;
      }());
  // A cell that saves nothing, in one layer: the header alone.
  RnnDescriptor saves_nothing = vanilla;
  saves_nothing.num_layers = 1;
  expect_refused([](RnnDescriptor* d) { d->num_directions = 1; },
                 saves_nothing);
  expect_refused([](RnnDescriptor* d) { d->hidden_size = 6; }, saves_nothing);
  RnnDescriptor projecting = one_layer;
  projecting.num_proj = 2;
  expect_refused([](RnnDescriptor* d) { d->num_proj = 3; }, projecting);
}

TYPED_TEST(CheckReserveTest, RefusesOtherSequencesOfEqualSize) {
  const Sequences sequences = MakeSequences(kTime, kLengths);
  const auto reserve = this->Reserve(Lstm(), sequences, kKey);
  for (const std::vector<int32_t>& lengths : std::vector<std::vector<int32_t>>{
           {0, 4, 6}, {5, 0, 5}, {4, 1, 5}, {4, 6}, {4, 0, 6, 0}}) {
    const Sequences other = MakeSequences(kTime, lengths);
    ASSERT_EQ(other.num_valid_rows(), sequences.num_valid_rows());
    ExpectRefused(this->Check(Lstm(), other, reserve), kOtherCall);
  }
  ExpectRefused(
      this->Check(Lstm(), MakeSequences(kTime + 1, kLengths), reserve),
      kOtherCall);
}

TYPED_TEST(CheckReserveTest, RefusesOtherLayouts) {
  const Sequences sequences = MakeSequences(kTime, kLengths);
  const auto reserve = this->Reserve(Lstm(), sequences, kKey);
  for (const PaddedLayout layout :
       {PaddedLayout{false, true}, PaddedLayout{true, false}}) {
    ExpectRefused(this->Check(Lstm(), sequences, reserve, layout), kOtherCall);
  }
}

TYPED_TEST(CheckReserveTest, RefusesKeysThatAreNotBytes) {
  const Sequences sequences = MakeSequences(kTime, kLengths);
  const auto good = this->Reserve(Lstm(), sequences, kKey);
  for (int64_t byte = 0; byte < 8; ++byte) {
    for (double junk :
         {0.5, -1.0, 256.0, 1e4, std::numeric_limits<double>::infinity(),
          std::numeric_limits<double>::quiet_NaN()}) {
      auto reserve = good;
      this->SetHeader(&reserve, ReserveHeader::kKeyOffset + byte, junk);
      ExpectRefused(this->Check(Lstm(), sequences, reserve), kOtherCall);
    }
  }
}

TYPED_TEST(CheckReserveTest, RefusesAnyOtherChangeOfTheHeader) {
  const Sequences sequences = MakeSequences(kTime, kLengths);
  const auto good = this->Reserve(Lstm(), sequences, kKey);
  const ReserveHeader header(Lstm(), sequences, PaddedLayout{}, kKey);
  for (int64_t i = 0; i < ReserveHeader::kSize; ++i) {
    if (i >= ReserveHeader::kKeyOffset && i < ReserveHeader::kKeyOffset + 8) {
      continue;  // any key will do
    }
    auto reserve = good;
    this->SetHeader(&reserve, i, (header.bytes()[i] + 1) % 256);
    ExpectRefused(this->Check(Lstm(), sequences, reserve), kOtherCall);
    this->SetHeader(&reserve, i, std::numeric_limits<double>::quiet_NaN());
    ExpectRefused(this->Check(Lstm(), sequences, reserve), kOtherCall);
  }
}

TYPED_TEST(CheckReserveTest, RefusesZerosAndJunk) {
  const Sequences sequences = MakeSequences(kTime, kLengths);
  auto reserve = this->Reserve(Lstm(), sequences, kKey);
  std::fill(reserve.begin(), reserve.end(), TypeParam{});
  ExpectRefused(this->Check(Lstm(), sequences, reserve), kOtherCall);
  RandomValues random(10);
  auto* bytes = reinterpret_cast<unsigned char*>(reserve.data());
  for (size_t i = 0; i < reserve.size() * sizeof(TypeParam); ++i) {
    bytes[i] = static_cast<unsigned char>(random.Bits());
  }
  ExpectRefused(this->Check(Lstm(), sequences, reserve), kOtherCall);
}

}  // namespace
}  // namespace rnn
