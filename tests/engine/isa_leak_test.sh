#!/usr/bin/env bash
# isa_leak_test.sh LIBRARY...: libraries compiled for one instruction set keep to it.
#  * They define no weak symbol. The linker could make such a symbol (an inline function, a template of the standard
#    library) everybody's copy, and it would then crash CPUs without these instructions.
#  * They have no instruction of a larger set, which a flag too many would bring in.
set -euo pipefail

# What no instruction may be, by instruction set: a mnemonic, a tab, and operands of objdump.
readonly vex=$'(^|[^a-z])v[a-z0-9]+ +.*%[xyz]mm'  # AVX, whatever the width
readonly evex='%zmm|%[xy]mm(1[6-9]|2[0-9]|3[01])|%k[0-7]'  # what AVX-512 adds: vectors, registers, masks
readonly bf16_or_vnni='v[a-z0-9]*bf16|vpdp'  # not an address such as bf16
readonly tiles='%tmm|tilecfg|tilezero|tilerelease'
declare -A forbidden=(
  [scalar]="$vex|$evex|$bf16_or_vnni|$tiles"
  [avx2]="$evex|$bf16_or_vnni|$tiles"
  [avx512]="$bf16_or_vnni|$tiles"
  [avx512_bf16]="$tiles"
)

status=0
has_objdump=true
if ! command -v objdump >/dev/null; then
  has_objdump=false
  echo "objdump is missing: instructions are not looked at."
fi
for library in "$@"; do
  symbols=$(nm -C "$library")
  if ! grep -qE "rnn::k(SimdTarget|Probes)_" <<<"$symbols"; then
    echo "$library: no table of an instruction set in it; is this the right library?"
    status=1
    continue
  fi
  if grep -E ' [uVvWw] ' <<<"$symbols"; then
    echo "$library: weak symbols (above): make them static, or leave the header out."
    status=1
  fi
  $has_objdump || continue
  isa=$(sed -nE 's/.*rnn::k(SimdTarget|Probes)_(.*)/\2/p' <<<"$symbols" | head -n 1)
  [[ -n ${forbidden[$isa]:-} ]] || continue
  # Lines of instructions begin with spaces; names of functions, such as avx512_bf16, are none.
  instructions=$(objdump --disassemble --no-show-raw-insn "$library" | sed -n '/^ /{s/<.*>//;p}')
  if grep -m 5 -E "${forbidden[$isa]}" <<<"$instructions"; then
    echo "$library: instructions (above) that are no part of $isa: look at its flags in kernels/isa.bzl."
    status=1
  fi
done
exit $status
