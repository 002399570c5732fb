#include "ops/keras_weights_rules.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "network/cell.h"
#include "network/weights.h"
#include "ops/attributes.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::PartialTensorShape;

absl::Status CheckShape(const char* name, const PartialTensorShape& shape,
                        const PartialTensorShape& required,
                        const std::string& letters, rnn::CellMode mode) {
  if (shape.IsCompatibleWith(required)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " must have shape ", letters, " = ", required.DebugString(),
      " for rnn_mode = ", RnnModeName(mode), ", got ", shape.DebugString(),
      "."));
}

absl::Status ParamsSize(rnn::CellMode mode, int64_t input_size,
                        int64_t hidden_size, int64_t* size) {
  Network network;
  TF_RETURN_IF_ERROR(
      MakeKerasNetwork(mode, {input_size, hidden_size}, &network));
  *size = network.layout->size();
  return absl::OkStatus();
}

absl::Status CheckMask(const RnnAttributes& attributes,
                       const PartialTensorShape& mask, CallSizes* sizes) {
  if (mask.unknown_rank()) return absl::OkStatus();
  const int time_index = attributes.time_major ? 0 : 1;
  int64_t* required[2];
  required[time_index] = &sizes->time;
  required[1 - time_index] = &sizes->batch;
  // One dimension after the other: a shape of both might have more elements
  // than 64 bits can count, which ends the process.
  const auto is_one = [&](int i) {
    return mask.dim_size(i) < 0 || *required[i] == kUnknownSize ||
           mask.dim_size(i) == *required[i];
  };
  if (mask.dims() != 2 || !is_one(0) || !is_one(1)) {
    const auto text = [](int64_t size) {
      return size == kUnknownSize ? "?" : absl::StrCat(size);
    };
    return absl::InvalidArgumentError(absl::StrCat(
        "masks[0] must have shape ", attributes.time_major ? "[T,B]" : "[B,T]",
        " = [", text(*required[0]), ",", text(*required[1]), "], got ",
        mask.DebugString(),
        "; pass one value for each step of each row of input."));
  }
  for (int i = 0; i < 2; ++i) {
    if (*required[i] == kUnknownSize) *required[i] = mask.dim_size(i);
  }
  return absl::OkStatus();
}

std::string GatesSize(rnn::CellMode mode) {
  const int num_gates = rnn::NumGates(mode);
  return num_gates == 1 ? "H" : absl::StrCat(num_gates, "*H");
}

}  // namespace

absl::Status CheckNumBiases(int64_t num_biases) {
  if (num_biases == 0 || num_biases == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("num_biases must be 0 or 1, got ", num_biases,
                   "; the two biases of a GRU are one tensor [2, 3*H]."));
}

absl::Status CheckNumMasks(int64_t num_masks) {
  if (num_masks == 0 || num_masks == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("num_masks must be 0 or 1, got ", num_masks,
                   "; combine masks into one."));
}

absl::Status CheckBackwardWeights(int64_t num_biases,
                                  int64_t num_backward_weights,
                                  bool go_backwards,
                                  bool zero_output_for_mask) {
  if (num_backward_weights == 0) return absl::OkStatus();
  if (num_backward_weights != 2 + num_biases) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_backward_weights must be 0 or, with num_biases = ", num_biases,
        ", ", 2 + num_biases, ", got ", num_backward_weights,
        "; pass the kernel, the recurrent kernel and, if there are biases, the "
        "bias of the backward direction."));
  }
  if (!go_backwards && zero_output_for_mask) return absl::OkStatus();
  const auto text = [](bool value) { return value ? "true" : "false"; };
  return absl::InvalidArgumentError(absl::StrCat(
      "With backward_weights, go_backwards must be false and "
      "zero_output_for_mask true, got ",
      text(go_backwards), " and ", text(zero_output_for_mask),
      "; both directions are taken, and outputs are zero where steps are not "
      "valid."));
}

absl::Status ParseKerasWeightsAttributes(const std::string& rnn_mode,
                                         int64_t num_biases,
                                         KerasWeightsAttributes* attributes) {
  RnnAttributes all;
  TF_RETURN_IF_ERROR(
      ParseModes(rnn_mode, "linear_input", "unidirectional", &all));
  TF_RETURN_IF_ERROR(CheckNumBiases(num_biases));
  attributes->mode = all.mode;
  attributes->num_biases = num_biases;
  return absl::OkStatus();
}

absl::Status MakeKerasNetwork(rnn::CellMode mode, const KerasSizes& sizes,
                              Network* network) {
  RnnAttributes attributes;
  attributes.mode = mode;
  NetworkSizes all;
  all.num_layers = 1;
  all.input_size = sizes.input_size;
  all.hidden_size = sizes.hidden_size;
  return MakeNetwork(attributes, all, network);
}

PartialTensorShape KerasBiasShape(rnn::CellMode mode,
                                  std::optional<int64_t> num_units) {
  const int64_t gates_size =
      num_units ? rnn::NumGates(mode) * *num_units : int64_t{-1};
  return rnn::KerasHasRecurrentBias(mode) ? PartialTensorShape({2, gates_size})
                                          : PartialTensorShape({gates_size});
}

absl::Status CheckKerasShapes(rnn::CellMode mode, const KerasShapes& shapes,
                              KerasSizes* sizes, const KerasNames& names) {
  const auto& [kernel, recurrent_kernel, bias] = shapes;
  const std::string gates_size = GatesSize(mode);
  const std::string recurrent_letters = absl::StrCat("[H,", gates_size, "]");
  TF_RETURN_IF_ERROR(CheckShape(names.recurrent_kernel, recurrent_kernel,
                                PartialTensorShape({-1, -1}), recurrent_letters,
                                mode));
  const int64_t num_units = SizeOf(recurrent_kernel, 0);
  *sizes = {};
  PartialTensorShape gates = PartialTensorShape({-1, -1});
  if (num_units != kUnknownSize) {
    int64_t size;  // which must not overflow
    TF_RETURN_IF_ERROR(ParamsSize(mode, /*input_size=*/1, num_units, &size));
    sizes->hidden_size = num_units;
    gates = PartialTensorShape({-1, rnn::NumGates(mode) * num_units});
  }
  TF_RETURN_IF_ERROR(CheckShape(names.recurrent_kernel, recurrent_kernel, gates,
                                recurrent_letters, mode));
  TF_RETURN_IF_ERROR(CheckShape(names.kernel, kernel, gates,
                                absl::StrCat("[I,", gates_size, "]"), mode));
  if (SizeOf(kernel, 0) != kUnknownSize) sizes->input_size = kernel.dim_size(0);
  if (!bias) return absl::OkStatus();
  return CheckShape(names.bias, *bias, KerasBiasShape(mode, sizes->hidden_size),
                    rnn::KerasHasRecurrentBias(mode)
                        ? absl::StrCat("[2,", gates_size, "]")
                        : absl::StrCat("[", gates_size, "]"),
                    mode);
}

absl::Status CheckKerasCall(const RnnAttributes& attributes,
                            const ForwardShapes& shapes,
                            const KerasShapes (&weights)[2],
                            const std::optional<PartialTensorShape>& mask,
                            CallSizes* sizes) {
  TF_RETURN_IF_ERROR(CheckForwardShapes(attributes, shapes, sizes));
  if (mask) TF_RETURN_IF_ERROR(CheckMask(attributes, *mask, sizes));
  const int64_t num_directions = attributes.num_directions;
  if (sizes->pseudo_layers == kUnknownSize) {
    sizes->pseudo_layers = num_directions;
  }
  if (sizes->pseudo_layers != num_directions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input_h must hold ", num_directions == 1 ? "one state" : "two states",
        " a row, got ", sizes->pseudo_layers, " (shape ",
        shapes.input_h.DebugString(), "); Keras' weights are those of one ",
        "layer, in one direction unless there are backward_weights."));
  }
  const auto check = [&](const char* name, const PartialTensorShape& shape,
                         const char* letter, std::optional<int64_t> rows,
                         int64_t* size) {
    if (!rows || *size == kUnknownSize || *rows == *size) {
      if (rows) *size = *rows;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        name, " must have ", letter, " = ", *size, " rows for an input of ",
        "shape ", shapes.input.DebugString(), " and an input_h of shape ",
        shapes.input_h.DebugString(), ", got ", shape.DebugString(),
        ". Pass weights of that size, or an input and an input_h that fit "
        "these."));
  };
  for (int64_t k = 0; k < num_directions; ++k) {
    const KerasNames& names = k == 0 ? kForwardNames : kBackwardNames;
    KerasSizes known;
    TF_RETURN_IF_ERROR(
        CheckKerasShapes(attributes.mode, weights[k], &known, names));
    TF_RETURN_IF_ERROR(check(names.kernel, weights[k].kernel, "I",
                             known.input_size, &sizes->input_size));
    TF_RETURN_IF_ERROR(check(names.recurrent_kernel,
                             weights[k].recurrent_kernel, "H",
                             known.hidden_size, &sizes->hidden_size));
  }
  sizes->output_size = sizes->hidden_size;
  return absl::OkStatus();
}

absl::Status CheckKerasBackpropShapes(rnn::CellMode mode,
                                      const PartialTensorShape& params_backprop,
                                      std::optional<int64_t> num_units,
                                      KerasSizes* sizes) {
  if (!params_backprop.unknown_rank() && params_backprop.dims() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("params_backprop must have shape [N], got ",
                     params_backprop.DebugString(), "."));
  }
  *sizes = {};
  if (!num_units) return absl::OkStatus();
  if (*num_units < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_units must be at least 1, got ", *num_units, "."));
  }
  sizes->hidden_size = *num_units;
  const int64_t size = SizeOf(params_backprop, 0);
  if (size == kUnknownSize) return absl::OkStatus();
  // N grows by the same number with each input.
  int64_t smallest, second;
  TF_RETURN_IF_ERROR(ParamsSize(mode, /*input_size=*/1, *num_units, &smallest));
  TF_RETURN_IF_ERROR(ParamsSize(mode, /*input_size=*/2, *num_units, &second));
  const int64_t per_input = second - smallest;
  if (size < smallest || (size - smallest) % per_input != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "params_backprop must have as many elements as params for rnn_mode = ",
        RnnModeName(mode), ", num_units = ", *num_units,
        " and some input_size, that is ", smallest, " + a multiple of ",
        per_input, ", got ", params_backprop.DebugString(), "."));
  }
  const int64_t input_size = 1 + (size - smallest) / per_input;
  sizes->input_size = input_size;
  return absl::OkStatus();
}

}  // namespace tf_cudnn_rnn
