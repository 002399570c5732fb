#!/usr/bin/env bash
# What compilers can watch at run time:
#
#   asan     AddressSanitizer and UndefinedBehaviorSanitizer: the engine's tests, on each instruction set of this
#            machine
#   ops      the same of the whole library, which tests of ops in Python load
#   tsan     ThreadSanitizer: where threads of the engine meet
#   memory   MemorySanitizer: fuzz targets, which need no GoogleTest; where there is Clang
#
# test_sanitizers.sh [PART...] runs some of them. The configurations are in .bazelrc.
set -euo pipefail
cd "$(dirname "$0")/.."

parts=("$@")
((${#parts[@]})) || parts=(asan ops tsan memory)
bazel=$(tools/find_bazel.sh)

asan() {
  "$bazel" test --config=asan --keep_going //tests/engine/... //tests/fuzz/engine/... //tests/kernels:scratch_pool_test
}

# Python is not compiled with sanitizers: it loads theirs before the library. A copy of the package and of the tests has
# the library of this kind.
ops() {
  "$bazel" build --config=asan //:_tf_cudnn_rnn.so //tf_cudnn_rnn
  local bin copy=build/sanitized
  bin=$("$bazel" info --config=asan bazel-bin)
  rm -rf "$copy"
  mkdir -p "$copy"
  cp -r tf_cudnn_rnn tests pyproject.toml "$copy"
  .venv/bin/python tools/libraries.py install "$bin" "$copy/tf_cudnn_rnn/_libraries"
  local python=$PWD/.venv/bin/python
  # TensorFlow never gives back some of its memory, and GCC's libasan alone stops at the first exception of C++.
  # AddressSanitizer's malloc knows no MALLOC_PERTURB_, by which one test marks memory.
  (cd "$copy" && LD_PRELOAD="$("${CC:-gcc}" -print-file-name=libasan.so) $("${CC:-gcc}" -print-file-name=libstdc++.so)" \
    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
    "$python" -m pytest -q -p no:cacheprovider \
    tests/ops/error_messages_test.py tests/python/{kernels,keras_weights}_test.py \
    tests/reliability/{checks_once,known_attacks,overflowing_sizes,forged_reserves,leftovers}_test.py \
    --deselect=tests/python/kernels_test.py::test_lesser_instruction_sets \
    --deselect=tests/reliability/leftovers_test.py::test_no_call_sees_what_another_left)
}

tsan() {
  "$bazel" test --config=tsan //tests/engine:team_test //tests/engine:engine_executor_test //tests/engine:parallel_test \
    //tests/engine:matrix_product_test //tests/engine:checks_once_test //tests/kernels:scratch_pool_test \
    //tests/runtime:threads_test
}

memory() {
  local status=0 target isa
  tools/build_fuzz.sh memory || status=$?
  if ((status == 69)); then
    echo "Skipping MemorySanitizer: there is no Clang."
    return
  fi
  ((status == 0)) || return "$status"
  local bin=build/fuzz/memory
  # Not weights_header: a std::map is put together in libstdc++.so, where MemorySanitizer does not see what is written.
  for target in conversions descriptor layouts sequences; do
    "$bin/$target" --random=1000000 --seconds=30 "tests/fuzz/engine/corpus/$target"
  done
  for isa in $("$bin/isas"); do
    for target in engine packing; do
      TF_CUDNN_RNN_ISA=$isa "$bin/$target" --random=1000000 --seconds=60 "tests/fuzz/engine/corpus/$target"
    done
  done
}

for part in "${parts[@]}"; do
  case $part in
    asan | ops | tsan | memory) ;;
    *)
      echo "There is no part $part: asan, ops, tsan, memory." >&2
      exit 2
      ;;
  esac
  echo "== $part"
  begin=$SECONDS
  "$part"
  echo "== $part: clean, $((SECONDS - begin)) s"
done
