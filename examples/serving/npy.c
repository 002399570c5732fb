#include "npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

// The format is little-endian, and so are the machines that TensorFlow has
// wheels for: values are copied as they are.
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "This program is for little-endian machines."
#endif

enum { kMaxRank = 8, kPreambleSize = 10, kMaxHeaderSize = 65535 };

static const char kMagic[] = "\x93NUMPY";

typedef struct {
  TF_DataType type;
  const char* name;
  const char* code;  // in the file's header
} Type;

static const Type kTypes[] = {
    {TF_FLOAT, "float32", "<f4"}, {TF_DOUBLE, "float64", "<f8"},
    {TF_INT32, "int32", "<i4"},   {TF_INT64, "int64", "<i8"},
    {TF_BOOL, "bool", "|b1"},
};
static const size_t kNumTypes = sizeof(kTypes) / sizeof(kTypes[0]);

static const Type* FindType(TF_DataType type) {
  for (size_t i = 0; i < kNumTypes; ++i) {
    if (kTypes[i].type == type) return &kTypes[i];
  }
  return NULL;
}

const char* TypeName(TF_DataType type) {
  const Type* found = FindType(type);
  if (found != NULL) return found->name;
  static _Thread_local char number[32];
  snprintf(number, sizeof(number), "type %d", (int)type);
  return number;
}

// ----------------------------------------------------------------------------
// Reading
// ----------------------------------------------------------------------------

// The value that follows 'key': in a header such as
// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
static const char* FindValue(const char* header, const char* key) {
  const char* found = strstr(header, key);
  if (found == NULL) return NULL;
  found += strlen(key);
  return found + strspn(found, " ");
}

static bool ParseShape(const char* text, int64_t* dims, int* rank) {
  if (text == NULL || *text++ != '(') return false;
  for (*rank = 0; *rank < kMaxRank; ++*rank) {
    text += strspn(text, " ,");
    if (*text == ')') return true;
    char* end = NULL;
    errno = 0;
    dims[*rank] = strtoll(text, &end, 10);
    if (end == text || errno != 0 || dims[*rank] < 0) return false;
    text = end;
  }
  return *text == ')';
}

// The size in bytes, or false if that overflows.
static bool Size(const Type* type, const int64_t* dims, int rank,
                 size_t* size) {
  *size = TF_DataTypeSize(type->type);
  for (int i = 0; i < rank; ++i) {
    if (__builtin_mul_overflow(*size, (uint64_t)dims[i], size)) return false;
  }
  return true;
}

static bool ParseHeader(const char* path, const char* header, const Type** type,
                        int64_t* dims, int* rank) {
  const char* code = FindValue(header, "'descr':");
  *type = NULL;
  for (size_t i = 0; code != NULL && i < kNumTypes; ++i) {
    const size_t length = strlen(kTypes[i].code);
    if (strncmp(code + 1, kTypes[i].code, length) == 0 &&
        code[length + 1] == '\'') {
      *type = &kTypes[i];
    }
  }
  if (*type == NULL) {
    return Fail(
        "%s must hold float32, float64, int32, int64 or bool; its header is %s",
        path, header);
  }
  const char* fortran_order = FindValue(header, "'fortran_order':");
  if (fortran_order == NULL || strncmp(fortran_order, "False", 5) != 0) {
    return Fail("%s must be in C order (numpy.ascontiguousarray)", path);
  }
  if (!ParseShape(FindValue(header, "'shape':"), dims, rank)) {
    return Fail(
        "%s must have a shape of at most %d dimensions; its header "
        "is %s",
        path, kMaxRank, header);
  }
  return true;
}

static TF_Tensor* ReadOpenNpy(const char* path, FILE* file) {
  unsigned char preamble[kPreambleSize];
  const bool is_npy =
      fread(preamble, 1, kPreambleSize, file) == kPreambleSize &&
      memcmp(preamble, kMagic, strlen(kMagic)) == 0;
  if (!is_npy || preamble[6] != 1) {
    Fail("%s must be a .npy file, version 1.0", path);
    return NULL;
  }
  char header[kMaxHeaderSize + 1];
  const size_t header_size = preamble[8] + 256u * preamble[9];
  if (fread(header, 1, header_size, file) != header_size) {
    Fail("%s ends within its header", path);
    return NULL;
  }
  header[header_size] = '\0';
  header[strcspn(header, "\n")] = '\0';

  const Type* type;
  int64_t dims[kMaxRank];
  int rank = 0;
  size_t size;
  if (!ParseHeader(path, header, &type, dims, &rank)) return NULL;
  TF_Tensor* tensor = Size(type, dims, rank, &size)
                          ? TF_AllocateTensor(type->type, dims, rank, size)
                          : NULL;
  if (tensor == NULL) {
    Fail("%s needs more memory than there is; its header is %s", path, header);
    return NULL;
  }
  const size_t num_read = fread(TF_TensorData(tensor), 1, size, file);
  if (num_read != size || fgetc(file) != EOF) {
    Fail("%s must hold %zu bytes of values after its header; it holds %s", path,
         size, num_read < size ? "less" : "more");
    TF_DeleteTensor(tensor);
    return NULL;
  }
  return tensor;
}

TF_Tensor* ReadNpy(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) {
    Fail("cannot open %s: %s", path, strerror(errno));
    return NULL;
  }
  TF_Tensor* tensor = ReadOpenNpy(path, file);
  fclose(file);
  return tensor;
}

// ----------------------------------------------------------------------------
// Writing
// ----------------------------------------------------------------------------

static bool Supports(const TF_Tensor* tensor) {
  if (FindType(TF_TensorType(tensor)) == NULL) {
    return Fail(
        "an output must be float32, float64, int32, int64 or bool; got "
        "TensorFlow's %s. Cast it in the model",
        TypeName(TF_TensorType(tensor)));
  }
  if (TF_NumDims(tensor) > kMaxRank) {
    return Fail("an output must have at most %d dimensions; got %d", kMaxRank,
                TF_NumDims(tensor));
  }
  return true;
}

bool WriteNpy(const char* path, const TF_Tensor* tensor) {
  if (!Supports(tensor)) return false;
  // Room for kMaxRank numbers; the values begin at a multiple of 64.
  char header[256 - kPreambleSize + 1];
  int length = snprintf(header, sizeof(header),
                        "{'descr': '%s', 'fortran_order': False, 'shape': (",
                        FindType(TF_TensorType(tensor))->code);
  for (int i = 0; i < TF_NumDims(tensor); ++i) {
    length += snprintf(header + length, sizeof(header) - length, "%" PRId64 ",",
                       TF_Dim(tensor, i));
  }
  length += snprintf(header + length, sizeof(header) - length, "), }");
  const int header_size =
      (kPreambleSize + length + 1 + 63) / 64 * 64 - kPreambleSize;
  memset(header + length, ' ', header_size - length - 1);
  header[header_size - 1] = '\n';

  FILE* file = fopen(path, "wb");
  if (file == NULL) return Fail("cannot write %s: %s", path, strerror(errno));
  const unsigned char version_and_size[] = {1, 0, (unsigned char)header_size,
                                            0};
  const size_t size = TF_TensorByteSize(tensor);
  bool written = fwrite(kMagic, 1, strlen(kMagic), file) == strlen(kMagic);
  written = written && fwrite(version_and_size, 1, 4, file) == 4;
  written =
      written && fwrite(header, 1, header_size, file) == (size_t)header_size;
  written = written && fwrite(TF_TensorData(tensor), 1, size, file) == size;
  written = (fclose(file) == 0) && written;
  return written || Fail("cannot write %s: %s", path, strerror(errno));
}

static void PrintValue(TF_DataType type, const void* values, int64_t i) {
  switch (type) {
    case TF_FLOAT:
      printf("%.9g", ((const float*)values)[i]);
      break;
    case TF_DOUBLE:
      printf("%.17g", ((const double*)values)[i]);
      break;
    case TF_INT32:
      printf("%" PRId32, ((const int32_t*)values)[i]);
      break;
    case TF_INT64:
      printf("%" PRId64, ((const int64_t*)values)[i]);
      break;
    default:
      fputs(((const bool*)values)[i] ? "true" : "false", stdout);
  }
}

bool PrintValues(const TF_Tensor* tensor) {
  if (!Supports(tensor)) return false;
  const int rank = TF_NumDims(tensor);
  const int64_t num_values = TF_TensorElementCount(tensor);
  const int64_t row = rank == 0 ? 1 : TF_Dim(tensor, rank - 1);
  for (int64_t i = 0; i < num_values; ++i) {
    PrintValue(TF_TensorType(tensor), TF_TensorData(tensor), i);
    putchar((i + 1) % row == 0 ? '\n' : ' ');
  }
  return true;
}
