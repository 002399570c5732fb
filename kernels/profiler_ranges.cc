#include "kernels/profiler_ranges.h"

#include <cstdint>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/profiler/lib/traceme.h"

namespace tf_cudnn_rnn {

using ::rnn::Phase;
using ::tsl::profiler::TraceMe;

namespace {

// As TensorFlow's own ops are recorded.
constexpr int kLevel = ::tsl::profiler::TraceMeLevel::kInfo;
// What TraceMe gives an activity that it does not record.
constexpr int64_t kNotRecorded = 0;

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kPseudoLayer:
      return "";
    case Phase::kPackWeights:
      return ", pack weights";
    case Phase::kInputProduct:
      return ", input product";
    case Phase::kSteps:
      return ", steps";
    case Phase::kWeightGradients:
      return ", weight gradients";
    case Phase::kInputGradient:
      return ", input gradient";
  }
  return "";
}

}  // namespace

bool ProfilerRanges::AreRecorded() { return TraceMe::Active(kLevel); }

ProfilerRanges::ProfilerRanges(const std::string& plan, const char* pass)
    : pass_(pass),
      call_(TraceMe::ActivityStart(
          [&] { return absl::StrCat("tf_cudnn_rnn ", plan); }, kLevel)) {}

ProfilerRanges::~ProfilerRanges() { TraceMe::ActivityEnd(call_); }

int64_t ProfilerRanges::Begin(Phase phase, int64_t layer,
                              int direction) noexcept {
  try {
    return TraceMe::ActivityStart(
        [&] {
          return absl::StrCat("tf_cudnn_rnn ", pass_, ", layer ", layer,
                              ", direction ", direction, PhaseName(phase));
        },
        kLevel);
  } catch (const std::bad_alloc&) {
    return kNotRecorded;
  }
}

void ProfilerRanges::End(int64_t begun) noexcept {
  TraceMe::ActivityEnd(begun);
}

}  // namespace tf_cudnn_rnn
