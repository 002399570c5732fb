#include "ops/call_shapes.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ops/params_rules.h"
#include "tensorflow/core/platform/errors.h"

namespace tf_cudnn_rnn {
namespace {

using ::tensorflow::PartialTensorShape;

bool HasRank(const PartialTensorShape& shape, int rank) {
  return shape.unknown_rank() || shape.dims() == rank;
}

// Learns `size` from `dimension`; false if they are known and differ.
bool Learn(int64_t dimension, int64_t* size) {
  if (*size == kUnknownSize) *size = dimension;
  return dimension == kUnknownSize || dimension == *size;
}

std::string SizeString(int64_t size) {
  return size == kUnknownSize ? "?" : absl::StrCat(size);
}

// One dimension of a required shape: its letters and, if known, its size.
struct RequiredDimension {
  absl::string_view letters;
  int64_t size;
};

// The checks of one call; each learns sizes for those after it.
class CallChecker {
 public:
  CallChecker(const RnnAttributes& attributes, CallSizes* sizes)
      : attributes_(attributes), sizes_(*sizes) {}

  absl::Status CheckForward(const ForwardShapes& shapes) {
    TF_RETURN_IF_ERROR(CheckInput(shapes.input));
    TF_RETURN_IF_ERROR(CheckInputH(shapes));
    if (attributes_.is_lstm()) {
      TF_RETURN_IF_ERROR(CheckInputC(shapes));
    } else {
      sizes_.hidden_size = sizes_.output_size;  // only LSTM cells project
    }
    TF_RETURN_IF_ERROR(CheckSequenceLengths(shapes.sequence_lengths));
    TF_RETURN_IF_ERROR(CheckParamsRank(shapes.params));
    TF_RETURN_IF_ERROR(CheckNothingIsEmpty(shapes));
    return CheckNetwork(shapes);
  }

  // Call it after CheckForward().
  absl::Status CheckBackprop(const BackpropShapes& shapes) {
    const Required output = Output();
    const Required output_h = StateH();
    TF_RETURN_IF_ERROR(CheckEqual("output", shapes.output, output));
    TF_RETURN_IF_ERROR(CheckEqual("output_h", shapes.output_h, output_h));
    TF_RETURN_IF_ERROR(
        CheckEqual("output_backprop", shapes.output_backprop, output));
    TF_RETURN_IF_ERROR(
        CheckEqual("output_h_backprop", shapes.output_h_backprop, output_h));
    if (attributes_.is_lstm()) {
      const Required output_c = StateC();
      TF_RETURN_IF_ERROR(CheckEqual("output_c", shapes.output_c, output_c));
      TF_RETURN_IF_ERROR(
          CheckEqual("output_c_backprop", shapes.output_c_backprop, output_c));
    }
    return CheckReserveSpaceRank(shapes.reserve_space);
  }

 private:
  using Required = std::array<RequiredDimension, 3>;

  Required Input() const {
    return Order({"T", sizes_.time}, {"I", sizes_.input_size});
  }
  Required Output() const {
    // If L, I or H is unknown, CheckNetwork() could not limit P.
    const bool fits = sizes_.output_size <= INT64_MAX / 2;
    const int64_t features =
        fits && sizes_.output_size != kUnknownSize
            ? attributes_.num_directions * sizes_.output_size
            : kUnknownSize;
    return Order({"T", sizes_.time}, {projects() ? "D*P" : "D*H", features});
  }
  Required StateH() const {
    return Order({"L*D", sizes_.pseudo_layers},
                 {projects() ? "P" : "H", sizes_.output_size});
  }
  Required StateC() const {
    return Order({"L*D", sizes_.pseudo_layers}, {"H", sizes_.hidden_size});
  }
  Required Order(RequiredDimension outer, RequiredDimension features) const {
    return Ordered(attributes_.time_major, outer, {"B", sizes_.batch},
                   features);
  }
  bool projects() const { return attributes_.num_proj != 0; }

  int outer_index() const { return attributes_.time_major ? 0 : 1; }
  int batch_index() const { return attributes_.time_major ? 1 : 0; }

  static std::string Letters(const Required& required) {
    return absl::StrCat("[", required[0].letters, ",", required[1].letters, ",",
                        required[2].letters, "]");
  }
  static std::string Numbers(const Required& required) {
    return absl::StrCat("[", SizeString(required[0].size), ",",
                        SizeString(required[1].size), ",",
                        SizeString(required[2].size), "]");
  }
  // "input_h must have shape [L*D,B,H] = [?,3,?]"
  static std::string Rule(absl::string_view name, const Required& required) {
    std::string rule =
        absl::StrCat(name, " must have shape ", Letters(required));
    const bool any_known = std::any_of(
        required.begin(), required.end(),
        [](const RequiredDimension& d) { return d.size != kUnknownSize; });
    if (any_known) absl::StrAppend(&rule, " = ", Numbers(required));
    return rule;
  }

  static absl::Status RankError(absl::string_view name,
                                const PartialTensorShape& shape,
                                const Required& required,
                                absl::string_view advice) {
    return absl::InvalidArgumentError(absl::StrCat(
        "RNN ", name, " must be a 3-D vector. ", Rule(name, required), ", got ",
        shape.DebugString(), "; ", advice, "."));
  }

  absl::Status CheckInput(const PartialTensorShape& input) {
    if (!HasRank(input, 3)) {
      return RankError("input", input, Input(),
                       "pass a batch of sequences of feature vectors");
    }
    sizes_.time = SizeOf(input, outer_index());
    sizes_.batch = SizeOf(input, batch_index());
    sizes_.input_size = SizeOf(input, 2);
    return absl::OkStatus();
  }

  absl::Status CheckInputH(const ForwardShapes& shapes) {
    const PartialTensorShape& input_h = shapes.input_h;
    if (!HasRank(input_h, 3)) {
      return RankError("input_h", input_h, StateH(),
                       "pass one initial state per layer and direction");
    }
    const int64_t D = attributes_.num_directions;
    const int64_t pseudo_layers = SizeOf(input_h, outer_index());
    sizes_.output_size = SizeOf(input_h, 2);
    const bool layers_fit = pseudo_layers == kUnknownSize ||
                            (pseudo_layers > 0 && pseudo_layers % D == 0);
    // What TensorFlow prints as expected: as many whole layers as there are.
    sizes_.pseudo_layers = pseudo_layers == kUnknownSize
                               ? kUnknownSize
                               : std::max<int64_t>(pseudo_layers / D, 1) * D;
    if (!Learn(SizeOf(input_h, batch_index()), &sizes_.batch) || !layers_fit) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Invalid input_h shape: ", input_h.DebugString(), " ",
          Numbers(StateH()), ". ", Rule("input_h", StateH()), " with D = ", D,
          " and L at least 1, got ", input_h.DebugString(),
          " beside an input of shape ", shapes.input.DebugString(),
          "; pass one state per layer, direction and batch row. (time_major "
          "is ",
          attributes_.time_major ? "true: time" : "false: the batch",
          " comes first in input.)"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckInputC(const ForwardShapes& shapes) {
    const PartialTensorShape& input_c = shapes.input_c;
    if (!HasRank(input_c, 3)) {
      return RankError("input_c", input_c, StateC(),
                       "pass one initial cell state per layer and direction");
    }
    sizes_.hidden_size = SizeOf(input_c, 2);
    const bool same_rows =
        Learn(SizeOf(input_c, outer_index()), &sizes_.pseudo_layers) &&
        Learn(SizeOf(input_c, batch_index()), &sizes_.batch);
    return projects() ? CheckProjectedStates(shapes, same_rows)
                      : CheckEqualStates(shapes, same_rows);
  }

  absl::Status CheckEqualStates(const ForwardShapes& shapes, bool same_rows) {
    if (Learn(sizes_.output_size, &sizes_.hidden_size) &&
        Learn(sizes_.hidden_size, &sizes_.output_size) && same_rows) {
      return CheckLayers(shapes.input_c);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "input_h and input_c must have the same shape w/o projection: ",
        shapes.input_h.DebugString(), " ", shapes.input_c.DebugString(),
        ". Both must have shape ", Letters(StateC()),
        same_rows
            ? "; if input_h is meant to have fewer features, set num_proj "
              "to their number (CudnnRNNV3 has it)."
            : "; pass one cell state for each state of input_h."));
  }

  absl::Status CheckProjectedStates(const ForwardShapes& shapes,
                                    bool same_rows) {
    const int64_t num_proj = attributes_.num_proj;
    if (num_proj < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_proj must be in [0, num_units], got ", num_proj,
                       "; 0 is for no projection."));
    }
    const bool at_most_units =
        sizes_.hidden_size == kUnknownSize || num_proj <= sizes_.hidden_size;
    if (Learn(num_proj, &sizes_.output_size) && same_rows && at_most_units) {
      return CheckLayers(shapes.input_c);
    }
    // A num_proj of H would turn the projection off, silently, so the state
    // that was not made smaller comes first.
    const std::string advice =
        !same_rows ? "pass one cell state for each state of input_h."
        : !at_most_units
            ? "num_proj cannot be more than the last dimension of input_c."
            : absl::StrCat("give input_h the last dimension ", num_proj,
                           ", or set num_proj to the one that it has (H is no "
                           "projection).");
    return absl::InvalidArgumentError(absl::StrCat(
        "Invalid input_h and input_c w/ projection size: ", num_proj, " ",
        shapes.input_h.DebugString(), " ", shapes.input_c.DebugString(),
        ". input_h must have shape ", Letters(StateH()),
        " with P = num_proj, and input_c ", Letters(StateC()),
        " with H >= num_proj >= 1, got num_proj = ", num_proj, "; ", advice));
  }

  // What input_h did not tell, input_c may have.
  absl::Status CheckLayers(const PartialTensorShape& input_c) {
    if (sizes_.pseudo_layers == kUnknownSize ||
        (sizes_.pseudo_layers > 0 &&
         sizes_.pseudo_layers % attributes_.num_directions == 0)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "Invalid input_c shape: ", input_c.DebugString(), ". ",
        Rule("input_c", StateC()), " with D = ", attributes_.num_directions,
        " and L at least 1; pass one state per layer, direction and batch "
        "row."));
  }

  absl::Status CheckSequenceLengths(const PartialTensorShape& lengths) {
    if (HasRank(lengths, 1) && Learn(SizeOf(lengths, 0), &sizes_.batch)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("sequence_lengths must have shape [B] = [",
                     SizeString(sizes_.batch), "], got ", lengths.DebugString(),
                     "; pass one length per batch row of input."));
  }

  absl::Status CheckNothingIsEmpty(const ForwardShapes& shapes) {
    const auto empty = [&](absl::string_view tensorflow_text,
                           absl::string_view name,
                           const PartialTensorShape& shape,
                           const Required& required, absl::string_view letter) {
      return absl::InvalidArgumentError(absl::StrCat(
          tensorflow_text, name, " must have shape ", Letters(required),
          " with ", letter, " at least 1, got ", shape.DebugString(), "."));
    };
    if (sizes_.time == 0) {
      return empty("max_seq_length <= 0. ", "input", shapes.input, Input(),
                   "T");
    }
    if (sizes_.input_size == 0) {
      return empty("", "input", shapes.input, Input(), "I");
    }
    if (sizes_.output_size == 0) {
      return empty("", "input_h", shapes.input_h, StateH(),
                   projects() ? "P" : "H");
    }
    return absl::OkStatus();
  }

  absl::Status CheckNetwork(const ForwardShapes& shapes) {
    Network network;
    absl::Status status =
        MakeNetwork(attributes_, sizes_.network(attributes_), &network);
    if (status.ok() && network.layout.has_value()) {
      status =
          CheckParamsLength(shapes.params, network.descriptor, *network.layout);
    }
    return WithInputShapes(status, shapes);
  }

  absl::Status CheckEqual(absl::string_view name,
                          const PartialTensorShape& shape,
                          const Required& required) {
    bool equal = HasRank(shape, 3);
    for (int i = 0; equal && i < 3; ++i) {
      int64_t size = required[i].size;
      equal = Learn(SizeOf(shape, i), &size);
    }
    if (equal) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "Invalid ", name, " shape: ", shape.DebugString(), " ",
        Numbers(required), ". ", Rule(name, required),
        " as in the forward call, got ", shape.DebugString(), "."));
  }

  const RnnAttributes& attributes_;
  CallSizes& sizes_;
};

}  // namespace

NetworkSizes CallSizes::network(const RnnAttributes& attributes) const {
  NetworkSizes sizes;
  if (pseudo_layers != kUnknownSize) {
    sizes.num_layers = pseudo_layers / attributes.num_directions;
  }
  if (input_size != kUnknownSize) sizes.input_size = input_size;
  if (hidden_size != kUnknownSize) sizes.hidden_size = hidden_size;
  return sizes;
}

absl::Status WithInputShapes(const absl::Status& status,
                             const ForwardShapes& shapes) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(
      status.message(), " (input has shape ", shapes.input.DebugString(),
      ", input_h ", shapes.input_h.DebugString(), ")"));
}

absl::Status CheckForwardShapes(const RnnAttributes& attributes,
                                const ForwardShapes& shapes, CallSizes* sizes) {
  return CallChecker(attributes, sizes).CheckForward(shapes);
}

absl::Status CheckBackpropShapes(const RnnAttributes& attributes,
                                 const BackpropShapes& shapes,
                                 CallSizes* sizes) {
  CallChecker checker(attributes, sizes);
  TF_RETURN_IF_ERROR(checker.CheckForward(shapes.forward));
  return checker.CheckBackprop(shapes);
}

absl::Status CheckReserveSpaceRank(const PartialTensorShape& shape) {
  if (HasRank(shape, 1)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "reserve_space must have rank 1, got ", shape.DebugString(),
      shape.dims() == 0
          ? ": the forward op ran with is_training=False; run it with "
            "is_training=True."
          : "; pass what the forward op returned."));
}

absl::Status CheckRngSeedShape(const PartialTensorShape& shape) {
  if (HasRank(shape, 1) &&
      (SizeOf(shape, 0) == kUnknownSize || SizeOf(shape, 0) == 2)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("rng_seed must have shape [2], got ", shape.DebugString(),
                   "; pass two int64 numbers."));
}

}  // namespace tf_cudnn_rnn
