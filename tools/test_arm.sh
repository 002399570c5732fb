#!/usr/bin/env bash
# Cross-compiles the engine and its tests for 64-bit Arm, and runs them under
# emulation. TESTS="simd_cells_test ..." names some of them. Arguments go to
# every test, such as --gtest_filter=... Ends with 69 if there are no tools.
set -euo pipefail

for name in ${TESTS-}; do
  [[ $name == *_test && -e tests/engine/$name.cc ]] || {
    echo "There is no test $name: TESTS= names files tests/engine/*_test.cc, without their ending." >&2
    exit 2
  }
done

compiler=aarch64-linux-gnu-g++
has_tools() {
  command -v "$compiler" >/dev/null && command -v qemu-aarch64 >/dev/null && [[ -d /usr/src/googletest ]]
}
. tools/install_or_skip.sh
install_or_skip "The Arm tests need a cross compiler, an emulator and GoogleTest's sources" \
  g++-aarch64-linux-gnu qemu-user libgtest-dev

out=build/arm
mkdir -p "$out"
googletest=/usr/src/googletest/googletest
# The flags of .bazelrc and kernels/isa.bzl.
flags=(-std=c++17 -O2 -g1 -Wall -Wextra -Werror -ffp-contract=off -I. -isystem "$googletest/include")

compile() {  # source, object
  [[ $2 -nt $1 && $2 -nt tools/test_arm.sh &&
    -z $(find kernels/engine network tests/engine \( -name '*.h' -o -name '*.inc' \) -newer "$2" -print -quit) ]] || {
    rm -f "$2"  # linking must fail if this does
    "$compiler" "${flags[@]}" "${@:3}" -c "$1" -o "$2"
  }
}
shopt -s nullglob
sources=(network/*.cc kernels/engine/*.cc kernels/engine/{elements,passes,plan,products,threads,weights}/*.cc
  kernels/engine/simd/{cpu_features,dispatch,kernels_neon,kernels_scalar}.cc tests/engine/*.cc)
objects=()
jobs_at_most=$(nproc)
for source in "${sources[@]}"; do
  # Arm has no other instruction set that the engine's tests could be put on.
  [[ $source != */other_isa.cc ]] || continue
  name=$(basename "${source%.cc}")
  [[ $name != *_test || -z ${TESTS-} || " $TESTS " == *" $name "* ]] || continue
  object=$out/$name.o
  objects+=("$object")
  while (($(jobs -rp | wc -l) >= jobs_at_most)); do wait -n; done
  compile "$source" "$object" &
done
for source in gtest-all gtest_main; do
  [[ -e $out/$source.o ]] || "$compiler" -std=c++17 -O1 -I"$googletest" -I"$googletest/include" \
    -c "$googletest/src/$source.cc" -o "$out/$source.o"
done
wait

library=()
tests=()
for object in "${objects[@]}"; do
  if [[ $object == *_test.o ]]; then tests+=("$object"); else library+=("$object"); fi
done
for test in "${tests[@]}"; do
  binary=${test%.o}
  "$compiler" "$test" "${library[@]}" "$out"/gtest-all.o "$out"/gtest_main.o -static -pthread -o "$binary"
  echo "== $(basename "$binary")"
  qemu-aarch64 "$binary" --gtest_brief=1 "$@"
done
