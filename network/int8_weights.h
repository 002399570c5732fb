// Weights of a network in int8: those of params' matrices, each of whose rows
// has a scale. A weight is its integer times the scale of its row.
//
// Matrices lie one after another as in params (params_layout.h), without gaps,
// and so do the scales of their rows. Biases stay float, in the order of
// params.
#ifndef NETWORK_INT8_WEIGHTS_H_
#define NETWORK_INT8_WEIGHTS_H_

#include <cstdint>

#include "network/descriptor.h"
#include "network/params_layout.h"
#include "network/status.h"

namespace rnn {

// Each has as many elements as Int8Layout says. Scales are finite, and not
// negative.
struct Int8Weights {
  const int8_t* values = nullptr;
  const float* scales = nullptr;
  const float* biases = nullptr;
};

class Int8Layout {
 public:
  // Fails if the descriptor is invalid, if sizes overflow, or if a row of a
  // matrix has more than kMaxDepth elements.
  static Status Create(const RnnDescriptor& descriptor, Int8Layout* layout);

  // Products of so many int8 are summed up in 32 bits, and leave room for a
  // left operand of 128 values and more.
  static constexpr int64_t kMaxDepth = int64_t{1} << 17;

  // params without biases, of which the first comes after all matrices.
  int64_t num_values() const { return params_.InputBias(0).offset; }
  int64_t num_scales() const { return num_scales_; }
  int64_t num_biases() const { return params_.size() - num_values(); }

  // Where the scales of pseudo-layer k's rows begin: G*H of W, unless the layer
  // has none, G*H of R, P of the projection.
  int64_t InputScales(int64_t k) const;
  int64_t RecurrentScales(int64_t k) const;
  int64_t ProjectionScales(int64_t k) const;
  // Where its biases begin, [G*H] each.
  int64_t InputBias(int64_t k) const;
  int64_t RecurrentBias(int64_t k) const;

 private:
  // Rows of the matrices of a pseudo-layer.
  int64_t NumInputRows(int64_t k) const;
  int64_t NumOtherRows() const;

  RnnDescriptor descriptor_;
  ParamsLayout params_;
  int64_t num_scales_ = 0;
};

// Whether these are finite and not negative, as scales have to be; fails with
// the first that is not.
Status CheckInt8Scales(const float* scales, int64_t count);

}  // namespace rnn

#endif  // NETWORK_INT8_WEIGHTS_H_
