// The rules for the shapes of a forward or backward call's tensors.
//
// Kernels apply them to shapes, shape functions to what is known of shapes:
// whatever is unknown breaks no rule. Each rule begins its message with
// TensorFlow's own text where there is one.
#ifndef OPS_CALL_SHAPES_H_
#define OPS_CALL_SHAPES_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "ops/attributes.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tf_cudnn_rnn {

// Orders the dimensions of a tensor whose outer dimension counts time steps or
// pseudo-layers: [outer, batch, features], or [batch, outer, features].
template <typename Dimension>
std::array<Dimension, 3> Ordered(bool time_major, Dimension outer,
                                 Dimension batch, Dimension features) {
  if (time_major) return {outer, batch, features};
  return {batch, outer, features};
}

// A dimension that is not known, as TensorFlow writes it.
inline constexpr int64_t kUnknownSize = -1;

// Of a dimension, as far as it is known.
inline int64_t SizeOf(const tensorflow::PartialTensorShape& shape, int index) {
  return shape.unknown_rank() ? kUnknownSize : shape.dim_size(index);
}

// The sizes of a call; kUnknownSize where no tensor told.
struct CallSizes {
  int64_t time = kUnknownSize;           // T
  int64_t batch = kUnknownSize;          // B
  int64_t input_size = kUnknownSize;     // I
  int64_t pseudo_layers = kUnknownSize;  // L*D
  int64_t output_size = kUnknownSize;    // P
  int64_t hidden_size = kUnknownSize;    // H

  NetworkSizes network(const RnnAttributes& attributes) const;
};

struct ForwardShapes {
  tensorflow::PartialTensorShape input;    // [T, B, I]
  tensorflow::PartialTensorShape input_h;  // [L*D, B, P]
  tensorflow::PartialTensorShape input_c;  // [L*D, B, H]; ignored unless lstm
  tensorflow::PartialTensorShape params;   // [N]
  // [B]; of unknown rank for the ops that have no such input.
  tensorflow::PartialTensorShape sequence_lengths;
};

struct BackpropShapes {
  ForwardShapes forward;
  tensorflow::PartialTensorShape output;             // [T, B, D*P]
  tensorflow::PartialTensorShape output_h;           // like input_h
  tensorflow::PartialTensorShape output_c;           // like input_c
  tensorflow::PartialTensorShape output_backprop;    // like output
  tensorflow::PartialTensorShape output_h_backprop;  // like output_h
  tensorflow::PartialTensorShape output_c_backprop;  // like output_c
  tensorflow::PartialTensorShape reserve_space;      // [R]
};

// Check every rule, attributes included; `sizes` is what the tensors tell.
// After a success on fully known shapes all sizes and products of theirs that
// the call's tensors need fit 64 bits.
absl::Status CheckForwardShapes(const RnnAttributes& attributes,
                                const ForwardShapes& shapes, CallSizes* sizes);
absl::Status CheckBackpropShapes(const RnnAttributes& attributes,
                                 const BackpropShapes& shapes,
                                 CallSizes* sizes);

// An error about a network, with the shapes that tell its sizes.
absl::Status WithInputShapes(const absl::Status& status,
                             const ForwardShapes& shapes);

// reserve_space must have shape [R]; its size is checked with its contents.
absl::Status CheckReserveSpaceRank(const tensorflow::PartialTensorShape& shape);

// rng_seed, an input of our own forward op, must have shape [2].
absl::Status CheckRngSeedShape(const tensorflow::PartialTensorShape& shape);

}  // namespace tf_cudnn_rnn

#endif  // OPS_CALL_SHAPES_H_
