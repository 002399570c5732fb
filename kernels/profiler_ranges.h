// The engine's phases as ranges in TensorFlow's profiler.
#ifndef KERNELS_PROFILER_RANGES_H_
#define KERNELS_PROFILER_RANGES_H_

#include <cstdint>
#include <string>

#include "kernels/engine/observer.h"

namespace tf_cudnn_rnn {

// A range for the call, from construction to destruction, and one for each
// phase that the engine reports, such as
//
//   tf_cudnn_rnn training lstm float32 avx2 T=100 B=32 ...
//   tf_cudnn_rnn training, layer 0, direction 1, steps
class ProfilerRanges : public rnn::Observer {
 public:
  // Whether a trace runs that keeps such ranges.
  static bool AreRecorded();

  // `plan` describes the call; `pass` is a string literal.
  ProfilerRanges(const std::string& plan, const char* pass);
  ~ProfilerRanges() override;
  ProfilerRanges(const ProfilerRanges&) = delete;
  ProfilerRanges& operator=(const ProfilerRanges&) = delete;

  int64_t Begin(rnn::Phase phase, int64_t layer,
                int direction) noexcept override;
  void End(int64_t begun) noexcept override;

 private:
  const char* const pass_;
  const int64_t call_;
};

}  // namespace tf_cudnn_rnn

#endif  // KERNELS_PROFILER_RANGES_H_
