# syntax=docker/dockerfile:1
# The C program of docs/serving.md, TensorFlow and the ops, without Python. It takes the wheel in dist/, which `make wheels`
# makes, or with --build-arg WHEELS=dist/here that of build.Dockerfile:
#
#   docker build -f docker/serve.Dockerfile -t tf_cudnn_rnn_serve .
#   docker run --rm -v "$PWD:/data" tf_cudnn_rnn_serve -s serve exported x=x.npy lengths=lengths.npy
#
# `--user "$(id -u)"` lets `-o results` write there.
FROM debian:12-slim AS build
# hadolint ignore=DL3008 # of one release of Debian: no other versions will come
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates gcc libc6-dev python3-venv \
  && rm -rf /var/lib/apt/lists/*
ARG WHEELS=dist
COPY $WHEELS/*.whl /wheels/
# For 64-bit Arm there is the distribution `tensorflow` alone.
RUN python3 -m venv /venv \
  && case $(uname -m) in x86_64) tensorflow=tensorflow-cpu ;; *) tensorflow=tensorflow ;; esac \
  && /venv/bin/pip install --no-cache-dir "$tensorflow==2.21.*" /wheels/*_"$(uname -m)".whl
WORKDIR /source
COPY examples/serving examples/serving
# With the libraries beside the program, where its rpath looks for them.
# hadolint ignore=SC2016 # the linker expands $ORIGIN
RUN TF=$(/venv/bin/python -c "import tensorflow as tf; print(tf.sysconfig.get_lib())") \
  && OPS=$(/venv/bin/python -c "import tf_cudnn_rnn; print(tf_cudnn_rnn.library_path())") \
  && mkdir /serve \
  && gcc -O2 -Wall examples/serving/*.c -o /serve/serve -isystem "$TF/include" \
    -L"$TF" -l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2 -Wl,-rpath,'$ORIGIN' \
  && cp "$TF/libtensorflow_cc.so.2" "$TF/libtensorflow_framework.so.2" /serve \
  && cp "$OPS" /serve/ops.so

FROM debian:12-slim
COPY --from=build /serve /serve
WORKDIR /data
USER 65534:65534
ENTRYPOINT ["/serve/serve", "-l", "/serve/ops.so"]
