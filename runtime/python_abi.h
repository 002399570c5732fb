// What is called of Python's stable ABI (PEP 384), declared here: so
// librnn_python.so is built without the headers of any Python, for another
// machine as well, and one of it serves every version of CPython. What is not
// here may be added from https://docs.python.org/3/c-api/stable.html alone.
// Buffers came there with 3.11; those of 3.10 are the same.
#pragma once

#include <cstddef>

extern "C" {

// A test includes Python.h first, and the compiler compares what follows.
#ifndef Py_PYTHON_H

typedef struct _object PyObject;
typedef struct _ts PyThreadState;
typedef std::ptrdiff_t Py_ssize_t;

// The memory of an object, as PyObject_GetBuffer() tells it.
typedef struct {
  void* buf;
  PyObject* obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  char* format;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  Py_ssize_t* suboffsets;
  void* internal;
} Py_buffer;

typedef PyObject* (*PyCFunction)(PyObject* self, PyObject* arguments);
typedef struct {
  const char* ml_name;
  PyCFunction ml_meth;
  int ml_flags;
  const char* ml_doc;
} PyMethodDef;

#define PyBUF_SIMPLE 0
#define PyBUF_WRITABLE 1
// The function is called with (self, PyObject* const*, Py_ssize_t).
#define METH_FASTCALL 0x0080

#endif  // Py_PYTHON_H

int PyObject_GetBuffer(PyObject* exporter, Py_buffer* view, int flags);
void PyBuffer_Release(Py_buffer* view);

PyObject* PyCFunction_NewEx(PyMethodDef* method, PyObject* self,
                            PyObject* module);

PyThreadState* PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState* state);

extern PyObject _Py_NoneStruct;
void Py_IncRef(PyObject* object);
void Py_DecRef(PyObject* object);
PyObject* PyTuple_New(Py_ssize_t size);
int PyTuple_SetItem(PyObject* tuple, Py_ssize_t position, PyObject* item);

void* PyLong_AsVoidPtr(PyObject* object);
long long PyLong_AsLongLong(PyObject* object);

extern PyObject* PyExc_MemoryError;
extern PyObject* PyExc_TypeError;
extern PyObject* PyExc_ValueError;
PyObject* PyErr_Occurred(void);
void PyErr_SetString(PyObject* type, const char* message);
PyObject* PyErr_Format(PyObject* type, const char* format, ...);

}  // extern "C"
