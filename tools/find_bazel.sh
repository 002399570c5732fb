#!/usr/bin/env bash
# Prints the name of Bazel's command; installs Bazel where there is none.
set -euo pipefail

command -v bazel || command -v bazelisk || {
  # GoogleTest and Google Benchmark come along: a fresh machine then runs all tests.
  tools/apt_install.sh bazel-bootstrap libgtest-dev libbenchmark-dev
  command -v bazel
}
