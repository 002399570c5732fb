#!/usr/bin/env bash
# Builds the shared library for the TensorFlow that configure.py found, and puts it into the Python package.
set -euo pipefail

bazel=$(tools/find_bazel.sh)
"$bazel" build //tf_cudnn_rnn
.venv/bin/python tools/libraries.py install bazel-bin tf_cudnn_rnn/_libraries
