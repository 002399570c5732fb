// A batch of sequences that come a step at a time.
#ifndef RUNTIME_STREAM_H_
#define RUNTIME_STREAM_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/engine/plan/plan.h"
#include "network/sequences.h"
#include "network/status.h"
#include "runtime/aligned_memory.h"
#include "runtime/network.h"

namespace rnn_runtime {

// All is planned and allocated when it is made: a step only computes, and gives
// the bits of a call of one step with these states.
class Stream {
 public:
  static rnn::Status Create(std::shared_ptr<const Network> network,
                            int64_t batch, std::unique_ptr<Stream>* stream);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const Network& network() const { return *network_; }
  int64_t batch() const { return sequences_.batch(); }

  // From x [B, I] to y [B, P].
  void Step(const void* x, void* y);

  // Of all rows, or of one.
  void Reset();
  void ResetRow(int64_t row);

  // h [L, B, P] and c [L, B, H]; nullptr is left out.
  void GetState(void* h, void* c) const;
  void SetState(const void* h, const void* c);

 private:
  explicit Stream(std::shared_ptr<const Network> network)
      : network_(std::move(network)) {}

  // Before and after the step at hand, in turn.
  struct States {
    AlignedMemory h;
    AlignedMemory c;
  };

  int64_t h_bytes() const {
    return batch() * network_->h_size() * network_->element_bytes();
  }
  int64_t c_bytes() const {
    return batch() * network_->c_size() * network_->element_bytes();
  }
  void Run(const CallData& call);
  // Zeros of one row, in memory of [L, B, features].
  void ClearRow(int64_t row, int64_t features, void* states) const;

  const std::shared_ptr<const Network> network_;
  rnn::Sequences sequences_;
  rnn::ForwardPlan plan_;
  // A step is so long that helpers are worth calling however late they come.
  bool is_long_ = false;
  const void* prepared_weights_ = nullptr;  // the network's
  AlignedMemory scratch_;
  States states_[2];
  int now_ = 0;  // which of them are those of now
};

}  // namespace rnn_runtime

#endif  // RUNTIME_STREAM_H_
