// Runs a SavedModel without Python: loads the ops, the model, and arrays from
// .npy files, and prints what the model makes of them. docs/serving.md tells
// how to build and run it.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"
#include "npy.h"
#include "signature.h"
#include "tensorflow/c/c_api.h"

static const char kUsage[] =
    "usage: serve [OPTION]... SAVED_MODEL INPUT=FILE.npy...\n"
    "\n"
    "Calls a signature of SAVED_MODEL with an array for each INPUT, and "
    "prints\n"
    "its outputs.\n"
    "\n"
    "  -l LIBRARY    loads ops first: a path of library_path()\n"
    "  -s SIGNATURE  the signature to call (default: serving_default)\n"
    "  -o FOLDER     writes each output to FOLDER/<name>.npy, not to stdout\n"
    "  -n CALLS      calls so many times, and prints how long each took\n"
    "  -c            runs the graph in the calling thread: faster for short "
    "calls\n";

enum { kFailed = 1, kWrongUsage = 2 };

typedef struct {
  const char* library;
  const char* signature;
  const char* output_folder;
  int num_calls;  // 0: one, untimed
  bool in_calling_thread;
  const char* saved_model;
  char** inputs;  // NAME=FILE
  int num_inputs;
} Options;

static bool ParsePositive(const char* text, int* number) {
  char* end = NULL;
  const long value = strtol(text, &end, 10);
  *number = (int)value;
  return *end == '\0' && value > 0 && value <= INT_MAX;
}

static bool ParseOptions(int argc, char** argv, Options* options) {
  *options = (Options){.signature = "serving_default"};
  for (int option; (option = getopt(argc, argv, "l:s:o:n:c")) != -1;) {
    switch (option) {
      case 'l':
        options->library = optarg;
        break;
      case 's':
        options->signature = optarg;
        break;
      case 'o':
        options->output_folder = optarg;
        break;
      case 'n':
        if (!ParsePositive(optarg, &options->num_calls)) {
          return Fail("-n must be a positive number; got %s", optarg);
        }
        break;
      case 'c':
        options->in_calling_thread = true;
        break;
      default:
        return false;  // getopt has said why
    }
  }
  if (optind == argc) return Fail("a SAVED_MODEL must be given");
  options->saved_model = argv[optind];
  options->inputs = argv + optind + 1;
  options->num_inputs = argc - optind - 1;
  return true;
}

// ----------------------------------------------------------------------------
// The model
// ----------------------------------------------------------------------------

typedef struct {
  TF_Status* status;
  TF_Graph* graph;
  TF_Buffer* meta_graph;
  TF_Session* session;  // NULL until loaded; any number of threads may run it
  const TF_Buffer* run_options;  // NULL: as TensorFlow likes
} Model;

static Model NewModel(void) {
  return (Model){TF_NewStatus(), TF_NewGraph(), TF_NewBuffer(), NULL, NULL};
}

// A serialized RunOptions of tensorflow/core/protobuf/config.proto, whose
// field 3, inter_op_thread_pool, is -1. Otherwise a call wakes a thread of
// TensorFlow's and sleeps until that has run the graph.
static const char kThreadPoolNone[] =
    "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
static const TF_Buffer kInCallingThread = {kThreadPoolNone,
                                           sizeof(kThreadPoolNone) - 1, NULL};

static void DeleteModel(Model* model) {
  if (model->session != NULL) {
    TF_CloseSession(model->session, model->status);
    TF_DeleteSession(model->session, model->status);
  }
  TF_DeleteBuffer(model->meta_graph);
  TF_DeleteGraph(model->graph);
  TF_DeleteStatus(model->status);
}

// Registers the ops and kernels of a library. They stay until the process ends.
static bool LoadOps(const char* path, TF_Status* status) {
  TF_Library* library = TF_LoadLibrary(path, status);
  if (!Succeeded(status, "cannot load the library %s", path)) return false;
  TF_DeleteLibraryHandle(library);  // the handle alone: nothing is unloaded
  return true;
}

static bool LoadModel(const char* folder, Model* model) {
  const char* tags[] = {"serve"};
  TF_SessionOptions* options = TF_NewSessionOptions();
  model->session =
      TF_LoadSessionFromSavedModel(options, NULL, folder, tags, 1, model->graph,
                                   model->meta_graph, model->status);
  TF_DeleteSessionOptions(options);
  return Succeeded(model->status, "cannot load the SavedModel %s", folder);
}

// ----------------------------------------------------------------------------
// The call
// ----------------------------------------------------------------------------

// The inputs or the outputs of a signature. Owns the arrays and the values.
typedef struct {
  int count;
  TensorInfo* infos;
  TF_Output* places;   // in the graph
  TF_Tensor** values;  // NULL where there is none yet
} Tensors;

static void DeleteValues(Tensors* tensors) {
  for (int i = 0; i < tensors->count; ++i) {
    TF_DeleteTensor(tensors->values[i]);
    tensors->values[i] = NULL;
  }
}

static void DeleteTensors(Tensors* tensors) {
  DeleteValues(tensors);
  free(tensors->infos);
  free(tensors->places);
  free(tensors->values);
}

// `tensors` are the caller's to delete, even after a failure.
static bool FindTensors(TF_Graph* graph, Bytes signature, Side side,
                        Tensors* tensors) {
  TensorInfo info;
  int count = 0;
  for (Bytes left = signature; NextTensor(&left, side, &info);) ++count;
  // One more, for calloc may give NULL for none.
  tensors->infos = calloc(count + 1, sizeof(TensorInfo));
  tensors->places = calloc(count + 1, sizeof(TF_Output));
  tensors->values = calloc(count + 1, sizeof(TF_Tensor*));
  if (!tensors->infos || !tensors->places || !tensors->values) {
    return Fail("out of memory");
  }
  tensors->count = count;
  for (int i = 0; i < count; ++i) {
    NextTensor(&signature, side, &tensors->infos[i]);
    if (!FindInGraph(graph, &tensors->infos[i], &tensors->places[i])) {
      return false;
    }
  }
  return true;
}

// Returns the place of the input `name`, or -1 after a failure.
static int FindInput(const Tensors* inputs, const char* name) {
  for (int i = 0; i < inputs->count; ++i) {
    if (Equals(inputs->infos[i].name, name)) return i;
  }
  Fail("the signature has no input '%s'; it has:", name);
  for (int i = 0; i < inputs->count; ++i) {
    fprintf(stderr, "  %.*s (%s)\n", TEXT(inputs->infos[i].name),
            TypeName(inputs->infos[i].type));
  }
  return -1;
}

// `arguments` are NAME=FILE.
static bool ReadInputs(char** arguments, int num_arguments, Tensors* inputs) {
  for (int k = 0; k < num_arguments; ++k) {
    char* file = strchr(arguments[k], '=');
    if (file == NULL) {
      return Fail("an input must be NAME=FILE.npy; got %s", arguments[k]);
    }
    *file++ = '\0';
    const int i = FindInput(inputs, arguments[k]);
    if (i < 0) return false;
    if (inputs->values[i] != NULL) {
      return Fail("the input '%s' must be given once", arguments[k]);
    }
    inputs->values[i] = ReadNpy(file);
    if (inputs->values[i] == NULL) return false;
    const TF_DataType expected = inputs->infos[i].type;
    const TF_DataType given = TF_TensorType(inputs->values[i]);
    if (given != expected) {
      return Fail("the input '%s' must be %s; %s holds %s", arguments[k],
                  TypeName(expected), file, TypeName(given));
    }
  }
  for (int i = 0; i < inputs->count; ++i) {
    if (inputs->values[i] == NULL) {
      return Fail("the input '%.*s' (%s) must be given",
                  TEXT(inputs->infos[i].name), TypeName(inputs->infos[i].type));
    }
  }
  return true;
}

static bool Call(const Model* model, const Tensors* inputs, Tensors* outputs) {
  DeleteValues(outputs);  // of the call before
  TF_SessionRun(model->session, model->run_options, inputs->places,
                inputs->values, inputs->count, outputs->places, outputs->values,
                outputs->count, NULL, 0, NULL, model->status);
  return Succeeded(model->status, "the call failed");
}

static double Milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

static bool CallTimed(int num_calls, const Model* model, const Tensors* inputs,
                      Tensors* outputs) {
  for (int call = 1; call <= num_calls; ++call) {
    const double start = Milliseconds();
    if (!Call(model, inputs, outputs)) return false;
    fprintf(stderr, "call %d: %.4f ms\n", call, Milliseconds() - start);
  }
  return true;
}

static bool PrintOutputs(const Tensors* outputs) {
  for (int i = 0; i < outputs->count; ++i) {
    const TF_Tensor* value = outputs->values[i];
    printf("%.*s %s [", TEXT(outputs->infos[i].name),
           TypeName(TF_TensorType(value)));
    for (int k = 0; k < TF_NumDims(value); ++k) {
      printf(k == 0 ? "%" PRId64 : ", %" PRId64, TF_Dim(value, k));
    }
    puts("]");
    if (!PrintValues(value)) return false;
  }
  return fflush(stdout) == 0 || Fail("cannot write to stdout");
}

static bool WriteOutputs(const char* folder, const Tensors* outputs) {
  if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
    return Fail("cannot make the folder %s: %s", folder, strerror(errno));
  }
  for (int i = 0; i < outputs->count; ++i) {
    char path[4096];
    const int length = snprintf(path, sizeof(path), "%s/%.*s.npy", folder,
                                TEXT(outputs->infos[i].name));
    if (length >= (int)sizeof(path)) return Fail("%s is too long", folder);
    if (!WriteNpy(path, outputs->values[i])) return false;
  }
  return true;
}

static bool Serve(const Options* options, Model* model, Tensors* inputs,
                  Tensors* outputs) {
  Bytes signature;
  const bool ready =
      (options->library == NULL || LoadOps(options->library, model->status)) &&
      LoadModel(options->saved_model, model) &&
      FindSignature(model->meta_graph, options->signature, &signature) &&
      FindTensors(model->graph, signature, kInput, inputs) &&
      FindTensors(model->graph, signature, kOutput, outputs) &&
      ReadInputs(options->inputs, options->num_inputs, inputs);
  if (!ready) return false;
  const bool called = options->num_calls > 0 ? CallTimed(options->num_calls,
                                                         model, inputs, outputs)
                                             : Call(model, inputs, outputs);
  if (!called) return false;
  return options->output_folder != NULL
             ? WriteOutputs(options->output_folder, outputs)
             : PrintOutputs(outputs);
}

int main(int argc, char** argv) {
  Options options;
  if (!ParseOptions(argc, argv, &options)) {
    fputs(kUsage, stderr);
    return kWrongUsage;
  }
  Model model = NewModel();
  if (options.in_calling_thread) model.run_options = &kInCallingThread;
  Tensors inputs = {0}, outputs = {0};
  const bool served = Serve(&options, &model, &inputs, &outputs);
  DeleteTensors(&outputs);
  DeleteTensors(&inputs);
  DeleteModel(&model);
  return served ? EXIT_SUCCESS : kFailed;
}
