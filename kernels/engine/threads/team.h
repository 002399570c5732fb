// A team of threads for the length of one call: handing it work and waiting for
// it costs well under a microsecond, so that even one time step can be shared.
#ifndef KERNELS_ENGINE_THREADS_TEAM_H_
#define KERNELS_ENGINE_THREADS_TEAM_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/thread_limit.h"

namespace rnn {

// The team is the calling thread and those that have arrived: nobody waits for
// a thread that has not come yet, and one that is taken away for a while leaves
// its share to the others, or to the caller alone where each thread has one
// task. So it finishes on a pool of any size and load.
//
// Tasks with neighbouring numbers go to the same thread, and in each Run() of
// as many tasks to the same one as before, as long as the team stays the same:
// what a thread has in its cache it works on again.
class Team : public Executor {
  class Job;

 public:
  // Has `work` run exactly once, perhaps late: on some other thread, or, as a
  // pool does whose queue is full, at once on this one. Where it cannot, as
  // without memory, it may throw instead, and the team does without a helper.
  using Schedule = std::function<void(std::function<void()> work)>;

  // Helpers who stay when a team goes: the next one that has this crew finds
  // them at hand, until they have waited for about a millisecond. They count as
  // threads meanwhile. Of one team at a time; all have as many threads and the
  // same limit.
  class Crew {
   public:
    Crew() = default;
    ~Crew();
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;

   private:
    friend class Team;
    std::shared_ptr<Job> job_;  // made when first needed, if memory allows
  };

  // `num_threads` includes the calling one, which must be the only one to call
  // Run(), and counts from now on whatever `limit` says. Helpers keep to it:
  // where teams share a limit, one that comes later gets its caller's place
  // from another's helper, who leaves after the task that it is at.
  // `crew` is nullptr, or must outlive the team.
  Team(int num_threads, Schedule schedule, std::shared_ptr<ThreadLimit> limit,
       Crew* crew = nullptr);
  // With all its threads, whatever others do.
  Team(int num_threads, Schedule schedule);
  // Dismisses helpers but a crew's; threads that come later find nothing to do.
  ~Team() override;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int num_threads() const override { return num_threads_; }
  void Run(int num_tasks, Order order, FunctionRef<void(int)> task) override;
  bool HasTooManyThreads() const override { return limit_->IsExceeded(); }

 private:
  bool MakeJob();
  void Recruit();

  const int num_threads_;
  const Schedule schedule_;
  const std::shared_ptr<ThreadLimit> limit_;
  Crew own_crew_;
  Crew& crew_;
};

}  // namespace rnn

#endif  // KERNELS_ENGINE_THREADS_TEAM_H_
