// What the engine says of a caller's input: that it will do, or what is wrong
// with it, in words for a user. Nothing is printed. What else may happen is in
// kernels/engine/engine.h.
#ifndef NETWORK_STATUS_H_
#define NETWORK_STATUS_H_

#include <string>
#include <utility>

namespace rnn {

enum class StatusCode { kOk, kInvalidArgument, kResourceExhausted };

class [[nodiscard]] Status {
 public:
  Status() = default;

  static Status InvalidArgument(std::string message) {
    return Status(StatusCode::kInvalidArgument, std::move(message));
  }
  static Status ResourceExhausted(std::string message) {
    return Status(StatusCode::kResourceExhausted, std::move(message));
  }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Status(StatusCode code, std::string message)
      : code_(code), message_(std::move(message)) {}

  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

}  // namespace rnn

#endif  // NETWORK_STATUS_H_
