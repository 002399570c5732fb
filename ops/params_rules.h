// The rules for `params` and for the canonical lists of its weights and biases.
#ifndef OPS_PARAMS_RULES_H_
#define OPS_PARAMS_RULES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "network/descriptor.h"
#include "network/params_layout.h"
#include "ops/attributes.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tf_cudnn_rnn {

// A network as far as it is known.
struct Network {
  rnn::RnnDescriptor descriptor;
  std::optional<rnn::ParamsLayout> layout;  // if all sizes are known
};

// Fails if what is known breaks a rule.
absl::Status MakeNetwork(const RnnAttributes& attributes,
                         const NetworkSizes& sizes, Network* network);

// A network as messages name it.
std::string DescribeNetwork(const rnn::RnnDescriptor& descriptor);

// `name` is num_layers, num_units or input_size.
absl::Status CheckScalar(absl::string_view name,
                         const tensorflow::PartialTensorShape& shape);

absl::Status CheckParamsRank(const tensorflow::PartialTensorShape& params);

// Checks that params has the length the layout of this descriptor asks for.
absl::Status CheckParamsLength(const tensorflow::PartialTensorShape& params,
                               const rnn::RnnDescriptor& descriptor,
                               const rnn::ParamsLayout& layout);

// The lengths of the lists `weights` and `biases` of the canonical ops, and the
// attributes that set them.
struct CanonicalCounts {
  const char* weights_attribute;
  const char* biases_attribute;
  int64_t weights;
  int64_t biases;
};

absl::Status CheckCanonicalCounts(const CanonicalCounts& counts,
                                  const rnn::RnnDescriptor& descriptor,
                                  const rnn::ParamsLayout& layout);

// Checks the number of elements of list[index]; its shape does not matter.
absl::Status CheckCanonicalSize(absl::string_view list, int64_t index,
                                const tensorflow::PartialTensorShape& shape,
                                const rnn::Region& region);

}  // namespace tf_cudnn_rnn

#endif  // OPS_PARAMS_RULES_H_
