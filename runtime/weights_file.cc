#include "runtime/weights_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "network/cell.h"
#include "network/int8_weights.h"
#include "network/params_layout.h"
#include "network/status.h"

// Numbers are in files as they are in memory.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the weights of files have the lowest byte first");

namespace rnn_runtime {

namespace {

constexpr int64_t kLengthBytes = 8;
// The header of a network has some 400.
constexpr int64_t kMaxHeaderBytes = int64_t{1} << 16;

// The JSON that safetensors files of networks have: an object of objects, whose
// values are texts or lists of sizes. Anything else fails, escapes in texts
// too, which none of ours has.
class HeaderParser {
 public:
  struct Value {
    std::string_view text;
    std::vector<int64_t> sizes;
  };
  using Object = std::map<std::string_view, Value>;
  using Objects = std::map<std::string_view, Object>;

  explicit HeaderParser(std::string_view json) : rest_(json) {}

  bool Parse(Objects* objects) {
    return ParseObject([&](std::string_view name) {
             Object object;
             return ParseObject([&](std::string_view key) {
                      Value value;
                      return ParseValue(&value) &&
                             object.emplace(key, std::move(value)).second;
                    }) &&
                    objects->emplace(name, std::move(object)).second;
           }) &&
           IsAtEnd();
  }

 private:
  void SkipSpace() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' ||
                              rest_[0] == '\t' || rest_[0] == '\r')) {
      rest_.remove_prefix(1);
    }
  }
  bool IsAtEnd() {
    SkipSpace();
    return rest_.empty();
  }
  bool Take(char character) {
    SkipSpace();
    if (rest_.empty() || rest_[0] != character) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool ParseText(std::string_view* text) {
    if (!Take('"')) return false;
    const size_t end = rest_.find_first_of("\"\\");
    if (end == std::string_view::npos || rest_[end] == '\\') return false;
    *text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool ParseSize(int64_t* size) {
    SkipSpace();
    const char* const begin = rest_.data();
    const auto [end, error] =
        std::from_chars(begin, begin + rest_.size(), *size);
    if (error != std::errc() || *size < 0) return false;
    rest_.remove_prefix(end - begin);
    return true;
  }
  bool ParseValue(Value* value) {
    if (ParseText(&value->text)) return true;
    if (!Take('[')) return false;
    if (Take(']')) return true;
    do {
      if (!ParseSize(&value->sizes.emplace_back())) return false;
    } while (Take(','));
    return Take(']');
  }
  template <typename Member>
  bool ParseObject(Member parse_member) {
    if (!Take('{')) return false;
    if (Take('}')) return true;
    do {
      std::string_view name;
      if (!ParseText(&name) || !Take(':') || !parse_member(name)) return false;
    } while (Take(','));
    return Take('}');
  }

  std::string_view rest_;
};

using Object = HeaderParser::Object;

std::string_view TextOf(const Object& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() ? std::string_view() : found->second.text;
}

bool SizeOf(const Object& object, std::string_view key, int64_t* size) {
  const std::string_view text = TextOf(object, key);
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, *size);
  return error == std::errc() && parsed == end && !text.empty();
}

// Which of `names` the text is.
template <typename Enum, size_t N>
bool Choose(std::string_view text, const char* const (&names)[N],
            Enum* choice) {
  for (size_t i = 0; i < N; ++i) {
    if (text == names[i]) {
      *choice = static_cast<Enum>(i);
      return true;
    }
  }
  return false;
}

std::string ReadDescriptor(const Object& metadata, const char* format,
                           rnn::RnnDescriptor* descriptor) {
  rnn::RnnDescriptor& d = *descriptor;
  if (TextOf(metadata, "format") != format) {
    return std::string("its metadata do not say \"format\": \"") + format +
           "\"; tf_cudnn_rnn.runtime writes such files.";
  }
  if (TextOf(metadata, "version") != "1") {
    return "its metadata do not say \"version\": \"1\"; a later version needs "
           "a later library.";
  }
  constexpr const char* kDirections[] = {"unidirectional", "bidirectional"};
  constexpr const char* kInputModes[] = {"linear_input", "skip_input"};
  int direction = 0;
  if (!Choose(TextOf(metadata, "rnn_mode"), rnn::kCellModeNames, &d.mode) ||
      !Choose(TextOf(metadata, "direction"), kDirections, &direction) ||
      !Choose(TextOf(metadata, "input_mode"), kInputModes, &d.skip_input) ||
      !SizeOf(metadata, "num_layers", &d.num_layers) ||
      !SizeOf(metadata, "num_units", &d.hidden_size) ||
      !SizeOf(metadata, "input_size", &d.input_size) ||
      !SizeOf(metadata, "num_proj", &d.num_proj)) {
    return "its metadata do not say what network it is: rnn_mode, direction, "
           "input_mode, num_layers, num_units, input_size and num_proj, as "
           "texts.";
  }
  d.num_directions = direction + 1;
  return "";
}

// The end of a long path, so that a message has room for what is wrong.
std::string Shortened(const std::string& path) {
  constexpr size_t kMost = 250;
  if (path.size() <= kMost) return path;
  return "..." + path.substr(path.size() - kMost);
}

// A vector of the file: which of some types its elements are of, and where it
// lies behind the header.
struct VectorHeader {
  int type = 0;
  int64_t size = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

template <size_t N>
bool ReadVector(const Object& tensor, const char* const (&types)[N],
                VectorHeader* vector) {
  const auto shape = tensor.find("shape");
  const auto offsets = tensor.find("data_offsets");
  if (!Choose(TextOf(tensor, "dtype"), types, &vector->type) ||
      shape == tensor.end() || shape->second.sizes.size() != 1 ||
      offsets == tensor.end() || offsets->second.sizes.size() != 2) {
    return false;
  }
  vector->size = shape->second.sizes[0];
  vector->begin = offsets->second.sizes[0];
  vector->end = offsets->second.sizes[1];
  return true;
}

// What is wrong with where a vector lies, which has to begin at `begin`; or "".
std::string CheckPlace(const char* name, const VectorHeader& vector,
                       int64_t element_bytes, int64_t begin) {
  // Ends are not negative, and a product could overflow.
  const int64_t bytes = vector.end - begin;
  if (vector.begin == begin && bytes % element_bytes == 0 &&
      bytes / element_bytes == vector.size) {
    return "";
  }
  return std::string(name) + " must have " + std::to_string(vector.size) +
         " elements from byte " + std::to_string(begin) +
         " behind the header on, but their bytes are [" +
         std::to_string(vector.begin) + ", " + std::to_string(vector.end) +
         ").";
}

// Bytes that nothing explains are damage, too.
std::string CheckEnd(int64_t end, int64_t data_bytes) {
  if (end == data_bytes) return "";
  return "there are " + std::to_string(data_bytes) +
         " bytes behind the header, but its tensors end at " +
         std::to_string(end) + ".";
}

std::string CheckSize(const char* name, int64_t size, int64_t expected) {
  if (size == expected) return "";
  return "such a network has " + std::to_string(expected) + " " + name +
         ", but it holds " + std::to_string(size) + ".";
}

std::string ParseParams(HeaderParser::Objects& objects, int64_t data_bytes,
                        WeightsFile* file) {
  std::string fault = ReadDescriptor(objects["__metadata__"],
                                     "tf_cudnn_rnn/params", &file->descriptor);
  if (!fault.empty()) return fault;
  constexpr const char* kTypes[] = {"F32", "F64", "F16", "BF16"};
  constexpr rnn::ElementType kElementTypes[] = {
      rnn::ElementType::kFloat, rnn::ElementType::kDouble,
      rnn::ElementType::kHalf, rnn::ElementType::kBFloat16};
  static_assert(std::size(kTypes) == std::size(kElementTypes));
  VectorHeader params;
  if (!ReadVector(objects["params"], kTypes, &params)) {
    return "params are not a vector of F32, F64, F16 or BF16.";
  }
  file->type = kElementTypes[params.type];
  file->num_params = params.size;
  fault = CheckPlace("params", params, rnn::ElementBytes(file->type), 0);
  if (fault.empty()) fault = CheckEnd(params.end, data_bytes);
  if (!fault.empty()) return fault;
  rnn::ParamsLayout layout;
  if (rnn::Status s = rnn::ParamsLayout::Create(file->descriptor, &layout);
      !s.ok()) {
    return "its network is none: " + s.message();
  }
  return CheckSize("params", params.size, layout.size());
}

// The three vectors follow each other in any order: safetensors has the one of
// the widest elements first.
std::string ParseInt8(HeaderParser::Objects& objects, int64_t data_bytes,
                      WeightsFile* file) {
  std::string fault = ReadDescriptor(objects["__metadata__"],
                                     "tf_cudnn_rnn/int8", &file->descriptor);
  if (!fault.empty()) return fault;
  rnn::Int8Layout layout;
  if (rnn::Status s = rnn::Int8Layout::Create(file->descriptor, &layout);
      !s.ok()) {
    return "its network is none: " + s.message();
  }
  constexpr const char* kIntegers[] = {"I8"};
  constexpr const char* kFloats[] = {"F32"};
  VectorHeader weights, scales, biases;
  if (!ReadVector(objects["weights"], kIntegers, &weights) ||
      !ReadVector(objects["scales"], kFloats, &scales) ||
      !ReadVector(objects["biases"], kFloats, &biases)) {
    return "weights, scales and biases are not vectors of I8, F32 and F32.";
  }
  struct Part {
    const char* name;
    const VectorHeader* vector;
    int64_t element_bytes;
  };
  Part parts[] = {{"weights", &weights, 1},
                  {"scales", &scales, sizeof(float)},
                  {"biases", &biases, sizeof(float)}};
  std::sort(std::begin(parts), std::end(parts),
            [](const Part& a, const Part& b) {
              return a.vector->begin < b.vector->begin;
            });
  int64_t end = 0;
  for (const Part& part : parts) {
    fault = CheckPlace(part.name, *part.vector, part.element_bytes, end);
    if (!fault.empty()) return fault;
    end = part.vector->end;
  }
  for (const std::string& found : {
           CheckEnd(end, data_bytes),
           CheckSize("weights", weights.size, layout.num_values()),
           CheckSize("scales", scales.size, layout.num_scales()),
           CheckSize("biases", biases.size, layout.num_biases()),
       }) {
    if (!found.empty()) return found;
  }
  file->is_int8 = true;
  file->num_values = weights.size;
  file->num_scales = scales.size;
  file->num_biases = biases.size;
  file->values_begin = weights.begin;
  file->scales_begin = scales.begin;
  file->biases_begin = biases.begin;
  return "";
}

// What is wrong with the scales, which may lie where no float may; or "".
std::string CheckScales(const Int8Data& weights) {
  std::vector<float> scales(weights.num_scales);
  std::memcpy(scales.data(), weights.scales, scales.size() * sizeof(float));
  const rnn::Status status =
      rnn::CheckInt8Scales(scales.data(), weights.num_scales);
  return status.ok() ? "" : "its " + status.message();
}

}  // namespace

Int8Data WeightsFile::Int8() const {
  const char* const begin = static_cast<const char*>(data.data());
  Int8Data weights;
  weights.values = begin + values_begin;
  weights.num_values = num_values;
  weights.scales = begin + scales_begin;
  weights.num_scales = num_scales;
  weights.biases = begin + biases_begin;
  weights.num_biases = num_biases;
  return weights;
}

constexpr char kHowToMakeOne[] =
    " `tf-cudnn-rnn convert FILE network.safetensors --to runtime` makes one "
    "of other files.";

std::string ParseWeightsHeader(const std::string& json, int64_t data_bytes,
                               WeightsFile* file) {
  HeaderParser::Objects objects;
  if (!HeaderParser(json).Parse(&objects)) {
    return "its header is not the JSON of such a file.";
  }
  const auto holds = [&](std::initializer_list<const char*> names) {
    return objects.size() == names.size() &&
           std::all_of(names.begin(), names.end(), [&](const char* name) {
             return objects.count(name) != 0;
           });
  };
  if (holds({"__metadata__", "params"})) {
    return ParseParams(objects, data_bytes, file);
  }
  if (holds({"__metadata__", "weights", "scales", "biases"})) {
    return ParseInt8(objects, data_bytes, file);
  }
  return std::string(
             "it holds neither one tensor, \"params\", nor three, \"weights\", "
             "\"scales\" and \"biases\", and \"__metadata__\".") +
         kHowToMakeOne;
}

std::string ReadWeightsFile(const char* path, WeightsFile* file) {
  const auto fails = [&](const std::string& why) {
    return Shortened(path) + ": " + why;
  };
  // A pipe without a writer would block.
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return fails(std::generic_category().message(errno));
  struct Close {
    void operator()(FILE* stream) const { std::fclose(stream); }
  };
  const std::unique_ptr<FILE, Close> stream(fdopen(descriptor, "rb"));
  if (!stream) {
    close(descriptor);
    throw std::bad_alloc();
  }
  struct stat status;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    return fails("It must be a file; it is a folder, a pipe or a device.");
  }
  // Whether all came; what went wrong otherwise is in `fault`. A disk that
  // fails is no damage of the file.
  std::string fault;
  const auto reads = [&](void* memory, size_t bytes) {
    if (std::fread(memory, 1, bytes, stream.get()) == bytes) return true;
    const int error = errno;
    fault = fails(std::ferror(stream.get()) != 0
                      ? "It cannot be read: " +
                            std::generic_category().message(error) + "."
                      : "It became shorter while it was read.");
    return false;
  };
  const int64_t size = status.st_size;
  if (size < kLengthBytes) {
    return fails("It is no safetensors file: it is too short.");
  }
  unsigned char length[kLengthBytes];
  if (!reads(length, kLengthBytes)) return fault;
  uint64_t header_bytes = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) {
    header_bytes = header_bytes << 8 | length[i];
  }
  const uint64_t rest = static_cast<uint64_t>(size - kLengthBytes);
  if (header_bytes > rest || header_bytes > kMaxHeaderBytes) {
    return fails(
        std::string(
            "It is no safetensors file: the header that its first bytes tell "
            "of would be longer than the file, or than any.") +
        kHowToMakeOne);
  }
  std::string json(header_bytes, '\0');
  if (!reads(json.data(), header_bytes)) return fault;
  const int64_t data_bytes = static_cast<int64_t>(rest - header_bytes);
  fault = ParseWeightsHeader(json, data_bytes, file);
  if (!fault.empty()) return fails("It is not the file of a network: " + fault);
  file->data = AlignedMemory(data_bytes);
  if (!reads(file->data.data(), data_bytes)) return fault;
  fault = file->is_int8 ? CheckScales(file->Int8()) : "";
  return fault.empty() ? ""
                       : fails("It is not the file of a network: " + fault);
}

}  // namespace rnn_runtime
