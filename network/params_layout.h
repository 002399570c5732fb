// Where every weight and bias lies in the flat `params` vector: the one truth.
//
// cuDNN's weight space with two bias vectors per gate, dense:
//
//   all matrices, then all biases; each section by pseudo-layer k;
//   matrices of k: W_g [H, in] for each gate g, R_g [H, P] for each gate g,
//                  then, when projecting, Pr [P, H];
//   biases of k:   bW_g [H] for each g, then bR_g [H] for each g.
//
// Matrices are row-major with one row per output unit (y = W x). The gates of
// one kind are neighbours, so they are also one matrix [G*H, columns]. With
// skip_input layer 0 has no W.
#ifndef NETWORK_PARAMS_LAYOUT_H_
#define NETWORK_PARAMS_LAYOUT_H_

#include <cstdint>

#include "network/descriptor.h"
#include "network/status.h"

namespace rnn {

// A row-major matrix inside params; a bias is a matrix of one column.
struct Region {
  int64_t offset = 0;  // in elements
  int64_t rows = 0;
  int64_t columns = 0;

  int64_t size() const { return rows * columns; }
};

class ParamsLayout {
 public:
  // Fails if the descriptor is invalid or if the size overflows.
  static Status Create(const RnnDescriptor& descriptor, ParamsLayout* layout);

  int64_t size() const { return size_; }  // in elements

  // All gates of pseudo-layer `k` as one matrix, in gate order.
  Region InputWeights(int64_t k) const;      // [G*H, in]; [G*H, 0] if skipped
  Region RecurrentWeights(int64_t k) const;  // [G*H, P]
  Region Projection(int64_t k) const;        // [P, H]; [0, H] if there is none
  Region InputBias(int64_t k) const;         // [G*H, 1]
  Region RecurrentBias(int64_t k) const;     // [G*H, 1]

  // The lists of the canonical ops: by pseudo-layer, W of every gate, R of
  // every gate, projection; and bW of every gate, bR of every gate.
  int64_t num_canonical_weights() const;
  int64_t num_canonical_biases() const;
  Region CanonicalWeight(int64_t index) const;
  Region CanonicalBias(int64_t index) const;

 private:
  // The rows of one gate of a region that holds all gates.
  Region Gate(const Region& all_gates, int64_t gate) const;
  int64_t canonical_weights_per_pseudo_layer() const;

  RnnDescriptor descriptor_;
  int64_t first_layer_weights_ = 0;  // elements of a pseudo-layer of layer 0
  int64_t upper_layer_weights_ = 0;  // elements of one of a layer above it
  int64_t biases_offset_ = 0;
  int64_t size_ = 0;

  int64_t WeightsOffset(int64_t k) const;
};

}  // namespace rnn

#endif  // NETWORK_PARAMS_LAYOUT_H_
