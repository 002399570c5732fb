#!/bin/sh
# The cross compiler for 64-bit Arm, as Bazel calls it: without the linker gold, which Bazel has found on this machine,
# and which knows no Arm.
for argument; do
  shift
  [ "$argument" = -fuse-ld=gold ] || set -- "$@" "$argument"
done
exec aarch64-linux-gnu-gcc "$@"
