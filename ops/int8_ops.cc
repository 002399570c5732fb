// Inference with weights in int8. Letters as in cudnn_rnn_ops.cc; N, M and K
// are the numbers of weights in matrices, of rows of matrices, and of biases.
#include "ops/attribute_strings.h"
#include "ops/shape_functions.h"
#include "tensorflow/core/framework/op.h"

namespace tf_cudnn_rnn {
namespace {

REGISTER_OP("TfCudnnRnn>CudnnRNNInt8")
    .Input("input: float")             // [T, B, I]
    .Input("input_h: float")           // [L*D, B, P]
    .Input("input_c: float")           // [L*D, B, H]; any unless lstm
    .Input("weights: int8")            // [N]
    .Input("scales: float")            // [M]
    .Input("biases: float")            // [K]
    .Input("sequence_lengths: int32")  // [B]
    .Output("output: float")           // [T, B, D*P]
    .Output("output_h: float")         // [L*D, B, P]
    .Output("output_c: float")         // [L*D, B, H]; [] unless lstm
    .Attr(kRnnMode)
    .Attr(kInputMode)
    .Attr(kDirection)
    .Attr(kNumProj)
    .Attr(kTimeMajor)
    .SetShapeFn(Int8ShapeFunction)
    .Doc(R"doc(
A stack of recurrent layers for inference, whose weights are in int8.

As CudnnRNNV3 with is_training=False and params of float, of which a weight is
its int8 times the scale of its row. There is no gradient.

weights: [N]. All matrices, in the order of params.
scales: [M]. One for each row of each matrix, in their order: a row is what one
  unit of one gate is multiplied by, or one output of a projection. Finite, and
  not negative.
biases: [K]. The biases, as params has them behind the matrices.
)doc");

}  // namespace
}  // namespace tf_cudnn_rnn
