// The cells, their names and the order of their gates. Without standard
// headers, so that the files compiled for one instruction set may read them.
#ifndef NETWORK_CELL_H_
#define NETWORK_CELL_H_

namespace rnn {

enum class CellMode { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };
inline constexpr int kNumCellModes = 4;
// What ops and files call them, by value.
inline constexpr const char* kCellModeNames[kNumCellModes] = {
    "rnn_relu", "rnn_tanh", "lstm", "gru"};

// Gates in the order in which params, pre-activations and reserve hold them;
// Keras' weights have another (KerasGate() in network/weights.h).
enum LstmGate { kInput, kForget, kCell, kOutput, kNumLstmGates };
enum GruGate { kReset, kUpdate, kNew, kNumGruGates };

constexpr int NumGates(CellMode mode) {
  return mode == CellMode::kLstm  ? int{kNumLstmGates}
         : mode == CellMode::kGru ? int{kNumGruGates}
                                  : 1;
}

inline constexpr int kMaxGates = kNumLstmGates;

// What the passes have to know of a cell besides its gates. Whether it has a
// state besides h: the LSTM's c.
constexpr bool HasCellState(CellMode mode) { return mode == CellMode::kLstm; }

// Whether what R gives has other gradients than what W gives: the GRU's new
// gate multiplies the former before it adds both.
constexpr bool HasOwnRecurrentGradients(CellMode mode) {
  return mode == CellMode::kGru;
}

// Whether a gate's recurrent bias stays apart from its input bias: that of the
// GRU's new gate is multiplied first, too.
constexpr bool HasRecurrentBiasApart(CellMode mode, int gate) {
  return mode == CellMode::kGru && gate == kNew;
}

// Whether a part of h passes by the gates, as the GRU's z.h: backward's cell
// leaves the gradient of that in dh, and the product with R adds to it.
constexpr bool PassesStateBy(CellMode mode) { return mode == CellMode::kGru; }

// A reserve row holds H values of each gate's activation and then one more H:
// of the LSTM's c', of the GRU's q = R_n h + bR_n. Other cells save nothing.
inline constexpr int kLstmReserveCell = kNumLstmGates;
inline constexpr int kGruReserveRecurrentNew = kNumGruGates;

constexpr int NumReservedPerUnit(CellMode mode) {
  return mode == CellMode::kLstm || mode == CellMode::kGru ? NumGates(mode) + 1
                                                           : 0;
}

}  // namespace rnn

#endif  // NETWORK_CELL_H_
