// Reading memory that somebody else may write meanwhile: a tensor's is also
// that of a reference variable, or of the program that lent it (DLPack).
//
// What a decision rests on is read once, by these functions, and both the
// decision and what follows from it see that copy alone. Numbers that are only
// computed with need none of this: they come out wrong, and nothing else.
#ifndef NETWORK_SHARED_MEMORY_H_
#define NETWORK_SHARED_MEMORY_H_

#include <cstdint>

namespace rnn {

// Value is an element type or an integer. The compiler may not read again what
// was read atomically.
template <typename Value>
Value ReadOnce(const Value* source) {
  Value value;
  __atomic_load(source, &value, __ATOMIC_RELAXED);
  return value;
}

template <typename Value>
void CopyOnce(const Value* source, int64_t count, Value* copy) {
  for (int64_t i = 0; i < count; ++i) copy[i] = ReadOnce(source + i);
}

}  // namespace rnn

#endif  // NETWORK_SHARED_MEMORY_H_
