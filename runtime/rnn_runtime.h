/* Recurrent networks of tf_cudnn_rnn for programs in C: inference without
 * TensorFlow.
 *
 *   rnn_error error;
 *   rnn_network* network;
 *   if (rnn_network_load("a.safetensors", 1, &network, &error) != RNN_OK) {
 *     fprintf(stderr, "%s\n", error.message);
 *     return 1;
 *   }
 *   rnn_stream* stream;
 *   if (rnn_stream_create(network, 1, &stream, &error) != RNN_OK) ...
 *   while (read_frame(x)) {
 *     if (rnn_stream_step(stream, x, y, &error) != RNN_OK) ...
 *   }
 *   rnn_stream_free(stream);
 *   rnn_network_free(network);
 *
 * Sizes are named as in cuDNN's and TensorFlow's documentation:
 *
 *   T  time steps      I  input features     L  layers
 *   B  batch rows      H  hidden units       D  directions, 1 or 2
 *   P  features that a direction emits: num_proj if the LSTM projects, else H
 *
 * Tensors are dense and row-major. Elements are of the network's type; those of
 * float16 and bfloat16 are 16-bit numbers. Each buffer begins at a multiple of
 * its elements' size. No buffer may overlap another.
 * Denormals count as zeros, but for those of float16, and sums are rounded to
 * nearest, whatever mode the calling thread is in, which has its own again
 * afterwards.
 *
 * Every function that can fail returns a status, and writes a message into
 * `error` unless that is NULL; then it has written nothing else. Nothing
 * throws, prints or ends the process, and nothing changes but what handles
 * hold. What a process finds out about its machine, it finds out once; the
 * environment variables TF_CUDNN_RNN_ISA and TF_CUDNN_RNN_MACHINE pin it.
 *
 * rnn_network_run() and the steps of a stream take at most 256 KB of the stack
 * of the thread that calls them.
 *
 * A process that is forked while no call runs may go on with the networks of
 * its parent, on one thread.
 *
 * Structs begin with their size, by which a library knows the version that its
 * caller was compiled with. One that is larger than the library's, up to 4096
 * bytes, is taken if what it has beyond is zero; where the library writes a
 * struct, it leaves that alone.
 */
#ifndef RNN_RUNTIME_H_
#define RNN_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RNN_EXPORT __attribute__((visibility("default")))
#else
#define RNN_EXPORT
#endif

/* Grows when something is added to this interface; what is there stays. */
#define RNN_ABI_VERSION 3

typedef enum rnn_status {
  RNN_OK = 0,
  RNN_INVALID_ARGUMENT = 1, /* or a bad environment variable: see message */
  RNN_OUT_OF_MEMORY = 2,
  RNN_BAD_FILE = 3 /* it cannot be read, or is not what it should be */
} rnn_status;

typedef struct rnn_error {
  char message[512]; /* ends with a zero, and is cut off if need be */
} rnn_error;

typedef enum rnn_mode {
  RNN_MODE_RELU = 0,
  RNN_MODE_TANH = 1,
  RNN_MODE_LSTM = 2,
  RNN_MODE_GRU = 3
} rnn_mode;

typedef enum rnn_type {
  RNN_FLOAT32 = 0,
  RNN_FLOAT64 = 1,
  RNN_FLOAT16 = 2,
  RNN_BFLOAT16 = 3
} rnn_type;

/* What a network is, apart from its weights. Set struct_size to
 * sizeof(rnn_config) and the rest to zero before anything else. */
typedef struct rnn_config {
  uint32_t struct_size;
  int32_t mode;          /* rnn_mode */
  int32_t type;          /* rnn_type */
  int32_t bidirectional; /* 0 or 1 */
  int32_t skip_input;    /* 0 or 1: layer 0 adds x itself; needs I == H */
  int32_t int8_weights;  /* 0 or 1: see rnn_network_create_int8() */
  int64_t num_layers;    /* L */
  int64_t num_units;     /* H */
  int64_t input_size;    /* I */
  int64_t num_proj;      /* 0, or H of an LSTM: no projection; or below H */
} rnn_config;

/* A network and its weights, which do not change. Any number of threads may use
 * one at the same time. Weights that the engine reads in another order are
 * prepared by the first call or stream that needs them so, and kept: about as
 * many bytes again for each way of computing, of which most programs meet one
 * or two; twice as many of float16 and bfloat16 where they become floats. */
typedef struct rnn_network rnn_network;

/* A batch of sequences that come a step at a time. One thread may use it at a
 * time: a call that comes while another one is in a call is refused. */
typedef struct rnn_stream rnn_stream;

/* RNN_ABI_VERSION of the library. */
RNN_EXPORT uint32_t rnn_abi_version(void);

/* The instruction set that the library uses here: "avx2", "neon", ... The text
 * stays as long as the library. */
RNN_EXPORT rnn_status rnn_instruction_set(const char** name, rnn_error* error);

/* The number of elements of `params`, the vector of all weights and biases in
 * cuDNN's order: all matrices, then all biases. Both come by layer, in it by
 * direction, and within that: W of each gate [H, what enters], R of each gate
 * [H, P], the projection [P, H] if there is one; the bias of W of each gate
 * [H], that of R of each gate [H]. Matrices are row-major. Gates of an LSTM:
 * input, forget, cell, output; of a GRU: reset, update, new. With skip_input
 * layer 0 has no W. */
RNN_EXPORT rnn_status rnn_params_size(const rnn_config* config, int64_t* size,
                                      rnn_error* error);

/* Makes a network of num_params elements of config->type, which are copied. Its
 * calls have num_threads threads, 1 to 1024, the calling one included; all
 * calls at once share num_threads - 1 helpers. */
RNN_EXPORT rnn_status rnn_network_create(const rnn_config* config,
                                         const void* params, int64_t num_params,
                                         int32_t num_threads,
                                         rnn_network** network,
                                         rnn_error* error);

/* Weights in int8: a quarter of the bytes of float32, for networks whose steps
 * wait for their weights. Matrices lie one after another as in `params`,
 * without gaps, and so do the scales of their rows, of at most 131072 weights:
 * a weight is its integer times the scale of its row. Biases are those at the
 * end of `params`. Set struct_size to sizeof(rnn_int8_weights) and the rest to
 * zero before anything else. */
typedef struct rnn_int8_weights {
  uint32_t struct_size;
  int32_t reserved; /* 0 */
  const int8_t* weights;
  int64_t num_weights;
  const float* scales; /* finite, and not negative */
  int64_t num_scales;
  const float* biases;
  int64_t num_biases;
} rnn_int8_weights;

/* Makes a network of such weights, which are copied. config->int8_weights must
 * be 1, and config->type RNN_FLOAT32, the type of all tensors. In products,
 * rows of x and h are rounded to integers of 16 bits, of fewer in rows of more
 * than 512 elements, and summed up exactly. A row with an element that is not
 * finite gives NaN. Since ABI version 2. */
RNN_EXPORT rnn_status rnn_network_create_int8(const rnn_config* config,
                                              const rnn_int8_weights* weights,
                                              int32_t num_threads,
                                              rnn_network** network,
                                              rnn_error* error);

/* Makes the network of a file that tf_cudnn_rnn.runtime wrote: a safetensors
 * file of one tensor, `params`, or of `weights`, `scales` and `biases`, whose
 * metadata say what network it is. Its calls have num_threads threads, the
 * calling one included. */
RNN_EXPORT rnn_status rnn_network_load(const char* path, int32_t num_threads,
                                       rnn_network** network, rnn_error* error);

/* Sets all of it but struct_size, which must be there. */
RNN_EXPORT rnn_status rnn_network_config(const rnn_network* network,
                                         rnn_config* config, rnn_error* error);

/* The network's weights, for a program that stores them: `params` as
 * rnn_network_create() takes them, unless they are int8. They can be read until
 * the network is freed. weights->struct_size must be there. Since ABI version
 * 3. */
RNN_EXPORT rnn_status rnn_network_params(const rnn_network* network,
                                         const void** params,
                                         int64_t* num_params, rnn_error* error);
RNN_EXPORT rnn_status rnn_network_int8_weights(const rnn_network* network,
                                               rnn_int8_weights* weights,
                                               rnn_error* error);

/* No call of it may be running; its streams go on. NULL does nothing. */
RNN_EXPORT void rnn_network_free(rnn_network* network);

/* A batch of whole sequences. Set struct_size to sizeof(rnn_call) and the rest
 * to zero before anything else. */
typedef struct rnn_call {
  uint32_t struct_size;
  int32_t time_major;     /* 1: x, y are [T, B, .]; 0: [B, T, .] */
  int64_t steps;          /* T */
  int64_t batch;          /* B */
  const void* x;          /* [T, B, I] */
  const int32_t* lengths; /* [B], 0 to T; NULL: all rows have T steps */
  const void* h0;         /* [L*D, B, P]; NULL: zeros */
  const void* c0;         /* [L*D, B, H], LSTM only; NULL: zeros */
  void* y;                /* [T, B, D*P]; zeros behind the end of a row */
  void* h_n;              /* [L*D, B, P]; NULL: not wanted */
  void* c_n;              /* [L*D, B, H], LSTM only; NULL: not wanted */
} rnn_call;

RNN_EXPORT rnn_status rnn_network_run(const rnn_network* network,
                                      const rnn_call* call, rnn_error* error);

/* Starts `batch` sequences at once, with states of zeros. The network must have
 * one direction. */
RNN_EXPORT rnn_status rnn_stream_create(const rnn_network* network,
                                        int64_t batch, rnn_stream** stream,
                                        rnn_error* error);

/* One step: from x [B, I] to y [B, P]. */
RNN_EXPORT rnn_status rnn_stream_step(rnn_stream* stream, const void* x,
                                      void* y, rnn_error* error);

/* Sets the states of these rows, from 0, to zeros. NULL means all rows,
 * whatever num_rows is: leave the call out where there is no row to reset, for
 * the address of an empty list may be NULL. */
RNN_EXPORT rnn_status rnn_stream_reset(rnn_stream* stream, const int64_t* rows,
                                       int64_t num_rows, rnn_error* error);

/* Copies the states: h [L, B, P], and of an LSTM c [L, B, H]. NULL is left
 * out. */
RNN_EXPORT rnn_status rnn_stream_get_state(const rnn_stream* stream, void* h,
                                           void* c, rnn_error* error);
RNN_EXPORT rnn_status rnn_stream_set_state(rnn_stream* stream, const void* h,
                                           const void* c, rnn_error* error);

/* NULL does nothing. No call of the stream may be running. */
RNN_EXPORT void rnn_stream_free(rnn_stream* stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RNN_RUNTIME_H_ */
