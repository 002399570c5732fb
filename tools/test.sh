#!/usr/bin/env bash
# Runs all tests; arguments go to pytest.
set -euo pipefail

bazel=$(tools/find_bazel.sh)
flags=()
has_gtest() { echo '#include <gtest/gtest.h>' | "${CC:-gcc}" -E -x c++ - >/dev/null 2>&1; }
if ! has_gtest && ! { tools/apt_install.sh libgtest-dev && has_gtest; }; then
  echo "Skipping the C++ tests: GoogleTest is missing (apt-get install libgtest-dev)."
  flags=(--build_tests_only --test_tag_filters=-gtest)
fi
"$bazel" test "${flags[@]}" //tests/...
.venv/bin/python -m pytest "$@"
