#include "kernels/engine/plan/machine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <locale>
#include <memory>
#include <new>
#include <set>
#include <sstream>
#include <string>

#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {

namespace {

constexpr char kVariable[] = "TF_CUDNN_RNN_MACHINE";
// Of operations a byte or a value.
constexpr double kLeastNumber = 1, kMostNumber = 1e6;

// ---- Measurement ------------------------------------------------------------

// Rows [rows, depth] of ones by panels of B [depth, panel columns] that lie one
// after another.
class ProbeProduct {
 public:
  ProbeProduct(int64_t rows, int64_t depth, const float* panels)
      : kernels_(*SelectSimdTarget().float_kernels),
        depth_(depth),
        panels_(panels) {
    product_.rows = rows;
    product_.depth = depth;
    product_.columns = kernels_.panel_columns;
    std::fill_n(left_, kMaxDepth, 1.0f);
    for (int64_t i = 0; i < kMaxRows; ++i) {
      a_[i] = left_;
      c_[i] = sums_;
    }
    product_.a = a_;
    product_.c = c_;
  }

  int64_t panel_size() const { return depth_ * kernels_.panel_columns; }

  // Multiplies by panels [0, count).
  void Run(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      product_.b.packed = panels_ + i * panel_size();
      kernels_.multiply_panel(product_);
    }
  }

  static constexpr int64_t kMaxRows = 16;
  static constexpr int64_t kMaxDepth = 128;

 private:
  const SimdKernels<float>& kernels_;
  const int64_t depth_;
  const float* const panels_;
  PanelProduct<float> product_{};
  float left_[kMaxDepth];
  float sums_[kMaxPanelColumns];
  const float* a_[kMaxRows];
  float* c_[kMaxRows];
};

// Of several runs, for others may have the core meanwhile.
template <typename Run>
double LeastSeconds(Run run) {
  constexpr int kRuns = 5;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - begin;
    least = std::min(least, seconds.count());
  }
  return std::max(least, 1e-9);
}

double MeasureFlopsPerFarByte(double otherwise) {
  const SimdKernels<float>& kernels = *SelectSimdTarget().float_kernels;
  const int64_t rows =
      std::min<int64_t>(kernels.rows_together, ProbeProduct::kMaxRows);
  constexpr int64_t kDepth = ProbeProduct::kMaxDepth;
  // More than a core's caches hold, and less than those that cores share.
  const int64_t panel_size = kDepth * kernels.panel_columns;
  const int64_t panel_bytes = panel_size * int64_t{sizeof(float)};
  const int64_t num_panels =
      std::max<int64_t>(4 * CoreCacheBytes() / panel_bytes, 1);
  const std::unique_ptr<float[]> panels(
      new (std::nothrow) float[num_panels * panel_size]);
  if (panels == nullptr) return otherwise;
  std::fill_n(panels.get(), num_panels * panel_size, 1.0f);

  // One panel stays in the first-level cache; one row waits for its panels.
  ProbeProduct near(rows, kDepth, panels.get());
  constexpr int64_t kNearRuns = 200;
  const double near_seconds = LeastSeconds([&] {
    for (int64_t i = 0; i < kNearRuns; ++i) near.Run(1);
  });
  ProbeProduct far(1, kDepth, panels.get());
  const double far_seconds = LeastSeconds([&] { far.Run(num_panels); });

  const double flops =
      2.0 * kNearRuns * rows * static_cast<double>(panel_size) / near_seconds;
  const double far_bytes =
      static_cast<double>(num_panels) * panel_bytes / far_seconds;
  // As the variable can pin it.
  return std::clamp(flops / far_bytes, kLeastNumber, kMostNumber);
}

// ---- The variable -----------------------------------------------------------

// "" where there is none.
const std::string& VariableText() {
  static const std::string* const text = [] {
    const char* const value = std::getenv(kVariable);
    return new std::string(value == nullptr ? "" : value);
  }();
  return *text;
}

// Whether a field of the variable is "name=number", with a number from
// kLeastNumber to `most`; sets `number` then.
bool ReadField(const std::string& field, const char* name, double most,
               double* number) {
  const size_t length = std::strlen(name);
  if (field.compare(0, length, name) != 0 || field[length] != '=') {
    return false;
  }
  // A point is a point in each locale that a program may have set. (So it is to
  // std::from_chars, which older systems do not have for double.)
  std::istringstream text(field.substr(length + 1));
  text.imbue(std::locale::classic());
  double value = 0;
  text >> std::noskipws >> value;
  if (text.fail() || text.peek() != std::istringstream::traits_type::eof() ||
      !(value >= kLeastNumber && value <= most)) {
    return false;
  }
  *number = value;
  return true;
}

// Whether a field of the variable is one of the three; sets that number.
bool ReadAnyField(const std::string& field, Machine* machine) {
  double number = 0;
  if (ReadField(field, "core_cache_bytes", 0x1p40, &number)) {
    machine->core_cache_bytes = static_cast<int64_t>(number);
    return true;
  }
  return ReadField(field, "flops_per_far_byte", kMostNumber,
                   &machine->flops_per_far_byte) ||
         ReadField(field, "flops_per_passed_value", kMostNumber,
                   &machine->flops_per_passed_value);
}

// What the variable says, and 0 for what it does not.
const Machine& PinnedMachine() {
  static const Machine pinned = [] {
    Machine machine;
    machine.flops_per_far_byte = machine.flops_per_passed_value = 0;
    ParseMachine(VariableText(), &machine);
    return machine;
  }();
  return pinned;
}

}  // namespace

std::string ParseMachine(const std::string& text, Machine* machine) {
  if (text.empty()) return "";
  std::set<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string field = text.substr(begin, end - begin);
    const bool is_first = names.insert(field.substr(0, field.find('='))).second;
    if (!is_first || !ReadAnyField(field, machine)) {
      return std::string("The environment variable ") + kVariable +
             " must be \"core_cache_bytes=NUMBER,flops_per_far_byte=NUMBER,"
             "flops_per_passed_value=NUMBER\", or some of the three, each "
             "once, with numbers of 1 or more; got \"" +
             text + "\". Unset it for what this machine has.";
    }
    begin = end + 1;
  }
  return "";
}

std::string MachineVariableText(const Machine& machine) {
  std::ostringstream text;
  text.imbue(std::locale::classic());  // as ReadField() has it
  text.precision(9);
  text << "core_cache_bytes=" << machine.core_cache_bytes
       << ",flops_per_far_byte=" << machine.flops_per_far_byte
       << ",flops_per_passed_value=" << machine.flops_per_passed_value;
  return text.str();
}

std::string MachineVariableFault() {
  Machine machine;
  return ParseMachine(VariableText(), &machine);
}

int64_t CoreCacheBytes() {
  constexpr int64_t kUsual = int64_t{1} << 20;
#ifdef _SC_LEVEL2_CACHE_SIZE
  static const int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (bytes > 0) return bytes;
#endif
  return kUsual;  // some systems do not tell
}

Machine Machine::Here(int num_threads) {
  const Machine& pinned = PinnedMachine();
  Machine machine;
  machine.num_threads = num_threads;
  machine.core_cache_bytes =
      pinned.core_cache_bytes > 0 ? pinned.core_cache_bytes : CoreCacheBytes();
  if (pinned.flops_per_far_byte > 0) {
    machine.flops_per_far_byte = pinned.flops_per_far_byte;
  } else if (num_threads > 1) {
    // What it is taken to be if there is no memory for measuring.
    static const double measured =
        MeasureFlopsPerFarByte(Machine().flops_per_far_byte);
    machine.flops_per_far_byte = measured;
  }
  if (pinned.flops_per_passed_value > 0) {
    machine.flops_per_passed_value = pinned.flops_per_passed_value;
  }
  return machine;
}

}  // namespace rnn
