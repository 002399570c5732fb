#!/usr/bin/env bash
# Runs the engine's tests as on x86-64 machines that are not at hand: CPUs with fewer instruction sets, emulated, where
# an instruction that they lack is illegal; one core; half a core, by signals and, where that is possible, by a control
# group. With --quick, for CI, some of the tests. Ends with 69 on other CPUs and without an emulator.
set -euo pipefail

if [[ $(uname -m) != x86_64 ]]; then
  echo "The tests of other machines need an x86-64 CPU." >&2
  exit 69
fi
has_tools() { command -v qemu-x86_64 >/dev/null; }
. tools/install_or_skip.sh
install_or_skip "The tests of other machines need an emulator" qemu-user

quick=false
if [[ ${1-} == --quick ]]; then quick=true; fi

tests=(cpu_features_test isas_test simd_conversions_test engine_test team_test engine_executor_test)
$quick || tests+=(simd_cells_test simd_math_test simd_product_test)
"$(tools/find_bazel.sh)" build "${tests[@]/#///tests/engine:}"

emulated() {  # CPU, test, arguments
  echo "== $2 on $1"
  # CPUs have features that the emulator lacks, such as sleeping.
  qemu-x86_64 -cpu "$1" "bazel-bin/tests/engine/$2" --gtest_brief=1 "${@:3}" 2> >(grep -v "TCG doesn't support" >&2)
}

# What nobody should take for AVX2.
expect_scalar() {  # CPU
  local log
  log=$(emulated "$1" isas_test)
  if ! grep -qx "Instruction sets under test: scalar" <<<"$log"; then
    echo "$log"
    echo "On $1 the engine must take the baseline alone."
    exit 1
  fi
}

random='--gtest_filter=EngineRandomTest.*:EngineNanTest.*:EngineEmptyTest.*'

# Without AVX; with AVX, but without AVX2; AVX2 with one of its flags masked; a system that does not save AVX's registers.
for cpu in Nehalem SandyBridge Haswell,-fma Haswell,-f16c Haswell,-avx2 Haswell,-xsave; do
  expect_scalar "$cpu"
  emulated "$cpu" cpu_features_test
  $quick && [[ $cpu != Nehalem ]] || emulated "$cpu" engine_test "$random"
done
# AVX2, whose code must do without what later CPUs have.
emulated Haswell cpu_features_test
emulated Haswell engine_test "$random"
for cpu in Nehalem Haswell; do
  emulated "$cpu" simd_conversions_test
  if ! $quick; then
    for test in simd_cells_test simd_math_test simd_product_test; do emulated "$cpu" $test; done
  fi
done

# The process is stopped for half of the time, at any moment, as by a limit of a container.
half_of_the_time() {
  "$@" &
  local process=$!
  while kill -STOP $process 2>/dev/null; do
    sleep 0.05
    kill -CONT $process 2>/dev/null || break
    sleep 0.05
  done
  wait $process
}

# The same by the kernel: a control group that may use 5 of 10 ms, of version 1 or 2. Prints its folder; fails where none
# can be made, as without root, and in most containers.
make_group_of_half_a_core() {
  local parent group
  for parent in /sys/fs/cgroup/cpu /sys/fs/cgroup; do
    group=$parent/tf_cudnn_rnn_test_$$
    if [[ -e $parent/cpu.cfs_quota_us ]]; then
      mkdir "$group" && echo 10000 >"$group/cpu.cfs_period_us" && echo 5000 >"$group/cpu.cfs_quota_us"
    else
      grep -qw cpu "$parent/cgroup.controllers" && echo +cpu >"$parent/cgroup.subtree_control" &&
        mkdir "$group" && echo 5000 10000 >"$group/cpu.max"
    fi && echo "$group" && return
    rmdir "$group"
  done 2>/dev/null
  return 1
}

core=$(taskset -cp $$ | sed 's/.*: *//; s/[,-].*//')
threads=(team_test)
$quick || threads+=(engine_executor_test)
for test in "${threads[@]}"; do
  echo "== $test on one core"
  taskset -c "$core" "bazel-bin/tests/engine/$test" --gtest_brief=1
  echo "== $test on half a core"
  half_of_the_time taskset -c "$core" "bazel-bin/tests/engine/$test" --gtest_brief=1
done

if ! group=$(make_group_of_half_a_core); then
  echo "No control group of half a core can be made here: the tests above, stopped for half of the time, stand for it."
  exit
fi
trap 'rmdir "$group"' EXIT
limited() {  # test, arguments
  echo "== $1 in a control group of half a core"
  bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "bazel-bin/tests/engine/$1" --gtest_brief=1 "${@:2}"
}
for test in "${threads[@]}"; do limited "$test"; done
limited engine_test "$random"
throttled=$(sed -n 's/^nr_throttled //p' "$group/cpu.stat")
echo "The kernel held them back $throttled times."
((throttled > 0)) || echo "They never asked for more than half a core: this machine has too much other work."
