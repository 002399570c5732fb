#!/usr/bin/env bash
# Runs all tests, or with --quick, as the first argument, those to run before each commit: the engine against its
# reference, every op with every option against the judge, all messages of errors, weight formats, and layers against the
# op, on this machine's best instruction set. What --quick leaves out goes through the same code once more (other
# instruction sets, SavedModels, other processes), or takes long (examples, clusters, benchmarks).
# Other arguments go to pytest.
set -euo pipefail

targets=(//tests/... //benchmarks/...)
pytest=()
if [ "${1:-}" = --quick ]; then
  shift
  targets=(//tests/engine:quick //tests/kernels/...)
  pytest=(
    tests/architecture_test.py
    tests/reference
    tests/ops
    tests/python/{int8,kernels,keras_weights,layout}_test.py
    tests/weights/{golden,refusals,slots}_test.py
    tests/keras/{accelerate,cudnn_rnn_api,cudnn_rnn_equality}_test.py
    # Starts other processes.
    --deselect=tests/python/kernels_test.py::test_lesser_instruction_sets
  )
fi

# A process for each core, up to eight, for each loads TensorFlow. Each goes through tests that stand together, whose
# models are then made once, and takes over some of another's when it has none left.
processes=$(nproc)
if ((processes > 8)); then processes=8; fi
if ((processes > 1)); then pytest+=(--numprocesses="$processes" --dist=worksteal); fi

bazel=$(tools/find_bazel.sh)
flags=()
left_out=()

# Leaves out the tests of a tag, if the library that they need is missing and cannot be installed.
needs() {  # tag, header, Debian package, library, what it is for
  local tag=$1 header=$2 package=$3
  has_header() { echo "#include <$header>" | "${CC:-gcc}" -E -x c++ - >/dev/null 2>&1; }
  if ! has_header && ! { tools/apt_install.sh "$package" && has_header; }; then
    echo "Skipping $5: $4 is missing (apt-get install $package)."
    left_out+=("-$tag")
  fi
}
needs gtest gtest/gtest.h libgtest-dev GoogleTest "the C++ tests"
needs benchmark benchmark/benchmark.h libbenchmark-dev "Google Benchmark" "the engine's benchmark"
if ((${#left_out[@]})); then
  flags=(--build_tests_only "--test_tag_filters=$(IFS=, && echo "${left_out[*]}")")
fi

# 4: without these libraries no target is left.
"$bazel" test "${flags[@]}" "${targets[@]}" || (($? == 4 && ${#left_out[@]}))
# From the log of the test that compares what is tested with what there is.
[[ " ${left_out[*]} " == *" -gtest "* || "${targets[0]}" == *quick ]] ||
  grep '^Instruction sets of this machine' bazel-testlogs/tests/engine/isas_test/test.log
.venv/bin/python -m pytest "${pytest[@]}" "$@"
