/* Times the steps of a stream for runtime.py.
 *
 *   runtime_stream NETWORK VALUES RESULTS BATCH STEPS THREADS
 *
 * VALUES holds x [B, I], h [L, B, P] and, of an LSTM, c [L, B, H], as floats.
 * RESULTS gets y [B, P] of the first step as floats, and then the seconds of
 * STEPS further steps as doubles. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rnn_runtime.h"

static void Check(rnn_status status, const rnn_error* error) {
  if (status == RNN_OK) return;
  fprintf(stderr, "%s\n", error->message);
  exit(1);
}

static float* Read(FILE* file, int64_t count) {
  float* values = malloc(count * sizeof(float));
  if (values == NULL ||
      fread(values, sizeof(float), count, file) != (size_t)count) {
    fprintf(stderr, "The values are too few.\n");
    exit(1);
  }
  return values;
}

static double Seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const int64_t batch = atol(argv[4]);
  const int64_t steps = atol(argv[5]);
  rnn_error error;
  rnn_network* network;
  Check(rnn_network_load(argv[1], atoi(argv[6]), &network, &error), &error);
  rnn_config config = {.struct_size = sizeof(config)};
  Check(rnn_network_config(network, &config, &error), &error);
  const int64_t outputs = config.num_proj ? config.num_proj : config.num_units;
  rnn_stream* stream;
  Check(rnn_stream_create(network, batch, &stream, &error), &error);

  FILE* file = fopen(argv[2], "rb");
  if (file == NULL) return 1;
  float* x = Read(file, batch * config.input_size);
  float* h = Read(file, config.num_layers * batch * outputs);
  float* c = NULL;
  if (config.mode == RNN_MODE_LSTM)
    c = Read(file, config.num_layers * batch * config.num_units);
  fclose(file);
  Check(rnn_stream_set_state(stream, h, c, &error), &error);

  float* y = malloc(batch * outputs * sizeof(float));
  double* seconds = malloc(steps * sizeof(double));
  file = fopen(argv[3], "wb");
  if (y == NULL || seconds == NULL || file == NULL) return 1;
  Check(rnn_stream_step(stream, x, y, &error), &error);
  fwrite(y, sizeof(float), batch * outputs, file);
  for (int64_t step = 0; step < steps; ++step) {
    const double begin = Seconds();
    Check(rnn_stream_step(stream, x, y, &error), &error);
    seconds[step] = Seconds() - begin;
  }
  fwrite(seconds, sizeof(double), steps, file);
  if (fclose(file) != 0) return 1;

  free(seconds);
  free(y);
  free(c);
  free(h);
  free(x);
  rnn_stream_free(stream);
  rnn_network_free(network);
  return 0;
}
