// Any sequence of calls of the runtime's interface in C, with arguments that
// may be wrong: each ends as rnn_runtime.h says, whatever failed has written
// nothing, and tensors and weights lie before guard pages. A stream's states
// are those of calls of one step.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "network/descriptor.h"
#include "network/int8_weights.h"
#include "network/params_layout.h"
#include "network/sizes.h"
#include "runtime/rnn_runtime.h"
#include "tests/engine/guard_pages.h"
#include "tests/engine/guarded.h"
#include "tests/engine/random_values.h"
#include "tests/fuzz/engine/fuzz.h"
#include "tests/fuzz/engine/input.h"

namespace rnn {
namespace fuzz {
namespace {

using Bytes = EndGuarded<unsigned char>;
using Copy = std::vector<unsigned char>;

// Of tensors and params that there is memory for here.
constexpr int64_t kMostElements = int64_t{1} << 13;
constexpr int64_t kMostRows = 40;

// ---- Arguments --------------------------------------------------------------

bool IsIn(int64_t value, int64_t low, int64_t high) {
  return value >= low && value <= high;
}

// Mostly in [0, count).
int32_t AnyChoice(Input& input, int32_t count) {
  const int kind = input.Byte();
  if (kind < 248) return kind % count;
  return input.OneOf({-1, count, INT32_MIN, INT32_MAX});
}

uint32_t AnyStructSize(Input& input, uint32_t size) {
  const int kind = input.Byte();
  if (kind < 240) return size;
  return input.OneOf({0u, size - 1, UINT32_MAX});
}

// Mostly in [1, 12].
int64_t AnyDimension(Input& input) {
  const int kind = input.Byte();
  return kind < 240 ? 1 + kind % 12 : input.AnySize();
}

// Mostly this one.
int64_t AnyCount(Input& input, int64_t right) {
  if (input.Byte() < 240) return right;
  return input.Flag() ? right + input.Between(-1, 1) : input.AnySize();
}

// Mostly one.
int32_t AnyThreads(Input& input) {
  const int kind = input.Byte();
  if (kind < 240) return 1;
  return input.OneOf({0, -1, 1025, INT32_MIN, INT32_MAX, 1024});
}

bool IsMissing(Input& input) { return input.Byte() >= 248; }

// Small and positive in every type, so that sums overflow to nothing but
// infinities.
void FillInputs(Bytes& bytes, uint64_t seed) {
  RandomValues random(seed);
  for (int64_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(0x38 + random.Bits() % 4);
  }
}

std::unique_ptr<Bytes> Inputs(Input& input, int64_t bytes) {
  auto made = std::make_unique<Bytes>(bytes);
  FillInputs(*made, input.Byte());
  made->MakeReadOnly();
  return made;
}

// Memory for results, that tells whether they came.
class Outputs {
 public:
  explicit Outputs(int64_t bytes) : bytes_(bytes) { bytes_.FillBytes(kPoison); }
  unsigned char* data() { return bytes_.data(); }
  Copy values() { return bytes_.values(); }
  bool is_untouched() {
    const Copy values = bytes_.values();
    return std::all_of(values.begin(), values.end(),
                       [](unsigned char byte) { return byte == kPoison; });
  }
  // No result has all bits set.
  bool is_written(int64_t element_bytes) {
    const Copy poison(element_bytes, kPoison);
    const Copy values = bytes_.values();
    for (auto at = values.begin(); at < values.end(); at += element_bytes) {
      if (std::equal(poison.begin(), poison.end(), at)) return false;
    }
    return true;
  }

 private:
  Bytes bytes_;
};

// Of what the engine does not know of.
template <typename Value>
bool IsUntouched(const Guarded<Value>& value) {
  return value.intact() && IsPoison(*value.data());
}

// Calls, and requires what must come; returns whether it is RNN_OK.
template <typename Call>
bool Succeeds(Input& input, bool is_valid, const Call& call) {
  if (input.Byte() >= 240) {  // nobody wants the message
    FUZZ_REQUIRE(call(nullptr) == (is_valid ? RNN_OK : RNN_INVALID_ARGUMENT));
    return is_valid;
  }
  Guarded<rnn_error> error(1);
  const rnn_status status = call(error.data());
  FUZZ_REQUIRE(status == (is_valid ? RNN_OK : RNN_INVALID_ARGUMENT));
  if (is_valid) {
    FUZZ_REQUIRE(IsUntouched(error));
    return true;
  }
  FUZZ_REQUIRE(error.intact());
  const char* const message = error[0].message;
  FUZZ_REQUIRE(std::memchr(message, 0, sizeof(rnn_error)) != nullptr);
  const std::string text(message);
  FUZZ_REQUIRE(text.size() > 10 && text.back() == '.');
  return false;
}

// ---- Networks ---------------------------------------------------------------

rnn_config AnyConfig(Input& input) {
  rnn_config c{};
  c.struct_size = AnyStructSize(input, sizeof c);
  c.mode = AnyChoice(input, 4);
  c.type = AnyChoice(input, 4);
  c.bidirectional = AnyChoice(input, 8) == 1;
  c.skip_input = AnyChoice(input, 8) == 1;
  c.num_layers = input.Byte() < 240 ? input.Between(1, 3) : input.AnySize();
  c.num_units = AnyDimension(input);
  c.input_size = c.skip_input == 1 ? c.num_units : AnyDimension(input);
  if (c.mode == RNN_MODE_LSTM && input.Flag()) {
    c.num_proj = std::min(c.num_units, AnyDimension(input));
  }
  // At last, one that may be anything.
  switch (input.Byte() % 32) {
    case 0:
      c.bidirectional = input.Any<int32_t>();
      break;
    case 1:
      c.skip_input = input.Any<int32_t>();
      break;
    case 2:
      c.num_proj = input.AnySize();
      break;
    case 3:
      c.input_size = input.AnySize();
      break;
  }
  return c;
}

RnnDescriptor DescriptorOf(const rnn_config& c) {
  RnnDescriptor d;
  d.mode = static_cast<CellMode>(c.mode);
  d.num_layers = c.num_layers;
  d.num_directions = c.bidirectional + 1;
  d.input_size = c.input_size;
  d.hidden_size = c.num_units;
  d.num_proj = c.num_proj;
  d.skip_input = c.skip_input != 0;
  return d;
}

// Whether there is such a network, whatever its weights are.
bool IsValid(const rnn_config& c, ParamsLayout* layout) {
  return c.struct_size == sizeof c && IsIn(c.mode, 0, 3) &&
         IsIn(c.type, 0, 3) && IsIn(c.bidirectional, 0, 1) &&
         IsIn(c.skip_input, 0, 1) && IsIn(c.int8_weights, 0, 1) &&
         ParamsLayout::Create(DescriptorOf(c), layout).ok();
}

struct NetworkDeleter {
  void operator()(rnn_network* network) const { rnn_network_free(network); }
};
struct StreamDeleter {
  void operator()(rnn_stream* stream) const { rnn_stream_free(stream); }
};
using Network = std::unique_ptr<rnn_network, NetworkDeleter>;
using Stream = std::unique_ptr<rnn_stream, StreamDeleter>;

// make(handle, error) makes it, and fails unless that is valid.
template <typename Owner, typename Handle, typename Make>
Owner Made(Input& input, bool is_valid, const Make& make) {
  Guarded<Handle*> handle(1);
  Handle** address = handle.data();
  if (IsMissing(input)) {
    is_valid = false;
    address = nullptr;
  }
  if (!Succeeds(input, is_valid,
                [&](rnn_error* error) { return make(address, error); })) {
    FUZZ_REQUIRE(IsUntouched(handle));
    return nullptr;
  }
  FUZZ_REQUIRE(handle.intact());
  return Owner(*address);
}

// Helpers would take most of the time, and coverage would differ from run to
// run: a network that has them is only made. threads_test.cc has their calls.
Network ToBeCalled(int32_t num_threads, Network network) {
  return num_threads == 1 ? std::move(network) : nullptr;
}

Network AnyNetworkOfParams(Input& input, const rnn_config& config,
                           const ParamsLayout* layout) {
  constexpr int64_t kElementBytes[] = {4, 8, 2, 2};
  const bool has_room = layout != nullptr && layout->size() <= kMostElements;
  const int64_t size = has_room ? layout->size() : 1;
  const auto params =
      Inputs(input, size * (has_room ? kElementBytes[config.type] : 1));
  const void* const data = IsMissing(input) ? nullptr : params->data();
  const int64_t count = AnyCount(input, size);
  const int32_t threads = AnyThreads(input);
  const bool is_valid = has_room && config.int8_weights == 0 &&
                        data != nullptr && count == size &&
                        IsIn(threads, 1, 1024);
  // Or it would have room for so many, which are not there.
  if (layout != nullptr && !has_room && count == layout->size()) return nullptr;
  return ToBeCalled(
      threads,
      Made<Network, rnn_network>(
          input, is_valid, [&](rnn_network** handle, rnn_error* error) {
            return rnn_network_create(&config, data, count, threads, handle,
                                      error);
          }));
}

Network AnyNetworkOfInt8(Input& input, const rnn_config& config,
                         bool config_is_valid) {
  Int8Layout layout;
  const bool has_layout =
      config_is_valid && Int8Layout::Create(DescriptorOf(config), &layout).ok();
  const bool has_room = has_layout && layout.num_values() <= kMostElements;
  const int64_t sizes[] = {has_room ? layout.num_values() : 1,
                           has_room ? layout.num_scales() : 1,
                           has_room ? layout.num_biases() : 1};
  const auto values = Inputs(input, sizes[0]);
  Bytes scales(4 * sizes[1]);
  FillInputs(scales, input.Byte());
  bool is_valid = has_room && config.int8_weights == 1 && config.type == 0;
  if (IsMissing(input)) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float scale =
        input.OneOf({-0.0f, -1e-45f, 0.0f, kInfinity, -kInfinity,
                     std::numeric_limits<float>::quiet_NaN()});
    const int64_t row = input.Between(0, sizes[1] - 1);
    std::memcpy(scales.data() + 4 * row, &scale, sizeof scale);
    is_valid = is_valid && scale == 0;
  }
  scales.MakeReadOnly();
  const auto biases = Inputs(input, 4 * sizes[2]);
  rnn_int8_weights weights{};
  weights.struct_size = AnyStructSize(input, sizeof weights);
  weights.reserved = IsMissing(input) ? 1 : 0;
  if (!IsMissing(input)) {
    weights.weights = reinterpret_cast<const int8_t*>(values->data());
  }
  if (!IsMissing(input)) {
    weights.scales = reinterpret_cast<const float*>(scales.data());
  }
  if (!IsMissing(input)) {
    weights.biases = reinterpret_cast<const float*>(biases->data());
  }
  weights.num_weights = AnyCount(input, sizes[0]);
  weights.num_scales = AnyCount(input, sizes[1]);
  weights.num_biases = AnyCount(input, sizes[2]);
  const int32_t threads = AnyThreads(input);
  // No others of so many are there.
  if (has_layout && !has_room && weights.num_weights == layout.num_values()) {
    return nullptr;
  }
  is_valid = is_valid && weights.struct_size == sizeof weights &&
             weights.reserved == 0 && weights.weights != nullptr &&
             weights.scales != nullptr && weights.biases != nullptr &&
             weights.num_weights == sizes[0] &&
             weights.num_scales == sizes[1] && weights.num_biases == sizes[2] &&
             IsIn(threads, 1, 1024);
  return ToBeCalled(
      threads,
      Made<Network, rnn_network>(
          input, is_valid, [&](rnn_network** handle, rnn_error* error) {
            return rnn_network_create_int8(&config, &weights, threads, handle,
                                           error);
          }));
}

// ---- Calls ------------------------------------------------------------------

// What a network's tensors are like.
struct Shapes {
  explicit Shapes(const rnn_config& config)
      : d(DescriptorOf(config)), type(config.type) {}

  bool is_lstm() const { return d.mode == CellMode::kLstm; }
  int64_t element_bytes() const {
    constexpr int64_t kBytes[] = {4, 8, 2, 2};
    return kBytes[type];
  }
  int64_t x_bytes() const { return d.input_size * element_bytes(); }
  int64_t y_bytes() const {
    return d.num_directions * d.output_size() * element_bytes();
  }
  // Of one row of one layer.
  int64_t h_bytes() const { return d.output_size() * element_bytes(); }
  int64_t c_bytes() const {
    return is_lstm() ? d.hidden_size * element_bytes() : 0;
  }
  // Of one row.
  int64_t all_h_bytes() const { return d.num_pseudo_layers() * h_bytes(); }
  int64_t all_c_bytes() const { return d.num_pseudo_layers() * c_bytes(); }

  RnnDescriptor d;
  int32_t type;
};

struct CallSizes {
  int64_t steps, batch;
  bool are_valid;
  // Of the buffers: none for sizes that are refused.
  int64_t has_steps, has_batch;
};

CallSizes AnyCallSizes(Input& input, const Shapes& shapes) {
  CallSizes s{};
  s.steps = input.AnySize();
  s.batch = input.AnySize();
  s.are_valid = IsIn(s.steps, 0, INT32_MAX) && IsIn(s.batch, 0, INT32_MAX);
  if (!s.are_valid) return s;
  const Wide widest = std::max(shapes.x_bytes(), shapes.y_bytes());
  if (Wide{s.steps} * s.batch * widest > kMaxTensorSize) {
    s.are_valid = false;
    return s;
  }
  // There is no memory for what lies between.
  if (s.batch > kMostRows) s.batch %= kMostRows;
  if (s.steps * s.batch > kMostElements / 64) s.steps %= 7;
  s.has_steps = s.steps;
  s.has_batch = s.batch;
  return s;
}

// Rows' lengths, or one beyond its range.
std::unique_ptr<EndGuarded<int32_t>> AnyLengths(Input& input,
                                                const CallSizes& sizes,
                                                bool* are_valid) {
  auto lengths = std::make_unique<EndGuarded<int32_t>>(sizes.has_batch);
  for (int64_t row = 0; row < sizes.has_batch; ++row) {
    int64_t length = input.Byte() % (sizes.has_steps + 1);
    if (IsMissing(input)) {
      length = input.OneOf({int64_t{-1}, sizes.steps + 1, int64_t{INT32_MIN},
                            int64_t{INT32_MAX}});
    }
    (*lengths)[row] = static_cast<int32_t>(length);
    *are_valid = *are_valid && IsIn((*lengths)[row], 0, sizes.steps);
  }
  lengths->MakeReadOnly();
  return lengths;
}

void RequireZerosBehindEnds(Copy y, const rnn_call& call, int64_t row_bytes) {
  if (call.lengths == nullptr) return;
  for (int64_t row = 0; row < call.batch; ++row) {
    for (int64_t time = call.lengths[row]; time < call.steps; ++time) {
      const int64_t place = call.time_major != 0 ? time * call.batch + row
                                                 : row * call.steps + time;
      const auto begin = y.begin() + place * row_bytes;
      FUZZ_REQUIRE(std::all_of(begin, begin + row_bytes,
                               [](unsigned char byte) { return byte == 0; }));
    }
  }
}

void Call(Input& input, const rnn_network* network, const Shapes& shapes) {
  const CallSizes sizes = AnyCallSizes(input, shapes);
  const int64_t rows = sizes.has_steps * sizes.has_batch;
  const int64_t h_bytes = sizes.has_batch * shapes.all_h_bytes();
  // Of other cells none is read: a pointer is enough.
  const int64_t c_bytes = sizes.has_batch * shapes.all_c_bytes();
  const auto x = Inputs(input, rows * shapes.x_bytes());
  const auto h0 = Inputs(input, h_bytes);
  const auto c0 = Inputs(input, c_bytes);
  Outputs y(rows * shapes.y_bytes()), h_n(h_bytes), c_n(c_bytes);
  bool lengths_are_valid = true;
  const auto lengths = AnyLengths(input, sizes, &lengths_are_valid);

  rnn_call call{};
  call.struct_size = AnyStructSize(input, sizeof call);
  call.time_major = AnyChoice(input, 2);
  call.steps = sizes.steps;
  call.batch = sizes.batch;
  if (!IsMissing(input)) call.x = x->data();
  if (!IsMissing(input)) call.y = y.data();
  if (input.Flag()) call.lengths = lengths->data();
  if (input.Flag()) call.h0 = h0->data();
  if (input.Flag()) call.h_n = h_n.data();
  if (shapes.is_lstm() || IsMissing(input)) {
    if (input.Flag()) call.c0 = c0->data();
    if (input.Flag()) call.c_n = c_n.data();
  }
  const bool has_elements = rows > 0;
  const bool is_valid =
      sizes.are_valid && call.struct_size == sizeof call &&
      IsIn(call.time_major, 0, 1) &&
      (!has_elements || (call.x != nullptr && call.y != nullptr)) &&
      (call.lengths == nullptr || lengths_are_valid) &&
      (shapes.is_lstm() || (call.c0 == nullptr && call.c_n == nullptr));
  if (!Succeeds(input, is_valid, [&](rnn_error* error) {
        return rnn_network_run(network, &call, error);
      })) {
    FUZZ_REQUIRE(y.is_untouched() && h_n.is_untouched() && c_n.is_untouched());
    return;
  }
  const int64_t element_bytes = shapes.element_bytes();
  if (call.y != nullptr) {
    FUZZ_REQUIRE(y.is_written(element_bytes));
    RequireZerosBehindEnds(y.values(), call, shapes.y_bytes());
  }
  FUZZ_REQUIRE(call.h_n == nullptr ? h_n.is_untouched()
                                   : h_n.is_written(element_bytes));
  FUZZ_REQUIRE(call.c_n == nullptr ? c_n.is_untouched()
                                   : c_n.is_written(element_bytes));
}

void TellConfig(Input& input, const rnn_network* network,
                const rnn_config& config) {
  EndGuarded<rnn_config> told(1);
  told.FillBytes(kPoison);
  told[0].struct_size = AnyStructSize(input, sizeof config);
  const rnn_config before = told[0];
  if (!Succeeds(input, before.struct_size >= sizeof config,
                [&](rnn_error* error) {
                  return rnn_network_config(network, told.data(), error);
                })) {
    FUZZ_REQUIRE(SameBits(told[0], before));
    return;
  }
  rnn_config expected = config;
  expected.struct_size = before.struct_size;
  if (config.num_proj == config.num_units) expected.num_proj = 0;
  FUZZ_REQUIRE(SameBits(told[0], expected));
}

// ---- Streams ----------------------------------------------------------------

// A stream, and the states that it must have.
class StreamCase {
 public:
  StreamCase(const rnn_network* network, rnn_stream* stream,
             const Shapes& shapes, int64_t batch)
      : network_(network),
        stream_(stream),
        shapes_(shapes),
        batch_(batch),
        h_(batch * shapes.all_h_bytes()),
        c_(batch * shapes.all_c_bytes()) {}

  void Step(Input& input) {
    const auto x = Inputs(input, batch_ * shapes_.x_bytes());
    Outputs y(batch_ * shapes_.y_bytes());
    const bool has_x = !IsMissing(input), has_y = !IsMissing(input);
    if (!Succeeds(input, has_x && has_y, [&](rnn_error* error) {
          return rnn_stream_step(stream_, has_x ? x->data() : nullptr,
                                 has_y ? y.data() : nullptr, error);
        })) {
      FUZZ_REQUIRE(y.is_untouched());
      return;
    }
    Outputs run_y(batch_ * shapes_.y_bytes());
    Outputs h_n(static_cast<int64_t>(h_.size()));
    Outputs c_n(static_cast<int64_t>(c_.size()));
    rnn_call call{};
    call.struct_size = sizeof call;
    call.time_major = 1;
    call.steps = 1;
    call.batch = batch_;
    call.x = x->data();
    call.h0 = h_.data();
    call.y = run_y.data();
    call.h_n = h_n.data();
    if (shapes_.is_lstm()) {
      call.c0 = c_.data();
      call.c_n = c_n.data();
    }
    FUZZ_REQUIRE(rnn_network_run(network_, &call, nullptr) == RNN_OK);
    FUZZ_REQUIRE(y.values() == run_y.values());
    h_ = h_n.values();
    c_ = c_n.values();
  }

  void Reset(Input& input) {
    const bool has_rows = input.Byte() < 200;
    int64_t count = input.Between(0, 4);
    EndGuarded<int64_t> rows(count);
    bool is_valid = true;
    for (int64_t i = 0; i < count; ++i) {
      rows[i] = input.Between(0, batch_ - 1);
      if (IsMissing(input)) {
        rows[i] = input.OneOf({int64_t{-1}, batch_, INT64_MIN, INT64_MAX});
      }
      is_valid = is_valid && IsIn(rows[i], 0, batch_ - 1);
    }
    rows.MakeReadOnly();
    if (IsMissing(input)) {
      count = input.OneOf({int64_t{-1}, INT64_MIN});
      is_valid = false;
    }
    if (!Succeeds(input, is_valid || !has_rows, [&](rnn_error* error) {
          return rnn_stream_reset(stream_, has_rows ? rows.data() : nullptr,
                                  count, error);
        })) {
      return;
    }
    if (!has_rows) {
      std::fill(h_.begin(), h_.end(), 0);
      std::fill(c_.begin(), c_.end(), 0);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      ClearRow(rows[i], shapes_.h_bytes(), h_);
      ClearRow(rows[i], shapes_.c_bytes(), c_);
    }
  }

  void SetState(Input& input) {
    const auto h = Inputs(input, static_cast<int64_t>(h_.size()));
    const auto c = Inputs(input, static_cast<int64_t>(c_.size()));
    const bool has_h = input.Flag();
    const bool has_c = shapes_.is_lstm() ? input.Flag() : IsMissing(input);
    if (!Succeeds(input, !has_c || shapes_.is_lstm(), [&](rnn_error* error) {
          return rnn_stream_set_state(stream_, has_h ? h->data() : nullptr,
                                      has_c ? c->data() : nullptr, error);
        })) {
      return;
    }
    if (has_h) h_ = h->values();
    if (has_c) c_ = c->values();
  }

  // Which are those that they must be.
  void GetState(Input& input) {
    Outputs h(static_cast<int64_t>(h_.size()));
    Outputs c(static_cast<int64_t>(c_.size()));
    const bool has_h = input.Byte() % 8 != 0;
    const bool has_c =
        shapes_.is_lstm() ? input.Byte() % 8 != 0 : IsMissing(input);
    if (!Succeeds(input, !has_c || shapes_.is_lstm(), [&](rnn_error* error) {
          return rnn_stream_get_state(stream_, has_h ? h.data() : nullptr,
                                      has_c ? c.data() : nullptr, error);
        })) {
      FUZZ_REQUIRE(h.is_untouched() && c.is_untouched());
      return;
    }
    FUZZ_REQUIRE(has_h ? h.values() == h_ : h.is_untouched());
    FUZZ_REQUIRE(has_c ? c.values() == c_ : c.is_untouched());
  }

 private:
  void ClearRow(int64_t row, int64_t bytes, Copy& states) const {
    for (int64_t layer = 0; layer < shapes_.d.num_layers; ++layer) {
      const auto begin = states.begin() + (layer * batch_ + row) * bytes;
      std::fill(begin, begin + bytes, 0);
    }
  }

  const rnn_network* const network_;
  rnn_stream* const stream_;
  const Shapes shapes_;
  const int64_t batch_;
  Copy h_, c_;
};

void RunStream(Input& input, const rnn_network* network, const Shapes& shapes) {
  int64_t batch = input.AnySize();
  if (IsIn(batch, kMostRows, INT32_MAX)) batch = 1 + batch % kMostRows;
  const Stream stream = Made<Stream, rnn_stream>(
      input, IsIn(batch, 1, INT32_MAX) && shapes.d.num_directions == 1,
      [&](rnn_stream** handle, rnn_error* error) {
        return rnn_stream_create(network, batch, handle, error);
      });
  if (stream == nullptr) return;
  StreamCase it(network, stream.get(), shapes, batch);
  const int64_t count = input.Between(1, 8);
  for (int64_t i = 0; i < count; ++i) {
    const int kind = input.Byte() % 4;
    if (kind < 2) it.Step(input);
    if (kind == 2) it.Reset(input);
    if (kind == 3) it.SetState(input);
    it.GetState(input);
  }
}

void Run(Input input) {
  rnn_config config = AnyConfig(input);
  const bool is_int8 = input.Byte() % 4 == 0;
  config.int8_weights = IsMissing(input) ? AnyChoice(input, 2) : is_int8;
  if (is_int8 && !IsMissing(input)) config.type = RNN_FLOAT32;
  ParamsLayout layout;
  const bool is_valid = IsValid(config, &layout);
  Guarded<int64_t> size(1);
  if (Succeeds(input, is_valid, [&](rnn_error* error) {
        return rnn_params_size(&config, size.data(), error);
      })) {
    FUZZ_REQUIRE(size[0] == layout.size() && size.intact());
  } else {
    FUZZ_REQUIRE(IsUntouched(size));
  }
  const Network network =
      is_int8 ? AnyNetworkOfInt8(input, config, is_valid)
              : AnyNetworkOfParams(input, config, is_valid ? &layout : nullptr);
  if (network == nullptr) return;
  const Shapes shapes(config);
  const int64_t count = input.Between(1, 4);
  for (int64_t i = 0; i < count; ++i) {
    const int kind = input.Byte() % 8;
    if (kind < 4) Call(input, network.get(), shapes);
    if (kind == 4) TellConfig(input, network.get(), config);
    if (kind > 4) RunStream(input, network.get(), shapes);
  }
}

}  // namespace
}  // namespace fuzz
}  // namespace rnn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rnn::fuzz::Run(rnn::fuzz::Input(data, size));
  return 0;
}
