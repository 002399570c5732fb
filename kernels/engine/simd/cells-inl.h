// The cells: between the products of a time step, forward and backward side by
// side. Include a vec_<isa>.h first.
#ifndef KERNELS_ENGINE_SIMD_CELLS_INL_H_
#define KERNELS_ENGINE_SIMD_CELLS_INL_H_

#include "kernels/engine/simd/lanes-inl.h"
#include "kernels/engine/simd/math-inl.h"
#include "kernels/engine/simd/panel_product-inl.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/simd/tile-inl.h"
#include "network/cell.h"

namespace rnn {
namespace RNN_ISA {
namespace {

template <typename V>
inline V SigmoidGradient(V activation, V gradient) {
  return gradient * activation * (V::Broadcast(1) - activation);
}
template <typename V>
inline V TanhGradient(V activation, V gradient) {
  return gradient * (V::Broadcast(1) - activation * activation);
}

// Where the gradients of a row's gates go.
template <typename V, typename Operand>
struct GateGradientStores {
  typename V::Element* out;
  Operand* rounded;
  int64_t gate_stride;
  Lanes<V> lanes;

  void Store(V gradient, int64_t gate) const {
    lanes.Store(gradient, out + gate * gate_stride);
    // If a lane of Operand is one of F, products take `out` itself.
    if constexpr (kDepthStep<Operand> > 1) {
      lanes.Store(gradient, rounded + gate * gate_stride);
    }
  }
};
template <int kGates, typename V, typename Operand>
GateGradientStores<V, Operand> GradientsAt(const CellBackwardStep<Operand>& s,
                                           int64_t row, int64_t unit,
                                           Lanes<V> lanes,
                                           typename V::Element* dgates,
                                           Operand* const* rounded) {
  const int64_t H = s.hidden_size;
  return {dgates + row * kGates * H + unit,
          kDepthStep<Operand> == 1 ? nullptr : rounded[row] + unit, H, lanes};
}
template <int kGates, typename V, typename Operand>
GateGradientStores<V, Operand> GradientsOf(const CellBackwardStep<Operand>& s,
                                           int64_t row, int64_t unit,
                                           Lanes<V> lanes) {
  return GradientsAt<kGates>(s, row, unit, lanes, s.dgates, s.rounded_dgates);
}
template <int kGates, typename V, typename Operand>
GateGradientStores<V, Operand> RecurrentGradientsOf(
    const CellBackwardStep<Operand>& s, int64_t row, int64_t unit,
    Lanes<V> lanes) {
  return GradientsAt<kGates>(s, row, unit, lanes, s.recurrent_dgates,
                             s.rounded_recurrent_dgates);
}

// Where the activations of a row's units are saved for backward.
template <typename V, typename Operand>
class SavedUnits {
 public:
  SavedUnits(const CellForwardStep<Operand>& s, int64_t row, int64_t unit,
             Lanes<V> lanes)
      : out_(s.saved == nullptr ? nullptr : s.saved[row] + unit),
        stride_(s.hidden_size),
        lanes_(lanes) {}

  bool are_wanted() const { return out_ != nullptr; }
  void Store(V value, int64_t activation) const {
    lanes_.Store(value, out_ + activation * stride_);
  }

 private:
  Operand* out_;
  int64_t stride_;
  Lanes<V> lanes_;
};

// Each cell: the number of vectors of units in a panel; forward, of one row and
// one vector of units, in two stages, Start from the recurrent sums `r_h` (gate
// g at r_h + g * gate_stride), and Finish from what Start returned; and
// Backward, of one row and one vector of units in one stage.
//
// What Finish computes waits for all of Start: the core has more to do at a
// time if other rows are started in between.

struct LstmCell {
  static constexpr CellMode kMode = CellMode::kLstm;
  static constexpr int kGates = kNumLstmGates;
  static constexpr int kUnitVectors = 1;

  template <typename V>
  struct Started {
    V o, c;
  };

  template <typename V, typename Operand, typename F>
  static Started<V> Start(const CellForwardStep<Operand>& s, int64_t row,
                          int64_t unit, Lanes<V> lanes, const F* r_h,
                          int64_t gate_stride) {
    const int64_t H = s.hidden_size;
    const F* w_x = s.input_sums + row * kGates * H + unit;
    const auto sum = [&](int gate) {
      return lanes.Load(w_x + gate * H) + lanes.Load(r_h + gate * gate_stride);
    };
    const V i = Sigmoid(sum(kInput));
    const V f = Sigmoid(sum(kForget));
    const V g = Tanh(sum(kCell));
    const V o = Sigmoid(sum(kOutput));
    F* c_row = s.c + row * H + unit;
    const V c = MulAdd(f, lanes.Load(c_row), i * g);
    lanes.Store(c, c_row);
    const SavedUnits<V, Operand> saved(s, row, unit, lanes);
    if (saved.are_wanted()) {
      saved.Store(i, kInput);
      saved.Store(f, kForget);
      saved.Store(g, kCell);
      saved.Store(o, kOutput);
      saved.Store(c, kLstmReserveCell);
    }
    return {o, c};
  }

  template <typename V, typename Operand>
  static void Finish(const CellForwardStep<Operand>& s, int64_t row,
                     int64_t unit, Lanes<V> lanes, Started<V> started) {
    lanes.Store(started.o * Tanh(started.c), s.h[row] + unit);
  }

  template <typename V, typename Operand>
  static void Backward(const CellBackwardStep<Operand>& s, int64_t row,
                       int64_t unit, Lanes<V> lanes, V dh) {
    const int64_t H = s.hidden_size;
    const V one = V::Broadcast(1);
    const Operand* saved = s.saved[row] + unit;
    const V i = lanes.Load(saved + kInput * H);
    const V f = lanes.Load(saved + kForget * H);
    const V g = lanes.Load(saved + kCell * H);
    const V o = lanes.Load(saved + kOutput * H);
    const V tanh_c = Tanh(lanes.Load(saved + kLstmReserveCell * H));
    const V c_prev = lanes.Load(s.c_prev[row] + unit);
    auto* dc_row = s.dc + row * H + unit;
    // c' feeds the next step and, through o.tanh(c'), this one's output.
    const V dc = MulAdd(dh * o, one - tanh_c * tanh_c, lanes.Load(dc_row));
    const auto dgates = GradientsOf<kGates>(s, row, unit, lanes);
    dgates.Store(SigmoidGradient(i, dc * g), kInput);
    dgates.Store(SigmoidGradient(f, dc * c_prev), kForget);
    dgates.Store(TanhGradient(g, dc * i), kCell);
    dgates.Store(SigmoidGradient(o, dh * tanh_c), kOutput);
    lanes.Store(dc * f, dc_row);
    if (s.m != nullptr) lanes.Store(o * tanh_c, s.m + row * H + unit);
  }
};

struct GruCell {
  static constexpr CellMode kMode = CellMode::kGru;
  static constexpr int kGates = kNumGruGates;
  static constexpr int kUnitVectors = 1;

  template <typename V>
  struct Started {
    V z, n_sum;
  };

  template <typename V, typename Operand, typename F>
  static Started<V> Start(const CellForwardStep<Operand>& s, int64_t row,
                          int64_t unit, Lanes<V> lanes, const F* r_h,
                          int64_t gate_stride) {
    const int64_t H = s.hidden_size;
    const F* w_x = s.input_sums + row * kGates * H + unit;
    const auto sum = [&](int gate) {
      return lanes.Load(w_x + gate * H) + lanes.Load(r_h + gate * gate_stride);
    };
    const V r = Sigmoid(sum(kReset));
    const V z = Sigmoid(sum(kUpdate));
    // The reset gate acts after the recurrent product, bias included.
    const V q = lanes.Load(s.recurrent_new_bias + unit) +
                lanes.Load(r_h + kNew * gate_stride);
    const SavedUnits<V, Operand> saved(s, row, unit, lanes);
    if (saved.are_wanted()) {
      saved.Store(r, kReset);
      saved.Store(z, kUpdate);
      saved.Store(q, kGruReserveRecurrentNew);
    }
    return {z, MulAdd(r, q, lanes.Load(w_x + kNew * H))};
  }

  template <typename V, typename Operand>
  static void Finish(const CellForwardStep<Operand>& s, int64_t row,
                     int64_t unit, Lanes<V> lanes, Started<V> started) {
    const V n = Tanh(started.n_sum);
    const V h_prev = lanes.Load(s.h_prev[row] + unit);
    const V one = V::Broadcast(1);
    lanes.Store(MulAdd(one - started.z, n, started.z * h_prev),
                s.h[row] + unit);
    const SavedUnits<V, Operand> saved(s, row, unit, lanes);
    if (saved.are_wanted()) saved.Store(n, kNew);
  }

  template <typename V, typename Operand>
  static void Backward(const CellBackwardStep<Operand>& s, int64_t row,
                       int64_t unit, Lanes<V> lanes, V dh) {
    const int64_t H = s.hidden_size;
    const Operand* saved = s.saved[row] + unit;
    const V r = lanes.Load(saved + kReset * H);
    const V z = lanes.Load(saved + kUpdate * H);
    const V n = lanes.Load(saved + kNew * H);
    const V q = lanes.Load(saved + kGruReserveRecurrentNew * H);
    const V h_prev = lanes.Load(s.h_prev[row] + unit);
    const V dn = TanhGradient(n, dh * (V::Broadcast(1) - z));
    const V dr = SigmoidGradient(r, dn * q);
    const V dz = SigmoidGradient(z, dh * (h_prev - n));
    const auto dgates = GradientsOf<kGates>(s, row, unit, lanes);
    dgates.Store(dr, kReset);
    dgates.Store(dz, kUpdate);
    dgates.Store(dn, kNew);
    const auto recurrent = RecurrentGradientsOf<kGates>(s, row, unit, lanes);
    recurrent.Store(dr, kReset);
    recurrent.Store(dz, kUpdate);
    recurrent.Store(dn * r, kNew);
    lanes.Store(dh * z, s.dh + row * H + unit);
  }
};

template <bool kRelu>
struct VanillaCell {
  static constexpr CellMode kMode = kRelu ? CellMode::kRelu : CellMode::kTanh;
  static constexpr int kGates = 1;
  static constexpr int kUnitVectors = 4;

  template <typename V>
  struct Started {
    V sum;
  };

  template <typename V, typename Operand, typename F>
  static Started<V> Start(const CellForwardStep<Operand>& s, int64_t row,
                          int64_t unit, Lanes<V> lanes, const F* r_h,
                          int64_t /*gate_stride*/) {
    return {lanes.Load(s.input_sums + row * s.hidden_size + unit) +
            lanes.Load(r_h)};
  }

  template <typename V, typename Operand>
  static void Finish(const CellForwardStep<Operand>& s, int64_t row,
                     int64_t unit, Lanes<V> lanes, Started<V> started) {
    lanes.Store(kRelu ? Relu(started.sum) : Tanh(started.sum), s.h[row] + unit);
  }

  template <typename V, typename Operand>
  static void Backward(const CellBackwardStep<Operand>& s, int64_t row,
                       int64_t unit, Lanes<V> lanes, V dh) {
    const V h = lanes.Load(s.h[row] + unit);
    GradientsOf<kGates>(s, row, unit, lanes)
        .Store(kRelu ? WherePositive(h, dh) : TanhGradient(h, dh), 0);
  }
};

template <typename Cell>
constexpr int kCellVectors = Cell::kGates * Cell::kUnitVectors;

// Vectors of a panel that are multiplied together: as many as the registers
// hold.
template <typename Cell>
constexpr int kVectorsTogether =
    kCellVectors<Cell> % 3 == 0         ? 3
    : kCellVectors<Cell> < kTileVectors ? kCellVectors<Cell>
                                        : kTileVectors;

// So few rows leave registers free, and their sums of few vectors would wait
// for each other.
constexpr int kFewRows = 2;

// Vectors of a panel that so many rows are multiplied by together.
template <typename Cell, int kRows>
constexpr int kVectorsOfRows =
    kRows <= kFewRows &&
            kCellVectors<Cell> * kRows <= TileRows(kTileVectors) * kTileVectors
        ? kCellVectors<Cell>
        : kVectorsTogether<Cell>;

// sums += h_prev times the panel's vectors from `vector` on.
template <typename Cell, int kRows, int kVectors, typename V, typename Operand>
inline void AddRecurrentProduct(const CellForwardStep<Operand>& s, int64_t row,
                                int vector, FetchAhead* ahead,
                                V (&sums)[kRows][kVectors]) {
  constexpr int64_t kStep = kDepthStep<Operand>;
  constexpr int kTogether = kVectorsTogether<Cell>;
  const Operand* const* h_prev = s.h_prev + row;
  const Operand* packed = s.recurrent + vector * V::kLanes * s.depth;
  using Panel = PackedPanel<Operand, kVectors, kTogether>;
  AddTileProduct(
      s.depth, h_prev, 0,
      Panel{packed, kTogether * V::kLanes * kStep,
            Panel::template TakeAhead<kRows>(ahead, s.depth / kStep, packed),
            kTogether * V::kLanes * s.depth},
      sums);
}

// What is used after the panel, if its rows do not read it all at once.
template <typename Cell, int64_t kRowsTogether, typename Operand>
inline FetchAhead AheadOfPanel(const CellForwardStep<Operand>& s) {
  constexpr int64_t kColumns =
      kCellVectors<Cell> * Vec<ComputeType<Operand>>::kLanes;
  if (s.next_recurrent == nullptr || s.rows <= kRowsTogether) {
    return FetchAhead();
  }
  return FetchAhead(s.next_recurrent,
                    s.depth * kColumns * int64_t{sizeof(Operand)});
}

// The cells of rows [row, row + kRows), from their recurrent sums: those of the
// first row at sums_of(0), gates gate_stride apart.
template <typename Cell, int kRows, typename Operand, typename SumsOf>
RNN_ALWAYS_INLINE inline void CellsOfRows(const CellForwardStep<Operand>& s,
                                          int64_t row, SumsOf sums_of,
                                          int64_t gate_stride) {
  using V = Vec<ComputeType<Operand>>;
  for (int v = 0; v < Cell::kUnitVectors; ++v) {
    const Lanes<V> lanes{s.units - v * V::kLanes};
    if (lanes.count <= 0) break;
    const int64_t unit = s.unit + v * V::kLanes;
    typename Cell::template Started<V> started[kRows];
    for (int m = 0; m < kRows; ++m) {
      started[m] = Cell::template Start<V>(
          s, row + m, unit, lanes, sums_of(m) + v * V::kLanes, gate_stride);
    }
    for (int m = 0; m < kRows; ++m) {
      Cell::Finish(s, row + m, unit, lanes, started[m]);
    }
  }
}

// The cells of rows [row, row + rows): `sums` has the recurrent sums of each,
// those of the first gate from `column` on.
template <typename Cell, typename Operand>
RNN_NEVER_INLINE void CellsFromSums(const CellForwardStep<Operand>& s,
                                    int64_t row, int64_t rows,
                                    const ComputeType<Operand>* const* sums,
                                    int64_t column, int64_t gate_stride) {
  constexpr int kRowsOfTile = 4;
  ForEachTile<kRowsOfTile>(rows, [&](int64_t i, auto row_count) {
    CellsOfRows<Cell, decltype(row_count)::value>(
        s, row + i, [&](int m) { return sums[i + m] + column; }, gate_stride);
  });
}

// Vectors that are packed together, as far as one product takes them.
template <typename Cell>
constexpr int kVectorsOfProduct =
    kVectorsTogether<Cell> < kTileVectors ? kVectorsTogether<Cell>
                                          : kTileVectors;

// Whether a panel has fewer units than others, and is multiplied faster without
// the vectors that these would fill: it has such, and few rows do not take
// several products.
template <typename Cell, typename Operand>
bool HasFewUnits(const CellForwardStep<Operand>& s) {
  constexpr int64_t kLanes = Vec<ComputeType<Operand>>::kLanes;
  const int64_t columns = Cell::kGates * s.units;
  return columns <= (kCellVectors<Cell> - 1) * kLanes &&
         (columns <= kVectorsOfProduct<Cell> * kLanes || s.rows > kFewRows);
}

// The recurrent sums of rows [row, row + rows) of such a panel, in the chains
// of others: over all of the depth.
template <typename Cell, typename Operand>
void MultiplyUnits(const CellForwardStep<Operand>& s, int64_t row, int64_t rows,
                   ComputeType<Operand>* const* sums) {
  constexpr int64_t kLanes = Vec<ComputeType<Operand>>::kLanes;
  constexpr int64_t kColumns = kVectorsOfProduct<Cell> * kLanes;
  // Each product begins where its vectors are packed together.
  constexpr int kMostVectors = kCellVectors<Cell> - 1;
  static_assert(kVectorsOfProduct<Cell> == kVectorsTogether<Cell> ||
                kVectorsOfProduct<Cell> >= kMostVectors);
  PanelProduct<Operand> product{};
  product.rows = rows;
  product.depth = s.depth;
  product.a = s.h_prev + row;
  product.b.packed_columns = kVectorsTogether<Cell> * kLanes;
  product.c = sums;
  const int64_t columns = Cell::kGates * s.units;
  for (int64_t column = 0; column < columns; column += kColumns) {
    product.columns = columns - column < kColumns ? columns - column : kColumns;
    product.c_offset = column;
    product.b.packed = s.recurrent + column * s.depth;
    product.b.next = s.next_recurrent != nullptr && row == 0
                         ? s.next_recurrent + column * s.depth
                         : nullptr;
    MultiplyPanelInOneChain(product);
  }
}

template <typename Cell, typename Operand>
void CellForwardOfFewUnits(const CellForwardStep<Operand>& s) {
  using F = ComputeType<Operand>;
  // Their sums stay in L1.
  constexpr int kRows = 4 * TileRows(kTileVectors);
  alignas(64) F values[kRows][kCellVectors<Cell> * Vec<F>::kLanes];
  F* sums[kRows];
  for (int m = 0; m < kRows; ++m) sums[m] = values[m];
  ForEachRowRange<kRows>(s.rows, [&](int64_t row, int rows) {
    MultiplyUnits<Cell>(s, row, rows, sums);
    CellsFromSums<Cell>(s, row, rows, sums, 0, s.units);
  });
}

// Rows [row, row + kRows) of a step: the recurrent product into an L1 tile,
// then the cell.
template <typename Cell, int kRows, typename Operand>
inline void CellForwardRows(const CellForwardStep<Operand>& s, int64_t row,
                            FetchAhead* ahead) {
  using F = ComputeType<Operand>;
  using V = Vec<F>;
  constexpr int kVectors = kCellVectors<Cell>;
  constexpr int kTogether = kVectorsOfRows<Cell, kRows>;
  alignas(64) F tile[kRows][kVectors * V::kLanes];
  for (int j = 0; j < kVectors; j += kTogether) {
    V sums[kRows][kTogether];
    Clear(sums);
    AddRecurrentProduct<Cell>(s, row, j, ahead, sums);
    for (int m = 0; m < kRows; ++m) {
      for (int v = 0; v < kTogether; ++v) {
        sums[m][v].Store(tile[m] + (j + v) * V::kLanes);
      }
    }
  }
  CellsOfRows<Cell, kRows>(s, row, [&](int m) { return tile[m]; }, s.units);
}

template <typename Cell, typename Operand>
void CellForward(const CellForwardStep<Operand>& s) {
  if (s.recurrent_sums != nullptr) {
    return CellsFromSums<Cell>(s, 0, s.rows, s.recurrent_sums, s.unit,
                               s.hidden_size);
  }
  if (HasFewUnits<Cell>(s)) return CellForwardOfFewUnits<Cell>(s);
  constexpr int kMaxRows = TileRows(kVectorsTogether<Cell>);
  FetchAhead ahead = AheadOfPanel<Cell, kMaxRows>(s);
  ForEachTile<kMaxRows>(s.rows, [&](int64_t row, auto row_count) {
    CellForwardRows<Cell, decltype(row_count)::value>(s, row, &ahead);
  });
}

template <typename Cell, typename Operand>
void CellForwardPanels(const CellForwardStep<Operand>* panels, int count) {
  for (int i = 0; i < count; ++i) CellForward<Cell>(panels[i]);
}

template <typename Cell, typename Operand>
void CellBackward(const CellBackwardStep<Operand>& s) {
  using V = Vec<ComputeType<Operand>>;
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t u = 0; u < s.units; u += V::kLanes) {
      const Lanes<V> lanes{s.units - u};
      const int64_t unit = s.unit + u;
      V dh = lanes.Load(s.dh + row * s.hidden_size + unit);
      if (s.dy != nullptr) dh = dh + lanes.Load(s.dy[row] + unit);
      Cell::template Backward<V>(s, row, unit, lanes, dh);
    }
  }
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_CELLS_INL_H_
