// What of the machine decides how work is cut up, never what is computed.
#ifndef KERNELS_ENGINE_PLAN_MACHINE_H_
#define KERNELS_ENGINE_PLAN_MACHINE_H_

#include <cstdint>
#include <string>

namespace rnn {

struct Machine {
  int num_threads = 1;           // that a call may have
  int64_t core_cache_bytes = 0;  // of the second level, which a core has alone
  // Floating-point operations that a core does in a product of floats while a
  // byte comes from beyond its own caches: few where the third level is fast.
  double flops_per_far_byte = 3;
  // So many while it gets a value of a row that another core made: few where
  // cores share a cache, many where they do not. No machine tells, and some
  // change their mind within minutes, so this lies between the two
  // (docs/decisions/batch-parts.md). It decides whether threads are worth
  // having; how they share a step, speed::kSharedElementWork does, which is
  // less, and of one machine.
  double flops_per_passed_value = 150;
  // Whether the other threads wait for calls, as a crew does (threads/team.h).
  bool has_crew = false;
  // Whether other threads had work just before: one at least need not be woken.
  bool has_threads_awake = false;

  // This one. What the system does not tell is measured by the first call for
  // several threads, which takes some milliseconds. TF_CUDNN_RNN_MACHINE may
  // say other numbers (MachineVariableFault()).
  static Machine Here(int num_threads);
};

// Bytes of this machine's second-level cache.
int64_t CoreCacheBytes();

// What is wrong with the environment variable TF_CUDNN_RNN_MACHINE, in a
// sentence, or "". It pins fields of Here(), for tests and reports:
// "core_cache_bytes=2097152,flops_per_far_byte=14,flops_per_passed_value=150",
// or some of them, each at most once. It is read once.
std::string MachineVariableFault();

// The value of that variable that pins what `machine` is.
std::string MachineVariableText(const Machine& machine);

// What is wrong with `text` as a value of that variable, in a sentence, or "".
// Writes the fields of `machine` that it names, those before the fault if it
// has one; for tests, too.
std::string ParseMachine(const std::string& text, Machine* machine);

}  // namespace rnn

#endif  // KERNELS_ENGINE_PLAN_MACHINE_H_
