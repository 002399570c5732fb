// The engine's result type as TensorFlow's.
#ifndef OPS_ENGINE_STATUS_H_
#define OPS_ENGINE_STATUS_H_

#include "absl/status/status.h"
#include "network/status.h"

namespace tf_cudnn_rnn {

inline absl::Status FromEngine(const rnn::Status& status) {
  switch (status.code()) {
    case rnn::StatusCode::kOk:
      return absl::OkStatus();
    case rnn::StatusCode::kInvalidArgument:
      return absl::InvalidArgumentError(status.message());
    case rnn::StatusCode::kResourceExhausted:
      return absl::ResourceExhaustedError(status.message());
  }
  return absl::UnknownError(status.message());
}

}  // namespace tf_cudnn_rnn

#endif  // OPS_ENGINE_STATUS_H_
