// The interface in C: checks arguments, and turns statuses and exceptions into
// codes and messages.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "kernels/engine/engine.h"
#include "kernels/engine/simd/instruction_set.h"
#include "network/descriptor.h"
#include "network/params_layout.h"
#include "network/shared_memory.h"
#include "network/sizes.h"
#include "network/status.h"
#include "runtime/network.h"
#include "runtime/rnn_runtime.h"
#include "runtime/stream.h"
#include "runtime/weights_file.h"

struct rnn_network {
  std::shared_ptr<const rnn_runtime::Network> network;  // streams share it
};

struct rnn_stream {
  std::unique_ptr<rnn_runtime::Stream> stream;
  mutable std::atomic<bool> is_in_use{false};
};

namespace {

using ::rnn::Status;
using ::rnn_runtime::Network;
using ::rnn_runtime::Stream;
using ::rnn_runtime::WeightsFile;

// Enumerations of both sides are equal.
static_assert(static_cast<int>(rnn::CellMode::kRelu) == RNN_MODE_RELU);
static_assert(static_cast<int>(rnn::CellMode::kTanh) == RNN_MODE_TANH);
static_assert(static_cast<int>(rnn::CellMode::kLstm) == RNN_MODE_LSTM);
static_assert(static_cast<int>(rnn::CellMode::kGru) == RNN_MODE_GRU);
static_assert(static_cast<int>(rnn::ElementType::kFloat) == RNN_FLOAT32);
static_assert(static_cast<int>(rnn::ElementType::kDouble) == RNN_FLOAT64);
static_assert(static_cast<int>(rnn::ElementType::kHalf) == RNN_FLOAT16);
static_assert(static_cast<int>(rnn::ElementType::kBFloat16) == RNN_BFLOAT16);

rnn_status Fail(rnn_status status, const char* message, rnn_error* error) {
  if (error != nullptr) {
    std::snprintf(error->message, sizeof(error->message), "%s", message);
  }
  return status;
}

rnn_status Told(const Status& status, rnn_error* error) {
  if (status.ok()) return RNN_OK;
  return Fail(status.code() == rnn::StatusCode::kResourceExhausted
                  ? RNN_OUT_OF_MEMORY
                  : RNN_INVALID_ARGUMENT,
              status.message().c_str(), error);
}

// Calls run(), which returns a status of either kind. No exception of ours or
// of the standard library goes further. (How a thread is cancelled must.)
template <typename Run>
rnn_status Guarded(rnn_error* error, const Run& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return Fail(RNN_OUT_OF_MEMORY,
                "There is not enough memory for this call: free some, or give "
                "it a smaller network, or fewer rows or steps.",
                error);
  } catch (const std::exception& exception) {
    char message[sizeof(rnn_error::message)];
    std::snprintf(message, sizeof message, "Unexpected error: %s",
                  exception.what());
    return Fail(RNN_INVALID_ARGUMENT, message, error);
  }
}

// Outside of Guarded(), too: it asks for no memory.
rnn_status IsNull(const char* name, rnn_error* error) {
  char message[64];
  std::snprintf(message, sizeof message, "%s must not be NULL.", name);
  return Fail(RNN_INVALID_ARGUMENT, message, error);
}

Status CheckStructSize(const char* name, uint32_t size, size_t expected) {
  if (size >= expected) return Status();
  return Status::InvalidArgument(
      std::string(name) + "->struct_size must be sizeof(" + name + "), " +
      std::to_string(expected) + ", got " + std::to_string(size) + ".");
}

// Checks what the caller has set of a struct that begins with struct_size, of
// which the library knows `known` bytes. A larger one is of a later version:
// what this library does not know must not be in use.
Status CheckStruct(const char* name, const uint32_t* struct_size,
                   size_t known) {
  constexpr uint32_t kMostStructBytes = 4096;
  const uint32_t size = *struct_size;
  if (Status s = CheckStructSize(name, size, known); !s.ok()) return s;
  const char* const begin = reinterpret_cast<const char*>(struct_size);
  const auto is_zero = [](char byte) { return byte == 0; };
  if (size <= kMostStructBytes &&
      std::all_of(begin + known, begin + size, is_zero)) {
    return Status();
  }
  return Status::InvalidArgument(
      std::string(name) + " of struct_size " + std::to_string(size) +
      " must be zero from byte " + std::to_string(known) +
      " on, and have at most " + std::to_string(kMostStructBytes) +
      " bytes: version " + std::to_string(RNN_ABI_VERSION) +
      " of the library knows no such fields.");
}

Status CheckInRange(const char* name, int64_t value, int64_t least,
                    int64_t most) {
  if (value >= least && value <= most) return Status();
  return Status::InvalidArgument(
      std::string(name) + " must be in [" + std::to_string(least) + ", " +
      std::to_string(most) + "], got " + std::to_string(value) + ".");
}

Status ReadConfig(const rnn_config& config, rnn::RnnDescriptor* descriptor,
                  rnn::ElementType* type) {
  // Of a smaller struct no other field may be read.
  if (Status s = CheckStruct("rnn_config", &config.struct_size, sizeof(config));
      !s.ok()) {
    return s;
  }
  for (const Status& status : {
           CheckInRange("mode", config.mode, RNN_MODE_RELU, RNN_MODE_GRU),
           CheckInRange("type", config.type, RNN_FLOAT32, RNN_BFLOAT16),
           CheckInRange("bidirectional", config.bidirectional, 0, 1),
           CheckInRange("skip_input", config.skip_input, 0, 1),
           CheckInRange("int8_weights", config.int8_weights, 0, 1),
       }) {
    if (!status.ok()) return status;
  }
  descriptor->mode = static_cast<rnn::CellMode>(config.mode);
  descriptor->num_layers = config.num_layers;
  descriptor->num_directions = config.bidirectional + 1;
  descriptor->input_size = config.input_size;
  descriptor->hidden_size = config.num_units;
  descriptor->num_proj = config.num_proj;
  descriptor->skip_input = config.skip_input != 0;
  *type = static_cast<rnn::ElementType>(config.type);
  return Status();
}

// The largest numbers of steps and rows.
constexpr int64_t kMost = INT32_MAX;

std::string ShapeString(int64_t a, int64_t b, int64_t c) {
  return "[" + std::to_string(a) + ", " + std::to_string(b) + ", " +
         std::to_string(c) + "]";
}

// Whether a tensor of these sizes can be there.
Status CheckSize(const char* name, int64_t a, int64_t b, int64_t c,
                 int64_t element_bytes) {
  int64_t bytes;
  if (!__builtin_mul_overflow(a, b, &bytes) &&
      !__builtin_mul_overflow(bytes, c, &bytes) &&
      !__builtin_mul_overflow(bytes, element_bytes, &bytes) &&
      bytes <= rnn::kMaxTensorSize) {
    return Status();
  }
  return Status::InvalidArgument(
      std::string(name) + " must have at most " +
      std::to_string(rnn::kMaxTensorSize) + " bytes, got the shape " +
      ShapeString(a, b, c) + " with " + std::to_string(element_bytes) +
      " bytes for each element.");
}

// Whether a tensor of these sizes can be there; and that it is, if it has
// elements.
Status CheckTensor(const char* name, const void* data, int64_t a, int64_t b,
                   int64_t c, int64_t element_bytes) {
  if (Status s = CheckSize(name, a, b, c, element_bytes); !s.ok()) return s;
  if (data != nullptr || a == 0 || b == 0) return Status();
  return Status::InvalidArgument(std::string(name) +
                                 " must not be NULL: it has the shape " +
                                 ShapeString(a, b, c) + ".");
}

// Whether sizes of states fit into 64 bits, the caller's or ours.
Status CheckStates(const Network& network, int64_t batch) {
  const rnn::RnnDescriptor& d = network.descriptor();
  if (Status s = CheckSize("h", d.num_pseudo_layers(), batch, d.output_size(),
                           network.element_bytes());
      !s.ok()) {
    return s;
  }
  return CheckSize("c", d.num_pseudo_layers(), batch,
                   network.is_lstm() ? d.hidden_size : 0,
                   network.element_bytes());
}

Status CheckCall(const Network& network, const rnn_call& call) {
  const rnn::RnnDescriptor& d = network.descriptor();
  if (Status s = CheckStruct("rnn_call", &call.struct_size, sizeof(call));
      !s.ok()) {
    return s;
  }
  for (const Status& status : {
           CheckInRange("time_major", call.time_major, 0, 1),
           CheckInRange("steps", call.steps, 0, kMost),
           CheckInRange("batch", call.batch, 0, kMost),
       }) {
    if (!status.ok()) return status;
  }
  const int64_t outer = call.time_major ? call.steps : call.batch;
  const int64_t inner = call.time_major ? call.batch : call.steps;
  for (const Status& status : {
           CheckTensor("x", call.x, outer, inner, d.input_size,
                       network.element_bytes()),
           CheckTensor("y", call.y, outer, inner, d.layer_output_size(),
                       network.element_bytes()),
           CheckStates(network, call.batch),
       }) {
    if (!status.ok()) return status;
  }
  if (!network.is_lstm() && (call.c0 != nullptr || call.c_n != nullptr)) {
    return Status::InvalidArgument(
        "c0 and c_n must be NULL: only an LSTM has cell states.");
  }
  return Status();
}

// Of a configuration that ReadConfig() took.
Status CheckIsOfInt8(const rnn_config& config) {
  if (config.int8_weights == 1 && config.type == RNN_FLOAT32) return Status();
  return Status::InvalidArgument(
      "A network of int8 weights must have int8_weights = 1 and type = "
      "RNN_FLOAT32 (0), the type of its tensors, got int8_weights = " +
      std::to_string(config.int8_weights) +
      " and type = " + std::to_string(config.type) +
      "; rnn_network_create() makes one of params.");
}

Status CheckVariables() {
  std::string fault = rnn::SimdTargetVariableFault();
  if (fault.empty()) fault = rnn::MachineVariableFault();
  return fault.empty() ? Status() : Status::InvalidArgument(std::move(fault));
}

// Calls use(stream) as Guarded() does, unless another thread is in such a call:
// both would write the stream's states, and its scratch memory.
template <typename Use>
rnn_status UseStream(const rnn_stream& handle, rnn_error* error,
                     const Use& use) {
  if (handle.is_in_use.exchange(true, std::memory_order_acquire)) {
    return Fail(RNN_INVALID_ARGUMENT,
                "stream must not be used by two threads at the same time; make "
                "one for each, they share the network.",
                error);
  }
  struct Release {  // at the end of a thread that is cancelled, too
    ~Release() { is_in_use.store(false, std::memory_order_release); }
    std::atomic<bool>& is_in_use;
  } const release{handle.is_in_use};
  return Guarded(error, [&] { return use(*handle.stream); });
}

Status CheckCellState(const Stream& stream, const void* c) {
  if (c == nullptr || stream.network().is_lstm()) return Status();
  return Status::InvalidArgument(
      "c must be NULL: only an LSTM has cell states.");
}

// create(&network) makes the network.
template <typename Create>
rnn_status MakeNetwork(rnn_network** handle, rnn_error* error,
                       const Create& create) {
  std::unique_ptr<Network> network;
  Status status = CheckVariables();
  if (status.ok()) status = create(&network);
  if (!status.ok()) return Told(status, error);
  *handle = new rnn_network{std::move(network)};
  return RNN_OK;
}

}  // namespace

uint32_t rnn_abi_version(void) { return RNN_ABI_VERSION; }

rnn_status rnn_instruction_set(const char** name, rnn_error* error) {
  if (name == nullptr) return IsNull("name", error);
  return Guarded(error, [&] {
    const Status status = CheckVariables();
    if (status.ok()) *name = rnn::SelectedSimdTargetName();
    return Told(status, error);
  });
}

rnn_status rnn_params_size(const rnn_config* config, int64_t* size,
                           rnn_error* error) {
  if (config == nullptr) return IsNull("config", error);
  if (size == nullptr) return IsNull("size", error);
  return Guarded(error, [&] {
    rnn::RnnDescriptor descriptor;
    rnn::ElementType type;
    rnn::ParamsLayout layout;
    Status status = ReadConfig(*config, &descriptor, &type);
    if (status.ok()) status = rnn::ParamsLayout::Create(descriptor, &layout);
    if (status.ok()) *size = layout.size();
    return Told(status, error);
  });
}

rnn_status rnn_network_create(const rnn_config* config, const void* params,
                              int64_t num_params, int32_t num_threads,
                              rnn_network** network, rnn_error* error) {
  if (config == nullptr) return IsNull("config", error);
  if (params == nullptr) return IsNull("params", error);
  if (network == nullptr) return IsNull("network", error);
  return Guarded(error, [&] {
    rnn::RnnDescriptor descriptor;
    rnn::ElementType type;
    const Status status = ReadConfig(*config, &descriptor, &type);
    if (!status.ok()) return Told(status, error);
    if (config->int8_weights != 0) {
      return Fail(RNN_INVALID_ARGUMENT,
                  "int8_weights must be 0 for a network of params; "
                  "rnn_network_create_int8() makes one of int8 weights.",
                  error);
    }
    return MakeNetwork(network, error, [&](std::unique_ptr<Network>* made) {
      return Network::Create(descriptor, type, params, num_params, num_threads,
                             made);
    });
  });
}

rnn_status rnn_network_create_int8(const rnn_config* config,
                                   const rnn_int8_weights* weights,
                                   int32_t num_threads, rnn_network** network,
                                   rnn_error* error) {
  if (config == nullptr) return IsNull("config", error);
  if (weights == nullptr) return IsNull("weights", error);
  if (network == nullptr) return IsNull("network", error);
  return Guarded(error, [&] {
    rnn::RnnDescriptor descriptor;
    rnn::ElementType type;
    Status status = ReadConfig(*config, &descriptor, &type);
    if (status.ok()) status = CheckIsOfInt8(*config);
    if (status.ok()) {
      status = CheckStruct("rnn_int8_weights", &weights->struct_size,
                           sizeof(*weights));
    }
    if (status.ok()) status = CheckInRange("reserved", weights->reserved, 0, 0);
    if (!status.ok()) return Told(status, error);
    if (weights->weights == nullptr) return IsNull("weights->weights", error);
    if (weights->scales == nullptr) return IsNull("weights->scales", error);
    if (weights->biases == nullptr) return IsNull("weights->biases", error);
    rnn_runtime::Int8Data data;
    data.values = weights->weights;
    data.num_values = weights->num_weights;
    data.scales = weights->scales;
    data.num_scales = weights->num_scales;
    data.biases = weights->biases;
    data.num_biases = weights->num_biases;
    return MakeNetwork(network, error, [&](std::unique_ptr<Network>* made) {
      return Network::CreateInt8(descriptor, data, num_threads, made);
    });
  });
}

rnn_status rnn_network_load(const char* path, int32_t num_threads,
                            rnn_network** network, rnn_error* error) {
  if (path == nullptr) return IsNull("path", error);
  if (network == nullptr) return IsNull("network", error);
  return Guarded(error, [&] {
    WeightsFile file;
    if (const std::string fault = rnn_runtime::ReadWeightsFile(path, &file);
        !fault.empty()) {
      return Fail(RNN_BAD_FILE, fault.c_str(), error);
    }
    return MakeNetwork(network, error, [&](std::unique_ptr<Network>* made) {
      return file.is_int8
                 ? Network::CreateInt8(file.descriptor, file.Int8(),
                                       num_threads, made)
                 : Network::Create(file.descriptor, file.type, file.data.data(),
                                   file.num_params, num_threads, made);
    });
  });
}

rnn_status rnn_network_config(const rnn_network* network, rnn_config* config,
                              rnn_error* error) {
  if (network == nullptr) return IsNull("network", error);
  if (config == nullptr) return IsNull("config", error);
  return Guarded(error, [&] {
    const Status status =
        CheckStructSize("rnn_config", config->struct_size, sizeof(*config));
    if (!status.ok()) return Told(status, error);
    const rnn::RnnDescriptor& d = network->network->descriptor();
    rnn_config values = {};
    values.struct_size = config->struct_size;
    values.mode = static_cast<int32_t>(d.mode);
    values.type = static_cast<int32_t>(network->network->type());
    values.bidirectional = static_cast<int32_t>(d.num_directions - 1);
    values.skip_input = d.skip_input;
    values.int8_weights = network->network->has_int8_weights();
    values.num_layers = d.num_layers;
    values.num_units = d.hidden_size;
    values.input_size = d.input_size;
    values.num_proj = d.has_projection() ? d.num_proj : 0;
    *config = values;
    return RNN_OK;
  });
}

rnn_status rnn_network_params(const rnn_network* network, const void** params,
                              int64_t* num_params, rnn_error* error) {
  if (network == nullptr) return IsNull("network", error);
  if (params == nullptr) return IsNull("params", error);
  if (num_params == nullptr) return IsNull("num_params", error);
  if (network->network->has_int8_weights()) {
    return Fail(RNN_INVALID_ARGUMENT,
                "network must not have int8 weights; "
                "rnn_network_int8_weights() gives them.",
                error);
  }
  *params = network->network->params();
  *num_params = network->network->num_params();
  return RNN_OK;
}

rnn_status rnn_network_int8_weights(const rnn_network* network,
                                    rnn_int8_weights* weights,
                                    rnn_error* error) {
  if (network == nullptr) return IsNull("network", error);
  if (weights == nullptr) return IsNull("weights", error);
  return Guarded(error, [&] {
    const Status status = CheckStructSize(
        "rnn_int8_weights", weights->struct_size, sizeof(*weights));
    if (!status.ok()) return Told(status, error);
    if (!network->network->has_int8_weights()) {
      return Fail(RNN_INVALID_ARGUMENT,
                  "network must have int8 weights; rnn_network_params() gives "
                  "those of others.",
                  error);
    }
    const rnn_runtime::Int8Data data = network->network->int8();
    weights->reserved = 0;
    weights->weights = static_cast<const int8_t*>(data.values);
    weights->num_weights = data.num_values;
    weights->scales = static_cast<const float*>(data.scales);
    weights->num_scales = data.num_scales;
    weights->biases = static_cast<const float*>(data.biases);
    weights->num_biases = data.num_biases;
    return RNN_OK;
  });
}

void rnn_network_free(rnn_network* network) { delete network; }

rnn_status rnn_network_run(const rnn_network* network, const rnn_call* call,
                           rnn_error* error) {
  if (network == nullptr) return IsNull("network", error);
  if (call == nullptr) return IsNull("call", error);
  return Guarded(error, [&] {
    const Status status = CheckCall(*network->network, *call);
    if (!status.ok()) return Told(status, error);
    rnn_runtime::CallData data;
    data.steps = call->steps;
    data.batch = call->batch;
    data.time_major = call->time_major != 0;
    data.x = call->x;
    data.lengths = call->lengths;
    data.h0 = call->h0;
    data.c0 = call->c0;
    data.y = call->y;
    data.h_n = call->h_n;
    data.c_n = call->c_n;
    return Told(network->network->Run(data), error);
  });
}

rnn_status rnn_stream_create(const rnn_network* network, int64_t batch,
                             rnn_stream** stream, rnn_error* error) {
  if (network == nullptr) return IsNull("network", error);
  if (stream == nullptr) return IsNull("stream", error);
  return Guarded(error, [&] {
    std::unique_ptr<Stream> made;
    Status status = CheckInRange("batch", batch, 1, kMost);
    if (status.ok()) status = CheckStates(*network->network, batch);
    if (status.ok()) status = Stream::Create(network->network, batch, &made);
    if (!status.ok()) return Told(status, error);
    auto handle = std::make_unique<rnn_stream>();
    handle->stream = std::move(made);
    *stream = handle.release();
    return RNN_OK;
  });
}

rnn_status rnn_stream_step(rnn_stream* stream, const void* x, void* y,
                           rnn_error* error) {
  if (stream == nullptr) return IsNull("stream", error);
  if (x == nullptr) return IsNull("x", error);
  if (y == nullptr) return IsNull("y", error);
  return UseStream(*stream, error, [&](Stream& used) {
    used.Step(x, y);
    return RNN_OK;
  });
}

rnn_status rnn_stream_reset(rnn_stream* stream, const int64_t* rows,
                            int64_t num_rows, rnn_error* error) {
  if (stream == nullptr) return IsNull("stream", error);
  return UseStream(*stream, error, [&](Stream& used) {
    if (rows == nullptr) {
      used.Reset();
      return RNN_OK;
    }
    if (const Status s = CheckInRange("num_rows", num_rows, 0, kMost);
        !s.ok()) {
      return Told(s, error);
    }
    // Others may write them meanwhile.
    std::vector<int64_t> checked(num_rows);
    rnn::CopyOnce(rows, num_rows, checked.data());
    for (int64_t i = 0; i < num_rows; ++i) {
      const std::string name = "rows[" + std::to_string(i) + "]";
      const Status status =
          CheckInRange(name.c_str(), checked[i], 0, used.batch() - 1);
      if (!status.ok()) return Told(status, error);
    }
    for (const int64_t row : checked) used.ResetRow(row);
    return RNN_OK;
  });
}

rnn_status rnn_stream_get_state(const rnn_stream* stream, void* h, void* c,
                                rnn_error* error) {
  if (stream == nullptr) return IsNull("stream", error);
  return UseStream(*stream, error, [&](Stream& used) {
    const Status status = CheckCellState(used, c);
    if (status.ok()) used.GetState(h, c);
    return Told(status, error);
  });
}

rnn_status rnn_stream_set_state(rnn_stream* stream, const void* h,
                                const void* c, rnn_error* error) {
  if (stream == nullptr) return IsNull("stream", error);
  return UseStream(*stream, error, [&](Stream& used) {
    const Status status = CheckCellState(used, c);
    if (status.ok()) used.SetState(h, c);
    return Told(status, error);
  });
}

void rnn_stream_free(rnn_stream* stream) { delete stream; }
