/* Times rounds of a loop that counts and does nothing else, for
 * counting_loop.py: what the machine itself takes from time to time.
 *
 *   counting_loop RESULTS MICROSECONDS ROUNDS
 *
 * RESULTS gets the seconds of each round as doubles. A round takes about
 * MICROSECONDS. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double Seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static double Round(long count) {
  const double begin = Seconds();
  for (volatile long i = 0; i < count; ++i) {
  }
  return Seconds() - begin;
}

/* How far it counts in so many seconds; of several tries the fastest. */
static long CountOf(double seconds) {
  const long many = 1000000;
  double least = Round(many);
  for (int i = 0; i < 20; ++i) {
    const double again = Round(many);
    if (again < least) least = again;
  }
  return (long)(many * seconds / least);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const long rounds = atol(argv[3]);
  if (rounds < 1) return 2;
  double* seconds = malloc(rounds * sizeof(double));
  FILE* file = fopen(argv[1], "wb");
  if (seconds == NULL || file == NULL) return 1;
  const long count = CountOf(atof(argv[2]) * 1e-6);
  for (long i = 0; i < rounds; ++i) seconds[i] = Round(count);
  const size_t written = fwrite(seconds, sizeof(double), rounds, file);
  if (fclose(file) != 0 || written != (size_t)rounds) return 1;
  free(seconds);
  return 0;
}
