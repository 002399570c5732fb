// The micro-kernels, one table per instruction set: everything whose speed
// depends on vector width. F is float or double.
//
// A matrix operand B [depth, columns] is packed in panels: panel p holds
// columns [p * panel_columns, (p+1) * panel_columns) as
// [depth][panel_columns], the tail filled with zeros. The kernel dictates the
// panel width and packing adapts.
//
// Every element of a product is one chain of fused multiply-adds over depth in
// blocks of fixed size: its bits depend neither on the tile that computes it
// nor on its neighbours.
#ifndef KERNELS_ENGINE_SIMD_SIMD_KERNELS_H_
#define KERNELS_ENGINE_SIMD_SIMD_KERNELS_H_

#include <stdint.h>

#include "kernels/engine/cell.h"

namespace rnn {

// A panel of B as it is used: packed, or, for a few rows only, where the caller
// keeps it. All three give the same bits.
inline constexpr int kMaxPanelVectors = 4;
template <typename F>
struct Panel {
  const F* packed;  // [depth][panel columns], or nullptr
  // Vector v of B[k] at vectors[v] + k * stride, all lanes readable;
  // vectors[0] is nullptr if not used.
  const F* vectors[kMaxPanelVectors];
  int64_t stride;
  // [panel columns] -> [depth]: B transposed; nullptr stands for zeros.
  const F* const* rows;
};

// The most rows of a product whose panel is not packed.
inline constexpr int64_t kMaxRowsUnpacked = 32;

// c[m][j] = (accumulate ? c[m][j] : bias ? bias[j] : 0)
//         + sum over k of a[m][k] * b[k][j]
template <typename F>
struct PanelProduct {
  int64_t rows;
  int64_t depth;
  int64_t columns;    // of this panel; at most panel_columns
  const F* const* a;  // [rows] -> [depth]
  Panel<F> b;
  F* const* c;  // [rows] -> row; columns start at c_offset
  int64_t c_offset;
  const F* bias;  // [columns], or nullptr
  bool accumulate;
};

// One time step of one panel of hidden units: the recurrent product, the gates
// and the state update.
template <typename F>
struct CellForwardStep {
  int64_t rows;
  int64_t hidden_size;          // H
  int64_t unit;                 // first unit of the panel
  int64_t units;                // at most cell_units
  int64_t depth;                // P
  Panel<F> recurrent;           // [P][G][cell_units]
  const F* const* h_prev;       // [rows] -> [P]
  const F* input_gates;         // [rows][G*H]: W x + biases
  const F* recurrent_new_bias;  // GRU: bR_n [H]
  F* c;                         // LSTM: [rows][H], updated in place
  F* const* h;                  // [rows] -> [H], out
  F* const* saved;  // [rows] -> reserve row, out; nullptr: keep nothing
};

// One time step of units [unit, unit + units): from the gradient of h to those
// of the gates' pre-activations.
template <typename F>
struct CellBackwardStep {
  int64_t rows;
  int64_t hidden_size;
  int64_t unit;
  int64_t units;
  const F* const* saved;   // LSTM, GRU: [rows] -> reserve row
  const F* const* c_prev;  // LSTM: [rows] -> [H]
  const F* const* h_prev;  // GRU: [rows] -> [H]
  const F* const* h;       // tanh, ReLU: [rows] -> [H]
  const F* const* dy;      // [rows] -> [H], or nullptr: added to dh
  F* dh;                   // [rows][H]; GRU: out, what passes h' = .. + z.h by
  F* dc;                   // LSTM: [rows][H], in: of c', out: of c
  F* dgates;               // [rows][G*H], out
  F* dgates_recurrent;     // GRU: [rows][G*H], out: as R h sees them
  F* m;                    // LSTM: [rows][H], out: o.tanh(c'); or nullptr
};

// Arrays are indexed by CellMode.
template <typename F>
struct SimdKernels {
  int lanes;  // of a vector
  int panel_columns;
  int cell_units[kNumCellModes];  // hidden units of a CellForwardStep panel

  void (*multiply_panel)(const PanelProduct<F>&);
  // out[(k - k_begin) * out_stride + j] = rows[j][k] for k in [k_begin, k_end)
  // and j < columns; a row that is nullptr gives zeros.
  void (*transpose_rows)(const F* const* rows, int64_t columns, int64_t k_begin,
                         int64_t k_end, F* out, int64_t out_stride);
  // sums[j] = (accumulate ? sums[j] : 0) + the sum of rows[i][first_column +
  // j], one row after another, for j < columns.
  void (*sum_rows)(const F* const* rows, int64_t num_rows, int64_t first_column,
                   int64_t columns, bool accumulate, F* sums);
  void (*cell_forward[kNumCellModes])(const CellForwardStep<F>&);
  void (*cell_backward[kNumCellModes])(const CellBackwardStep<F>&);
};

// 16-bit elements by their bits, round to nearest even.
struct SimdConversions {
  void (*half_to_float)(const uint16_t* in, float* out, int64_t count);
  void (*float_to_half)(const float* in, uint16_t* out, int64_t count);
  void (*bfloat16_to_float)(const uint16_t* in, float* out, int64_t count);
  void (*float_to_bfloat16)(const float* in, uint16_t* out, int64_t count);
};

// For the accuracy tests.
template <typename F>
struct SimdMath {
  void (*sigmoid)(const F* in, F* out, int64_t count);
  void (*tanh)(const F* in, F* out, int64_t count);
};

struct SimdTarget {
  const char* name;
  SimdKernels<float> float_kernels;
  SimdKernels<double> double_kernels;
  SimdConversions conversions;
  SimdMath<float> float_math;
  SimdMath<double> double_math;
};

// The best target this CPU runs; TF_CUDNN_RNN_ISA=<name> in the environment
// limits the choice to that one and those below it in isa.inc. Decided once.
inline constexpr char kSimdTargetVariable[] = "TF_CUDNN_RNN_ISA";
const SimdTarget& SelectSimdTarget();

// Whether isa.inc has a target of this name, which this CPU may not run.
bool IsSimdTargetName(const char* name);

// All targets this CPU runs, best first; at most `capacity` are written.
int SupportedSimdTargets(const SimdTarget** targets, int capacity);

}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_SIMD_KERNELS_H_
