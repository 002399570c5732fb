// Runs a fuzz target without libFuzzer, under any compiler and sanitizer:
//
//   target [--seconds=S] [--random=N] [--seed=K] FILE_OR_FOLDER...
//
// calls it with the files, and with all in the folders; then with up to N
// inputs, for S seconds at most: random bytes, and files of which some bytes
// were changed. An input that ends the program lies in
// $TEST_UNDECLARED_OUTPUTS_DIR, or in the folder where it was started, as
// failing_input.

#include <dirent.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/engine/random_values.h"
#include "tests/fuzz/engine/fuzz.h"

namespace rnn {
namespace fuzz {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr int64_t kMaxBytes = 256;

Bytes ReadFile(const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) {
    std::fprintf(stderr, "cannot read %s\n", path);
    std::exit(2);
  }
  Bytes bytes(1 << 16);
  bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
  std::fclose(file);
  return bytes;
}

// (By what MemorySanitizer knows of.)
void ReadInputs(const char* path, std::vector<Bytes>* inputs) {
  DIR* folder = opendir(path);
  if (folder == nullptr) {
    inputs->push_back(ReadFile(path));
    return;
  }
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    char file[4096];
    std::snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
    inputs->push_back(ReadFile(file));
  }
  closedir(folder);
}

Bytes DrawInput(const std::vector<Bytes>& inputs, RandomValues& random) {
  Bytes bytes;
  if (!inputs.empty() && random.Integer(0, 1) == 0) {
    bytes = inputs[random.Integer(0, inputs.size() - 1)];
    const int64_t changes = random.Integer(1, 6);
    for (int64_t i = 0; i < changes && !bytes.empty(); ++i) {
      bytes[random.Integer(0, bytes.size() - 1)] =
          static_cast<uint8_t>(random.Bits());
    }
    return bytes;
  }
  bytes.resize(random.Integer(0, kMaxBytes));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Bits());
  return bytes;
}

// Kept before the call, for it may never come back.
class FailingInput {
 public:
  FailingInput() {
    const char* folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
    path_ = (folder == nullptr ? std::string(".") : std::string(folder)) +
            "/failing_input";
    file_ = std::fopen(path_.c_str(), "wb");
    if (file_ == nullptr) {
      std::fprintf(stderr, "cannot write %s\n", path_.c_str());
      std::exit(2);
    }
  }
  void Set(const Bytes& bytes) {
    std::rewind(file_);
    // An empty vector has no data that could be passed.
    if (!bytes.empty()) std::fwrite(bytes.data(), 1, bytes.size(), file_);
    std::fflush(file_);
    if (bytes.size() < size_ && ftruncate(fileno(file_), bytes.size()) != 0) {
      std::exit(2);
    }
    size_ = bytes.size();
  }
  void Remove() {
    std::fclose(file_);
    std::remove(path_.c_str());
  }

 private:
  std::string path_;
  std::FILE* file_;
  size_t size_ = 0;
};

int Main(int argc, char** argv) {
  double seconds = 1e9;
  int64_t num_random = 0;
  uint64_t seed = 1;
  std::vector<Bytes> inputs;
  for (int i = 1; i < argc; ++i) {
    const auto value_of = [&](const char* flag) -> const char* {
      const size_t length = std::strlen(flag);
      return std::strncmp(argv[i], flag, length) == 0 ? argv[i] + length
                                                      : nullptr;
    };
    if (const char* value = value_of("--seconds=")) {
      seconds = std::atof(value);
    } else if (const char* value = value_of("--random=")) {
      num_random = std::atoll(value);
    } else if (const char* value = value_of("--seed=")) {
      seed = std::strtoull(value, nullptr, 10);
    } else {
      ReadInputs(argv[i], &inputs);
    }
  }
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  FailingInput failing;
  const auto run = [&](const Bytes& bytes) {
    failing.Set(bytes);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  };
  for (const Bytes& bytes : inputs) run(bytes);
  RandomValues random(seed);
  int64_t i = 0;
  for (; i < num_random; ++i) {
    if (std::chrono::duration<double>(Clock::now() - begin).count() > seconds) {
      break;
    }
    run(DrawInput(inputs, random));
  }
  failing.Remove();
  std::fprintf(stderr, "%lld files, %lld random inputs, nothing found\n",
               static_cast<long long>(inputs.size()),
               static_cast<long long>(i));
  return 0;
}

}  // namespace
}  // namespace fuzz
}  // namespace rnn

int main(int argc, char** argv) { return rnn::fuzz::Main(argc, argv); }
