// What a recurrent network is, apart from its data: cell, sizes, directions.
//
// Vocabulary, used in every comment, check and test name of this project:
//
//   T  time steps of the padded batch      L  layers
//   B  batch rows                          D  directions, 1 or 2
//   I  features of the network's input     G  gates of the cell: 1, 3 or 4
//   H  hidden (cell) size, `num_units`     P  features that a direction emits:
//                                             num_proj if projecting, else H
//
//   x [T, B, I]      h0, h_n [L*D, B, P]      params [ParamsLayout::size()]
//   y [T, B, D*P]    c0, c_n [L*D, B, H]      d<tensor>: gradient of <tensor>
//
// The index of a state, k = layer * D + direction, is called a pseudo-layer;
// direction 0 runs forward in time, direction 1 backward.
#ifndef NETWORK_DESCRIPTOR_H_
#define NETWORK_DESCRIPTOR_H_

#include <algorithm>
#include <cstdint>

#include "network/cell.h"
#include "network/status.h"

namespace rnn {

struct RnnDescriptor {
  CellMode mode = CellMode::kLstm;
  int64_t num_layers = 1;      // L
  int64_t num_directions = 1;  // D
  int64_t input_size = 0;      // I
  int64_t hidden_size = 0;     // H
  // 0 means no projection, and so does H (cuDNN's reading).
  int64_t num_proj = 0;
  // Layer 0 adds x itself to every gate instead of W x; needs I == H.
  bool skip_input = false;
  // Probability with which an output of a layer below the last is zeroed while
  // training; in [0, 1].
  float dropout = 0.0f;

  int num_gates() const { return NumGates(mode); }  // G
  bool has_projection() const {
    return num_proj != 0 && num_proj != hidden_size;
  }
  int64_t output_size() const {  // P
    return has_projection() ? num_proj : hidden_size;
  }
  int64_t gates_size() const { return num_gates() * hidden_size; }  // G*H
  // Features that a layer emits, both directions side by side: D*P.
  int64_t layer_output_size() const { return num_directions * output_size(); }
  // Features that enter `layer`: I, or what the layer below emits.
  int64_t layer_input_size(int64_t layer) const {
    return layer == 0 ? input_size : layer_output_size();
  }
  // The most features that enter a layer.
  int64_t widest_input() const {
    return std::max(layer_input_size(0), layer_input_size(num_layers - 1));
  }
  bool has_input_weights(int64_t layer) const {
    return !(skip_input && layer == 0);
  }

  int64_t num_pseudo_layers() const { return num_layers * num_directions; }
  // k of one, and the other way round.
  int64_t pseudo_layer(int64_t layer, int64_t direction) const {
    return layer * num_directions + direction;
  }
  int64_t layer_of(int64_t k) const { return k / num_directions; }
  int direction_of(int64_t k) const {
    return static_cast<int>(k % num_directions);
  }
};

// Whether dropout of this probability does anything. The same in all threads:
// those that take denormals for 0, as TensorFlow's do, would compare otherwise.
bool DropsOut(float probability);

// Says which field is out of range, what the rule is, and what came. Fields go
// by the names the ops give them (num_layers, num_units, input_size, ...).
Status Validate(const RnnDescriptor& descriptor);

}  // namespace rnn

#endif  // NETWORK_DESCRIPTOR_H_
