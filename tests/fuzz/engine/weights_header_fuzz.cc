// Headers of the runtime's files, of any bytes: what is taken describes a
// network whose weights are there.

#include <cstdint>
#include <string>
#include <utility>

#include "network/int8_weights.h"
#include "network/params_layout.h"
#include "runtime/weights_file.h"
#include "tests/fuzz/engine/fuzz.h"

namespace rnn {
namespace fuzz {
namespace {

void Run(const std::string& json) {
  // From none to more than any header here asks for.
  for (const int64_t data_bytes : {int64_t{0}, int64_t{1000}, int64_t{1152},
                                   int64_t{1} << 40, INT64_MAX - 8}) {
    rnn_runtime::WeightsFile file;
    const std::string fault =
        rnn_runtime::ParseWeightsHeader(json, data_bytes, &file);
    if (!fault.empty()) continue;
    if (file.is_int8) {
      Int8Layout layout;
      FUZZ_REQUIRE(Int8Layout::Create(file.descriptor, &layout).ok());
      FUZZ_REQUIRE(layout.num_values() == file.num_values);
      FUZZ_REQUIRE(layout.num_scales() == file.num_scales);
      FUZZ_REQUIRE(layout.num_biases() == file.num_biases);
      constexpr int64_t kFloatBytes = sizeof(float);
      for (const auto& [begin, bytes] :
           {std::pair(file.values_begin, file.num_values),
            std::pair(file.scales_begin, kFloatBytes * file.num_scales),
            std::pair(file.biases_begin, kFloatBytes * file.num_biases)}) {
        FUZZ_REQUIRE(begin >= 0);
        FUZZ_REQUIRE(bytes <= data_bytes - begin);
      }
      continue;
    }
    ParamsLayout layout;
    FUZZ_REQUIRE(ParamsLayout::Create(file.descriptor, &layout).ok());
    FUZZ_REQUIRE(layout.size() == file.num_params);
    FUZZ_REQUIRE(data_bytes % ElementBytes(file.type) == 0);
    FUZZ_REQUIRE(file.num_params == data_bytes / ElementBytes(file.type));
  }
}

}  // namespace
}  // namespace fuzz
}  // namespace rnn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rnn::fuzz::Run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
