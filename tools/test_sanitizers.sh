#!/usr/bin/env bash
# What compilers can watch at run time:
#
#   asan     AddressSanitizer and UndefinedBehaviorSanitizer: the engine's tests, on each instruction set of this
#            machine
#   ops      the same of the whole library, which tests of ops in Python load
#   tsan     ThreadSanitizer: where threads of the engine meet
#   crowd    the same of the whole library, which many threads call through TensorFlow
#   memory   MemorySanitizer: fuzz targets, which need no GoogleTest; where there is Clang
#
# test_sanitizers.sh [PART...] runs some of them. The configurations are in .bazelrc.
set -euo pipefail
cd "$(dirname "$0")/.."

parts=("$@")
((${#parts[@]})) || parts=(asan ops tsan crowd memory)
bazel=$(tools/find_bazel.sh)

asan() {
  "$bazel" test --config=asan --keep_going //tests/engine/... //tests/fuzz/engine/... //tests/kernels:scratch_pool_test \
    //tests/runtime/...
}

# A copy of the package and of the tests, with the library of a kind.
copy_with_library() {  # configuration, folder
  local bin
  "$bazel" build "--config=$1" //:_tf_cudnn_rnn.so //tf_cudnn_rnn
  bin=$("$bazel" info "--config=$1" bazel-bin)
  rm -rf "$2"
  mkdir -p "$2"
  cp -r tf_cudnn_rnn tests pyproject.toml "$2"
  rm -rf "$2/tf_cudnn_rnn/_libraries"  # of other TensorFlows, too
  .venv/bin/python tools/libraries.py install "$bin" "$2/tf_cudnn_rnn/_libraries"
}

library_of_gcc() { "${CC:-gcc}" "-print-file-name=$1"; }

# Python is not compiled with sanitizers: it loads theirs before the library.
ops() {
  local copy=build/sanitized python=$PWD/.venv/bin/python
  copy_with_library asan "$copy"
  # TensorFlow never gives back some of its memory, and GCC's libasan alone stops at the first exception of C++.
  # AddressSanitizer's malloc knows no MALLOC_PERTURB_, by which one test marks memory.
  (cd "$copy" && LD_PRELOAD="$(library_of_gcc libasan.so) $(library_of_gcc libstdc++.so)" \
    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
    "$python" -m pytest -q -p no:cacheprovider \
    tests/ops/error_messages_test.py tests/python/{int8,kernels,keras_steps,keras_weights}_test.py \
    tests/reliability/{checks_once,known_attacks,overflowing_sizes,forged_reserves,leftovers}_test.py \
    --deselect=tests/python/kernels_test.py::test_lesser_instruction_sets \
    --deselect=tests/reliability/leftovers_test.py::test_no_call_sees_what_another_left)
}

tsan() {
  "$bazel" test --config=tsan //tests/engine:team_test //tests/engine:engine_executor_test //tests/engine:parallel_test \
    //tests/engine:matrix_product_test //tests/engine:checks_once_test //tests/kernels:scratch_pool_test \
    //tests/runtime:threads_test
}

# Reports of TensorFlow, of which there are always some, are told apart afterwards. Addresses are not shuffled: libtsan of
# GCC 12 cannot place its shadow among those of newer systems.
crowd() {
  local copy=build/sanitized-threads python=$PWD/.venv/bin/python status=0
  copy_with_library tsan "$copy"
  (cd "$copy" && setarch -R env LD_PRELOAD="$(library_of_gcc libtsan.so)" TF_ENABLE_ONEDNN_OPTS=0 TF_CPP_MIN_LOG_LEVEL=3 \
    TSAN_OPTIONS="symbolize=0 exitcode=0 report_mutex_bugs=0 detect_deadlocks=0 history_size=7 log_path=report
      suppressions=tests/reliability/thread_sanitizer.supp" \
    "$python" -c "from tests.reliability import crowd; crowd.calls_for(120, rounds_of_masks=5)") || status=$?
  (cd "$copy" && "$python" -m tests.reliability.thread_reports tf_cudnn_rnn/_libraries/tensorflow_*.so report.*) || status=$?
  return "$status"
}

memory() {
  local status=0 target isa
  tools/build_fuzz.sh memory || status=$?
  if ((status == 69)); then
    skipped="there is no Clang"
    return
  fi
  ((status == 0)) || return "$status"
  local bin=build/fuzz/memory
  # Not weights_header: a std::map is put together in libstdc++.so, where MemorySanitizer does not see what is written. Nor
  # runtime_calls: the code that chooses the instruction set comes from Bazel without MemorySanitizer, which takes the
  # strings that it returns for unset.
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
    asan | ops | tsan | crowd | memory) ;;
    *)
      echo "There is no part $part: asan, ops, tsan, crowd, memory." >&2
      exit 2
      ;;
  esac
  echo "== $part"
  begin=$SECONDS
  skipped=
  "$part"
  if [ -n "$skipped" ]; then
    echo "== $part: skipped, for $skipped"
  else
    echo "== $part: clean, $((SECONDS - begin)) s"
  fi
done
