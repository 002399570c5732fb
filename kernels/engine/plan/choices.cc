// The choices but those of routes, which stand in route_choices.cc.

#include "kernels/engine/plan/choices.h"

#include <algorithm>
#include <vector>

#include "kernels/engine/plan/rank_shares.h"
#include "kernels/engine/threads/parallel.h"
#include "kernels/engine/thresholds.h"
#include "network/round.h"
#include "network/weights.h"

namespace rnn {

Choices::Choices(const CallDescription& call, int64_t rows_of_chunk,
                 const KernelShape& kernels, const Machine& machine)
    : call_(call),
      d_(call.descriptor),
      sequences_(*call.sequences),
      cuts_(sequences_, rows_of_chunk),
      kernels_(kernels),
      machine_(machine),
      gates_are_columns_(GatesAreColumns(call.weight_order)),
      are_int8_(call.weight_order == WeightOrder::kInt8) {}

// ---- Threads ----------------------------------------------------------------

int Choices::NumThreads(const SharedWork& shared) const {
  const double min_work = machine_.has_crew            ? speed::kMinCrewWork
                          : machine_.has_threads_awake ? speed::kMinAwakeWork
                                                       : speed::kMinTeamWork;
  const double threads = machine_.num_threads;
  // Of the operations and, without more knowledge, of what a thread reads.
  const double share_of_others = 1 - 1 / threads;
  const double spared = shared.operations * share_of_others;
  const double passed = shared.passed_values / threads * share_of_others;
  return spared - passed * machine_.flops_per_passed_value < min_work
             ? 1
             : machine_.num_threads;
}

double Choices::RecurrentWork(int64_t rows) const {
  // The product of all three may be beyond an int64_t.
  return 2.0 * static_cast<double>(rows) *
         static_cast<double>(d_.gates_size() * d_.output_size());
}

double Choices::StepWork(int64_t ranks) const {
  return RecurrentWork(std::max(ranks, LeastProductRows(kernels_, are_int8_)));
}

bool Choices::RunsDirectionsTogether(int num_threads) const {
  const double step_work = RecurrentWork(sequences_.batch());
  return d_.num_directions == 2 &&
         sequences_.batch() <= speed::kMaxTogetherBatch &&
         RecurrentBytes() <= speed::kMaxTogetherBytes && num_threads >= 2 &&
         (num_threads == 2 ||
          step_work < num_threads * double{speed::kMinTaskWork});
}

// ---- Choices that change speed only -----------------------------------------

int Choices::NumStepThreads(int64_t ranks, int num_threads) const {
  return std::min(num_threads, NumTasks(num_threads, StepWork(ranks)));
}

bool Choices::TakesStepsInLockstep(int64_t ranks, int num_threads) const {
  return StepWork(ranks) <= num_threads * speed::kMaxLockstepWork;
}

bool Choices::SplitsSteps(Pass pass) const {
  if (sequences_.num_steps() == 0) return false;
  const bool has_directions = pass == Pass::kForward && d_.num_directions == 2;
  const StepRange steps = cuts_.From(0);
  return has_directions ||
         NumStepThreads(sequences_.active(steps.begin), machine_.num_threads) >
             1 ||
         NumRankGroups(steps, Route::kPacked, pass, machine_.num_threads) > 1;
}

double Choices::GroupedStepWork(int64_t ranks, int64_t groups) const {
  return speed::kFewRowsFactor * RecurrentWork(ranks) /
         static_cast<double>(groups);
}

double Choices::SharedStepWork(int64_t ranks, int64_t threads,
                               Pass pass) const {
  const int64_t row_size =
      pass == Pass::kForward ? d_.output_size() : d_.gates_size();
  return RecurrentWork(ranks) / static_cast<double>(threads) +
         speed::kSharedStepWork +
         static_cast<double>(ranks * row_size) * speed::kSharedElementWork;
}

bool Choices::RecurrentFills(double share_of_cache) const {
  return static_cast<double>(RecurrentBytes()) >
         static_cast<double>(machine_.core_cache_bytes) * share_of_cache;
}

Choices::GroupSizes Choices::SizesOfRankGroups() const {
  const bool is_beyond_cache = RecurrentFills(1);
  if (kernels_.has_tile_registers) {
    // They multiply faster than weights come.
    const int64_t good = speed::kTilesOfGroup * kernels_.rows_together;
    if (is_beyond_cache) return {good, good};
    return {RecurrentFills(speed::kNearlyFullShare)
                ? speed::kManyRowsOfGroup
                : speed::kFewRowsOfTileGroup,
            good};
  }
  if (!is_beyond_cache) {
    return {speed::kFewRowsOfGroup, speed::kManyRowsOfGroup};
  }
  const int64_t good =
      std::max(speed::kManyRowsOfGroup,
               static_cast<int64_t>(speed::kRowsOfGroupPerFarFlop *
                                    machine_.flops_per_far_byte));
  return {good, good};
}

int Choices::NumRankGroups(const StepRange& steps, Route recurrent_route,
                           Pass pass, int num_threads) const {
  // A step that packs R itself does so once, for all ranks.
  if (pass == Pass::kForward && IsInTurn(recurrent_route)) return 1;
  if (RecurrentBytes() > speed::kMaxGroupedBytes) return 1;
  const int64_t rows =
      sequences_.offset(steps.end) - sequences_.offset(steps.begin);
  const int64_t ranks = sequences_.active(steps.begin);
  const int64_t num_tasks = NumTasks(num_threads, RecurrentWork(rows));
  const int64_t threads = std::min<int64_t>(num_tasks, num_threads);
  const int64_t largest_share = DivideUp(ranks, threads);
  const GroupSizes sizes = SizesOfRankGroups();
  if (largest_share < sizes.least) {
    const int64_t groups = ranks / sizes.least;
    const bool is_worth_it =
        groups > 1 && !RecurrentFills(speed::kNearlyFullShare) &&
        (NumStepThreads(ranks, num_threads) == 1 ||
         GroupedStepWork(ranks, groups) < SharedStepWork(ranks, threads, pass));
    return is_worth_it ? static_cast<int>(groups) : 1;
  }
  // As many for each thread.
  const int64_t groups_per_thread = std::clamp<int64_t>(
      ranks / (threads * sizes.good), 1, num_tasks / threads);
  return static_cast<int>(threads * groups_per_thread);
}

bool Choices::TakesBatchParts(Pass pass, int num_threads) const {
  const StepRange all{0, sequences_.num_steps()};
  return num_threads > 1 && all.count() > speed::kMaxStepsFromFar &&
         sequences_.num_valid_rows() >=
             speed::kMinBatchPartRows * num_threads &&
         NumRankGroups(all, Route::kPacked, pass, num_threads) >= num_threads &&
         BatchPartsAreEven(num_threads);
}

// A few long rows are a part whose steps have next to no rows: the other
// threads are long done, and could have shared these.
bool Choices::BatchPartsAreEven(int num_parts) const {
  const int64_t num_steps = sequences_.num_steps();
  if (sequences_.length(sequences_.batch() - 1) == num_steps) return true;
  const auto rows_of = [&](int64_t begin, int64_t end) {
    int64_t rows = 0;
    for (int64_t step = 0; step < sequences_.length(begin); ++step) {
      rows += std::max(std::min(end, sequences_.active(step)) - begin,
                       speed::kLeastProductRows);
    }
    return rows;
  };
  const std::vector<int64_t> begins = DivideRanks(sequences_, num_parts);
  const double even =
      static_cast<double>(rows_of(0, sequences_.batch())) / num_parts;
  for (int i = 0; i < num_parts; ++i) {
    if (begins[i] == begins[i + 1]) return false;
    if (static_cast<double>(rows_of(begins[i], begins[i + 1])) >
        speed::kMostUnevenParts * even) {
      return false;
    }
  }
  return true;
}

}  // namespace rnn
