#include "fail.h"

#include <stdarg.h>
#include <stdio.h>

bool Fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("serve: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  return false;
}

bool Succeeded(const TF_Status* status, const char* doing, ...) {
  if (TF_GetCode(status) == TF_OK) return true;
  va_list arguments;
  va_start(arguments, doing);
  fputs("serve: ", stderr);
  vfprintf(stderr, doing, arguments);
  fprintf(stderr, ": %s\n", TF_Message(status));
  va_end(arguments);
  return false;
}
