#include "network/params_layout.h"

#include <algorithm>

#include "network/sizes.h"

namespace rnn {

Status ParamsLayout::Create(const RnnDescriptor& descriptor,
                            ParamsLayout* layout) {
  if (Status status = Validate(descriptor); !status.ok()) return status;
  const RnnDescriptor& d = descriptor;
  const auto refusal = [&d] {
    return Status::InvalidArgument(
        "the size of params overflows: num_layers = " +
        std::to_string(d.num_layers) +
        ", directions = " + std::to_string(d.num_directions) +
        ", num_units = " + std::to_string(d.hidden_size) +
        ", input_size = " + std::to_string(d.input_size) +
        ", num_proj = " + std::to_string(d.num_proj) +
        " need more elements than 64 bits can count in bytes.");
  };
  // One of these is too large by itself; of smaller ones no product overflows.
  if (std::max(d.hidden_size, d.input_size) > kMaxTensorSize) return refusal();
  const Wide gates_size = Wide{d.num_gates()} * d.hidden_size;
  const Wide projection =
      d.has_projection() ? Wide{d.output_size()} * d.hidden_size : Wide{0};
  const Wide recurrent = gates_size * d.output_size() + projection;
  const Wide first_input = d.has_input_weights(0) ? d.input_size : 0;
  const Wide first = gates_size * first_input + recurrent;
  const Wide upper =
      gates_size * d.num_directions * d.output_size() + recurrent;
  const bool layers_fit = first <= kMaxTensorSize && upper <= kMaxTensorSize &&
                          d.num_layers <= kMaxTensorSize;
  const Wide weights =
      layers_fit ? d.num_directions * (first + (d.num_layers - 1) * upper)
                 : Wide{kMaxTensorSize} + 1;
  const Wide biases = Wide{d.num_layers} * d.num_directions * 2 * gates_size;
  if (weights > kMaxTensorSize || biases > kMaxTensorSize ||
      weights + biases > kMaxTensorSize) {
    return refusal();
  }
  layout->descriptor_ = d;
  layout->first_layer_weights_ = static_cast<int64_t>(first);
  layout->upper_layer_weights_ = static_cast<int64_t>(upper);
  layout->biases_offset_ = static_cast<int64_t>(weights);
  layout->size_ = static_cast<int64_t>(weights + biases);
  return Status();
}

int64_t ParamsLayout::WeightsOffset(int64_t k) const {
  const int64_t D = descriptor_.num_directions;
  return k < D ? k * first_layer_weights_
               : D * first_layer_weights_ + (k - D) * upper_layer_weights_;
}

Region ParamsLayout::InputWeights(int64_t k) const {
  const int64_t layer = descriptor_.layer_of(k);
  Region region;
  region.offset = WeightsOffset(k);
  region.rows = descriptor_.gates_size();
  region.columns = descriptor_.has_input_weights(layer)
                       ? descriptor_.layer_input_size(layer)
                       : 0;
  return region;
}

Region ParamsLayout::RecurrentWeights(int64_t k) const {
  Region region;
  region.offset = WeightsOffset(k) + InputWeights(k).size();
  region.rows = descriptor_.gates_size();
  region.columns = descriptor_.output_size();
  return region;
}

Region ParamsLayout::Projection(int64_t k) const {
  const Region recurrent = RecurrentWeights(k);
  Region region;
  region.offset = recurrent.offset + recurrent.size();
  region.rows = descriptor_.has_projection() ? descriptor_.output_size() : 0;
  region.columns = descriptor_.hidden_size;
  return region;
}

Region ParamsLayout::InputBias(int64_t k) const {
  Region region;
  region.rows = descriptor_.gates_size();
  region.columns = 1;
  region.offset = biases_offset_ + k * 2 * region.rows;
  return region;
}

Region ParamsLayout::RecurrentBias(int64_t k) const {
  Region region = InputBias(k);
  region.offset += region.size();
  return region;
}

Region ParamsLayout::Gate(const Region& all_gates, int64_t gate) const {
  Region region = all_gates;
  region.rows = descriptor_.hidden_size;
  region.offset += gate * region.size();
  return region;
}

int64_t ParamsLayout::canonical_weights_per_pseudo_layer() const {
  return 2 * descriptor_.num_gates() + (descriptor_.has_projection() ? 1 : 0);
}

int64_t ParamsLayout::num_canonical_weights() const {
  return descriptor_.num_pseudo_layers() * canonical_weights_per_pseudo_layer();
}

int64_t ParamsLayout::num_canonical_biases() const {
  return descriptor_.num_pseudo_layers() * 2 * descriptor_.num_gates();
}

Region ParamsLayout::CanonicalWeight(int64_t index) const {
  const int64_t G = descriptor_.num_gates();
  const int64_t k = index / canonical_weights_per_pseudo_layer();
  const int64_t matrix = index % canonical_weights_per_pseudo_layer();
  if (matrix < G) return Gate(InputWeights(k), matrix);
  if (matrix < 2 * G) return Gate(RecurrentWeights(k), matrix - G);
  return Projection(k);
}

Region ParamsLayout::CanonicalBias(int64_t index) const {
  const int64_t G = descriptor_.num_gates();
  const int64_t k = index / (2 * G);
  const int64_t vector = index % (2 * G);
  return vector < G ? Gate(InputBias(k), vector)
                    : Gate(RecurrentBias(k), vector - G);
}

}  // namespace rnn
