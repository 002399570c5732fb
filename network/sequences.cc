#include "network/sequences.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "network/shared_memory.h"

namespace rnn {

namespace {

Status CheckLength(const ValidSteps& steps, int64_t row, int64_t length,
                   int64_t max_time) {
  if (length >= 0 && length <= max_time) return Status();
  return Status::InvalidArgument(
      std::string(steps.lengths_name) + "[" + std::to_string(row) +
      "] must be in [0, T] = [0, " + std::to_string(max_time) + "], got " +
      std::to_string(length) +
      (length < 0
           ? "."
           : std::string("; a row cannot be longer than the time dimension "
                         "of ") +
                 steps.input_name + "."));
}

// A hash, FNV-1a, of these numbers after those that gave `hash`.
constexpr uint64_t kNothingHashed = 0xcbf29ce484222325u;

uint64_t Fingerprint(const std::vector<int64_t>& numbers, uint64_t hash) {
  for (int64_t number : numbers) {
    hash ^= static_cast<uint64_t>(number);
    hash *= 0x100000001b3u;
  }
  return hash;
}

}  // namespace

Status Sequences::Create(int64_t max_time, int64_t batch,
                         const int32_t* lengths, Sequences* sequences) {
  ValidSteps steps;
  steps.lengths = lengths;
  return Create(max_time, batch, steps, sequences);
}

Status Sequences::Create(int64_t max_time, int64_t batch,
                         const ValidSteps& steps, Sequences* sequences) {
  const int32_t* lengths = steps.lengths;
  Sequences& s = *sequences;
  s.max_time_ = max_time;
  s.batch_ = batch;
  s.whole_batch_ = batch;
  s.offsets_in_whole_.clear();
  s.lengths_.assign(batch, max_time);  // by row, at first
  if (lengths != nullptr) {
    for (int64_t row = 0; row < batch; ++row) {
      const int64_t length = ReadOnce(lengths + row);
      if (Status status = CheckLength(steps, row, length, max_time);
          !status.ok()) {
        return status;
      }
      s.lengths_[row] = length;
    }
  }
  s.places_ = nullptr;
  if (steps.mask != nullptr) s.ReadMask(steps);
  s.go_backwards_ = steps.go_backwards;
  s.times_are_places_ = !s.go_backwards_ && s.places_ == nullptr;
  s.fingerprint_ = Fingerprint(s.lengths_, kNothingHashed);
  if (!s.times_are_places_) {
    s.fingerprint_ += s.go_backwards_;
    if (s.places_ != nullptr) {
      s.fingerprint_ = Fingerprint(*s.places_, s.fingerprint_);
    }
  }
  s.RankRows();
  s.NumberRows();
  return Status();
}

void Sequences::ReadMask(const ValidSteps& steps) {
  auto all_places = std::make_shared<std::vector<int64_t>>(batch_ * max_time_);
  bool are_at_front = true;
  for (int64_t row = 0; row < batch_; ++row) {
    int64_t* places = all_places->data() + row * max_time_;
    const uint8_t* mask = steps.mask + row * steps.mask_batch;
    int64_t count = 0;
    for (int64_t place = 0; place < lengths_[row]; ++place) {
      if (ReadOnce(mask + place * steps.mask_time) == 0) continue;
      places[count++] = place;
    }
    if (count > 0 && places[count - 1] != count - 1) are_at_front = false;
    lengths_[row] = count;
  }
  if (!are_at_front) places_ = std::move(all_places);
}

Sequences Sequences::OfRanks(int64_t begin, int64_t end) const {
  Sequences part;
  part.max_time_ = max_time_;
  part.batch_ = end - begin;
  part.whole_batch_ = whole_batch_;
  part.go_backwards_ = go_backwards_;
  part.times_are_places_ = times_are_places_;
  part.places_ = places_;
  part.batch_rows_.assign(batch_rows_.begin() + begin,
                          batch_rows_.begin() + end);
  part.lengths_.assign(lengths_.begin() + begin, lengths_.begin() + end);
  part.NumberRows();
  part.offsets_in_whole_.resize(part.num_steps());
  for (int64_t step = 0; step < part.num_steps(); ++step) {
    part.offsets_in_whole_[step] = row_of_whole(step, begin);
  }
  part.fingerprint_ = fingerprint_;
  return part;
}

void Sequences::RankRows() {
  batch_rows_.resize(batch_);
  std::iota(batch_rows_.begin(), batch_rows_.end(), int64_t{0});
  const std::greater<int64_t> is_longer;
  if (std::is_sorted(lengths_.begin(), lengths_.end(), is_longer)) return;
  std::stable_sort(batch_rows_.begin(), batch_rows_.end(),
                   [&](int64_t a, int64_t b) {
                     return is_longer(lengths_[a], lengths_[b]);
                   });
  std::sort(lengths_.begin(), lengths_.end(), is_longer);
}

void Sequences::NumberRows() {
  const int64_t num_steps = batch_ == 0 ? 0 : lengths_[0];
  offsets_.assign(num_steps + 1, 0);
  int64_t num_active = batch_;
  for (int64_t step = 0; step < num_steps; ++step) {
    while (lengths_[num_active - 1] <= step) --num_active;
    offsets_[step + 1] = offsets_[step] + num_active;
  }
}

}  // namespace rnn
