// The micro-kernels, one table per instruction set: everything whose speed
// depends on vector width.
//
// Operand is the type of the rows that kernels read and write, and of products'
// operands: float, double or, where the instruction set multiplies it,
// BFloat16. F is the type computed in: sums, gates and the LSTM's c.
//
// A matrix operand B [depth, columns] is packed in panels: panel p holds
// columns [p * panel_columns, (p+1) * panel_columns) as
// [depth / kDepthStep][panel_columns][kDepthStep], the tail filled with zeros.
// The kernel dictates the panel width and packing adapts.
//
// Weights that never change may be packed in dot panels instead, of
// dot_columns. A block of depth is filled up with zeros to whole rounds of
// dot_round, and is a group of dot_chains after another, each of
// [rounds][dot_chains][dot_columns][kDepthStep]. So the chains of a dot product
// follow each other, and lanes are columns.
//
// Every element of a product is the sum of chains of multiply-adds over parts
// of depth of fixed size (in cell_forward one over all of it), or, if B is
// given by its columns or in dot panels, of one chain for each lane of a
// vector, added up in pairs: its bits depend neither on the tile that computes
// it nor on its neighbours. Vectors fuse a multiply-add, plain C++ may round
// twice. A pair of bfloat16 products is two links of the chain, the second of
// the pair first, each rounded to nearest even whatever the floating-point
// environment says, with denormals read and written as zeros. On tile registers
// chains are other ones (amx-inl.h), and so are those of floats in parts.
#ifndef KERNELS_ENGINE_SIMD_SIMD_KERNELS_H_
#define KERNELS_ENGINE_SIMD_SIMD_KERNELS_H_

#include <stdint.h>

#include "network/cell.h"
#include "network/element_types.h"

namespace rnn {

// Neighbours in depth that one instruction multiplies and adds up. A product's
// depth is a multiple; who has less adds zeros to both operands.
template <typename Operand>
inline constexpr int kDepthStep = 1;
template <>
inline constexpr int kDepthStep<BFloat16> = 2;

// `depth` rounded up to whole steps.
template <typename Operand>
constexpr int64_t PaddedDepth(int64_t depth) {
  return (depth + kDepthStep<Operand> - 1) / kDepthStep<Operand> *
         kDepthStep<Operand>;
}

// A panel is no wider than so many vectors.
inline constexpr int kMaxPanelVectors = 4;
// Nor a panel, or that of a CellForwardStep with its gates, than so many
// columns.
inline constexpr int kMaxPanelColumns = 256;
// Nor a dot panel than so many columns, nor a round of one than so much depth.
inline constexpr int kMaxDotColumns = 64;
inline constexpr int kMaxDotRound = 32;

// A panel of B as it is used: packed, or B's columns where the caller keeps
// them.
template <typename Operand>
struct Panel {
  // [depth / kDepthStep][packed_columns][kDepthStep], or nullptr.
  const Operand* packed;
  int64_t packed_columns;  // 0: panel_columns
  // The panel that will be used after this one, packed or transposed as it is,
  // or nullptr.
  const Operand* next;
  // B transposed: B[k][j] at transposed[j * stride + k], read at the speed of
  // memory. nullptr if not used.
  const Operand* transposed;
  int64_t stride;
};

// c[m][j] = (accumulate ? c[m][j] : bias ? bias[j] : 0)
//         + sum over k of a[m][k] * b[k][j]
template <typename Operand>
struct PanelProduct {
  using F = ComputeType<Operand>;
  int64_t rows;
  int64_t depth;
  // So many terms are added up one after another, and what they come to is
  // added to c: whole steps, a divisor of depth_block, or 0 for depth_block
  // itself. Tile registers have chains of their own.
  int64_t chain;
  // Of this panel: at most panel_columns, or any number if B is transposed.
  int64_t columns;
  const Operand* const* a;  // [rows] -> row; the depth starts at a_offset
  int64_t a_offset;
  Panel<Operand> b;
  F* const* c;  // [rows] -> row; columns start at c_offset
  int64_t c_offset;
  const F* bias;  // [columns], or nullptr
  bool accumulate;
};

// c as of a PanelProduct, with B's rows as the caller keeps them, of any number
// of columns: few rows of A, which read B from end to end.
template <typename Operand>
struct RowsProduct {
  using F = ComputeType<Operand>;
  int64_t rows;
  int64_t depth;  // of whole steps
  int64_t columns;
  const Operand* const* a;  // [rows] -> [depth]
  const Operand* b;         // B[k][j] = b[k * stride + j]
  int64_t stride;
  F* const* c;  // [rows] -> row; columns start at c_offset
  int64_t c_offset;
  const F* bias;  // [columns], or nullptr
  bool accumulate;
};

// c as of a PanelProduct, with columns of B from the first of a dot panel on:
// any number.
template <typename Operand>
struct DotPanelsProduct {
  using F = ComputeType<Operand>;
  int64_t rows;
  int64_t depth;
  int64_t columns;
  const Operand* const* a;  // [rows] -> [depth]
  const Operand* panels;    // the first one
  int64_t panel_size;       // from one to the next
  bool from_last;  // whether panels are read from the last to the first
  F* const* c;     // [rows] -> row; columns start at c_offset
  int64_t c_offset;
  const F* bias;  // [columns], or nullptr
  bool accumulate;
};

// One time step of one panel of hidden units: the recurrent product, the gates
// and the state update.
template <typename Operand>
struct CellForwardStep {
  using F = ComputeType<Operand>;
  int64_t rows;
  int64_t hidden_size;  // H
  int64_t unit;         // first unit of the panel
  int64_t units;        // at most cell_units
  int64_t depth;        // P, padded
  // R, packed, of columns [G][units] and zeros, G * cell_units in all: panels
  // of cell_columns, one after another.
  const Operand* recurrent;
  const Operand* next_recurrent;  // what will be used after it, or nullptr
  // Or, `recurrent` being nullptr, h_prev times R: [rows] -> [G*H].
  const F* const* recurrent_sums;
  const Operand* const* h_prev;  // [rows] -> [P]
  const F* input_sums;           // [rows][G*H]: W x + biases
  const F* recurrent_new_bias;   // GRU: bR_n [H]
  F* c;                          // LSTM: [rows][H], in: the step before, out
  Operand* const* h;             // [rows] -> [H], out
  Operand* const* saved;  // [rows] -> reserve row, out; nullptr: keep nothing
};

// One time step of units [unit, unit + units): from the gradient of h to those
// of the gates' pre-activations.
template <typename Operand>
struct CellBackwardStep {
  using F = ComputeType<Operand>;
  int64_t rows;
  int64_t hidden_size;
  int64_t unit;
  int64_t units;
  const Operand* const* saved;   // LSTM, GRU: [rows] -> reserve row
  const Operand* const* c_prev;  // LSTM: [rows] -> [H]
  const Operand* const* h_prev;  // GRU: [rows] -> [H]
  const Operand* const* h;       // tanh, ReLU: [rows] -> [H]
  const F* const* dy;            // [rows] -> [H], or nullptr: added to dh
  F* dh;                // [rows][H]; GRU: out, what passes h' = .. + z.h by
  F* dc;                // LSTM: [rows][H], in: of c', out: of c
  F* dgates;            // [rows][G*H], out
  F* recurrent_dgates;  // GRU: [rows][G*H], out: as R h sees them
  // The gates' gradients rounded, as products take them: [rows] -> [G*H]. Only
  // if Operand is not F.
  Operand* const* rounded_dgates;
  Operand* const* rounded_recurrent_dgates;
  Operand* m;  // LSTM: [rows][H], out: o.tanh(c'); or nullptr
};

// A row of a DropoutRows.
template <typename Operand>
struct DroppedRow {
  uint32_t batch_row;
  uint32_t time;
  Operand* values;
};

// Feature j of each row is multiplied by scale if word j of the generator is at
// least min_kept_word, and becomes 0 if not. Word j is word j % 4 of
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011) with counter (j / 4, batch_row, time, layer). The key's low word is
// key word 0.
template <typename Operand>
struct DropoutRows {
  uint32_t layer;
  uint64_t key;
  uint64_t min_kept_word;  // 2^32: nothing is kept
  ComputeType<Operand> scale;
  int64_t features;
  const DroppedRow<Operand>* rows;
  int64_t count;  // of rows
};

// Arrays are indexed by CellMode.
template <typename Operand>
struct SimdKernels {
  using F = ComputeType<Operand>;

  int lanes;  // of a vector of F
  int panel_columns;
  int rows_together;  // that products with whole panels multiply at a time
  // A product may be cut at multiples of this depth: its pieces, one after
  // another and accumulating, give the same bits.
  int64_t depth_block;
  // Of dot panels. Chains of a dot product that are added to at a time.
  int dot_chains;
  int dot_columns;
  int dot_rows;   // that are multiplied at a time
  int dot_round;  // depth at which each chain has one link
  // Whether panels are multiplied on tile registers, as AMX has them. Vectors
  // multiply what is read in place, in another order: only without tile
  // registers has multiply_rows the bits of multiply_panel of packed panels.
  bool has_tile_registers;
  int cell_units[kNumCellModes];  // hidden units of a CellForwardStep panel
  // Columns of such a panel that are packed together, and read together.
  int cell_columns[kNumCellModes];

  void (*multiply_panel)(const PanelProduct<Operand>&);
  // Products of the same rows of A and the same depth, all from the first or
  // all from the last: then the last product comes first, too. They have the
  // bits of multiply_panel of these columns, transposed.
  void (*multiply_dot_panels)(const DotPanelsProduct<Operand>* products,
                              int count);
  void (*multiply_rows)(const RowsProduct<Operand>&);
  // In these two a row that is nullptr gives zeros.
  //
  // out[(k - k_begin) * out_stride + j] = rows[j][k] for k in [k_begin, k_end)
  // and j < columns, and zeros from there to PaddedDepth(columns).
  void (*transpose_rows)(const Operand* const* rows, int64_t columns,
                         int64_t k_begin, int64_t k_end, Operand* out,
                         int64_t out_stride);
  // Panels of B from rows that are its columns, [k_begin, k_end) being whole
  // steps: for k = k_begin + s * kDepthStep + i and j < columns,
  // out[(s * columns + j) * kDepthStep + i] = rows[j][k].
  void (*pack_columns)(const Operand* const* rows, int64_t columns,
                       int64_t k_begin, int64_t k_end, Operand* out);
  // Steps of B from `num_rows` of its rows, all there: for j < columns,
  // out[i / kDepthStep * out_stride + j * kDepthStep + i % kDepthStep] =
  // rows[i][j], and zeros for j from there to padded_columns, and for what the
  // last step has beyond the rows.
  void (*pack_rows)(const Operand* const* rows, int64_t num_rows,
                    int64_t columns, int64_t padded_columns, Operand* out,
                    int64_t out_stride);
  // sums[j] = (accumulate ? sums[j] : 0) + the sum of rows[i][first_column +
  // j], one row after another, for j < columns.
  void (*sum_rows)(const F* const* rows, int64_t num_rows, int64_t first_column,
                   int64_t columns, bool accumulate, F* sums);
  void (*drop_out)(const DropoutRows<Operand>&);
  // Several panels of the same step, one after another: the cells of some may
  // be computed while the next are multiplied. So what one writes is not what
  // another reads.
  void (*cell_forward[kNumCellModes])(const CellForwardStep<Operand>* panels,
                                      int count);
  void (*cell_backward[kNumCellModes])(const CellBackwardStep<Operand>&);
};

// Products of floats by their parts, on instruction sets that multiply bfloat16
// many times as fast as float.
//
// A float is the sum of three bfloat16: the value rounded, what that leaves
// rounded, and the rest. That is exact, but for rests below the least normal
// number, which may be lost; infinities and NaN have no rest. A product of two
// floats is the sum of six products of their parts. The other three, 2^-23 of
// the product at most, are left out (Henry, Tang, Heinecke, "Leveraging the
// bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations",
// ARITH 2019). A sum that comes out infinite or NaN is computed again, as a
// chain of multiply-adds of floats.
//
// The depth is cut into groups of kPartsDepth, the last of them filled with
// zeros. A row of A is [group][part][kPartsDepth], a panel of B [group][part]
// [panel_columns / 16][kPartsDepth / 2][16][2].
inline constexpr int kNumParts = 3;
inline constexpr int64_t kPartsDepth = 32;
inline constexpr int kPartsRows = 16;
inline constexpr int kPartsRowsTogether = 2 * kPartsRows;
inline constexpr int kMaxPartsColumns = 64;

constexpr int64_t PaddedPartsDepth(int64_t depth) {
  return (depth + kPartsDepth - 1) / kPartsDepth * kPartsDepth;
}

// As PanelProduct.
struct PartsProduct {
  int64_t rows;
  int64_t depth;  // padded
  int64_t columns;
  // [rows], a_stride apart. Up to as many more are read as make a multiple of
  // kPartsRows, whatever they hold.
  const BFloat16* a;
  int64_t a_stride;
  const BFloat16* b;
  const BFloat16* next;  // the panel that will be used after it, or nullptr
  float* const* c;
  int64_t c_offset;
  const float* bias;
  bool accumulate;
};

// Panels are as wide, and blocks of depth as deep, as those of float_kernels.
struct PartsKernels {
  void (*multiply_panel)(const PartsProduct& product);
  // out: a row of A.
  void (*split_row)(const float* row, int64_t depth, BFloat16* out);
  // out: a group of a panel of B, of rows [depth][panel_columns], depth being
  // at most kPartsDepth.
  void (*split_group)(const float* rows, int64_t depth, BFloat16* out);
};

// Products of floats with int8 weights, each of whose columns has a scale.
//
// A row of A is rounded to integers before: its largest magnitude becomes
// Int8RowLimit(depth), for which sums of products have room in 32 bits. They
// are exact, so that all instruction sets give the same bits. A row that has an
// infinity or NaN gives NaN, and one below 2^-100 zeros.
inline constexpr int64_t kInt8DepthStep = 32;

// Rows of A are filled up with zeros to whole steps.
constexpr int64_t PaddedInt8Depth(int64_t depth) {
  return (depth + kInt8DepthStep - 1) / kInt8DepthStep * kInt8DepthStep;
}

constexpr int64_t Int8RowLimit(int64_t depth) {
  const int64_t limit = INT32_MAX / (128 * (depth > 0 ? depth : 1));
  return limit < INT16_MAX ? limit : INT16_MAX;
}

// c[m][j] = (accumulate ? c[m][j] : bias ? bias[j] : 0)
//         + (sum over k of a[m][k] * b[j][k]) * (a_scales[m] * b_scales[j])
struct Int8Product {
  int64_t rows;
  int64_t depth;
  int64_t columns;
  const int16_t* a;  // [rows][padded depth], a_stride apart
  int64_t a_stride;
  const float* a_scales;
  const int8_t* b;         // B transposed: [columns][depth]
  int64_t columns_behind;  // that follow in memory, as long as those
  const float* b_scales;
  float* const* c;  // [rows] -> row; columns start at c_offset
  int64_t c_offset;
  const float* bias;  // [columns], or nullptr
  bool accumulate;
};

struct Int8Kernels {
  void (*multiply)(const Int8Product&);
  // out: a row of A, padded; *scale times it is the row.
  void (*round_row)(const float* row, int64_t depth, int16_t* out,
                    float* scale);
  // Whether one row is multiplied as fast as its weights come, as by VNNI.
  bool keeps_up;
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
  // Sets may share them.
  const SimdKernels<float>* float_kernels;
  const SimdKernels<double>* double_kernels;
  // nullptr if the instruction set multiplies no bfloat16: float does it then.
  const SimdKernels<BFloat16>* bfloat16_kernels;
  // nullptr if products of floats are best multiplied as such.
  const PartsKernels* parts_kernels;
  const Int8Kernels* int8_kernels;
  SimdConversions conversions;
  SimdMath<float> float_math;
  SimdMath<double> double_math;
};

struct CpuFeatures;

// The best one that a CPU runs, within `limit`: the name of one, or nullptr.
const SimdTarget& ChooseSimdTarget(const CpuFeatures& cpu, const char* limit);

// The one that the engine uses (instruction_set.h).
const SimdTarget& SelectSimdTarget();

// All targets this CPU runs, best first; at most `capacity` are written.
int SupportedSimdTargets(const SimdTarget** targets, int capacity);

}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_SIMD_KERNELS_H_
