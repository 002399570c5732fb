#!/usr/bin/env bash
# Runs the engine's tests and the scratch pool's under AddressSanitizer, those
# of threads under ThreadSanitizer; the configurations are in .bazelrc.
set -euo pipefail

bazel=$(tools/find_bazel.sh)
"$bazel" test --config=tsan //tests/engine:team_test //tests/engine:engine_executor_test //tests/engine:parallel_test \
  //tests/engine:matrix_product_test //tests/engine:checks_once_test //tests/kernels:scratch_pool_test
"$bazel" test --config=asan //tests/engine/... //tests/kernels:scratch_pool_test
