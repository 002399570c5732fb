// Who watches a call: how a profiler learns what the engine is at.
#ifndef KERNELS_ENGINE_OBSERVER_H_
#define KERNELS_ENGINE_OBSERVER_H_

#include <cstdint>

namespace rnn {

// What a pseudo-layer, which is one direction of a layer, spends its time with.
// kPseudoLayer lasts from its begin to its end, and has the others inside, but
// for kPackWeights of a forward pass in parts of the batch, which comes before
// all pseudo-layers.
enum class Phase {
  kPseudoLayer,
  kPackWeights,   // weights into the order that products want
  kInputProduct,  // forward: W x of a chunk's rows, and what is packed for it
  kSteps,         // one step of a chunk after the other
  kWeightGradients,  // backward: of a chunk's rows
  kInputGradient,    // backward: of a chunk's rows
};

class Observer {
 public:
  virtual ~Observer() = default;

  // A phase begins on the calling thread. Returns what End() wants. Several
  // threads may be at pseudo-layers, even the same one, at once.
  virtual int64_t Begin(Phase phase, int64_t layer, int direction) noexcept = 0;
  // The phase of which Begin() returned `begun` ends, on the same thread.
  // Phases end in reverse order of their begins.
  virtual void End(int64_t begun) noexcept = 0;
};

// A phase from here to the end of the block; nothing without an observer.
class ObservedPhase {
 public:
  ObservedPhase(Observer* observer, Phase phase, int64_t layer, int direction)
      : observer_(observer) {
    if (observer_ != nullptr) {
      begun_ = observer_->Begin(phase, layer, direction);
    }
  }
  ~ObservedPhase() {
    if (observer_ != nullptr) observer_->End(begun_);
  }
  ObservedPhase(const ObservedPhase&) = delete;
  ObservedPhase& operator=(const ObservedPhase&) = delete;

 private:
  Observer* const observer_;
  int64_t begun_ = 0;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_OBSERVER_H_
