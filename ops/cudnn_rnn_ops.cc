// Our own versions of TensorFlow's CudnnRNN ops.
//
// Inputs, attributes and outputs are those of the built-in ops of the same
// names, but these ops are stateless: the random numbers of dropout come from
// an input, rng_seed, instead of two attributes and a hidden counter.
//
// Letters: T time steps, B batch rows, I input features, H num_units, L layers,
// D directions (1 or 2), G gates (lstm 4, gru 3, rnn_relu and rnn_tanh 1);
// P features of one direction's output: num_proj if that is not 0, else H.
// Pseudo-layer k = layer * D + direction; direction 1 runs backward in time.
#include "ops/attribute_strings.h"
#include "ops/shape_functions.h"
#include "tensorflow/core/framework/op.h"

namespace tf_cudnn_rnn {
namespace {

REGISTER_OP("TfCudnnRnn>CudnnRNNV3")
    .Input("input: T")                 // [T, B, I]
    .Input("input_h: T")               // [L*D, B, P]
    .Input("input_c: T")               // [L*D, B, H]; any unless lstm
    .Input("params: T")                // [N]
    .Input("sequence_lengths: int32")  // [B]
    .Input("rng_seed: int64")          // [2]
    .Output("output: T")               // [T, B, D*P]
    .Output("output_h: T")             // [L*D, B, P]
    .Output("output_c: T")             // [L*D, B, H]; [] unless lstm
    .Output("reserve_space: T")        // [R]; [] unless is_training
    .Output("host_reserved: int8")     // []
    .Attr(kType)
    .Attr(kRnnMode)
    .Attr(kInputMode)
    .Attr(kDirection)
    .Attr(kDropout)
    .Attr(kNumProj)
    .Attr(kIsTraining)
    .Attr(kTimeMajor)
    .SetShapeFn(ForwardShapeFunction)
    .Doc(R"doc(
A stack of recurrent layers, run over a batch of sequences.

As CudnnRNNV3, but stateless. T, B, I, H, L and D are the numbers of time steps,
batch rows, input features, units, layers and directions; P is num_proj if that
is not 0, else H. With time_major=False the first two dimensions of input,
output and of all states change places.

input: [T,B,I]. Steps at and after a row's length are ignored.
input_h: [L*D,B,P]. Initial outputs of each layer and direction.
input_c: [L*D,B,H]. Initial LSTM cells; ignored for other modes.
params: [N]. All weights and biases; CudnnRNNParamsSize tells N.
sequence_lengths: [B]. Values in [0,T], in any order.
rng_seed: [2]. Decides what dropout drops; equal seeds drop the same.
output: [T,B,D*P]. Zero at and after a row's length.
output_h: [L*D,B,P]. Outputs after each row's last step.
output_c: [L*D,B,H]. LSTM cells after each row's last step; a scalar otherwise.
reserve_space: What CudnnRNNBackpropV3 needs; a scalar unless is_training.
host_reserved: A scalar without meaning.
is_training: Whether dropout acts and gradients can be computed.
dropout: Probability with which an output of a layer below the last is dropped.
)doc");

REGISTER_OP("TfCudnnRnn>CudnnRNNBackpropV3")
    .Input("input: T")                 // [T, B, I]
    .Input("input_h: T")               // [L*D, B, P]
    .Input("input_c: T")               // [L*D, B, H]; any unless lstm
    .Input("params: T")                // [N]
    .Input("sequence_lengths: int32")  // [B]
    .Input("output: T")                // [T, B, D*P]
    .Input("output_h: T")              // [L*D, B, P]
    .Input("output_c: T")              // [L*D, B, H]; any unless lstm
    .Input("output_backprop: T")       // [T, B, D*P]
    .Input("output_h_backprop: T")     // [L*D, B, P]
    .Input("output_c_backprop: T")     // [L*D, B, H]; any unless lstm
    .Input("reserve_space: T")         // [R]
    .Input("host_reserved: int8")      // any
    .Output("input_backprop: T")       // [T, B, I]
    .Output("input_h_backprop: T")     // [L*D, B, P]
    .Output("input_c_backprop: T")     // like input_c; zeros unless lstm
    .Output("params_backprop: T")      // [N]
    .Attr(kType)
    .Attr(kRnnMode)
    .Attr(kInputMode)
    .Attr(kDirection)
    .Attr(kDropout)
    .Attr(kNumProj)
    .Attr(kTimeMajor)
    .SetShapeFn(BackpropShapeFunction)
    .Doc(R"doc(
Gradients of CudnnRNNV3.

Takes the forward op's inputs, outputs and attributes, and the gradients of its
first three outputs. The forward op must have run with is_training=True.
)doc");

REGISTER_OP("TfCudnnRnn>CudnnRNNParamsSize")
    .Input("num_layers: int32")  // []
    .Input("num_units: int32")   // []
    .Input("input_size: int32")  // []
    .Output("params_size: S")    // [1]
    .Attr(kType)
    .Attr("S: {int32, int64}")
    .Attr(kRnnMode)
    .Attr(kInputMode)
    .Attr(kDirection)
    .Attr(kDropout)
    .Attr(kNumProj)
    .SetShapeFn(ParamsSizeShapeFunction)
    .Doc(R"doc(
The number of elements of params for the given sizes and options.
)doc");

REGISTER_OP("TfCudnnRnn>CudnnRNNParamsToCanonicalV2")
    .Input("num_layers: int32")  // []
    .Input("num_units: int32")   // []
    .Input("input_size: int32")  // []
    .Input("params: T")          // [N]
    .Output(
        "weights: num_params_weights * T")    // W [H, in], R [H, P], Pr [P, H]
    .Output("biases: num_params_biases * T")  // [H]
    .Attr(kType)
    .Attr(kNumParamsWeights)
    .Attr(kNumParamsBiases)
    .Attr(kRnnMode)
    .Attr(kInputMode)
    .Attr(kDirection)
    .Attr(kDropout)
    .Attr(kNumProj)
    .SetShapeFn(ParamsToCanonicalShapeFunction)
    .Doc(R"doc(
Takes params apart into one matrix or vector per gate.

weights: By pseudo-layer: the input matrix of each gate, the recurrent matrix of
  each gate, and the projection matrix if num_proj asks for one.
biases: By pseudo-layer: the input bias of each gate, then the recurrent ones.
)doc");

REGISTER_OP("TfCudnnRnn>CudnnRNNCanonicalToParamsV2")
    .Input("num_layers: int32")                // []
    .Input("num_units: int32")                 // []
    .Input("input_size: int32")                // []
    .Input("weights: num_params_weights * T")  // W [H, in], R [H, P], Pr [P, H]
    .Input("biases: num_params_biases * T")    // [H]
    .Output("params: T")                       // [N]
    .Attr(kType)
    .Attr(kNumParamsWeights)
    .Attr(kNumParamsBiases)
    .Attr(kRnnMode)
    .Attr(kInputMode)
    .Attr(kDirection)
    .Attr(kDropout)
    .Attr(kNumProj)
    .SetShapeFn(CanonicalToParamsShapeFunction)
    .Doc(R"doc(
Puts params together from what CudnnRNNParamsToCanonicalV2 returns.

Only the number of elements of each weight matters, not its shape.
)doc");

}  // namespace
}  // namespace tf_cudnn_rnn
