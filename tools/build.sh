#!/usr/bin/env bash
# Builds the shared library and puts it into the Python package.
set -euo pipefail

bazel=$(tools/find_bazel.sh)
"$bazel" build //tf_cudnn_rnn
# -C leaves equal files alone; others are replaced, never written over while a process has them mapped.
install -C -m 644 bazel-bin/_tf_cudnn_rnn.so bazel-bin/tf_cudnn_rnn/_build_info.py tf_cudnn_rnn/
