// What the engine checks is what it then uses, whoever writes the memory
// meanwhile: it reads each element once, which is counted, and writers on
// another thread change none of it. AddressSanitizer and ThreadSanitizer run
// this, too.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "kernels/engine/engine.h"
#include "network/element_types.h"
#include "network/reserve_layout.h"
#include "network/sequences.h"
#include "network/shared_memory.h"
#include "tests/engine/counted_reads.h"
#include "tests/engine/element_values.h"
#include "tests/engine/engine_call.h"
#include "tests/engine/make_sequences.h"

namespace rnn {
namespace {

template <typename Value>
void WriteOnce(Value value, Value* target) {
  __atomic_store(target, &value, __ATOMIC_RELAXED);
}

// Calls write(i) for i = 0, 1, ... on another thread, as long as it lives.
template <typename Write>
class Writer {
 public:
  explicit Writer(Write write)
      : thread_([this, write] {
          for (int64_t i = 0; !stops_.load(std::memory_order_relaxed); ++i) {
            write(i);
          }
        }) {}
  ~Writer() {
    stops_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

// Whether write `i` makes the memory wrong: some of the time, and each time for
// about as long as a check takes.
bool IsWrong(int64_t i) { return i / 400 % 4 == 0; }

// So often at least, and until both were seen: on a busy machine the writer may
// wait for a core.
constexpr int kTries = 20000;

#ifdef RNN_COUNTS_READS

TEST(ChecksOnceTest, EachLengthIsReadOnce) {
  if (!CountsReads()) GTEST_SKIP() << "reads cannot be counted here";
  constexpr int64_t kTime = 9;
  std::vector<int32_t> lengths(40);
  for (int32_t i = 0; i < 40; ++i) lengths[i] = i * 7 % (kTime + 1);
  for (const int64_t wrong_row : {-1, 17}) {
    SCOPED_TRACE(wrong_row);
    if (wrong_row >= 0) lengths[wrong_row] = kTime + 1;
    const CountedReads counted(lengths.data(), 40 * sizeof(int32_t));
    Sequences s;
    const Status status = Sequences::Create(
        kTime, 40, static_cast<const int32_t*>(counted.data()), &s);
    EXPECT_EQ(status.ok(), wrong_row < 0);
    for (int64_t row = 0; row < 40; ++row) {
      EXPECT_EQ(counted.count(row * sizeof(int32_t)),
                wrong_row < 0 || row <= wrong_row ? 1 : 0)
          << "row " << row;
    }
  }
}

TEST(ChecksOnceTest, EachStepOfAMaskIsReadOnce) {
  if (!CountsReads()) GTEST_SKIP() << "reads cannot be counted here";
  constexpr int64_t kTime = 9, kBatch = 4;
  const int32_t lengths[kBatch] = {9, 0, 4, 7};
  std::vector<uint8_t> mask(kTime * kBatch);
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 != 0;
  const CountedReads counted(mask.data(), kTime * kBatch);
  ValidSteps steps;
  steps.lengths = lengths;
  steps.mask = static_cast<const uint8_t*>(counted.data());
  steps.mask_time = kBatch;
  steps.mask_batch = 1;
  MakeSequences(kTime, kBatch, steps);
  for (int64_t t = 0; t < kTime; ++t) {
    for (int64_t b = 0; b < kBatch; ++b) {
      EXPECT_EQ(counted.count(t * kBatch + b), t < lengths[b] ? 1 : 0)
          << "step " << t << " of row " << b;
    }
  }
}

#endif  // RNN_COUNTS_READS

TEST(ChecksOnceTest, LengthsThatChangeAreRefusedOrUsedAsTheyWere) {
  constexpr int64_t kTime = 9;
  std::vector<int32_t> lengths(40, kTime);
  const Writer writer([&lengths](int64_t i) {
    constexpr int32_t kWrong[] = {1 << 30, -(1 << 30), kTime + 1, -1};
    int32_t* const target = &lengths[i * 7 % lengths.size()];
    WriteOnce(
        IsWrong(i) ? kWrong[i % 4] : static_cast<int32_t>(i * 5 % (kTime + 1)),
        target);
  });
  int num_valid = 0, num_refused = 0;
  for (int i = 0; i < kTries || num_valid == 0 || num_refused == 0; ++i) {
    if (i >= kTries) std::this_thread::yield();
    Sequences s;
    const Status status = Sequences::Create(
        kTime, static_cast<int64_t>(lengths.size()), lengths.data(), &s);
    if (!status.ok()) {
      ASSERT_EQ(status.message().find("sequence_lengths["), 0u);
      ++num_refused;
      continue;
    }
    ++num_valid;
    int64_t sum = 0;
    std::vector<bool> seen(lengths.size());
    for (int64_t rank = 0; rank < s.batch(); ++rank) {
      ASSERT_GE(s.length(rank), 0);
      ASSERT_LE(s.length(rank), rank == 0 ? kTime : s.length(rank - 1));
      sum += s.length(rank);
      seen[s.batch_row(rank)] = true;
    }
    ASSERT_EQ(s.num_valid_rows(), sum);
    ASSERT_EQ(seen, std::vector<bool>(lengths.size(), true));
    ASSERT_EQ(s.num_steps(), s.length(0));
  }
}

template <typename Element>
class ReserveChecksOnceTest : public testing::Test {};
using Types = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(ReserveChecksOnceTest, Types);

template <typename Element>
struct Values : std::vector<Element> {
  using std::vector<Element>::vector;
  int64_t size() const {
    return static_cast<int64_t>(std::vector<Element>::size());
  }
};

EngineSizes SizesOfACall() {
  EngineSizes sizes;
  sizes.descriptor.mode = CellMode::kGru;
  sizes.descriptor.num_layers = 2;
  sizes.descriptor.input_size = sizes.descriptor.hidden_size = 3;
  sizes.descriptor.dropout = 0.5f;
  sizes.max_time = 2;
  sizes.batch = 2;
  return sizes;
}

#ifdef RNN_COUNTS_READS

TYPED_TEST(ReserveChecksOnceTest, EachElementOfAHeaderIsReadOnce) {
  if (!CountsReads()) GTEST_SKIP() << "reads cannot be counted here";
  const EngineSizes sizes = SizesOfACall();
  EngineCall<TypeParam, Values> call(sizes);
  SerialExecutor executor;
  call.Forward(executor);
  ReserveLayout layout;
  ASSERT_TRUE(
      ReserveLayout::Create(sizes.descriptor, call.sequences(), &layout).ok());
  const int64_t bytes = call.reserve.size() * sizeof(TypeParam);
  for (const bool is_forged : {false, true}) {
    SCOPED_TRACE(is_forged);
    if (is_forged) call.reserve[0] = FromDouble<TypeParam>(3);
    const CountedReads counted(call.reserve.data(), bytes);
    uint64_t dropout_key = 0;
    const Status status =
        CheckReserve(sizes.descriptor, call.sequences(), layout, PaddedLayout{},
                     static_cast<const TypeParam*>(counted.data()),
                     call.reserve.size(), &dropout_key);
    EXPECT_EQ(status.ok(), !is_forged) << status.message();
    for (int64_t i = 0; i < call.reserve.size(); ++i) {
      EXPECT_EQ(counted.count(i * sizeof(TypeParam)),
                i < ReserveHeader::kSize ? 1 : 0)
          << "element " << i;
    }
  }
}

#endif  // RNN_COUNTS_READS

TYPED_TEST(ReserveChecksOnceTest, AHeaderThatChangesIsRefusedOrUsedAsItWas) {
  const EngineSizes sizes = SizesOfACall();
  using Call = EngineCall<TypeParam, Values>;
  Call call(sizes);
  SerialExecutor executor;
  call.Forward(executor);
  ReserveLayout layout;
  ASSERT_TRUE(
      ReserveLayout::Create(sizes.descriptor, call.sequences(), &layout).ok());

  TypeParam* const key = call.reserve.data() + ReserveHeader::kKeyOffset;
  const TypeParam good = *key;
  const Writer writer([key, good](int64_t i) {
    const double wrong[] = {-1, 256, 0.5, 1e4};
    WriteOnce(FromDouble<TypeParam>(static_cast<double>(i % 2)), key + 1);
    WriteOnce(IsWrong(i) ? FromDouble<TypeParam>(wrong[i % 4]) : good, key);
  });
  int num_valid = 0, num_refused = 0;
  for (int i = 0; i < kTries || num_valid == 0 || num_refused == 0; ++i) {
    if (i >= kTries) std::this_thread::yield();
    uint64_t dropout_key = 0;
    const Status status =
        CheckReserve(sizes.descriptor, call.sequences(), layout, PaddedLayout{},
                     call.reserve.data(), call.reserve.size(), &dropout_key);
    if (!status.ok()) {
      ASSERT_EQ(status.message().find("reserve_space was made by"), 0u);
      ++num_refused;
      continue;
    }
    ++num_valid;
    // Byte 1 is 0 or 1, or still what it was; the others never changed.
    const uint64_t second = dropout_key >> 8 & 0xff;
    ASSERT_TRUE(second < 2 || second == (Call::kDropoutKey >> 8 & 0xff));
    ASSERT_EQ(dropout_key & ~uint64_t{0xff00},
              Call::kDropoutKey & ~uint64_t{0xff00});
    // Runs whatever has become of the header.
    if (i % 8 == 0) call.Backward(executor);
  }
}

}  // namespace
}  // namespace rnn
