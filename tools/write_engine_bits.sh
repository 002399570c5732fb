#!/usr/bin/env bash
# Writes tests/engine/engine_bits anew: hashes of the results of random calls, for each instruction set that this machine
# has or emulates. Only for a change that is meant to change bits.
set -euo pipefail

cd "$(dirname "$0")/.."
bazel=$(tools/find_bazel.sh)
export ENGINE_BITS_FOLDER=$PWD/tests/engine/engine_bits

write() {  # binary, instruction set
  TF_CUDNN_RNN_ISA=$2 "$1" --gtest_brief=1
}
write_all() {  # configuration or "", instruction sets
  "$bazel" build ${1:+--config="$1"} //tests/engine:engine_bits_test
  for isa in "${@:2}"; do
    write bazel-bin/tests/engine/engine_bits_test "$isa"
  done
}
if grep -qw avx512_bf16 /proc/cpuinfo; then
  write_all "" avx512_bf16 avx512 avx2 scalar
  write_all emulated_amx avx512_amx
else
  write_all "" avx2 scalar
  write_all emulated_avx512 avx512_amx avx512_bf16 avx512
fi
TESTS=engine_bits_test tools/test_arm.sh
git status --short "$ENGINE_BITS_FOLDER"
