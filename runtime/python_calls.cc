// The two functions of rnn_runtime.h that a program calls in its loop, as
// functions of Python: what ctypes takes to find the addresses of arrays, and
// to call with them, is more than a small network's step. All others go by
// ctypes. tf_cudnn_rnn/runtime.py calls both, and has checked what it passes.
// Of that the sizes of arrays are seen once more: code of others, which runs
// while an argument is converted, may have resized one that was checked before.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "runtime/python_abi.h"
#include "runtime/rnn_runtime.h"

namespace {

// Grows when the arguments of a function change, so that runtime.py does not
// call those of another version.
constexpr int kVersion = 2;

using ConfigFunction = decltype(&rnn_network_config);
using RunFunction = decltype(&rnn_network_run);
using StepFunction = decltype(&rnn_stream_step);

ConfigFunction network_config;
RunFunction network_run;
StepFunction stream_step;

// The memory of an array, held as long as this is: of None, none.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }

  // False with Python's error set if `array` has no such memory.
  bool Get(PyObject* array, int flags) {
    return array == &_Py_NoneStruct ||
           PyObject_GetBuffer(array, &view_, flags) == 0;
  }

  void* data() const { return view_.buf; }

  // False with Python's error set unless it has so many bytes, or is None.
  bool HasBytes(const char* name, int64_t expected) const {
    if (view_.obj == nullptr || view_.len == expected) return true;
    PyErr_Format(PyExc_ValueError,
                 "`%s` must have %lld bytes, as when the call began; got %zd. "
                 "Do not resize an array that a call uses.",
                 name, static_cast<long long>(expected), view_.len);
    return false;
  }

 private:
  Py_buffer view_ = {};
};

// Calls function() while other threads of Python may run. A daemon thread whose
// program has ended meanwhile does not return, and nothing of it is destroyed.
template <typename Function>
rnn_status WithoutLock(Function function) {
  PyThreadState* const state = PyEval_SaveThread();
  const rnn_status status = function();
  PyEval_RestoreThread(state);
  return status;
}

PyObject* NoneOrRaise(rnn_status status, const rnn_error& error) {
  if (status != RNN_OK) {
    PyErr_SetString(
        status == RNN_OUT_OF_MEMORY ? PyExc_MemoryError : PyExc_ValueError,
        error.message);
    return nullptr;
  }
  Py_IncRef(&_Py_NoneStruct);
  return &_Py_NoneStruct;
}

bool HasCount(const char* function, Py_ssize_t count, Py_ssize_t expected) {
  if (count == expected) return true;
  PyErr_Format(PyExc_TypeError, "%s() must have %zd arguments; got %zd.",
               function, expected, count);
  return false;
}

// What each array of `call` must have, in the order of run(). The products fit:
// arrays of these sizes have been seen.
void ExpectedBytes(const rnn_config& config, const rnn_call& call,
                   int64_t (&bytes)[7]) {
  const int64_t element = config.type == RNN_FLOAT64   ? 8
                          : config.type == RNN_FLOAT32 ? 4
                                                       : 2;
  const int64_t D = config.bidirectional + 1;
  const int64_t H = config.num_units;
  const int64_t P = config.num_proj == 0 ? H : config.num_proj;
  const int64_t row_of_states = config.num_layers * D * call.batch * element;
  const int64_t step = call.steps * call.batch * element;
  const int64_t in_order[] = {step * config.input_size,
                              call.batch * int64_t{sizeof(int32_t)},
                              row_of_states * P,
                              row_of_states * H,
                              step * D * P,
                              row_of_states * P,
                              row_of_states * H};
  std::copy(std::begin(in_order), std::end(in_order), std::begin(bytes));
}

// run(handle, time_major, T, B, x, lengths, h0, c0, y, h_n, c_n)
PyObject* Run(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  constexpr int kNumNumbers = 3;
  constexpr int kNumArrays = 7, kFirstResult = 4;
  if (!HasCount("run", count, 1 + kNumNumbers + kNumArrays)) return nullptr;
  const auto* const network =
      static_cast<const rnn_network*>(PyLong_AsVoidPtr(*arguments++));
  if (network == nullptr && PyErr_Occurred() != nullptr) return nullptr;
  long long numbers[kNumNumbers];
  for (long long& number : numbers) {
    number = PyLong_AsLongLong(*arguments++);
    if (number == -1 && PyErr_Occurred() != nullptr) return nullptr;
  }
  Buffer arrays[kNumArrays];
  for (int i = 0; i < kNumArrays; ++i) {
    const int flags = i < kFirstResult ? PyBUF_SIMPLE : PyBUF_WRITABLE;
    if (!arrays[i].Get(*arguments++, flags)) return nullptr;
  }
  rnn_call call = {};
  call.struct_size = sizeof(call);
  call.time_major = static_cast<int32_t>(numbers[0]);
  call.steps = numbers[1];
  call.batch = numbers[2];
  call.x = arrays[0].data();
  call.lengths = static_cast<const int32_t*>(arrays[1].data());
  call.h0 = arrays[2].data();
  call.c0 = arrays[3].data();
  call.y = arrays[4].data();
  call.h_n = arrays[5].data();
  call.c_n = arrays[6].data();
  rnn_error error;
  rnn_config config = {};
  config.struct_size = sizeof(config);
  if (network_config(network, &config, &error) != RNN_OK) {
    return NoneOrRaise(RNN_INVALID_ARGUMENT, error);
  }
  int64_t bytes[kNumArrays];
  ExpectedBytes(config, call, bytes);
  constexpr const char* kNames[] = {"x", "lengths", "state.h", "state.c",
                                    "y", "h_n",     "c_n"};
  for (int i = 0; i < kNumArrays; ++i) {
    if (!arrays[i].HasBytes(kNames[i], bytes[i])) return nullptr;
  }
  const rnn_status status =
      WithoutLock([&] { return network_run(network, &call, &error); });
  return NoneOrRaise(status, error);
}

// step(handle, bytes of x, bytes of y, x, y)
PyObject* Step(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (!HasCount("step", count, 5)) return nullptr;
  auto* const stream = static_cast<rnn_stream*>(PyLong_AsVoidPtr(arguments[0]));
  if (stream == nullptr && PyErr_Occurred() != nullptr) return nullptr;
  const long long x_bytes = PyLong_AsLongLong(arguments[1]);
  const long long y_bytes = PyLong_AsLongLong(arguments[2]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  Buffer x, y;
  if (!x.Get(arguments[3], PyBUF_SIMPLE) || !x.HasBytes("x", x_bytes) ||
      !y.Get(arguments[4], PyBUF_WRITABLE) || !y.HasBytes("y", y_bytes)) {
    return nullptr;
  }
  rnn_error error;
  const rnn_status status = WithoutLock(
      [&] { return stream_step(stream, x.data(), y.data(), &error); });
  return NoneOrRaise(status, error);
}

template <typename Function>
PyMethodDef MethodDef(const char* name, Function function) {
  return {name,
          reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)),
          METH_FASTCALL, nullptr};
}

PyMethodDef methods[] = {MethodDef("run", &Run), MethodDef("step", &Step)};

}  // namespace

// kVersion.
extern "C" RNN_EXPORT int rnn_python_version(void) { return kVersion; }

// A tuple of `run` and `step`, which call these functions of librnn_runtime.so;
// NULL with Python's error set if there is no memory.
extern "C" RNN_EXPORT PyObject* rnn_python_functions(ConfigFunction config,
                                                     RunFunction run,
                                                     StepFunction step) {
  network_config = config;
  network_run = run;
  stream_step = step;
  PyObject* const functions = PyTuple_New(std::size(methods));
  if (functions == nullptr) return nullptr;
  for (size_t i = 0; i < std::size(methods); ++i) {
    PyObject* const function = PyCFunction_NewEx(&methods[i], nullptr, nullptr);
    // The tuple takes what it is given, and frees it where it fails.
    if (function == nullptr || PyTuple_SetItem(functions, i, function) != 0) {
      Py_DecRef(functions);
      return nullptr;
    }
  }
  return functions;
}
