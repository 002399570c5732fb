#include "network/params_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "network/sizes.h"
#include "tests/engine/random_values.h"

namespace rnn {
namespace {

struct SizeCase {
  const char* name;
  CellMode mode;
  int64_t num_layers, hidden_size, input_size, num_directions, num_proj;
  bool skip_input;
  int64_t size;
};

RnnDescriptor Descriptor(const SizeCase& c) {
  RnnDescriptor d;
  d.mode = c.mode;
  d.num_layers = c.num_layers;
  d.hidden_size = c.hidden_size;
  d.input_size = c.input_size;
  d.num_directions = c.num_directions;
  d.num_proj = c.num_proj;
  d.skip_input = c.skip_input;
  return d;
}

ParamsLayout Layout(const RnnDescriptor& descriptor) {
  ParamsLayout layout;
  const Status status = ParamsLayout::Create(descriptor, &layout);
  EXPECT_TRUE(status.ok()) << status.message();
  return layout;
}

TEST(ParamsLayoutTest, SizesAreThoseOfCudnn) {
  const SizeCase cases[] = {
      {"lstm", CellMode::kLstm, 1, 4, 3, 1, 0, false, 144},
      {"lstm L2", CellMode::kLstm, 2, 7, 3, 1, 0, false, 784},
      {"lstm L2 D2", CellMode::kLstm, 2, 7, 3, 2, 0, false, 1960},
      {"gru", CellMode::kGru, 1, 4, 3, 1, 0, false, 108},
      {"gru L2", CellMode::kGru, 2, 7, 3, 1, 0, false, 588},
      {"gru L2 D2", CellMode::kGru, 2, 7, 3, 2, 0, false, 1470},
      {"tanh", CellMode::kTanh, 1, 4, 3, 1, 0, false, 36},
      {"relu L2 D2", CellMode::kRelu, 2, 7, 3, 2, 0, false, 490},
      {"lstm L4 H200", CellMode::kLstm, 4, 200, 300, 1, 0, false, 1366400},
      {"lstm H100", CellMode::kLstm, 1, 100, 28, 1, 0, false, 52000},
      {"projection L2", CellMode::kLstm, 2, 7, 3, 1, 3, false, 490},
      {"projection L2 D2", CellMode::kLstm, 2, 7, 3, 2, 3, false, 1148},
      {"projection to H is none", CellMode::kLstm, 2, 7, 3, 2, 7, false, 1960},
      {"lstm skip", CellMode::kLstm, 1, 4, 4, 1, 0, true, 96},
      {"gru skip L2 D2", CellMode::kGru, 2, 4, 4, 2, 0, true, 480},
  };
  for (const SizeCase& c : cases) {
    EXPECT_EQ(Layout(Descriptor(c)).size(), c.size) << c.name;
  }
}

// A projecting, bidirectional LSTM of two layers: H 3, P 2, I 5.
TEST(ParamsLayoutTest, RegionsFollowEachOther) {
  const ParamsLayout layout =
      Layout(Descriptor({"", CellMode::kLstm, 2, 3, 5, 2, 2, false, 0}));
  constexpr int64_t kGH = 12, kH = 3, kP = 2;
  int64_t next = 0;
  const auto expect_next = [&](const Region& region, int64_t rows,
                               int64_t columns, const std::string& what) {
    EXPECT_EQ(region.offset, next) << what;
    EXPECT_EQ(region.rows, rows) << what;
    EXPECT_EQ(region.columns, columns) << what;
    next += rows * columns;
  };
  for (int64_t k = 0; k < 4; ++k) {
    const std::string of_k = " of pseudo-layer " + std::to_string(k);
    expect_next(layout.InputWeights(k), kGH, k < 2 ? 5 : 2 * kP, "W" + of_k);
    expect_next(layout.RecurrentWeights(k), kGH, kP, "R" + of_k);
    expect_next(layout.Projection(k), kP, kH, "projection" + of_k);
  }
  for (int64_t k = 0; k < 4; ++k) {
    const std::string of_k = " of pseudo-layer " + std::to_string(k);
    expect_next(layout.InputBias(k), kGH, 1, "bW" + of_k);
    expect_next(layout.RecurrentBias(k), kGH, 1, "bR" + of_k);
  }
  EXPECT_EQ(layout.size(), next);
}

// What the canonical ops hand out: gate by gate, W before R before projection.
TEST(ParamsLayoutTest, CanonicalListsGoGateByGate) {
  const ParamsLayout layout =
      Layout(Descriptor({"", CellMode::kLstm, 2, 3, 5, 1, 2, false, 0}));
  ASSERT_EQ(layout.num_canonical_weights(), 2 * 9);
  ASSERT_EQ(layout.num_canonical_biases(), 2 * 8);
  int64_t next = 0;
  for (int64_t i = 0; i < layout.num_canonical_weights(); ++i) {
    const Region region = layout.CanonicalWeight(i);
    EXPECT_EQ(region.offset, next) << i;
    EXPECT_EQ(region.rows, i % 9 == 8 ? 2 : 3) << i;
    EXPECT_EQ(region.columns, i % 9 == 8   ? 3
                              : i % 9 >= 4 ? 2
                              : i < 9      ? 5
                                           : 2)
        << i;
    next += region.size();
  }
  for (int64_t i = 0; i < layout.num_canonical_biases(); ++i) {
    const Region region = layout.CanonicalBias(i);
    EXPECT_EQ(region.offset, next) << i;
    EXPECT_EQ(region.rows, 3) << i;
    EXPECT_EQ(region.columns, 1) << i;
    next += region.size();
  }
  EXPECT_EQ(next, layout.size());
}

TEST(ParamsLayoutTest, SkippedInputLeavesEmptyMatricesInTheFirstLayer) {
  const ParamsLayout layout =
      Layout(Descriptor({"", CellMode::kGru, 2, 4, 4, 2, 0, true, 0}));
  for (int64_t k = 0; k < 4; ++k) {
    EXPECT_EQ(layout.InputWeights(k).columns, k < 2 ? 0 : 8) << k;
  }
  ASSERT_EQ(layout.num_canonical_weights(), 4 * 6);
  for (int64_t i = 0; i < layout.num_canonical_weights(); ++i) {
    EXPECT_EQ(layout.CanonicalWeight(i).rows, 4) << i;
    EXPECT_EQ(layout.CanonicalWeight(i).columns, i % 6 >= 3 ? 4
                                                 : i < 12   ? 0
                                                            : 8)
        << i;
  }
}

TEST(ParamsLayoutTest, RegionsAreDisjointAndCoverEverything) {
  RandomValues random(7);
  for (int draw = 0; draw < 500; ++draw) {
    RnnDescriptor d;
    d.mode = static_cast<CellMode>(random.Integer(0, 3));
    d.num_layers = random.Integer(1, 4);
    d.num_directions = random.Integer(1, 2);
    d.hidden_size = random.Integer(1, 9);
    d.input_size = random.Integer(1, 9);
    d.skip_input = random.Integer(0, 2) == 0;
    if (d.skip_input) d.input_size = d.hidden_size;
    if (d.mode == CellMode::kLstm)
      d.num_proj = random.Integer(0, d.hidden_size);
    SCOPED_TRACE(testing::Message()
                 << "mode " << static_cast<int>(d.mode) << ", L "
                 << d.num_layers << ", D " << d.num_directions << ", H "
                 << d.hidden_size << ", I " << d.input_size << ", num_proj "
                 << d.num_proj << ", skip_input " << d.skip_input);
    const ParamsLayout layout = Layout(d);

    const auto expect_cover = [&](const std::vector<Region>& regions) {
      std::vector<int> owners(layout.size());
      for (const Region& region : regions) {
        ASSERT_GE(region.offset, 0);
        ASSERT_LE(region.offset + region.size(), layout.size());
        for (int64_t i = 0; i < region.size(); ++i) ++owners[region.offset + i];
      }
      EXPECT_EQ(std::count(owners.begin(), owners.end(), 1), layout.size());
    };
    std::vector<Region> whole, canonical;
    for (int64_t k = 0; k < d.num_pseudo_layers(); ++k) {
      for (const Region& region :
           {layout.InputWeights(k), layout.RecurrentWeights(k),
            layout.Projection(k), layout.InputBias(k),
            layout.RecurrentBias(k)}) {
        whole.push_back(region);
      }
    }
    for (int64_t i = 0; i < layout.num_canonical_weights(); ++i) {
      canonical.push_back(layout.CanonicalWeight(i));
    }
    for (int64_t i = 0; i < layout.num_canonical_biases(); ++i) {
      canonical.push_back(layout.CanonicalBias(i));
    }
    expect_cover(whole);
    expect_cover(canonical);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ParamsLayoutTest, RefusesWhatValidateRefuses) {
  RnnDescriptor d;
  d.hidden_size = 0;
  d.input_size = 3;
  ParamsLayout layout;
  EXPECT_EQ(ParamsLayout::Create(d, &layout).code(),
            StatusCode::kInvalidArgument);
}

// Sizes past 2^31 are fine; sizes that bytes cannot be counted for are not.
TEST(ParamsLayoutTest, RefusesSizesThatOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  RnnDescriptor d;
  d.mode = CellMode::kTanh;
  d.input_size = int64_t{1} << 20;
  d.hidden_size = int64_t{1} << 20;
  EXPECT_EQ(Layout(d).size(), (int64_t{1} << 41) + (int64_t{1} << 21));

  const auto expect_overflow = [](const RnnDescriptor& descriptor) {
    ParamsLayout layout;
    const Status status = ParamsLayout::Create(descriptor, &layout);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("the size of params overflows"),
              std::string::npos)
        << status.message();
  };
  for (CellMode mode :
       {CellMode::kRelu, CellMode::kTanh, CellMode::kLstm, CellMode::kGru}) {
    d = RnnDescriptor();
    d.mode = mode;
    d.num_directions = 2;
    // The product of two, of three, and each alone.
    for (const auto& [layers, input, hidden] :
         std::vector<std::array<int64_t, 3>>{{1, 1, int64_t{1} << 31},
                                             {1, int64_t{1} << 32, 1 << 30},
                                             {1 << 30, 1 << 20, 1 << 20},
                                             {kHuge, 1, 1},
                                             {1, kHuge, 1},
                                             {1, 1, kHuge},
                                             {kHuge, kHuge, kHuge}}) {
      d.num_layers = layers;
      d.input_size = input;
      d.hidden_size = hidden;
      SCOPED_TRACE(testing::Message()
                   << static_cast<int>(mode) << ": L " << layers << ", I "
                   << input << ", H " << hidden);
      expect_overflow(d);
    }
  }
  // Weights alone would fit: I + 1 of them, and two biases.
  d = RnnDescriptor();
  d.mode = CellMode::kTanh;
  d.hidden_size = 1;
  d.input_size = kMaxTensorSize - 3;
  EXPECT_EQ(Layout(d).size(), kMaxTensorSize);
  d.input_size = kMaxTensorSize - 2;
  expect_overflow(d);
}

}  // namespace
}  // namespace rnn
