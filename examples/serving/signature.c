#include "signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

// Field numbers of tensorflow/core/protobuf/meta_graph.proto.
enum {
  kMetaGraphSignatures = 5,  // map<string, SignatureDef>
  kTensorInfoName = 1,
  kTensorInfoType = 2,
  kMapKey = 1,
  kMapValue = 2,
};

static const Bytes kEmpty = {(const uint8_t*)"", 0};

// ----------------------------------------------------------------------------
// Protocol buffers: a message is a series of fields, each a number and a value
// ----------------------------------------------------------------------------

typedef struct {
  uint32_t number;
  uint64_t integer;  // of an integer or enum; else 0
  Bytes bytes;       // of a string or message; else empty
} Field;

static bool TakeBytes(Bytes* message, uint64_t size, Bytes* taken) {
  if (size > message->size) return false;
  *taken = (Bytes){message->data, size};
  message->data += size;
  message->size -= size;
  return true;
}

static bool TakeVarint(Bytes* message, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    Bytes byte;
    if (!TakeBytes(message, 1, &byte)) return false;
    *value |= (uint64_t)(*byte.data & 0x7f) << shift;
    if (*byte.data < 0x80) return true;
  }
  return false;
}

// Takes the next field from the front of `message`; false at its end.
static bool NextField(Bytes* message, Field* field) {
  enum { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };
  uint64_t key, size;
  if (!TakeVarint(message, &key)) return false;
  *field = (Field){(uint32_t)(key >> 3), 0, kEmpty};
  switch (key & 7) {
    case kVarint:
      return TakeVarint(message, &field->integer);
    case kFixed64:
      return TakeBytes(message, 8, &field->bytes);
    case kLengthDelimited:
      return TakeVarint(message, &size) &&
             TakeBytes(message, size, &field->bytes);
    case kFixed32:
      return TakeBytes(message, 4, &field->bytes);
    default:
      return false;
  }
}

// Takes the next entry of the map that is field `number` of `message`.
static bool NextMapEntry(Bytes* message, uint32_t number, Bytes* key,
                         Bytes* value) {
  Field field;
  while (NextField(message, &field)) {
    if (field.number != number) continue;
    *key = *value = kEmpty;
    for (Field part; NextField(&field.bytes, &part);) {
      if (part.number == kMapKey) *key = part.bytes;
      if (part.number == kMapValue) *value = part.bytes;
    }
    return true;
  }
  return false;
}

// ----------------------------------------------------------------------------

bool Equals(Bytes bytes, const char* text) {
  return bytes.size == strlen(text) &&
         memcmp(bytes.data, text, bytes.size) == 0;
}

bool FindSignature(const TF_Buffer* meta_graph, const char* name,
                   Bytes* signature) {
  const Bytes all = {meta_graph->data, meta_graph->length};
  Bytes key;
  for (Bytes left = all;
       NextMapEntry(&left, kMetaGraphSignatures, &key, signature);) {
    if (Equals(key, name)) return true;
  }
  Fail("the SavedModel has no signature '%s'; it has:", name);
  for (Bytes left = all;
       NextMapEntry(&left, kMetaGraphSignatures, &key, signature);) {
    fprintf(stderr, "  %.*s\n", TEXT(key));
  }
  return false;
}

bool NextTensor(Bytes* signature, Side side, TensorInfo* tensor) {
  Bytes info;
  if (!NextMapEntry(signature, side, &tensor->name, &info)) return false;
  tensor->tensor = kEmpty;
  tensor->type = (TF_DataType)0;
  for (Field field; NextField(&info, &field);) {
    if (field.number == kTensorInfoName) tensor->tensor = field.bytes;
    if (field.number == kTensorInfoType) {
      tensor->type = (TF_DataType)field.integer;
    }
  }
  return true;
}

bool FindInGraph(TF_Graph* graph, const TensorInfo* tensor, TF_Output* output) {
  // "operation:index" becomes two strings.
  char* operation =
      strndup((const char*)tensor->tensor.data, tensor->tensor.size);
  if (operation == NULL) return Fail("out of memory");
  char* colon = strrchr(operation, ':');
  if (colon != NULL) *colon = '\0';
  output->oper = TF_GraphOperationByName(graph, operation);
  output->index = colon != NULL ? atoi(colon + 1) : 0;
  free(operation);
  return output->oper != NULL ||
         Fail("the graph has no tensor '%.*s', which the signature names",
              TEXT(tensor->tensor));
}
