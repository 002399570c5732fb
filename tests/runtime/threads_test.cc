// Threads that use one network at the same time, in every way that the
// interface has: run under ThreadSanitizer, too (tools/test_sanitizers.sh).
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/rnn_runtime.h"
#include "tests/engine/float_mode.h"
#include "tests/engine/guarded.h"
#include "tests/engine/random_values.h"

namespace {

using Values = std::vector<float>;

// Steps of a stream follow one another at once, so that helpers stay for them.
constexpr int kStreamSteps = 12;
constexpr int kCallers = 6;
constexpr int kRounds = 4;

// What the network computes, and with which helpers.
struct Case {
  const char* name;
  rnn_mode mode;
  int64_t num_layers, num_units, input_size, num_proj;
  bool bidirectional;
  int64_t steps, batch;
  bool has_helpers;
};

const Case kCases[] = {
    // Small enough for the caller alone.
    {"alone", RNN_MODE_GRU, 2, 6, 4, 0, false, 5, 3, false},
    // A step of one row is cut in pieces for the crew.
    {"a_crew", RNN_MODE_LSTM, 1, 320, 64, 0, false, 6, 1, true},
    // Rows are cut in groups, and weights are packed for many rows.
    {"many_rows", RNN_MODE_GRU, 1, 96, 40, 0, false, 12, 40, true},
    {"projected", RNN_MODE_LSTM, 2, 130, 48, 67, false, 9, 7, true},
    // Directions run at the same time.
    {"both_directions", RNN_MODE_TANH, 2, 64, 33, 0, true, 40, 6, true},
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Of this process.
int CountThreads() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return static_cast<int>(std::distance(begin(threads), end(threads)));
}

class Network {
 public:
  // Weights and biases are up to a tenth of `scale`.
  Network(const Case& c, int num_threads, double scale = 1)
      : case_(c),
        x_(rnn::RandomValues(2).Reals<float>(c.steps * c.batch * c.input_size,
                                             -1, 1)) {
    rnn_config config{};
    config.struct_size = sizeof config;
    config.mode = c.mode;
    config.type = RNN_FLOAT32;
    config.bidirectional = c.bidirectional;
    config.num_layers = c.num_layers;
    config.num_units = c.num_units;
    config.input_size = c.input_size;
    config.num_proj = c.num_proj;
    rnn_error error;
    int64_t size = 0;
    EXPECT_EQ(rnn_params_size(&config, &size, &error), RNN_OK) << error.message;
    const Values params =
        rnn::RandomValues(1).Reals<float>(size, -0.1 * scale, 0.1 * scale);
    EXPECT_EQ(rnn_network_create(&config, params.data(), size, num_threads,
                                 &network_, &error),
              RNN_OK)
        << error.message;
  }
  ~Network() { rnn_network_free(network_); }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // All outputs of a call: y, then h_n. Lengths fall from row to row.
  Values Run(bool is_ragged) const {
    const Case& c = case_;
    std::vector<int32_t> lengths(c.batch);
    for (int64_t b = 0; b < c.batch; ++b) {
      lengths[b] = static_cast<int32_t>(std::max<int64_t>(c.steps - b, 0));
    }
    Values y(c.steps * c.batch * directions() * outputs());
    Values h_n(c.num_layers * directions() * c.batch * outputs());
    rnn_call call{};
    call.struct_size = sizeof call;
    call.time_major = 1;
    call.steps = c.steps;
    call.batch = c.batch;
    call.x = x_.data();
    call.lengths = is_ragged ? lengths.data() : nullptr;
    call.y = y.data();
    call.h_n = h_n.data();
    rnn_error error;
    EXPECT_EQ(rnn_network_run(network_, &call, &error), RNN_OK)
        << error.message;
    y.insert(y.end(), h_n.begin(), h_n.end());
    return y;
  }

  // The caller frees it.
  rnn_stream* MakeStream() const {
    rnn_error error;
    rnn_stream* stream = nullptr;
    EXPECT_EQ(rnn_stream_create(network_, case_.batch, &stream, &error), RNN_OK)
        << error.message;
    return stream;
  }

  // The outputs of all steps of a stream, which begins anew in the middle. Each
  // step has the inputs of the first.
  Values Stream() const {
    const Case& c = case_;
    rnn_error error;
    rnn_stream* const stream = MakeStream();
    Values y(c.batch * outputs()), all;
    for (int i = 0; i < kStreamSteps; ++i) {
      EXPECT_EQ(rnn_stream_step(stream, x_.data(), y.data(), &error), RNN_OK)
          << error.message;
      all.insert(all.end(), y.begin(), y.end());
      if (i == kStreamSteps / 2) {
        EXPECT_EQ(rnn_stream_reset(stream, nullptr, 0, &error), RNN_OK)
            << error.message;
      }
    }
    rnn_stream_free(stream);
    return all;
  }

 private:
  int64_t directions() const { return case_.bidirectional ? 2 : 1; }
  int64_t outputs() const {
    return case_.num_proj > 0 ? case_.num_proj : case_.num_units;
  }

  const Case case_;
  const Values x_;
  rnn_network* network_ = nullptr;
};

class RuntimeThreadsTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, RuntimeThreadsTest, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<Case>& info) {
                           return std::string(info.param.name);
                         });

// The first calls of a network prepare its weights: each round has a new one,
// which goes while helpers may still wait for work.
TEST_P(RuntimeThreadsTest, CallsAndStreamsAtOnceGiveTheBitsThatOneAloneGives) {
  const bool has_streams = !GetParam().bidirectional;
  const Network alone(GetParam(), /*num_threads=*/1);
  const Values full = alone.Run(/*is_ragged=*/false);
  const Values ragged = alone.Run(/*is_ragged=*/true);
  const Values streamed = has_streams ? alone.Stream() : Values();
  for (int round = 0; round < kRounds; ++round) {
    const Network network(GetParam(), /*num_threads=*/3);
    if (round == kRounds - 1) {
      const int num_before = CountThreads();
      EXPECT_TRUE(rnn::SameBits(network.Run(false), full));
      // Or the callers would meet none but one another.
      EXPECT_EQ(CountThreads() > num_before, GetParam().has_helpers);
    }
    std::vector<std::thread> callers;
    for (int caller = 0; caller < kCallers; ++caller) {
      callers.emplace_back([&, caller] {
        for (int i = 0; i < 3; ++i) {
          switch ((caller + i) % 3) {
            case 0:
              EXPECT_TRUE(rnn::SameBits(network.Run(false), full));
              break;
            case 1:
              EXPECT_TRUE(rnn::SameBits(network.Run(true), ragged));
              break;
            case 2:
              if (!has_streams) break;
              EXPECT_TRUE(rnn::SameBits(network.Stream(), streamed));
              break;
          }
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
}

// A mistake of the caller's, of whom one is served at a time.
TEST(RuntimeStreamTest, AStreamIsOneThreadsAtATime) {
  constexpr int kTries = 2000, kMostTries = 1000 * kTries;
  const Case c = kCases[1];
  const Network network(c, /*num_threads=*/2);
  rnn_stream* const stream = network.MakeStream();
  const Values x(c.input_size, 0.5f);
  const Values states(c.num_units, 0.25f);
  std::atomic<int> num_refused{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      Values y(c.num_units);
      // On a busy machine the callers may take turns for long.
      for (int i = 0; i < kTries || (num_refused == 0 && i < kMostTries); ++i) {
        rnn_error error;
        rnn_status status = RNN_OK;
        switch ((caller + i) % 4) {
          case 0:
            status = rnn_stream_reset(stream, nullptr, 0, &error);
            break;
          case 1:
            status = rnn_stream_get_state(stream, y.data(), nullptr, &error);
            break;
          case 2:
            status =
                rnn_stream_set_state(stream, states.data(), nullptr, &error);
            break;
          default:
            status = rnn_stream_step(stream, x.data(), y.data(), &error);
        }
        if (status == RNN_OK) continue;
        ++num_refused;
        EXPECT_EQ(status, RNN_INVALID_ARGUMENT);
        EXPECT_NE(std::string(error.message).find("by two threads"),
                  std::string::npos)
            << error.message;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_GT(num_refused, 0);
  // And it works as ever.
  Values y(c.num_units), expected(c.num_units);
  for (const auto& [its_stream, result] :
       {std::pair(stream, &y), std::pair(network.MakeStream(), &expected)}) {
    EXPECT_EQ(rnn_stream_reset(its_stream, nullptr, 0, nullptr), RNN_OK);
    EXPECT_EQ(rnn_stream_step(its_stream, x.data(), result->data(), nullptr),
              RNN_OK);
    rnn_stream_free(its_stream);
  }
  EXPECT_TRUE(rnn::SameBits(y, expected));
}

// As in the ops, whatever the mode of callers, which they keep.
TEST(RuntimeFloatModeTest, DenormalsAreZerosInEachThread) {
  const Case c = {"relu", RNN_MODE_RELU, 1, 384, 40, 0, false, 12, 40, true};
  const uint64_t initial = rnn::FloatMode();
  if (rnn::kFlushDenormals == 0) GTEST_SKIP() << "there is no such mode";
  for (uint64_t flushing : {uint64_t{0}, rnn::kFlushDenormals}) {
    rnn::SetFloatMode(initial & ~rnn::kFlushDenormals);
    const Network network(c, /*num_threads=*/2, /*scale=*/3e-37);
    const int num_before = CountThreads();
    const uint64_t mode = (initial & ~rnn::kFlushDenormals) | flushing;
    rnn::SetFloatMode(mode);
    const Values sequence = network.Run(/*is_ragged=*/false);
    const Values streamed = network.Stream();
    const uint64_t mode_after = rnn::FloatMode();
    rnn::SetFloatMode(initial);
    EXPECT_EQ(mode_after, mode);
    EXPECT_GT(CountThreads(), num_before);  // there were helpers
    for (const Values& values : {sequence, streamed}) {
      // Numbers are used as such, or zeros would say nothing.
      EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](float value) {
        return std::fpclassify(value) == FP_NORMAL;
      }));
      EXPECT_FALSE(std::any_of(values.begin(), values.end(), [](float value) {
        return std::fpclassify(value) == FP_SUBNORMAL;
      }));
    }
  }
}

// As in the ops, whatever the mode of callers, which they keep.
TEST(RuntimeFloatModeTest, RoundsToNearestInEachThread) {
  const Case c = {"lstm", RNN_MODE_LSTM, 1, 384, 40, 0, false, 12, 40, true};
  const auto run = [&c](int rounding) {
    const Network network(c, /*num_threads=*/2);
    const int num_before = CountThreads();
    std::fesetround(rounding);
    const uint64_t mode = rnn::FloatMode();
    std::pair<Values, Values> results(network.Run(/*is_ragged=*/false),
                                      network.Stream());
    const uint64_t mode_after = rnn::FloatMode();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(mode_after, mode);
    EXPECT_GT(CountThreads(), num_before);  // there were helpers
    return results;
  };
  const auto [sequence, streamed] = run(FE_TONEAREST);
  for (int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    const auto [other_sequence, other_streamed] = run(rounding);
    EXPECT_TRUE(rnn::SameBits(sequence, other_sequence));
    EXPECT_TRUE(rnn::SameBits(streamed, other_streamed));
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackBytes = 8 << 20;  // sanitizers need more of it
#else
constexpr size_t kStackBytes = 256 << 10;  // as rnn_runtime.h says
#endif

// Or threads of hosts with small stacks would end the process.
TEST_P(RuntimeThreadsTest, CallsAndStreamsTakeLittleStack) {
  const Network network(GetParam(), /*num_threads=*/2);
  const auto run = [](void* argument) -> void* {
    const auto& its_network = *static_cast<const Network*>(argument);
    its_network.Run(/*is_ragged=*/true);
    if (!GetParam().bidirectional) its_network.Stream();
    return nullptr;
  };
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  pthread_t thread;
  ASSERT_EQ(
      pthread_create(&thread, &attributes, run, const_cast<Network*>(&network)),
      0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
  EXPECT_EQ(pthread_attr_destroy(&attributes), 0);
}

// Too little work for helpers that come late.
constexpr Case kShortCall = {"short", RNN_MODE_LSTM, 1, 192, 192,
                             0,       false,         4, 1,   false};

TEST(RuntimeCrewTest, OneCallAloneHasNoHelpers) {
  const Network network(kShortCall, /*num_threads=*/2);
  const int num_before = CountThreads();
  network.Run(/*is_ragged=*/false);
  EXPECT_EQ(CountThreads(), num_before);
}

TEST(RuntimeCrewTest, CallsThatFollowOneAnotherHaveHelpers) {
  const Values alone =
      Network(kShortCall, /*num_threads=*/1).Run(/*is_ragged=*/false);
  const Network network(kShortCall, /*num_threads=*/2);
  const int num_before = CountThreads();
  // On a busy machine some calls come late.
  constexpr int kMostCalls = 10000;
  int num_calls = 0;
  while (CountThreads() == num_before && num_calls < kMostCalls) {
    for (int i = 0; i < 10; ++i, ++num_calls) {
      EXPECT_TRUE(rnn::SameBits(network.Run(/*is_ragged=*/false), alone));
    }
  }
  EXPECT_LT(num_calls, kMostCalls);
}

}  // namespace
