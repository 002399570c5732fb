// Prints the instruction sets that this machine runs, best first.

#include <cstdio>

#include "tests/engine/simd_targets.h"

int main() {
  for (const rnn::SimdTarget* target : rnn::AllSimdTargets()) {
    std::puts(target->name);
  }
}
