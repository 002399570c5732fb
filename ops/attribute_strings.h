// The attributes of our ops as REGISTER_OP takes them: each is the same
// wherever it occurs.
#ifndef OPS_ATTRIBUTE_STRINGS_H_
#define OPS_ATTRIBUTE_STRINGS_H_

namespace tf_cudnn_rnn {

inline constexpr char kType[] = "T: {bfloat16, float16, float32, float64}";
inline constexpr char kRnnMode[] =
    "rnn_mode: {'rnn_relu', 'rnn_tanh', 'lstm', 'gru'} = 'lstm'";
inline constexpr char kInputMode[] =
    "input_mode: {'linear_input', 'skip_input', 'auto_select'} = "
    "'linear_input'";
inline constexpr char kDirection[] =
    "direction: {'unidirectional', 'bidirectional'} = 'unidirectional'";
inline constexpr char kDropout[] = "dropout: float = 0.0";
inline constexpr char kNumProj[] = "num_proj: int = 0";
inline constexpr char kIsTraining[] = "is_training: bool = true";
inline constexpr char kTimeMajor[] = "time_major: bool = true";
inline constexpr char kNumBiases[] = "num_biases: int >= 0 = 1";
inline constexpr char kNumBackwardWeights[] =
    "num_backward_weights: int >= 0 = 0";
inline constexpr char kNumMasks[] = "num_masks: int >= 0 = 0";
inline constexpr char kGoBackwards[] = "go_backwards: bool = false";
inline constexpr char kZeroOutputForMask[] =
    "zero_output_for_mask: bool = true";
inline constexpr char kNumParamsWeights[] = "num_params_weights: int >= 1";
inline constexpr char kNumParamsBiases[] = "num_params_biases: int >= 1";

}  // namespace tf_cudnn_rnn

#endif  // OPS_ATTRIBUTE_STRINGS_H_
