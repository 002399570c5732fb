/* Streams the frames of a file through a network, and says how long a step
 * takes.
 *
 *   stream NETWORK.safetensors FRAMES [STEPS] [THREADS]
 *
 * FRAMES holds float32 values [frames, input_size] and nothing else, as
 * NumPy's tofile() writes them. They are taken over and over, for STEPS steps.
 * What the network answers to each, the first time, goes to stdout, a line for
 * each frame, with as many digits as tell two floats apart.
 *
 * docs/runtime.md has the command that builds it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rnn_runtime.h"

static void Check(rnn_status status, const rnn_error* error) {
  if (status == RNN_OK) return;
  fprintf(stderr, "%s\n", error->message);
  exit(1);
}

static void* Allocate(size_t count, size_t size) {
  void* memory = calloc(count, size);
  if (memory != NULL) return memory;
  fprintf(stderr, "There is no memory for %zu values.\n", count);
  exit(1);
}

static int Positive(const char* name, const char* text) {
  char* end;
  const long value = strtol(text, &end, 10);
  if (*end == '\0' && value > 0 && value <= 1000000000) return (int)value;
  fprintf(stderr, "%s must be a number from 1 to 1000000000; got %s\n", name,
          text);
  exit(2);
}

static void FailToRead(const char* path) {
  fprintf(stderr, "%s: %s\n", path, strerror(errno));
  exit(1);
}

/* The caller frees the frames, of `size` values each. */
static float* ReadFrames(const char* path, int64_t size, long* count) {
  FILE* file = fopen(path, "rb");
  /* Of a folder no byte can be read. */
  if (file == NULL || (fgetc(file) == EOF && ferror(file)) ||
      fseek(file, 0, SEEK_END) != 0) {
    FailToRead(path);
  }
  const long bytes = ftell(file);
  const long frame_bytes = size * (long)sizeof(float);
  if (bytes <= 0 || bytes % frame_bytes != 0) {
    fprintf(stderr,
            "%s must hold frames of %ld bytes, %ld float32 values each; it "
            "holds %ld bytes\n",
            path, frame_bytes, (long)size, bytes);
    exit(1);
  }
  *count = bytes / frame_bytes;
  float* frames = Allocate(*count * size, sizeof(float));
  rewind(file);
  if (fread(frames, frame_bytes, *count, file) != (size_t)*count) {
    FailToRead(path);
  }
  fclose(file);
  return frames;
}

/* C11 has no clock that is never set back. */
static struct timespec Now(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return now;
}

/* Differences first: a double holds no nanoseconds since 1970. */
static double MicrosecondsSince(struct timespec begin) {
  const struct timespec end = Now();
  return (end.tv_sec - begin.tv_sec) * 1e6 +
         (end.tv_nsec - begin.tv_nsec) * 1e-3;
}

static int Compare(const void* a, const void* b) {
  const double difference = *(const double*)a - *(const double*)b;
  return (difference > 0) - (difference < 0);
}

static void Print(const float* y, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    printf("%.9g%c", y[i], i + 1 < size ? ' ' : '\n');
  }
}

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    fprintf(stderr, "usage: %s NETWORK.safetensors FRAMES [STEPS] [THREADS]\n",
            argv[0]);
    return 2;
  }
  const int steps = argc > 3 ? Positive("STEPS", argv[3]) : 10000;
  const int threads = argc > 4 ? Positive("THREADS", argv[4]) : 1;
  rnn_error error;
  rnn_network* network;
  Check(rnn_network_load(argv[1], threads, &network, &error), &error);
  rnn_config config = {.struct_size = sizeof(config)};
  Check(rnn_network_config(network, &config, &error), &error);
  if (config.type != RNN_FLOAT32) {
    fprintf(stderr, "This program streams a float32 network.\n");
    return 1;
  }
  rnn_stream* stream;
  Check(rnn_stream_create(network, 1, &stream, &error), &error);

  const int64_t x_size = config.input_size;
  const int64_t y_size = config.num_proj ? config.num_proj : config.num_units;
  long count;
  float* frames = ReadFrames(argv[2], x_size, &count);
  const long answered = steps < count ? steps : count;
  float* answers = Allocate(answered * y_size, sizeof(float));
  float* y = Allocate(y_size, sizeof(float));
  double* times = Allocate(steps, sizeof(double));
  for (int step = 0; step < steps; ++step) {
    const float* x = &frames[step % count * x_size];
    const struct timespec begin = Now();
    Check(rnn_stream_step(stream, x, y, &error), &error);
    times[step] = MicrosecondsSince(begin);
    if (step < answered) {
      memcpy(&answers[step * y_size], y, y_size * sizeof(float));
    }
  }
  for (long k = 0; k < answered; ++k) Print(&answers[k * y_size], y_size);
  qsort(times, steps, sizeof(double), Compare);
  fprintf(stderr,
          "%d steps: median %.2f us, 99 %% below %.2f us, 99.9 %% below %.2f "
          "us\n",
          steps, times[steps / 2], times[steps - 1 - steps / 100],
          times[steps - 1 - steps / 1000]);

  free(times);
  free(y);
  free(answers);
  free(frames);
  rnn_stream_free(stream);
  rnn_network_free(network);
  return 0;
}
