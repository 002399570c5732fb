#!/usr/bin/env bash
# Runs the engine's tests under AddressSanitizer, those of threads under
# ThreadSanitizer; the configurations are in .bazelrc.
set -euo pipefail

bazel=$(tools/find_bazel.sh)
"$bazel" test --config=tsan //tests/engine:team_test //tests/engine:engine_executor_test
"$bazel" test --config=asan //tests/engine/...
