// The engine a second time, for tests only: double precision and plain loops,
// with no thought of speed. It shares the vocabulary and the layout of params
// with the engine (params_layout_test.cc checks the latter by itself), and no
// arithmetic.
#ifndef TESTS_ENGINE_REFERENCE_RNN_H_
#define TESTS_ENGINE_REFERENCE_RNN_H_

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "network/cell.h"
#include "network/descriptor.h"

namespace rnn {
namespace reference {

using Vector = std::vector<double>;
using Gates = std::array<double, kMaxGates>;  // in the order of cell.h

// What one hidden unit reads in one step: for each gate W x + bW and R h + bR,
// and the states before.
struct CellInput {
  Gates w_x{};
  Gates r_h{};
  double h = 0;
  double c = 0;
};

// What it makes of it. `h` is before any projection.
struct CellOutput {
  Gates gates{};  // LSTM, GRU: activations
  double q = 0;   // GRU: R_n h + bR_n
  double h = 0;
  double c = 0;
};

// Gradients of CellInput; `h` is of the h that the cell itself reads (GRU).
using CellGradient = CellInput;

CellOutput CellForward(CellMode mode, const CellInput& input);
CellGradient CellBackward(CellMode mode, const CellInput& input,
                          const CellOutput& output, double dh, double dc);

// All tensors dense and time-major.
struct Problem {
  RnnDescriptor descriptor;
  int64_t max_time = 0;
  std::vector<int64_t> lengths;  // [B]

  Vector x, h0, c0, params;
  Vector dy, dh_n, dc_n;

  bool apply_dropout = false;
  uint64_t dropout_key = 0;

  // Rounds what a tensor stores, the reserve included.
  std::function<double(double)> round = [](double value) { return value; };

  int64_t batch() const { return static_cast<int64_t>(lengths.size()); }
};

struct Outputs {
  Vector y, h_n, c_n;
  // Of all that ReLUs took, the least distance from zero, where the derivative
  // jumps; infinity if there is none.
  double nearest_kink = std::numeric_limits<double>::infinity();
};
struct Gradients {
  Vector dx, dh0, dc0, dparams;
};

struct Result {
  Outputs outputs;
  Gradients gradients;
};

// Forward and backward; padding is not read.
Result Run(const Problem& problem);

// The scalar whose gradients Run() returns: sum of y.dy + h_n.dh_n + c_n.dc_n.
double Loss(const Problem& problem);

}  // namespace reference
}  // namespace rnn

#endif  // TESTS_ENGINE_REFERENCE_RNN_H_
