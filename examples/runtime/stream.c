/* Streams random frames through a network, and says how long a step takes.
 *
 *   stream NETWORK.safetensors [STEPS] [THREADS]
 *
 * docs/runtime.md has the command that builds it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rnn_runtime.h"

static void Check(rnn_status status, const rnn_error* error) {
  if (status == RNN_OK) return;
  fprintf(stderr, "%s\n", error->message);
  exit(1);
}

static double Microseconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

static int Compare(const void* a, const void* b) {
  const double difference = *(const double*)a - *(const double*)b;
  return (difference > 0) - (difference < 0);
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s NETWORK.safetensors [STEPS] [THREADS]\n",
            argv[0]);
    return 2;
  }
  const int steps = argc > 2 ? atoi(argv[2]) : 10000;
  const int threads = argc > 3 ? atoi(argv[3]) : 1;
  rnn_error error;
  rnn_network* network;
  Check(rnn_network_load(argv[1], threads, &network, &error), &error);
  rnn_config config = {.struct_size = sizeof(config)};
  Check(rnn_network_config(network, &config, &error), &error);
  if (config.type != RNN_FLOAT32 || steps < 1) {
    fprintf(stderr,
            "This program streams a float32 network, for one step or "
            "more.\n");
    return 1;
  }
  rnn_stream* stream;
  Check(rnn_stream_create(network, 1, &stream, &error), &error);

  const int64_t outputs = config.num_proj ? config.num_proj : config.num_units;
  float* x = calloc(config.input_size, sizeof(float));
  float* y = calloc(outputs, sizeof(float));
  double* times = calloc(steps, sizeof(double));
  if (x == NULL || y == NULL || times == NULL) return 1;
  for (int step = 0; step < steps; ++step) {
    for (int64_t i = 0; i < config.input_size; ++i) {
      x[i] = sinf(0.1f * (float)(step + i));
    }
    const double begin = Microseconds();
    Check(rnn_stream_step(stream, x, y, &error), &error);
    times[step] = Microseconds() - begin;
  }
  for (int64_t i = 0; i < outputs; ++i) printf("%.9g\n", y[i]);
  qsort(times, steps, sizeof(double), Compare);
  fprintf(stderr,
          "%d steps: median %.1f us, 99 %% below %.1f us, 99.9 %% below %.1f "
          "us\n",
          steps, times[steps / 2], times[steps - 1 - steps / 100],
          times[steps - 1 - steps / 1000]);

  free(times);
  free(y);
  free(x);
  rnn_stream_free(stream);
  rnn_network_free(network);
  return 0;
}
