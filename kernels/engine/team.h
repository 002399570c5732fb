// A team of threads for the length of one call: handing it work and waiting for
// it costs well under a microsecond, so that even one time step can be shared.
#ifndef KERNELS_ENGINE_TEAM_H_
#define KERNELS_ENGINE_TEAM_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/engine/executor.h"

namespace rnn {

// The team is the calling thread and those that have arrived: nobody waits for
// a thread that has not come yet, and one that is taken away for a while leaves
// its share to the others. So it finishes on a pool of any size and load.
//
// Tasks with neighbouring numbers go to the same thread, and in each Run() of
// as many tasks to the same one as before, as long as the team stays the same:
// what a thread has in its cache it works on again.
class Team : public Executor {
 public:
  // What a helper does. Returns whether it left because it was recalled.
  using Help = std::function<bool()>;
  // Has `help` called once, perhaps late, on some other thread; or returns
  // false, if there is none to be had now.
  using Recruit = std::function<bool(const Help& help)>;
  // A helper asks after each task. If it returns true, the helper leaves.
  using Recall = std::function<bool()>;

  // `num_threads` includes the calling one, which must be the only one to call
  // Run().
  Team(int num_threads, Recruit recruit, Recall recall = [] { return false; });
  // Dismisses the team; threads that come later find nothing to do.
  ~Team() override;

  int num_threads() const override { return num_threads_; }
  void Run(int num_tasks, Order order, FunctionRef<void(int)> task) override;

 private:
  class Job;

  const int num_threads_;
  const Recruit recruit_;
  const Recall recall_;
  std::shared_ptr<Job> job_;  // made when first needed, and
  Help help_;                 // so is what its helpers do
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_TEAM_H_
