// What callers may get wrong, in each function of the interface: it ends in a
// status and a message that says which argument it is, and nothing else has
// been written.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/rnn_runtime.h"
#include "tests/engine/counted_reads.h"
#include "tests/engine/guarded.h"

namespace {

using rnn::Guarded;

constexpr int64_t kLeast = INT64_MIN;
constexpr int64_t kMost = INT64_MAX;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Call = std::function<rnn_status(rnn_error*)>;

// Expects this failure, whether or not somebody wants the message.
void ExpectFails(const Call& call, const std::string& piece,
                 rnn_status expected = RNN_INVALID_ARGUMENT) {
  EXPECT_EQ(call(nullptr), expected) << piece;
  Guarded<rnn_error> error(1);
  EXPECT_EQ(call(error.data()), expected) << piece;
  EXPECT_TRUE(error.intact());
  const char* const message = error[0].message;
  ASSERT_NE(std::memchr(message, 0, sizeof error[0].message), nullptr);
  EXPECT_NE(std::string(message).find(piece), std::string::npos)
      << '"' << message << "\" is not about \"" << piece << '"';
}

// Expects success, of which there is no message.
void ExpectWorks(const Call& call) {
  EXPECT_EQ(call(nullptr), RNN_OK);
  Guarded<rnn_error> error(1);
  EXPECT_EQ(call(error.data()), RNN_OK) << error[0].message;
  EXPECT_TRUE(rnn::IsPoison(error[0]));
}

// Whether nothing has been written.
template <typename Value>
bool IsUntouched(const Guarded<Value>& values) {
  for (const Value& value : values.values()) {
    if (!rnn::IsPoison(value)) return false;
  }
  return values.intact();
}

// A handle that no failing call sets.
template <typename Handle>
class Untouched {
 public:
  ~Untouched() { EXPECT_TRUE(IsUntouched(handle_)); }
  Handle** get() { return handle_.data(); }

 private:
  Guarded<Handle*> handle_{1};
};

rnn_config ConfigOf(rnn_mode mode) {
  rnn_config config{};
  config.struct_size = sizeof config;
  config.mode = mode;
  config.num_layers = 2;
  config.num_units = 6;
  config.input_size = 4;
  return config;
}

std::vector<float> ParamsOf(const rnn_config& config) {
  int64_t size = 0;
  EXPECT_EQ(rnn_params_size(&config, &size, nullptr), RNN_OK);
  return std::vector<float>(size, 0.1f);
}

class Network {
 public:
  explicit Network(const rnn_config& config) {
    const std::vector<float> params = ParamsOf(config);
    const auto size = static_cast<int64_t>(params.size());
    ExpectWorks([&](rnn_error* error) {
      rnn_network_free(network_);
      return rnn_network_create(&config, params.data(), size, 1, &network_,
                                error);
    });
  }
  explicit Network(rnn_mode mode) : Network(ConfigOf(mode)) {}
  ~Network() { rnn_network_free(network_); }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  const rnn_network* get() const { return network_; }

 private:
  rnn_network* network_ = nullptr;
};

constexpr int64_t kRows = 3;  // of streams

class Stream {
 public:
  explicit Stream(const Network& network) {
    EXPECT_EQ(rnn_stream_create(network.get(), kRows, &stream_, nullptr),
              RNN_OK);
  }
  ~Stream() { rnn_stream_free(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  rnn_stream* get() const { return stream_; }

 private:
  rnn_stream* stream_ = nullptr;
};

// Weights of ConfigOf(RNN_MODE_LSTM) in int8, G = 4.
struct Int8 {
  Int8() {
    config.int8_weights = 1;
    weights.struct_size = sizeof weights;
    weights.weights = values.data();
    weights.num_weights = static_cast<int64_t>(values.size());
    weights.scales = scales.data();
    weights.num_scales = static_cast<int64_t>(scales.size());
    weights.biases = biases.data();
    weights.num_biases = static_cast<int64_t>(biases.size());
  }

  rnn_config config = ConfigOf(RNN_MODE_LSTM);
  std::vector<int8_t> values = std::vector<int8_t>(4 * 6 * (4 + 6 + 6 + 6), 1);
  std::vector<float> scales = std::vector<float>(2 * 2 * 4 * 6, 0.01f);
  std::vector<float> biases = std::vector<float>(2 * 2 * 4 * 6, 0.1f);
  rnn_int8_weights weights{};
};

// Sequences of a network of ConfigOf(), and room for all outputs.
struct Batch {
  Batch() {
    call.struct_size = sizeof call;
    call.time_major = 1;
    call.steps = 5;
    call.batch = kRows;
    call.x = x.data();
    call.y = y.data();
    call.h_n = h_n.data();
  }
  bool is_untouched() const {
    return IsUntouched(y) && IsUntouched(h_n) && IsUntouched(c_n);
  }

  std::vector<float> x = std::vector<float>(5 * kRows * 4, 0.5f);
  std::vector<float> state = std::vector<float>(2 * kRows * 6, 0.5f);
  std::vector<int32_t> lengths = {5, 0, 2};
  Guarded<float> y{5 * kRows * 6};
  Guarded<float> h_n{2 * kRows * 6};
  Guarded<float> c_n{2 * kRows * 6};
  rnn_call call{};
};

// What is wrong with the arguments that it changes, and a piece of the message.
template <typename Arguments>
struct Fault {
  const char* name;
  void (*make)(Arguments*);
  const char* message;
};
template <typename Arguments>
void PrintTo(const Fault<Arguments>& fault, std::ostream* out) {
  *out << fault.name;
}
template <typename Arguments>
std::string NameOf(const testing::TestParamInfo<Fault<Arguments>>& info) {
  return info.param.name;
}

// Configurations -------------------------------------------------------------

using ConfigFault = Fault<rnn_config>;

const ConfigFault kConfigFaults[] = {
    {"no_struct_size", [](rnn_config* c) { c->struct_size = 0; },
     "rnn_config->struct_size must be sizeof(rnn_config), 56, got 0."},
    {"small_struct_size", [](rnn_config* c) { --c->struct_size; }, "got 55."},
    {"mode_below", [](rnn_config* c) { c->mode = -1; },
     "mode must be in [0, 3], got -1."},
    {"mode_above", [](rnn_config* c) { c->mode = 4; },
     "mode must be in [0, 3], got 4."},
    {"type_below", [](rnn_config* c) { c->type = -1; },
     "type must be in [0, 3], got -1."},
    {"type_above", [](rnn_config* c) { c->type = 4; },
     "type must be in [0, 3], got 4."},
    {"bidirectional_below", [](rnn_config* c) { c->bidirectional = -1; },
     "bidirectional must be in [0, 1], got -1."},
    {"bidirectional_above", [](rnn_config* c) { c->bidirectional = 2; },
     "bidirectional must be in [0, 1], got 2."},
    {"skip_input_below", [](rnn_config* c) { c->skip_input = -1; },
     "skip_input must be in [0, 1], got -1."},
    {"skip_input_above", [](rnn_config* c) { c->skip_input = 2; },
     "skip_input must be in [0, 1], got 2."},
    {"int8_weights_below", [](rnn_config* c) { c->int8_weights = -1; },
     "int8_weights must be in [0, 1], got -1."},
    {"int8_weights_above", [](rnn_config* c) { c->int8_weights = 2; },
     "int8_weights must be in [0, 1], got 2."},
    {"no_layers", [](rnn_config* c) { c->num_layers = 0; },
     "num_layers must be at least 1, got 0."},
    {"least_layers", [](rnn_config* c) { c->num_layers = kLeast; },
     "num_layers must be at least 1"},
    {"most_layers", [](rnn_config* c) { c->num_layers = kMost; },
     "the size of params overflows: num_layers = 9223372036854775807"},
    {"no_units", [](rnn_config* c) { c->num_units = 0; },
     "num_units must be at least 1, got 0."},
    {"negative_units", [](rnn_config* c) { c->num_units = -1; },
     "num_units must be at least 1, got -1."},
    {"most_units", [](rnn_config* c) { c->num_units = kMost; },
     "the size of params overflows"},
    {"no_inputs", [](rnn_config* c) { c->input_size = 0; },
     "input_size must be at least 1, got 0."},
    {"least_inputs", [](rnn_config* c) { c->input_size = kLeast; },
     "input_size must be at least 1"},
    {"most_inputs", [](rnn_config* c) { c->input_size = kMost; },
     "the size of params overflows"},
    // Each is small enough; with the gates, their product is 2^62.
    {"products_overflow",
     [](rnn_config* c) { c->num_units = c->input_size = int64_t{1} << 30; },
     "the size of params overflows"},
    {"negative_projection", [](rnn_config* c) { c->num_proj = -1; },
     "num_proj must be in [0, num_units] = [0, 6], got -1."},
    {"large_projection", [](rnn_config* c) { c->num_proj = 7; },
     "num_proj must be in [0, num_units] = [0, 6], got 7."},
    {"projected_gru",
     [](rnn_config* c) {
       c->mode = RNN_MODE_GRU;
       c->num_proj = 2;
     },
     "num_proj must be 0 unless"},
    {"skipped_input_of_another_size", [](rnn_config* c) { c->skip_input = 1; },
     "needs input_size == num_units"},
};

class ConfigTest : public testing::TestWithParam<ConfigFault> {};
INSTANTIATE_TEST_SUITE_P(All, ConfigTest, testing::ValuesIn(kConfigFaults),
                         NameOf<rnn_config>);

TEST_P(ConfigTest, IsRefused) {
  rnn_config config = ConfigOf(RNN_MODE_LSTM);
  GetParam().make(&config);
  Guarded<int64_t> size(1);
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_params_size(&config, size.data(), error);
      },
      GetParam().message);
  EXPECT_TRUE(IsUntouched(size));

  // Nor is anything read, whatever num_params says.
  const float param = 0;
  Untouched<rnn_network> network;
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_network_create(&config, &param, kMost, 1, network.get(),
                                  error);
      },
      GetParam().message);

  Int8 int8;
  GetParam().make(&int8.config);
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_network_create_int8(&int8.config, &int8.weights, 1,
                                       network.get(), error);
      },
      GetParam().message);
}

TEST(ConfigTest, ALaterVersionMayBeLarger) {
  struct {
    rnn_config config = ConfigOf(RNN_MODE_LSTM);
    int64_t later = 3;
  } large;
  large.config.struct_size = sizeof large;
  int64_t size = 0;
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_params_size(&large.config, &size, error);
      },
      "rnn_config of struct_size 64 must be zero from byte 56 on");
  large.later = 0;
  const Network network(large.config);
  large.later = 3;
  large.config = {};
  large.config.struct_size = sizeof large;
  ExpectWorks([&](rnn_error* error) {
    return rnn_network_config(network.get(), &large.config, error);
  });
  EXPECT_EQ(large.config.struct_size, sizeof large);
  EXPECT_EQ(large.config.num_units, 6);
  EXPECT_EQ(large.later, 3);
}

// Of what a caller says is smaller nothing else is read; a sanitizer sees it.
TEST(ConfigTest, ASmallerStructIsNotReadBeyondItsEnd) {
  const auto smallest = [](auto* whole) {
    auto memory = std::make_unique<uint32_t>(uint32_t{sizeof(uint32_t)});
    return std::pair(reinterpret_cast<decltype(whole)>(memory.get()),
                     std::move(memory));
  };
  const auto [config, config_memory] =
      smallest(static_cast<rnn_config*>(nullptr));
  int64_t size = 0;
  ExpectFails(
      [&](rnn_error* error) { return rnn_params_size(config, &size, error); },
      "rnn_config->struct_size must be sizeof(rnn_config), 56, got 4.");
  rnn_network* made = nullptr;
  Int8 int8;
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_network_create_int8(config, &int8.weights, 1, &made, error);
      },
      "rnn_config->struct_size must be");
  const auto [weights, weights_memory] =
      smallest(static_cast<rnn_int8_weights*>(nullptr));
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_network_create_int8(&int8.config, weights, 1, &made, error);
      },
      "rnn_int8_weights->struct_size must be");
  const Network network(RNN_MODE_LSTM);
  const auto [call, call_memory] = smallest(static_cast<rnn_call*>(nullptr));
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_network_run(network.get(), call, error);
      },
      "rnn_call->struct_size must be");
}

TEST(ConfigTest, MustHaveRoom) {
  const Network network(RNN_MODE_LSTM);
  for (const uint32_t size : {0u, uint32_t{sizeof(rnn_config)} - 1}) {
    Guarded<rnn_config> config(1);
    config[0].struct_size = size;
    ExpectFails(
        [&](rnn_error* error) {
          return rnn_network_config(network.get(), config.data(), error);
        },
        "rnn_config->struct_size must be");
    std::memset(&config[0].struct_size, rnn::kPoison, sizeof size);
    EXPECT_TRUE(IsUntouched(config));
  }
}

// Networks -------------------------------------------------------------------

TEST(NetworkTest, CountsOfParamsAreRefused) {
  const rnn_config config = ConfigOf(RNN_MODE_LSTM);
  const std::vector<float> params = ParamsOf(config);
  const auto size = static_cast<int64_t>(params.size());
  Untouched<rnn_network> network;
  for (const int64_t count :
       {int64_t{0}, int64_t{-1}, size - 1, size + 1, kLeast, kMost}) {
    ExpectFails(
        [&](rnn_error* error) {
          return rnn_network_create(&config, params.data(), count, 1,
                                    network.get(), error);
        },
        "params must have the " + std::to_string(size) +
            " elements of such a network, got " + std::to_string(count) + ";");
  }
}

// What the header of a file of a network with four params says of these.
constexpr char kParams[] = R"("dtype":"F32","shape":[4],"data_offsets":[0,16])";

// Such a file. Spaces fill its header up to `header_bytes`, or to a multiple of
// eight.
std::string SmallFile(const std::string& params = kParams,
                      int64_t data_bytes = 16, size_t header_bytes = 0) {
  std::string header =
      R"({"__metadata__":{"format":"tf_cudnn_rnn/params","version":"1",)"
      R"("rnn_mode":"rnn_tanh","num_layers":"1","num_units":"1",)"
      R"("input_size":"1","num_proj":"0","direction":"unidirectional",)"
      R"("input_mode":"linear_input"},"params":{)" +
      params + "}}";
  header.resize(header_bytes > 0 ? header_bytes : (header.size() + 7) / 8 * 8,
                ' ');
  const uint64_t size = header.size();
  const std::string path = testing::TempDir() + "/small.safetensors";
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header << std::string(data_bytes, '\0');
  return path;
}

TEST(NetworkTest, CountsOfThreadsAreRefused) {
  const rnn_config config = ConfigOf(RNN_MODE_GRU);
  const std::vector<float> params = ParamsOf(config);
  const Int8 int8;
  const std::string path = SmallFile();
  Untouched<rnn_network> network;
  for (const int32_t count : {0, -1, 1025, INT32_MIN, INT32_MAX}) {
    const std::string message =
        "num_threads must be in [1, 1024], got " + std::to_string(count) + ".";
    ExpectFails(
        [&](rnn_error* error) {
          return rnn_network_create(&config, params.data(),
                                    static_cast<int64_t>(params.size()), count,
                                    network.get(), error);
        },
        message);
    ExpectFails(
        [&](rnn_error* error) {
          return rnn_network_create_int8(&int8.config, &int8.weights, count,
                                         network.get(), error);
        },
        message);
    ExpectFails(
        [&](rnn_error* error) {
          return rnn_network_load(path.c_str(), count, network.get(), error);
        },
        message);
  }
}

TEST(NetworkTest, AreMadeInTheirOwnWay) {
  rnn_config config = ConfigOf(RNN_MODE_LSTM);
  const std::vector<float> params = ParamsOf(config);
  Untouched<rnn_network> network;
  config.int8_weights = 1;
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_network_create(&config, params.data(),
                                  static_cast<int64_t>(params.size()), 1,
                                  network.get(), error);
      },
      "int8_weights must be 0");
  Int8 int8;
  const auto create = [&](rnn_error* error) {
    return rnn_network_create_int8(&int8.config, &int8.weights, 1,
                                   network.get(), error);
  };
  int8.config.int8_weights = 0;
  ExpectFails(create, "must have int8_weights = 1");
  int8.config.int8_weights = 1;
  int8.config.type = RNN_FLOAT16;
  ExpectFails(create, "and type = 2");
}

TEST(NetworkTest, OfFilesThatCannotBeReadAreRefused) {
  Untouched<rnn_network> network;
  for (const std::string& path :
       {std::string(), std::string("/"), std::string("/nowhere/at/all"),
        std::string("/dev/null"), std::string(5000, 'a')}) {
    ExpectFails(
        [&](rnn_error* error) {
          return rnn_network_load(path.c_str(), 1, network.get(), error);
        },
        path.substr(0, 5), RNN_BAD_FILE);
  }
  // Whatever the length of a path, there is room for what is wrong.
  const std::string long_path = "/nowhere" + std::string(1000, '/') + "end";
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_network_load(long_path.c_str(), 1, network.get(), error);
      },
      "/end: " + std::generic_category().message(ENOENT), RNN_BAD_FILE);
  rnn_network* made = nullptr;
  ASSERT_EQ(rnn_network_load(SmallFile().c_str(), 1, &made, nullptr), RNN_OK);
  rnn_network_free(made);
}

// What a header says twice, too much of, or of a part of an element.
TEST(NetworkTest, OfFilesThatSayMoreThanOneThingAreRefused) {
  struct {
    std::string params;
    int64_t data_bytes;
    const char* message;
  } const faults[] = {
      {std::string(R"("dtype":"F16",)") + kParams, 16, "is not the JSON"},
      {R"("dtype":"F32","shape":[4],"data_offsets":[0,16,16])", 16,
       "params are not a vector"},
      {R"("dtype":"F32","shape":[4],"data_offsets":[0,18])", 18,
       "params must have 4 elements from byte 0 behind the header on"},
  };
  Untouched<rnn_network> network;
  for (const auto& fault : faults) {
    const std::string path = SmallFile(fault.params, fault.data_bytes);
    ExpectFails(
        [&](rnn_error* error) {
          return rnn_network_load(path.c_str(), 1, network.get(), error);
        },
        fault.message, RNN_BAD_FILE);
  }
}

TEST(NetworkTest, OfFilesHaveHeadersOfSomeLengthAtMost) {
  constexpr size_t kMostHeaderBytes = 1 << 16;
  rnn_network* made = nullptr;
  ASSERT_EQ(rnn_network_load(SmallFile(kParams, 16, kMostHeaderBytes).c_str(),
                             1, &made, nullptr),
            RNN_OK);
  rnn_network_free(made);
  Untouched<rnn_network> network;
  const std::string path = SmallFile(kParams, 16, kMostHeaderBytes + 1);
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_network_load(path.c_str(), 1, network.get(), error);
      },
      "the header that its first bytes tell of would be longer", RNN_BAD_FILE);
}

using Int8Fault = Fault<Int8>;

const Int8Fault kInt8Faults[] = {
    {"no_struct_size", [](Int8* i) { i->weights.struct_size = 0; },
     "rnn_int8_weights->struct_size must be"},
    {"small_struct_size", [](Int8* i) { --i->weights.struct_size; },
     "rnn_int8_weights->struct_size must be"},
    {"reserved", [](Int8* i) { i->weights.reserved = 1; },
     "reserved must be in [0, 0], got 1."},
    {"null_weights", [](Int8* i) { i->weights.weights = nullptr; },
     "weights->weights must not be NULL."},
    {"null_scales", [](Int8* i) { i->weights.scales = nullptr; },
     "weights->scales must not be NULL."},
    {"null_biases", [](Int8* i) { i->weights.biases = nullptr; },
     "weights->biases must not be NULL."},
    {"fewer_weights", [](Int8* i) { --i->weights.num_weights; },
     "num_weights must be 528 for such a network, got 527;"},
    {"most_weights", [](Int8* i) { i->weights.num_weights = kMost; },
     "num_weights must be 528"},
    {"more_scales", [](Int8* i) { ++i->weights.num_scales; },
     "num_scales must be 96 for such a network, got 97;"},
    {"least_scales", [](Int8* i) { i->weights.num_scales = kLeast; },
     "num_scales must be 96"},
    {"no_biases", [](Int8* i) { i->weights.num_biases = 0; },
     "num_biases must be 96 for such a network, got 0;"},
    {"negative_biases", [](Int8* i) { i->weights.num_biases = -1; },
     "num_biases must be 96"},
    {"negative_scale", [](Int8* i) { i->scales[3] = -0.5f; },
     "scales must be finite and not negative, got scales[3] = -0.5;"},
    {"infinite_scale", [](Int8* i) { i->scales.back() = kInfinity; },
     "got scales[95] = inf;"},
    {"nan_scale", [](Int8* i) { i->scales.front() = kNan; },
     "got scales[0] = nan;"},
    {"long_rows", [](Int8* i) { i->config.input_size = (1 << 17) + 1; },
     "int8 weights can have rows of at most 131072 elements, got 131073"},
};

class Int8Test : public testing::TestWithParam<Int8Fault> {};
INSTANTIATE_TEST_SUITE_P(All, Int8Test, testing::ValuesIn(kInt8Faults),
                         NameOf<Int8>);

TEST_P(Int8Test, IsRefused) {
  Int8 int8;
  GetParam().make(&int8);
  Untouched<rnn_network> network;
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_network_create_int8(&int8.config, &int8.weights, 1,
                                       network.get(), error);
      },
      GetParam().message);
}

// As long as they may be, for each of the two that count.
TEST(Int8Test, RowsMayHaveAsManyElementsAsThatSays) {
  constexpr int64_t kMostElements = 1 << 17;
  for (const bool is_input : {true, false}) {
    Int8 int8;
    int8.config.mode = RNN_MODE_LSTM;
    int8.config.num_layers = 1;
    int8.config.input_size = is_input ? kMostElements : 1;
    int8.config.num_units = is_input ? 1 : kMostElements;
    int8.config.num_proj = is_input ? 0 : 1;
    const int64_t H = int8.config.num_units;
    const int64_t projection = is_input ? 0 : 1;
    int8.values.resize(4 * H * (int8.config.input_size + 1) + projection * H);
    int8.scales.resize(2 * 4 * H + projection);
    int8.biases.resize(2 * 4 * H);
    int8.weights.weights = int8.values.data();
    int8.weights.num_weights = static_cast<int64_t>(int8.values.size());
    int8.weights.scales = int8.scales.data();
    int8.weights.num_scales = static_cast<int64_t>(int8.scales.size());
    int8.weights.biases = int8.biases.data();
    int8.weights.num_biases = static_cast<int64_t>(int8.biases.size());
    rnn_network* network = nullptr;
    ASSERT_EQ(rnn_network_create_int8(&int8.config, &int8.weights, 1, &network,
                                      nullptr),
              RNN_OK);
    rnn_network_free(network);
    // Nothing is read of one more.
    ++(is_input ? int8.config.input_size : int8.config.num_units);
    Untouched<rnn_network> refused;
    ExpectFails(
        [&](rnn_error* error) {
          return rnn_network_create_int8(&int8.config, &int8.weights, 1,
                                         refused.get(), error);
        },
        "int8 weights can have rows of at most 131072 elements, got 131073");
  }
}

TEST(Int8Test, ALaterVersionMayBeLarger) {
  const Int8 int8;
  struct {
    rnn_int8_weights weights;
    char later[16] = {};
  } large;
  large.weights = int8.weights;
  large.weights.struct_size = sizeof large;
  rnn_network* network = nullptr;
  const auto create = [&](rnn_error* error) {
    rnn_network_free(network);
    network = nullptr;
    return rnn_network_create_int8(&int8.config, &large.weights, 1, &network,
                                   error);
  };
  ExpectWorks(create);
  large.later[15] = 1;
  ExpectFails(create, "rnn_int8_weights of struct_size 72 must be zero");
  large.weights.struct_size = UINT32_MAX;
  ExpectFails(create, "and have at most 4096 bytes");
  rnn_network_free(network);
}

TEST(WeightsTest, AreThoseThatTheNetworkWasMadeOf) {
  const rnn_config config = ConfigOf(RNN_MODE_GRU);
  std::vector<float> params = ParamsOf(config);
  for (size_t i = 0; i < params.size(); ++i) params[i] = 0.01f * i;
  const std::vector<float> given = params;
  rnn_network* network = nullptr;
  ASSERT_EQ(rnn_network_create(&config, params.data(), params.size(), 1,
                               &network, nullptr),
            RNN_OK);
  params.assign(params.size(), 0);  // the network has a copy
  const void* found = nullptr;
  int64_t size = 0;
  ExpectWorks([&](rnn_error* error) {
    return rnn_network_params(network, &found, &size, error);
  });
  ASSERT_EQ(size, static_cast<int64_t>(given.size()));
  EXPECT_EQ(std::memcmp(found, given.data(), size * sizeof(float)), 0);
  Guarded<rnn_int8_weights> int8(1);
  int8[0].struct_size = sizeof(rnn_int8_weights);
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_network_int8_weights(network, int8.data(), error);
      },
      "network must have int8 weights");
  rnn_network_free(network);
}

TEST(WeightsTest, OfInt8AreThoseThatTheNetworkWasMadeOf) {
  Int8 int8;
  for (size_t i = 0; i < int8.values.size(); ++i) int8.values[i] = i % 100;
  rnn_network* network = nullptr;
  ASSERT_EQ(rnn_network_create_int8(&int8.config, &int8.weights, 1, &network,
                                    nullptr),
            RNN_OK);
  rnn_int8_weights found{};
  found.reserved = 7;
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_network_int8_weights(network, &found, error);
      },
      "rnn_int8_weights->struct_size must be");
  found.struct_size = sizeof found;
  ExpectWorks([&](rnn_error* error) {
    return rnn_network_int8_weights(network, &found, error);
  });
  EXPECT_EQ(found.reserved, 0);
  EXPECT_EQ(
      std::vector<int8_t>(found.weights, found.weights + found.num_weights),
      int8.values);
  EXPECT_EQ(std::vector<float>(found.scales, found.scales + found.num_scales),
            int8.scales);
  EXPECT_EQ(std::vector<float>(found.biases, found.biases + found.num_biases),
            int8.biases);
  const void* params = nullptr;
  int64_t size = 0;
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_network_params(network, &params, &size, error);
      },
      "network must not have int8 weights");
  EXPECT_TRUE(params == nullptr && size == 0);
  rnn_network_free(network);
}

// Calls ----------------------------------------------------------------------

using CallFault = Fault<Batch>;

const CallFault kCallFaults[] = {
    {"no_struct_size", [](Batch* b) { b->call.struct_size = 0; },
     "rnn_call->struct_size must be"},
    {"small_struct_size", [](Batch* b) { --b->call.struct_size; },
     "rnn_call->struct_size must be"},
    {"time_major_below", [](Batch* b) { b->call.time_major = -1; },
     "time_major must be in [0, 1], got -1."},
    {"time_major_above", [](Batch* b) { b->call.time_major = 2; },
     "time_major must be in [0, 1], got 2."},
    {"negative_steps", [](Batch* b) { b->call.steps = -1; },
     "steps must be in [0, 2147483647], got -1."},
    {"many_steps", [](Batch* b) { b->call.steps = int64_t{1} << 31; },
     "steps must be in [0, 2147483647], got 2147483648."},
    {"least_steps", [](Batch* b) { b->call.steps = kLeast; },
     "steps must be in"},
    {"most_steps", [](Batch* b) { b->call.steps = kMost; }, "steps must be in"},
    {"negative_batch", [](Batch* b) { b->call.batch = -1; },
     "batch must be in [0, 2147483647], got -1."},
    {"many_rows", [](Batch* b) { b->call.batch = int64_t{1} << 31; },
     "batch must be in [0, 2147483647], got 2147483648."},
    {"least_batch", [](Batch* b) { b->call.batch = kLeast; },
     "batch must be in"},
    {"most_batch", [](Batch* b) { b->call.batch = kMost; }, "batch must be in"},
    {"product_overflows",
     [](Batch* b) { b->call.steps = b->call.batch = INT32_MAX; },
     "x must have at most 576460752303423487 bytes, got the shape "
     "[2147483647, 2147483647, 4] with 4 bytes for each element."},
    {"null_x", [](Batch* b) { b->call.x = nullptr; },
     "x must not be NULL: it has the shape [5, 3, 4]."},
    {"null_x_batch_major",
     [](Batch* b) {
       b->call.x = nullptr;
       b->call.time_major = 0;
     },
     "x must not be NULL: it has the shape [3, 5, 4]."},
    {"null_y", [](Batch* b) { b->call.y = nullptr; }, "y must not be NULL"},
    {"negative_length",
     [](Batch* b) {
       b->lengths[1] = -1;
       b->call.lengths = b->lengths.data();
     },
     "lengths[1] must be in [0, T] = [0, 5], got -1"},
    {"large_length",
     [](Batch* b) {
       b->lengths[2] = 6;
       b->call.lengths = b->lengths.data();
     },
     "lengths[2] must be in [0, T] = [0, 5], got 6"},
    {"most_length",
     [](Batch* b) {
       b->lengths[0] = INT32_MAX;
       b->call.lengths = b->lengths.data();
     },
     "lengths[0] must be in"},
};

class CallTest : public testing::TestWithParam<CallFault> {};
INSTANTIATE_TEST_SUITE_P(All, CallTest, testing::ValuesIn(kCallFaults),
                         NameOf<Batch>);

TEST_P(CallTest, IsRefused) {
  for (const rnn_mode mode : {RNN_MODE_LSTM, RNN_MODE_GRU}) {
    const Network network(mode);
    Batch batch;
    if (mode == RNN_MODE_LSTM) batch.call.c_n = batch.c_n.data();
    GetParam().make(&batch);
    ExpectFails(
        [&](rnn_error* error) {
          return rnn_network_run(network.get(), &batch.call, error);
        },
        GetParam().message);
    EXPECT_TRUE(batch.is_untouched());
  }
}

// Of rows times gates; nothing is read.
TEST(CallTest, MoreThanAnyMachineHasIsNoMistakeOfAnArgument) {
  rnn_config config = ConfigOf(RNN_MODE_LSTM);
  config.num_units = 256;
  const Network network(config);
  Batch batch;
  batch.call.steps = 1 << 18;
  batch.call.batch = (1 << 18) + 1;
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_network_run(network.get(), &batch.call, error);
      },
      "this call needs more memory than any machine has", RNN_OUT_OF_MEMORY);
  EXPECT_TRUE(batch.is_untouched());
}

TEST(CallTest, CellStatesOfAnotherModeAreRefused) {
  for (const rnn_mode mode : {RNN_MODE_RELU, RNN_MODE_TANH, RNN_MODE_GRU}) {
    const Network network(mode);
    Batch batch;
    const auto run = [&](rnn_error* error) {
      return rnn_network_run(network.get(), &batch.call, error);
    };
    batch.call.c0 = batch.state.data();
    ExpectFails(run, "c0 and c_n must be NULL: only an LSTM has cell states.");
    batch.call.c0 = nullptr;
    batch.call.c_n = batch.c_n.data();
    ExpectFails(run, "c0 and c_n must be NULL");
    EXPECT_TRUE(batch.is_untouched());
  }
}

// Every set of states may be missing, and the others do not change.
TEST(CallTest, StatesMayBeMissing) {
  const Network network(RNN_MODE_LSTM);
  std::vector<float> y;
  for (int given = 0; given < 16; ++given) {
    Batch batch;
    const std::vector<float> zeros(batch.state.size());
    batch.call.h0 = given & 1 ? zeros.data() : nullptr;
    batch.call.c0 = given & 2 ? zeros.data() : nullptr;
    batch.call.h_n = given & 4 ? batch.h_n.data() : nullptr;
    batch.call.c_n = given & 8 ? batch.c_n.data() : nullptr;
    ExpectWorks([&](rnn_error* error) {
      return rnn_network_run(network.get(), &batch.call, error);
    });
    if (given == 0) y = batch.y.values();
    EXPECT_TRUE(rnn::SameBits(batch.y.values(), y));
    EXPECT_TRUE(batch.y.intact() && batch.h_n.intact() && batch.c_n.intact());
    EXPECT_NE(IsUntouched(batch.h_n), (given & 4) != 0);
    EXPECT_NE(IsUntouched(batch.c_n), (given & 8) != 0);
  }
}

TEST(CallTest, WithoutElementsHaveNeitherInputsNorOutputs) {
  rnn_config config = ConfigOf(RNN_MODE_GRU);
  config.num_layers = 1;
  config.bidirectional = 1;  // whose outputs lie behind those of the first
  const Network network(config);
  for (const bool has_steps : {false, true}) {
    Batch batch;
    (has_steps ? batch.call.batch : batch.call.steps) = 0;
    batch.call.x = nullptr;
    batch.call.y = nullptr;
    batch.call.h0 = batch.state.data();
    ExpectWorks([&](rnn_error* error) {
      return rnn_network_run(network.get(), &batch.call, error);
    });
    // States that nothing follows stay as they are; no rows have none.
    if (has_steps) {
      EXPECT_TRUE(IsUntouched(batch.h_n));
    } else {
      EXPECT_EQ(batch.h_n.values(), batch.state);
    }
  }
}

// Streams --------------------------------------------------------------------

TEST(StreamTest, NumbersOfRowsAreRefused) {
  const Network network(RNN_MODE_GRU);
  Untouched<rnn_stream> stream;
  for (const int64_t batch :
       {int64_t{0}, int64_t{-1}, int64_t{1} << 31, kLeast, kMost}) {
    ExpectFails(
        [&](rnn_error* error) {
          return rnn_stream_create(network.get(), batch, stream.get(), error);
        },
        "batch must be in [1, 2147483647], got " + std::to_string(batch) + ".");
  }
}

TEST(StreamTest, NetworksOfTwoDirectionsAreRefused) {
  rnn_config config = ConfigOf(RNN_MODE_LSTM);
  config.bidirectional = 1;
  const Network network(config);
  Untouched<rnn_stream> stream;
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_stream_create(network.get(), 1, stream.get(), error);
      },
      "this one is bidirectional");
}

TEST(StreamTest, RowsOutOfRangeAreRefused) {
  const Network network(RNN_MODE_LSTM);
  const Stream stream(network);
  const std::vector<float> state(2 * kRows * 6, 0.5f);
  std::vector<float> h(state.size()), c(state.size());
  ASSERT_EQ(
      rnn_stream_set_state(stream.get(), state.data(), state.data(), nullptr),
      RNN_OK);
  for (const int64_t row : {int64_t{-1}, kRows, kLeast, kMost}) {
    const int64_t rows[] = {0, row};  // nor is the first one reset
    ExpectFails(
        [&](rnn_error* error) {
          return rnn_stream_reset(stream.get(), rows, 2, error);
        },
        "rows[1] must be in [0, 2], got " + std::to_string(row) + ".");
  }
  const int64_t first[] = {0};
  for (const int64_t count : {int64_t{-1}, kLeast}) {
    ExpectFails(
        [&](rnn_error* error) {
          return rnn_stream_reset(stream.get(), first, count, error);
        },
        "num_rows must be in [0, ");
  }
  const auto get_state = [&](rnn_error* error) {
    return rnn_stream_get_state(stream.get(), h.data(), c.data(), error);
  };
  ExpectWorks([&](rnn_error* error) {
    return rnn_stream_reset(stream.get(), first, 0, error);
  });
  ExpectWorks(get_state);
  EXPECT_EQ(h, state);
  EXPECT_EQ(c, state);
  ExpectWorks([&](rnn_error* error) {
    return rnn_stream_reset(stream.get(), first, 1, error);
  });
  ExpectWorks(get_state);
  std::vector<float> expected = state;
  for (int i = 0; i < 6; ++i) expected[i] = expected[kRows * 6 + i] = 0;
  EXPECT_EQ(h, expected);
  EXPECT_EQ(c, expected);
  // Of all rows, whatever their number is said to be.
  ExpectWorks([&](rnn_error* error) {
    return rnn_stream_reset(stream.get(), nullptr, -1, error);
  });
  ExpectWorks(get_state);
  EXPECT_EQ(h, std::vector<float>(h.size()));
  EXPECT_EQ(c, std::vector<float>(c.size()));
}

#ifdef RNN_COUNTS_READS

// Or others could change them between their check and their use.
TEST(StreamTest, RowsAreReadOnce) {
  if (!rnn::CountsReads()) GTEST_SKIP() << "reads cannot be counted here";
  const Network network(RNN_MODE_LSTM);
  const Stream stream(network);
  const int64_t rows[] = {2, 0, 1};
  const rnn::CountedReads counted(rows, sizeof rows);
  EXPECT_EQ(
      rnn_stream_reset(stream.get(),
                       static_cast<const int64_t*>(counted.data()), 3, nullptr),
      RNN_OK);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(counted.count(i * 8), 1) << i;
}

#endif  // RNN_COUNTS_READS

TEST(StreamTest, CellStatesOfAnotherModeAreRefused) {
  const Network network(RNN_MODE_GRU);
  const Stream stream(network);
  Guarded<float> h(2 * kRows * 6), c(2 * kRows * 6);
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_stream_get_state(stream.get(), h.data(), c.data(), error);
      },
      "c must be NULL: only an LSTM has cell states.");
  EXPECT_TRUE(IsUntouched(h) && IsUntouched(c));
  const std::vector<float> ones(h.size(), 1);
  ExpectFails(
      [&](rnn_error* error) {
        return rnn_stream_set_state(stream.get(), ones.data(), ones.data(),
                                    error);
      },
      "c must be NULL");
  ExpectWorks([&](rnn_error* error) {
    return rnn_stream_get_state(stream.get(), h.data(), nullptr, error);
  });
  EXPECT_EQ(h.values(), std::vector<float>(h.size()));
}

TEST(StreamTest, GoesOnWithoutTheNetworksHandle) {
  std::vector<float> x(kRows * 4, 0.5f), expected(kRows * 6), y(kRows * 6);
  auto* network = new Network(RNN_MODE_LSTM);
  const Stream stream(*network), orphan(*network);
  ASSERT_EQ(rnn_stream_step(stream.get(), x.data(), expected.data(), nullptr),
            RNN_OK);
  delete network;
  ExpectWorks([&](rnn_error* error) {
    return rnn_stream_reset(orphan.get(), nullptr, 0, error);
  });
  ASSERT_EQ(rnn_stream_step(orphan.get(), x.data(), y.data(), nullptr), RNN_OK);
  EXPECT_EQ(y, expected);
}

// NULL -----------------------------------------------------------------------

TEST(NullTest, IsRefused) {
  const rnn_config config = ConfigOf(RNN_MODE_LSTM);
  const std::vector<float> params = ParamsOf(config);
  const auto size = static_cast<int64_t>(params.size());
  const Int8 int8;
  const Network network(config);
  const Stream stream(network);
  Untouched<rnn_network> made;
  Untouched<rnn_stream> made_stream;
  Guarded<int64_t> found_size(1);
  Guarded<rnn_config> found_config(1);
  Guarded<rnn_int8_weights> found_int8(1);
  const void* found_params = &params;
  Guarded<float> y(kRows * 6), h(2 * kRows * 6);
  const std::vector<float> x(kRows * 4);
  Batch batch;
  const struct {
    const char* name;
    Call call;
  } cases[] = {
      {"name", [&](auto* e) { return rnn_instruction_set(nullptr, e); }},
      {"config",
       [&](auto* e) { return rnn_params_size(nullptr, found_size.data(), e); }},
      {"size", [&](auto* e) { return rnn_params_size(&config, nullptr, e); }},
      {"config",
       [&](auto* e) {
         return rnn_network_create(nullptr, params.data(), size, 1, made.get(),
                                   e);
       }},
      {"params",
       [&](auto* e) {
         return rnn_network_create(&config, nullptr, size, 1, made.get(), e);
       }},
      {"network",
       [&](auto* e) {
         return rnn_network_create(&config, params.data(), size, 1, nullptr, e);
       }},
      {"config",
       [&](auto* e) {
         return rnn_network_create_int8(nullptr, &int8.weights, 1, made.get(),
                                        e);
       }},
      {"weights",
       [&](auto* e) {
         return rnn_network_create_int8(&int8.config, nullptr, 1, made.get(),
                                        e);
       }},
      {"network",
       [&](auto* e) {
         return rnn_network_create_int8(&int8.config, &int8.weights, 1, nullptr,
                                        e);
       }},
      {"path",
       [&](auto* e) { return rnn_network_load(nullptr, 1, made.get(), e); }},
      {"network",
       [&](auto* e) { return rnn_network_load("/", 1, nullptr, e); }},
      {"network",
       [&](auto* e) {
         return rnn_network_config(nullptr, found_config.data(), e);
       }},
      {"config",
       [&](auto* e) { return rnn_network_config(network.get(), nullptr, e); }},
      {"network",
       [&](auto* e) {
         return rnn_network_params(nullptr, &found_params, found_size.data(),
                                   e);
       }},
      {"params",
       [&](auto* e) {
         return rnn_network_params(network.get(), nullptr, found_size.data(),
                                   e);
       }},
      {"num_params",
       [&](auto* e) {
         return rnn_network_params(network.get(), &found_params, nullptr, e);
       }},
      {"network",
       [&](auto* e) {
         return rnn_network_int8_weights(nullptr, found_int8.data(), e);
       }},
      {"weights",
       [&](auto* e) {
         return rnn_network_int8_weights(network.get(), nullptr, e);
       }},
      {"network",
       [&](auto* e) { return rnn_network_run(nullptr, &batch.call, e); }},
      {"call",
       [&](auto* e) { return rnn_network_run(network.get(), nullptr, e); }},
      {"network",
       [&](auto* e) {
         return rnn_stream_create(nullptr, 1, made_stream.get(), e);
       }},
      {"stream",
       [&](auto* e) {
         return rnn_stream_create(network.get(), 1, nullptr, e);
       }},
      {"stream",
       [&](auto* e) {
         return rnn_stream_step(nullptr, x.data(), y.data(), e);
       }},
      {"x",
       [&](auto* e) {
         return rnn_stream_step(stream.get(), nullptr, y.data(), e);
       }},
      {"y",
       [&](auto* e) {
         return rnn_stream_step(stream.get(), x.data(), nullptr, e);
       }},
      {"stream",
       [&](auto* e) { return rnn_stream_reset(nullptr, nullptr, 0, e); }},
      {"stream",
       [&](auto* e) {
         return rnn_stream_get_state(nullptr, h.data(), nullptr, e);
       }},
      {"stream",
       [&](auto* e) {
         return rnn_stream_set_state(nullptr, params.data(), nullptr, e);
       }},
  };
  for (const auto& [name, call] : cases) {
    ExpectFails(call, std::string(name) + " must not be NULL.");
  }
  EXPECT_TRUE(IsUntouched(found_size) && IsUntouched(found_config));
  EXPECT_TRUE(IsUntouched(found_int8) && found_params == &params);
  EXPECT_TRUE(IsUntouched(y) && IsUntouched(h) && batch.is_untouched());
}

TEST(NullTest, MayBeLeftOutOrFreed) {
  const Network network(RNN_MODE_LSTM);
  const Stream stream(network);
  ExpectWorks([&](rnn_error* error) {
    return rnn_stream_get_state(stream.get(), nullptr, nullptr, error);
  });
  ExpectWorks([&](rnn_error* error) {
    return rnn_stream_set_state(stream.get(), nullptr, nullptr, error);
  });
  rnn_network_free(nullptr);
  rnn_stream_free(nullptr);
}

TEST(InterfaceTest, TellsWhatItIs) {
  EXPECT_EQ(rnn_abi_version(), RNN_ABI_VERSION);
  const char* name = nullptr;
  ExpectWorks(
      [&](rnn_error* error) { return rnn_instruction_set(&name, error); });
  ASSERT_NE(name, nullptr);
  EXPECT_GT(std::strlen(name), 0u);
}

}  // namespace
