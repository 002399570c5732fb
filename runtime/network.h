// A network and its weights, on the engine: what the interface in C is made of.
#ifndef RUNTIME_NETWORK_H_
#define RUNTIME_NETWORK_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "kernels/engine/engine.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/team.h"
#include "kernels/engine/threads/thread_limit.h"
#include "kernels/memory/scratch_pool.h"
#include "network/descriptor.h"
#include "network/element_types.h"
#include "network/int8_weights.h"
#include "network/params_layout.h"
#include "network/sequences.h"
#include "network/status.h"
#include "runtime/aligned_memory.h"
#include "runtime/int8_data.h"
#include "runtime/thread_pool.h"

namespace rnn_runtime {

// Data of a call; shapes as in rnn_call of rnn_runtime.h.
struct CallData {
  int64_t steps = 0;
  int64_t batch = 0;
  bool time_major = true;
  const void* x = nullptr;
  const int32_t* lengths = nullptr;
  const void* h0 = nullptr;
  const void* c0 = nullptr;
  void* y = nullptr;
  void* h_n = nullptr;
  void* c_n = nullptr;
};

class Network {
 public:
  // Copies `params`, num_params elements. May throw std::bad_alloc, as all of
  // its functions may.
  static rnn::Status Create(const rnn::RnnDescriptor& descriptor,
                            rnn::ElementType type, const void* params,
                            int64_t num_params, int num_threads,
                            std::unique_ptr<Network>* network);

  // Copies int8 weights, for a network whose tensors are float.
  static rnn::Status CreateInt8(const rnn::RnnDescriptor& descriptor,
                                const Int8Data& weights, int num_threads,
                                std::unique_ptr<Network>* network);

  const rnn::RnnDescriptor& descriptor() const { return descriptor_; }
  rnn::ElementType type() const { return type_; }
  int64_t element_bytes() const;
  bool has_int8_weights() const { return int8_.values != nullptr; }
  // Its own copy of the weights: params, unless they are int8.
  const void* params() const { return params_.data(); }
  int64_t num_params() const { return num_params_; }
  Int8Data int8() const;
  bool is_lstm() const { return descriptor_.mode == rnn::CellMode::kLstm; }
  // Elements of all states of one row.
  int64_t h_size() const {
    return descriptor_.num_pseudo_layers() * descriptor_.output_size();
  }
  int64_t c_size() const {
    return is_lstm() ? descriptor_.num_pseudo_layers() * descriptor_.hidden_size
                     : 0;
  }

  // Any number of threads may call at the same time.
  rnn::Status Run(const CallData& call) const;

  // For those who plan once for many calls: the plan of such sequences, which
  // must outlive it, for calls that may have a crew, ...
  rnn::Status Plan(const rnn::Sequences& sequences, bool has_crew,
                   rnn::ForwardPlan* plan) const;
  // ... the network's weights prepared for it, ...
  const void* PreparedWeights(const rnn::ForwardPlan& plan) const;
  // ... and a call with both, and plan.scratch_bytes of memory. All pointers
  // are set, but for c0 and c_n where there is no LSTM.
  void Run(const rnn::ForwardPlan& plan, const void* prepared_weights,
           const CallData& call, void* scratch, rnn::Executor& executor) const;
  // The calling thread and the network's helpers, for the length of a call.
  // `crew` is nullptr or CrewOfCall's.
  rnn::Team MakeTeam(rnn::Team::Crew* crew) const;

  // The network's one crew, whose helpers stay for the next call that has it,
  // for as long as the object lives: for calls that come soon after another.
  class CrewOfCall {
   public:
    explicit CrewOfCall(const Network& network)
        : network_(network), crew_(network.TryTakeCrew()) {}
    ~CrewOfCall() { network_.GiveCrewBack(crew_); }
    CrewOfCall(const CrewOfCall&) = delete;
    CrewOfCall& operator=(const CrewOfCall&) = delete;

    // nullptr if no call ended just now, or if another one has the crew.
    rnn::Team::Crew* get() const { return crew_; }

   private:
    const Network& network_;
    rnn::Team::Crew* const crew_;
  };

 private:
  Network() = default;

  // All but weights.
  static rnn::Status Begin(const rnn::RnnDescriptor& descriptor,
                           rnn::ElementType type, int num_threads,
                           std::unique_ptr<Network>* network);

  // Weights along the routes of some plans. There are few such ways, and each
  // comes into being with the first call that needs it.
  struct Prepared {
    rnn::PreparedRoutes routes;
    std::mutex mutex;      // of memory
    AlignedMemory memory;  // none until the first call has filled it
  };

  rnn::Team::Crew* TryTakeCrew() const;
  // At the end of a call, of nullptr, too.
  void GiveCrewBack(rnn::Team::Crew* crew) const;
  Prepared& PreparedAlong(const rnn::PreparedRoutes& routes) const;
  AlignedMemory Prepare(const rnn::ForwardPlan& plan) const;
  template <typename Use>
  void WithElement(Use use) const;
  template <typename Element>
  void RunElements(const rnn::ForwardPlan& plan, const void* prepared_weights,
                   const CallData& call, void* scratch,
                   rnn::Executor& executor) const;

  rnn::RnnDescriptor descriptor_;
  rnn::ElementType type_ = rnn::ElementType::kFloat;
  AlignedMemory params_;  // unless weights are int8
  int64_t num_params_ = 0;
  AlignedMemory int8_memory_;
  rnn::Int8Layout int8_layout_;
  rnn::Int8Weights int8_;  // in that memory
  int num_threads_ = 1;
  mutable std::mutex mutex_;
  mutable std::list<Prepared> prepared_;  // grows under mutex_
  // Of all calls.
  mutable tf_cudnn_rnn::ScratchPool scratch_;
  std::shared_ptr<rnn::ThreadLimit> limit_;
  std::unique_ptr<ThreadPool> helpers_;  // if there are several threads
  mutable rnn::Team::Crew crew_;  // goes before the pool, which waits for it
  mutable std::atomic<bool> crew_is_taken_{false};
  // When the last call ended.
  mutable std::atomic<std::chrono::steady_clock::time_point> last_end_{};
};

}  // namespace rnn_runtime

#endif  // RUNTIME_NETWORK_H_
