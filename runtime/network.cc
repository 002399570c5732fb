#include "runtime/network.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "kernels/engine/threads/float_mode.h"
#include "network/round.h"
#include "network/weights.h"

namespace rnn_runtime {

using ::rnn::BFloat16;
using ::rnn::ElementType;
using ::rnn::ForwardPlan;
using ::rnn::Half;
using ::rnn::RnnDescriptor;
using ::rnn::ScopedFloatMode;
using ::rnn::Sequences;
using ::rnn::Status;
using ::tf_cudnn_rnn::Scratch;

namespace {

constexpr int kMostThreads = 1024;

// A call that comes so soon after the one before has helpers who then wait for
// the next, up to a millisecond. At longer intervals they would keep a core
// busy for most of the time to help for little of it.
constexpr std::chrono::microseconds kSoon(100);

Status OutOfMemory(int64_t bytes) {
  return Status::ResourceExhausted("There is no memory for the call's " +
                                   std::to_string(bytes) + " bytes.");
}

Status CheckCount(const char* name, int64_t count, int64_t expected) {
  if (count == expected) return Status();
  return Status::InvalidArgument(
      std::string(name) + " must be " + std::to_string(expected) +
      " for such a network, got " + std::to_string(count) +
      "; tf_cudnn_rnn.weights.quantize makes vectors that fit.");
}

// States that the caller does not give, or does not want: pieces of the memory
// behind a call's scratch.
class SpareStates {
 public:
  explicit SpareStates(int64_t first_byte) : bytes_(first_byte) {}

  // Where the piece begins; -1 if the caller has it.
  int64_t Take(bool is_missing, int64_t bytes) {
    if (!is_missing || bytes == 0) return -1;
    constexpr int64_t kLine = 64;
    const int64_t begin = rnn::RoundUp(bytes_, kLine);
    bytes_ = begin + bytes;
    return begin;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_;
};

}  // namespace

Status Network::Begin(const RnnDescriptor& descriptor, ElementType type,
                      int num_threads, std::unique_ptr<Network>* network) {
  if (num_threads < 1 || num_threads > kMostThreads) {
    return Status::InvalidArgument("num_threads must be in [1, " +
                                   std::to_string(kMostThreads) + "], got " +
                                   std::to_string(num_threads) + ".");
  }
  std::unique_ptr<Network> made(new Network);
  made->descriptor_ = descriptor;
  made->type_ = type;
  made->num_threads_ = num_threads;
  made->limit_ = std::make_shared<rnn::ThreadLimit>(num_threads);
  if (num_threads > 1) {
    made->helpers_ = std::make_unique<ThreadPool>(num_threads - 1);
  }
  *network = std::move(made);
  return Status();
}

Status Network::Create(const RnnDescriptor& descriptor, ElementType type,
                       const void* params, int64_t num_params, int num_threads,
                       std::unique_ptr<Network>* network) {
  rnn::ParamsLayout layout;
  if (Status s = rnn::ParamsLayout::Create(descriptor, &layout); !s.ok()) {
    return s;
  }
  if (num_params != layout.size()) {
    return Status::InvalidArgument(
        "params must have the " + std::to_string(layout.size()) +
        " elements of such a network, got " + std::to_string(num_params) +
        "; rnn_params_size() tells.");
  }
  std::unique_ptr<Network> made;
  if (Status s = Begin(descriptor, type, num_threads, &made); !s.ok()) return s;
  made->num_params_ = num_params;
  const int64_t bytes = num_params * rnn::ElementBytes(type);
  made->params_ = AlignedMemory(bytes);
  std::memcpy(made->params_.data(), params, bytes);
  *network = std::move(made);
  return Status();
}

Status Network::CreateInt8(const RnnDescriptor& descriptor,
                           const Int8Data& weights, int num_threads,
                           std::unique_ptr<Network>* network) {
  rnn::Int8Layout layout;
  if (Status s = rnn::Int8Layout::Create(descriptor, &layout); !s.ok()) {
    return s;
  }
  for (const Status& s : {
           CheckCount("num_weights", weights.num_values, layout.num_values()),
           CheckCount("num_scales", weights.num_scales, layout.num_scales()),
           CheckCount("num_biases", weights.num_biases, layout.num_biases()),
       }) {
    if (!s.ok()) return s;
  }
  std::unique_ptr<Network> made;
  if (Status s = Begin(descriptor, ElementType::kFloat, num_threads, &made);
      !s.ok()) {
    return s;
  }
  made->int8_layout_ = layout;
  const int64_t scales_bytes = weights.num_scales * int64_t{sizeof(float)};
  const int64_t biases_bytes = weights.num_biases * int64_t{sizeof(float)};
  // Floats first: these have to be aligned.
  made->int8_memory_ =
      AlignedMemory(scales_bytes + biases_bytes + weights.num_values);
  char* const memory = static_cast<char*>(made->int8_memory_.data());
  std::memcpy(memory, weights.scales, scales_bytes);
  std::memcpy(memory + scales_bytes, weights.biases, biases_bytes);
  std::memcpy(memory + scales_bytes + biases_bytes, weights.values,
              weights.num_values);
  made->int8_.scales = reinterpret_cast<const float*>(memory);
  made->int8_.biases = reinterpret_cast<const float*>(memory + scales_bytes);
  made->int8_.values =
      reinterpret_cast<const int8_t*>(memory + scales_bytes + biases_bytes);
  // Of the copy, which nobody else writes.
  if (Status s = rnn::CheckInt8Scales(made->int8_.scales, layout.num_scales());
      !s.ok()) {
    return s;
  }
  *network = std::move(made);
  return Status();
}

int64_t Network::element_bytes() const { return rnn::ElementBytes(type_); }

Int8Data Network::int8() const {
  Int8Data data;
  data.values = int8_.values;
  data.num_values = int8_layout_.num_values();
  data.scales = int8_.scales;
  data.num_scales = int8_layout_.num_scales();
  data.biases = int8_.biases;
  data.num_biases = int8_layout_.num_biases();
  return data;
}

Status Network::Plan(const Sequences& sequences, bool has_crew,
                     ForwardPlan* plan) const {
  rnn::CallDescription call;
  call.descriptor = descriptor_;
  call.sequences = &sequences;
  call.element_type = type_;
  if (has_int8_weights()) call.weight_order = rnn::WeightOrder::kInt8;
  call.weights_are_prepared = true;
  rnn::Machine machine = rnn::Machine::Here(num_threads_);
  machine.has_crew = has_crew;
  return ForwardPlan::Create(call, /*has_reserve=*/false, machine, plan);
}

Status Network::Run(const CallData& call) const {
  rnn::ValidSteps steps;
  steps.lengths = call.lengths;
  steps.lengths_name = "lengths";
  steps.input_name = "x";
  Sequences sequences;
  if (Status s = Sequences::Create(call.steps, call.batch, steps, &sequences);
      !s.ok()) {
    return s;
  }
  const CrewOfCall crew(*this);
  ForwardPlan plan;
  if (Status s = Plan(sequences, /*has_crew=*/crew.get() != nullptr, &plan);
      !s.ok()) {
    return s;
  }
  const int64_t h_bytes = call.batch * h_size() * element_bytes();
  const int64_t c_bytes = call.batch * c_size() * element_bytes();
  SpareStates spare(plan.scratch_bytes);
  const int64_t h0 = spare.Take(call.h0 == nullptr, h_bytes);
  const int64_t c0 = spare.Take(call.c0 == nullptr, c_bytes);
  const int64_t h_n = spare.Take(call.h_n == nullptr, h_bytes);
  const int64_t c_n = spare.Take(call.c_n == nullptr, c_bytes);
  const Scratch scratch(spare.bytes(), scratch_);
  char* const memory = static_cast<char*>(scratch.data());
  if (memory == nullptr) return OutOfMemory(spare.bytes());
  CallData whole = call;
  if (h0 >= 0) whole.h0 = std::memset(memory + h0, 0, h_bytes);
  if (c0 >= 0) whole.c0 = std::memset(memory + c0, 0, c_bytes);
  if (h_n >= 0) whole.h_n = memory + h_n;
  if (c_n >= 0) whole.c_n = memory + c_n;
  const void* const prepared_weights = PreparedWeights(plan);
  if (plan.works_alone()) {
    rnn::SerialExecutor alone;
    Run(plan, prepared_weights, whole, memory, alone);
  } else {
    rnn::Team team = MakeTeam(crew.get());
    Run(plan, prepared_weights, whole, memory, team);
  }
  return Status();
}

rnn::Team Network::MakeTeam(rnn::Team::Crew* crew) const {
  return rnn::Team(
      num_threads_,
      [this](std::function<void()> work) {
        helpers_->Schedule(std::move(work));
      },
      limit_, crew);
}

rnn::Team::Crew* Network::TryTakeCrew() const {
  if (num_threads_ == 1) return nullptr;
  const auto since_last_end = std::chrono::steady_clock::now() -
                              last_end_.load(std::memory_order_relaxed);
  if (since_last_end >= kSoon) return nullptr;
  const bool was_taken =
      crew_is_taken_.exchange(true, std::memory_order_acquire);
  return was_taken ? nullptr : &crew_;
}

void Network::GiveCrewBack(rnn::Team::Crew* crew) const {
  if (num_threads_ == 1) return;
  if (crew != nullptr) crew_is_taken_.store(false, std::memory_order_release);
  last_end_.store(std::chrono::steady_clock::now(), std::memory_order_relaxed);
}

const void* Network::PreparedWeights(const ForwardPlan& plan) const {
  if (plan.prepared.bytes == 0) return nullptr;
  Prepared& prepared = PreparedAlong(plan.prepared_routes());
  // Calls that need other ones do not wait.
  const std::lock_guard<std::mutex> lock(prepared.mutex);
  if (prepared.memory.data() == nullptr) prepared.memory = Prepare(plan);
  return prepared.memory.data();
}

Network::Prepared& Network::PreparedAlong(
    const rnn::PreparedRoutes& routes) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Prepared& prepared : prepared_) {
    if (prepared.routes == routes) return prepared;
  }
  Prepared& prepared = prepared_.emplace_back();
  prepared.routes = routes;
  return prepared;
}

// Calls use(Element{}) for the element type.
template <typename Use>
void Network::WithElement(Use use) const {
  switch (type_) {
    case ElementType::kFloat:
      return use(float{});
    case ElementType::kDouble:
      return use(double{});
    case ElementType::kHalf:
      return use(Half{});
    case ElementType::kBFloat16:
      return use(BFloat16{});
  }
}

AlignedMemory Network::Prepare(const ForwardPlan& plan) const {
  AlignedMemory memory(plan.prepared.bytes);
  const ScopedFloatMode mode;
  WithElement([&](auto element) {
    using Element = decltype(element);
    rnn::Weights<const Element> weights;
    weights.params = static_cast<const Element*>(params_.data());
    weights.int8 = int8_;
    rnn::SerialExecutor alone;
    rnn::PrepareWeights(plan, weights, memory.data(), alone);
  });
  return memory;
}

void Network::Run(const ForwardPlan& plan, const void* prepared_weights,
                  const CallData& call, void* scratch,
                  rnn::Executor& executor) const {
  const ScopedFloatMode mode;
  WithElement([&](auto element) {
    RunElements<decltype(element)>(plan, prepared_weights, call, scratch,
                                   executor);
  });
}

template <typename Element>
void Network::RunElements(const ForwardPlan& plan, const void* prepared_weights,
                          const CallData& call, void* scratch,
                          rnn::Executor& executor) const {
  rnn::ForwardArguments<Element> arguments{};
  arguments.x = static_cast<const Element*>(call.x);
  arguments.h0 = static_cast<const Element*>(call.h0);
  arguments.weights.params = static_cast<const Element*>(params_.data());
  arguments.weights.int8 = int8_;
  arguments.prepared_weights = prepared_weights;
  arguments.y = static_cast<Element*>(call.y);
  arguments.h_n = static_cast<Element*>(call.h_n);
  if (is_lstm()) {
    arguments.c0 = static_cast<const Element*>(call.c0);
    arguments.c_n = static_cast<Element*>(call.c_n);
  }
  arguments.layout = {call.time_major, /*states_outer_major=*/true};
  arguments.strides = rnn::CallStrides::Of(descriptor_, arguments.layout,
                                           call.steps, call.batch);
  rnn::Forward(plan, arguments, scratch, executor);
}

}  // namespace rnn_runtime
