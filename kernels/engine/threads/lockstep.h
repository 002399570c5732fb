// Threads that take short steps side by side: what they tell each other at a
// step is that their shares of it are done, and nothing else.
#ifndef KERNELS_ENGINE_THREADS_LOCKSTEP_H_
#define KERNELS_ENGINE_THREADS_LOCKSTEP_H_

#include <cstdint>

#include "kernels/engine/threads/executor.h"

namespace rnn {

// Has so many of the executor's threads take the steps 0 .. num_steps - 1, each
// after the one before, and returns when all are done.
//
// Each thread calls step(own executor, number) itself, for all steps from the
// one on that the others are at when it comes. Own executors share the tasks of
// Run() among the threads: it returns when all tasks have returned, like any
// executor's. What a step does outside of tasks it thus does on each thread:
// there it must write nothing that others see, and come to the same Run() with
// as many tasks on each of them.
//
// A thread that does not come, is taken away between tasks, or leaves because
// there are too many threads, leaves its share to the others. So it finishes on
// a pool of any size and load; but one that is away when all is done holds it
// up until it comes back.
void RunInLockstep(Executor& executor, int num_threads, int64_t num_steps,
                   FunctionRef<void(Executor&, int64_t)> step);

}  // namespace rnn

#endif  // KERNELS_ENGINE_THREADS_LOCKSTEP_H_
