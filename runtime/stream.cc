#include "runtime/stream.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/engine/threads/executor.h"

namespace rnn_runtime {

using ::rnn::Sequences;
using ::rnn::Status;

Status Stream::Create(std::shared_ptr<const Network> shared_network,
                      int64_t batch, std::unique_ptr<Stream>* stream) {
  std::unique_ptr<Stream> made(new Stream(std::move(shared_network)));
  const Network& network = made->network();
  if (network.descriptor().num_directions != 1) {
    return Status::InvalidArgument(
        "A stream needs a network of one direction, for the other one begins "
        "with the last step; this one is bidirectional. Call it with whole "
        "sequences.");
  }
  if (Status s = Sequences::Create(/*max_time=*/1, batch, /*lengths=*/nullptr,
                                   &made->sequences_);
      !s.ok()) {
    return s;
  }
  rnn::ForwardPlan plan_without_crew;
  if (Status s = network.Plan(made->sequences_, /*has_crew=*/false,
                              &plan_without_crew);
      !s.ok()) {
    return s;
  }
  made->is_long_ = !plan_without_crew.works_alone();
  if (Status s =
          network.Plan(made->sequences_, /*has_crew=*/true, &made->plan_);
      !s.ok()) {
    return s;
  }
  made->prepared_weights_ = network.PreparedWeights(made->plan_);
  made->scratch_ = AlignedMemory(made->plan_.scratch_bytes);
  for (States& states : made->states_) {
    states.h = AlignedMemory(made->h_bytes());
    if (network.is_lstm()) states.c = AlignedMemory(made->c_bytes());
  }
  made->Reset();
  *stream = std::move(made);
  return Status();
}

void Stream::Step(const void* x, void* y) {
  const States& before = states_[now_];
  const States& after = states_[1 - now_];
  CallData call;
  call.steps = 1;
  call.batch = batch();
  call.x = x;
  call.h0 = before.h.data();
  call.c0 = before.c.data();
  call.y = y;
  call.h_n = after.h.data();
  call.c_n = after.c.data();
  Run(call);
  now_ = 1 - now_;
}

void Stream::Run(const CallData& call) {
  const auto run = [&](rnn::Executor& executor) {
    network_->Run(plan_, prepared_weights_, call, scratch_.data(), executor);
  };
  rnn::SerialExecutor alone;
  if (plan_.works_alone()) {
    run(alone);
    return;
  }
  const Network::CrewOfCall crew(*network_);
  if (crew.get() != nullptr || is_long_) {
    rnn::Team team = network_->MakeTeam(crew.get());
    run(team);
  } else {
    run(alone);
  }
}

void Stream::Reset() {
  std::memset(states_[now_].h.data(), 0, h_bytes());
  if (network_->is_lstm()) std::memset(states_[now_].c.data(), 0, c_bytes());
}

void Stream::ResetRow(int64_t row) {
  ClearRow(row, network_->descriptor().output_size(), states_[now_].h.data());
  if (network_->is_lstm()) {
    ClearRow(row, network_->descriptor().hidden_size, states_[now_].c.data());
  }
}

void Stream::ClearRow(int64_t row, int64_t features, void* states) const {
  const int64_t bytes = features * network_->element_bytes();
  for (int64_t layer = 0; layer < network_->descriptor().num_layers; ++layer) {
    std::memset(static_cast<char*>(states) + (layer * batch() + row) * bytes, 0,
                bytes);
  }
}

void Stream::GetState(void* h, void* c) const {
  if (h != nullptr) std::memcpy(h, states_[now_].h.data(), h_bytes());
  if (c != nullptr) std::memcpy(c, states_[now_].c.data(), c_bytes());
}

void Stream::SetState(const void* h, const void* c) {
  if (h != nullptr) std::memcpy(states_[now_].h.data(), h, h_bytes());
  if (c != nullptr) std::memcpy(states_[now_].c.data(), c, c_bytes());
}

}  // namespace rnn_runtime
