#!/usr/bin/env bash
# isa_leak_test.sh LIBRARY...: libraries compiled for one instruction set define no weak symbol.
# The linker could make such a symbol (an inline function, a template of the standard library) everybody's copy, and it
# would then crash CPUs without these instructions.
set -euo pipefail

status=0
for library in "$@"; do
  symbols=$(nm -C "$library")
  if ! grep -qE "rnn::k(SimdTarget|Probes)_" <<<"$symbols"; then
    echo "$library: no table of an instruction set in it; is this the right library?"
    status=1
  fi
  if grep -E ' [uVvWw] ' <<<"$symbols"; then
    echo "$library: weak symbols (above): make them static, or leave the header out."
    status=1
  fi
done
exit $status
