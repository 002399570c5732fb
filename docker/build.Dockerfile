# syntax=docker/dockerfile:1
# Builds the wheel for TensorFlow 2.21 from the sources, on Debian 12:
#
#   docker build -f docker/build.Dockerfile --output dist/here .
FROM debian:12-slim AS build
# hadolint ignore=DL3008 # of one release of Debian: no other versions will come
RUN apt-get update \
  && apt-get install -y --no-install-recommends bazel-bootstrap ca-certificates g++ make python3-venv \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN rm -rf dist && make wheel

FROM scratch
COPY --from=build /source/dist/here/*.whl /
