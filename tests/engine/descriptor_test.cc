#include "network/descriptor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "network/int8_weights.h"
#include "tests/engine/comma_locale.h"
#include "tests/engine/float_mode.h"

namespace rnn {
namespace {

// Valid, with I == H so that one change at a time can break it.
RnnDescriptor Valid() {
  RnnDescriptor d;
  d.mode = CellMode::kLstm;
  d.num_layers = 2;
  d.num_directions = 2;
  d.input_size = 4;
  d.hidden_size = 4;
  return d;
}

TEST(DescriptorTest, AMinusZeroIsNoDropout) {
  RnnDescriptor d;
  d.input_size = d.hidden_size = 4;
  d.dropout = -0.0f;
  EXPECT_TRUE(Validate(d).ok()) << Validate(d).message();
}

TEST(DescriptorTest, AcceptsTheLimits) {
  const auto expect_valid =
      [](const std::function<void(RnnDescriptor*)>& change) {
        RnnDescriptor d = Valid();
        change(&d);
        const Status status = Validate(d);
        EXPECT_TRUE(status.ok()) << status.message();
      };
  expect_valid([](RnnDescriptor*) {});
  expect_valid([](RnnDescriptor* d) { d->num_layers = 1; });
  expect_valid([](RnnDescriptor* d) { d->num_directions = 1; });
  expect_valid([](RnnDescriptor* d) { d->input_size = 1; });
  expect_valid([](RnnDescriptor* d) { d->hidden_size = 1; });
  expect_valid([](RnnDescriptor* d) { d->num_proj = 1; });
  expect_valid([](RnnDescriptor* d) { d->num_proj = 4; });
  expect_valid([](RnnDescriptor* d) { d->skip_input = true; });
  expect_valid([](RnnDescriptor* d) { d->dropout = 1.0f; });
}

struct Refusal {
  const char* name;
  void (*change)(RnnDescriptor*);
  const char* message;
};

const Refusal kRefusals[] = {
    {"no_layers", [](RnnDescriptor* d) { d->num_layers = 0; },
     "num_layers must be at least 1, got 0."},
    {"negative_layers", [](RnnDescriptor* d) { d->num_layers = -2; },
     "num_layers must be at least 1, got -2."},
    {"no_directions", [](RnnDescriptor* d) { d->num_directions = 0; },
     "the number of directions must be 1 or 2, got 0."},
    {"three_directions", [](RnnDescriptor* d) { d->num_directions = 3; },
     "the number of directions must be 1 or 2, got 3."},
    {"no_units", [](RnnDescriptor* d) { d->hidden_size = 0; },
     "num_units must be at least 1, got 0."},
    {"no_input", [](RnnDescriptor* d) { d->input_size = 0; },
     "input_size must be at least 1, got 0."},
    {"projecting_gru",
     [](RnnDescriptor* d) {
       d->mode = CellMode::kGru;
       d->num_proj = 4;
     },
     "num_proj must be 0 unless rnn_mode is \"lstm\": only LSTM cells have a "
     "projection, got num_proj = 4."},
    {"projection_wider_than_hidden", [](RnnDescriptor* d) { d->num_proj = 5; },
     "num_proj must be in [0, num_units] = [0, 4], got 5."},
    {"negative_projection", [](RnnDescriptor* d) { d->num_proj = -1; },
     "num_proj must be in [0, num_units] = [0, 4], got -1."},
    {"skip_input_of_other_size",
     [](RnnDescriptor* d) {
       d->skip_input = true;
       d->input_size = 3;
     },
     "input_mode \"skip_input\" needs input_size == num_units, got input_size "
     "= 3 and num_units = 4; use \"linear_input\"."},
    {"dropout_above_one", [](RnnDescriptor* d) { d->dropout = 1.5f; },
     "dropout must be in [0, 1], got 1.5."},
    {"negative_dropout", [](RnnDescriptor* d) { d->dropout = -0.25f; },
     "dropout must be in [0, 1], got -0.25."},
    {"dropout_nan",
     [](RnnDescriptor* d) {
       d->dropout = std::numeric_limits<float>::quiet_NaN();
     },
     "dropout must be in [0, 1], got nan."},
};

class DescriptorRefusalTest : public testing::TestWithParam<Refusal> {};
INSTANTIATE_TEST_SUITE_P(Fields, DescriptorRefusalTest,
                         testing::ValuesIn(kRefusals), [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST_P(DescriptorRefusalTest, SaysTheFieldTheRuleAndWhatCame) {
  RnnDescriptor d = Valid();
  GetParam().change(&d);
  const Status status = Validate(d);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), GetParam().message);
}

TEST(DescriptorTest, ProjectionToTheHiddenSizeIsNone) {
  RnnDescriptor d = Valid();
  d.num_proj = 4;
  EXPECT_FALSE(d.has_projection());
  EXPECT_EQ(d.output_size(), 4);
  d.num_proj = 3;
  EXPECT_TRUE(d.has_projection());
  EXPECT_EQ(d.output_size(), 3);
  EXPECT_EQ(d.layer_input_size(0), 4);
  EXPECT_EQ(d.layer_input_size(1), 6);
}

TEST(DescriptorTest, WidthsAndPseudoLayersAreThoseOfBothDirections) {
  RnnDescriptor d = Valid();
  d.num_layers = 3;
  d.num_directions = 2;
  d.hidden_size = 5;
  d.input_size = 9;
  EXPECT_EQ(d.layer_output_size(), 10);
  EXPECT_EQ(d.widest_input(), 10);
  d.input_size = 11;
  EXPECT_EQ(d.widest_input(), 11);
  d.num_layers = 1;
  d.input_size = 9;
  EXPECT_EQ(d.widest_input(), 9);
  int64_t k = 0;
  for (int64_t layer : {0, 1, 2}) {
    for (int direction : {0, 1}) {
      EXPECT_EQ(d.pseudo_layer(layer, direction), k);
      EXPECT_EQ(d.layer_of(k), layer);
      EXPECT_EQ(d.direction_of(k), direction);
      ++k;
    }
  }
}

TEST(DescriptorTest, DropoutOfAnyProbabilityDrops) {
  const float least = std::numeric_limits<float>::denorm_min();
  const auto expect_alike = [&] {
    EXPECT_TRUE(DropsOut(1.0f) && DropsOut(0.25f) && DropsOut(least));
    EXPECT_FALSE(DropsOut(0.0f) || DropsOut(-0.0f));
  };
  const uint64_t mode = FloatMode();
  expect_alike();
  FlushDenormals();
  expect_alike();
  SetFloatMode(mode);
}

TEST(DescriptorTest, MessagesAreWrittenAlikeInEachLocale) {
  const CommaLocale locale;
  RnnDescriptor d = Valid();
  d.dropout = 1234.5f;
  EXPECT_EQ(Validate(d).message(), "dropout must be in [0, 1], got 1234.5.");
  std::vector<float> scales(1235, 1.0f);
  scales.back() = -0.5f;
  EXPECT_NE(CheckInt8Scales(scales.data(), 1235)
                .message()
                .find("got scales[1234] = -0.5;"),
            std::string::npos);
}

}  // namespace
}  // namespace rnn
