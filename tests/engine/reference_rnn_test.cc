// The reference against numbers from another program, and its gradients against
// differences of its own forward.

#include "tests/engine/reference_rnn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "network/params_layout.h"

namespace rnn {
namespace {

// ((k + a) * b mod 101) / 101 - 1/2 for k = 0, 1, ...
reference::Vector Fill(int64_t count, int64_t a, int64_t b) {
  reference::Vector values(count);
  for (int64_t k = 0; k < count; ++k) {
    values[k] = static_cast<double>((k + a) * b % 101) / 101 - 0.5;
  }
  return values;
}

double Sum(const reference::Vector& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}
double SumOfMagnitudes(const reference::Vector& values) {
  return std::accumulate(
      values.begin(), values.end(), 0.0,
      [](double sum, double x) { return sum + std::abs(x); });
}

// From a float64 NumPy program of its own that was confirmed with PyTorch; the
// gradients there are central differences.
struct Golden {
  const char* name;
  CellMode mode;
  int64_t num_layers, num_directions, input_size, num_proj;
  bool skip_input;
  std::vector<int64_t> lengths;
  int64_t params_size;
  double y, h_n, c_n;       // sums
  double dx, dx_magnitude;  // sum, sum of magnitudes
  double dh0, dc0;          // sums
  double dparams, dparams_magnitude;
};

const Golden kGolden[] = {
    {"lstm",
     CellMode::kLstm,
     1,
     1,
     5,
     0,
     false,
     {4, 4, 4},
     176,
     3.206432410,
     1.057333263,
     2.124874603,
     0.212364,
     2.495757,
     0.068942,
     -0.321744,
     -1.315529,
     8.084281},
    {"lstm_two_layers_both_directions",
     CellMode::kLstm,
     2,
     2,
     5,
     0,
     false,
     {2, 4, 3},
     800,
     0.329353908,
     1.214991750,
     2.828343129,
     0.333060,
     2.490196,
     -0.159124,
     0.158957,
     -1.688413,
     19.855173},
    {"gru_two_layers_both_directions",
     CellMode::kGru,
     2,
     2,
     5,
     0,
     false,
     {2, 4, 3},
     600,
     -1.663414419,
     0.455751423,
     0,
     1.098049,
     3.997209,
     -0.322175,
     0,
     -1.383587,
     24.911889},
    {"tanh_two_layers",
     CellMode::kTanh,
     2,
     1,
     5,
     0,
     false,
     {4, 4, 4},
     84,
     -14.537279549,
     2.714351290,
     0,
     -0.482078,
     4.032396,
     -0.086173,
     0,
     5.087731,
     27.393861},
    {"relu_both_directions",
     CellMode::kRelu,
     1,
     2,
     5,
     0,
     false,
     {2, 4, 3},
     88,
     18.701809168,
     7.236236668,
     0,
     1.000079,
     5.463783,
     -0.255745,
     0,
     5.896042,
     16.523970},
    {"lstm_projection",
     CellMode::kLstm,
     2,
     1,
     5,
     2,
     false,
     {4, 2, 1},
     256,
     -0.174272351,
     -0.226194537,
     -0.321388302,
     0.016751,
     1.346854,
     0.041870,
     0.035708,
     -0.422556,
     6.694732},
    {"lstm_skip_input",
     CellMode::kLstm,
     2,
     1,
     4,
     0,
     true,
     {4, 4, 4},
     256,
     1.230818673,
     0.012405176,
     -0.645972723,
     -0.384264,
     2.528575,
     -0.124531,
     -0.314821,
     -1.367335,
     10.372108},
    {"gru_skip_input",
     CellMode::kGru,
     1,
     2,
     4,
     0,
     true,
     {4, 4, 4},
     144,
     -7.367690921,
     -1.910172927,
     0,
     0.478437,
     9.689613,
     -0.145814,
     0,
     0.181449,
     10.831725},
    {"lstm_empty_row",
     CellMode::kLstm,
     1,
     2,
     5,
     0,
     false,
     {4, 0, 1},
     352,
     0.161121112,
     0.149193411,
     0.685444754,
     0.878207,
     1.835379,
     -0.272579,
     -1.424578,
     -0.386550,
     11.286402},
};

class ReferenceRnnTest : public testing::TestWithParam<Golden> {
 protected:
  static reference::Problem MakeProblem() {
    const Golden& golden = GetParam();
    constexpr int64_t kTime = 4, kHidden = 4;
    reference::Problem p;
    p.descriptor.mode = golden.mode;
    p.descriptor.num_layers = golden.num_layers;
    p.descriptor.num_directions = golden.num_directions;
    p.descriptor.input_size = golden.input_size;
    p.descriptor.hidden_size = kHidden;
    p.descriptor.num_proj = golden.num_proj;
    p.descriptor.skip_input = golden.skip_input;
    p.max_time = kTime;
    p.lengths = golden.lengths;
    const int64_t B = p.batch();
    const int64_t P = p.descriptor.output_size();
    const int64_t states = p.descriptor.num_pseudo_layers() * B;
    const bool has_c = golden.mode == CellMode::kLstm;
    p.x = Fill(kTime * B * golden.input_size, 1, 37);
    p.h0 = Fill(states * P, 2, 41);
    p.c0 = Fill(has_c ? states * kHidden : 0, 3, 43);
    p.params = Fill(golden.params_size, 4, 53);
    p.dy = Fill(kTime * B * golden.num_directions * P, 5, 29);
    p.dh_n = Fill(states * P, 6, 31);
    p.dc_n = Fill(has_c ? states * kHidden : 0, 7, 59);
    return p;
  }
};

INSTANTIATE_TEST_SUITE_P(Golden, ReferenceRnnTest, testing::ValuesIn(kGolden),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST_P(ReferenceRnnTest, GivesTheGoldenNumbers) {
  const Golden& golden = GetParam();
  const reference::Problem problem = MakeProblem();
  ParamsLayout layout;
  ASSERT_TRUE(ParamsLayout::Create(problem.descriptor, &layout).ok());
  ASSERT_EQ(layout.size(), golden.params_size);
  const auto [outputs, gradients] = reference::Run(problem);
  EXPECT_NEAR(Sum(outputs.y), golden.y, 1e-9);
  EXPECT_NEAR(Sum(outputs.h_n), golden.h_n, 1e-9);
  EXPECT_NEAR(Sum(outputs.c_n), golden.c_n, 1e-9);
  EXPECT_NEAR(Sum(gradients.dx), golden.dx, 1e-6);
  EXPECT_NEAR(SumOfMagnitudes(gradients.dx), golden.dx_magnitude, 1e-6);
  EXPECT_NEAR(Sum(gradients.dh0), golden.dh0, 1e-6);
  EXPECT_NEAR(Sum(gradients.dc0), golden.dc0, 1e-6);
  EXPECT_NEAR(Sum(gradients.dparams), golden.dparams, 1e-6);
  EXPECT_NEAR(SumOfMagnitudes(gradients.dparams), golden.dparams_magnitude,
              1e-6);
}

// Every single gradient, dropout included.
TEST_P(ReferenceRnnTest, GradientsAreThoseOfTheLoss) {
  reference::Problem problem = MakeProblem();
  problem.descriptor.dropout = 0.3f;
  problem.apply_dropout = true;
  problem.dropout_key = 0x123456789abcdef;
  const reference::Gradients gradients = reference::Run(problem).gradients;
  constexpr double kStep = 1e-5;
  const auto check = [&](const char* name, reference::Vector* values,
                         const reference::Vector& gradient) {
    ASSERT_EQ(values->size(), gradient.size()) << name;
    for (size_t i = 0; i < values->size(); ++i) {
      const double value = (*values)[i];
      (*values)[i] = value + kStep;
      const double above = reference::Loss(problem);
      (*values)[i] = value - kStep;
      const double below = reference::Loss(problem);
      (*values)[i] = value;
      ASSERT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-7)
          << name << '[' << i << ']';
    }
  };
  check("dx", &problem.x, gradients.dx);
  check("dh0", &problem.h0, gradients.dh0);
  check("dc0", &problem.c0, gradients.dc0);
  check("dparams", &problem.params, gradients.dparams);
}

}  // namespace
}  // namespace rnn
