// The bits of results stay what they are from version to version: hashes of the
// outputs and gradients of random calls, compared with those that are kept in
// engine_bits/<instruction set>.txt.
//
// A change that is meant to change bits writes them anew and says so in the
// CHANGELOG: tools/write_engine_bits.sh.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/engine/engine.h"
#include "tests/engine/element_values.h"
#include "tests/engine/engine_call.h"
#include "tests/engine/guarded.h"
#include "tests/engine/random_values.h"
#include "tests/engine/simd_targets.h"
#include "tests/engine/threads_in_turn.h"

namespace rnn {
namespace {

struct BitsCase {
  EngineSizes sizes;
  ElementType type;
  int num_threads;  // on which no bit depends
  bool is_ragged;

  // Everything that results depend on, but for the values.
  std::string name() const {
    const RnnDescriptor& d = sizes.descriptor;
    std::ostringstream name;
    name << kModeNames[static_cast<int>(d.mode)] << '_' << ElementName(type)
         << "_T" << sizes.max_time << "_B" << sizes.batch << "_I"
         << d.input_size << "_H" << d.hidden_size;
    if (d.num_layers > 1) name << "_L" << d.num_layers;
    if (d.num_directions > 1) name << "_D" << d.num_directions;
    if (d.num_proj > 0) name << "_P" << d.num_proj;
    if (d.skip_input) name << "_skip";
    if (d.dropout > 0) name << "_dropout";
    if (is_ragged) name << "_ragged";
    if (!sizes.time_major) name << "_batch_major";
    if (sizes.keras_weights) {
      name << (sizes.keras_bias ? "_keras" : "_keras_without_bias");
    }
    if (sizes.int8_weights) name << "_int8";
    if (!sizes.mask.empty()) name << "_masked";
    if (sizes.go_backwards) name << "_backwards";
    if (sizes.repeats_outputs) name << "_repeated";
    if (!sizes.training) name << "_inference";
    return name.str();
  }
};

// ---- Drawing cases ----------------------------------------------------------

// Small sizes as often as large ones, and often next to a power of two.
int64_t DrawSize(RandomValues& random, int64_t low, int64_t high) {
  int64_t size = random.Integer(low, high);
  if (random.Integer(0, 2) == 0) {
    int64_t power = 1;
    while (2 * power <= size) power *= 2;
    size = power + random.Integer(-1, 1);
  }
  return std::min(std::max(size, low), high);
}

// What routes depend on: steps, rows of the batch, sizes of weights.
struct Kind {
  int64_t min_steps, max_steps;
  int64_t min_batch, max_batch;
  int64_t min_input, max_input;
  int64_t min_hidden, max_hidden;
  int64_t max_layers;
  int weight;  // how many of the cases
};
constexpr Kind kKinds[] = {
    {1, 12, 1, 9, 1, 40, 1, 40, 3, 240},       // of everything a little
    {1, 1, 1, 70, 1, 150, 1, 290, 2, 160},     // one step
    {2, 2, 1, 17, 1, 150, 1, 200, 2, 120},     // two steps
    {3, 8, 1, 4, 16, 150, 16, 200, 2, 120},    // few rows in all
    {8, 40, 1, 4, 1, 60, 30, 200, 2, 100},     // long sequences, small batches
    {3, 60, 5, 34, 1, 70, 1, 70, 3, 200},      // several chunks of time
    {3, 6, 32, 80, 64, 200, 96, 170, 2, 200},  // in parts, where there are any
    {9, 14, 1, 4, 1, 40, 363, 430, 1, 60},     // R of some megabytes
    {0, 2, 0, 3, 0, 5, 1, 9, 2, 20},           // nothing, or almost
};

BitsCase DrawCase(const Kind& kind, RandomValues& random) {
  BitsCase c{};
  RnnDescriptor& d = c.sizes.descriptor;
  d.mode = kModes[random.Integer(0, kNumCellModes - 1)];
  d.num_layers = random.Integer(1, kind.max_layers);
  d.num_directions = random.Integer(1, 2);
  c.sizes.max_time = random.Integer(kind.min_steps, kind.max_steps);
  c.sizes.batch = DrawSize(random, kind.min_batch, kind.max_batch);
  d.input_size = DrawSize(random, kind.min_input, kind.max_input);
  d.hidden_size = DrawSize(random, kind.min_hidden, kind.max_hidden);
  // A third of the calls are of one layer in one direction with Keras' weights.
  if (random.Integer(0, 2) == 0 && d.input_size > 0) {
    d.num_layers = d.num_directions = 1;
    c.sizes.keras_weights = true;
    c.sizes.keras_bias = random.Integer(0, 3) > 0;
  } else {
    if (d.mode == CellMode::kLstm && random.Integer(0, 2) == 0) {
      d.num_proj = random.Integer(1, d.hidden_size);
    }
    if (random.Integer(0, 5) == 0 || d.input_size == 0) {
      d.skip_input = d.input_size > 0;
      if (d.skip_input) d.input_size = d.hidden_size;
    }
    if (d.num_layers > 1 && random.Integer(0, 2) == 0) d.dropout = 0.375f;
  }
  if (d.input_size == 0) d.input_size = 1;
  c.sizes.time_major = random.Integer(0, 1) == 0;
  c.sizes.training = random.Integer(0, 3) > 0;
  constexpr ElementType kTypes[] = {
      ElementType::kFloat,   ElementType::kFloat, ElementType::kFloat,
      ElementType::kDouble,  ElementType::kHalf,  ElementType::kBFloat16,
      ElementType::kBFloat16};
  c.type = kTypes[random.Integer(0, 6)];
  constexpr int kThreads[] = {1, 2, 2, 3, 8};
  c.num_threads = kThreads[random.Integer(0, 4)];
  c.is_ragged = random.Integer(0, 2) == 0;
  if (c.is_ragged) {
    for (int64_t b = 0; b < c.sizes.batch; ++b) {
      c.sizes.lengths.push_back(
          static_cast<int32_t>(random.Integer(0, c.sizes.max_time)));
    }
  }
  return c;
}

// What layers ask for beyond that, and weights in int8.
BitsCase DrawLayerCase(const Kind& kind, RandomValues& random) {
  BitsCase c = DrawCase(kind, random);
  EngineSizes& sizes = c.sizes;
  RnnDescriptor& d = sizes.descriptor;
  if (random.Integer(0, 3) == 0) {
    sizes.int8_weights = true;
    sizes.keras_weights = sizes.training = false;
    c.type = ElementType::kFloat;
  }
  if (sizes.keras_weights) d.num_directions = random.Integer(1, 2);
  if (random.Integer(0, 1) == 0) {
    for (int64_t i = 0; i < sizes.max_time * sizes.batch; ++i) {
      sizes.mask.push_back(random.Integer(0, 3) > 0);
    }
  }
  sizes.go_backwards = random.Integer(0, 1) == 0;
  sizes.repeats_outputs = d.num_directions == 1 && random.Integer(0, 1) == 0;
  return c;
}

// Routes that none of the kinds has, since they take long.
std::vector<BitsCase> LargeCases() {
  std::vector<BitsCase> cases;
  const auto add = [&](CellMode mode, ElementType type, int64_t T, int64_t B,
                       int64_t I, int64_t H, bool keras_weights) {
    BitsCase c{};
    c.sizes.descriptor.mode = mode;
    c.sizes.descriptor.input_size = I;
    c.sizes.descriptor.hidden_size = H;
    c.sizes.max_time = T;
    c.sizes.batch = B;
    c.sizes.keras_weights = keras_weights;
    c.type = type;
    c.num_threads = 2;
    cases.push_back(c);
  };
  constexpr ElementType kFloat = ElementType::kFloat;
  // R of 12 MB and more, in place and packed.
  add(CellMode::kLstm, kFloat, 9, 3, 20, 900, false);
  add(CellMode::kLstm, kFloat, 9, 3, 20, 900, true);
  add(CellMode::kGru, kFloat, 10, 2, 20, 1030, true);
  add(CellMode::kRelu, ElementType::kDouble, 9, 4, 20, 1290, false);
  // Products in parts, of few and of many rows a step.
  add(CellMode::kLstm, kFloat, 17, 33, 100, 520, false);
  add(CellMode::kLstm, kFloat, 6, 32, 100, 200, true);
  add(CellMode::kGru, kFloat, 4, 65, 100, 300, false);
  add(CellMode::kTanh, kFloat, 4, 128, 200, 260, false);
  // Many activations.
  add(CellMode::kLstm, kFloat, 12, 96, 100, 352, false);
  return cases;
}

std::vector<BitsCase> Cases() {
  RandomValues random(20261123);
  std::vector<BitsCase> cases = LargeCases();
  for (const Kind& kind : kKinds) {
    for (int i = 0; i < kind.weight; ++i) {
      cases.push_back(DrawCase(kind, random));
    }
  }
  for (const Kind& kind : kKinds) {
    for (int i = 0; i < kind.weight / 4; ++i) {
      cases.push_back(DrawLayerCase(kind, random));
    }
  }
  return cases;
}

// ---- Hashes -----------------------------------------------------------------

template <typename Element>
uint64_t HashOfCall(const BitsCase& c, uint64_t seed) {
  EngineCall<Element, Guarded> call(c.sizes, seed);
  ThreadsInTurn executor(c.num_threads);
  call.Forward(executor);
  if (c.sizes.training) call.Backward(executor);
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (auto* values : call.Outputs()) {
    EXPECT_TRUE(values->intact());
    const auto* bytes = reinterpret_cast<const unsigned char*>(values->data());
    for (int64_t i = 0; i < values->size() * int64_t{sizeof(Element)}; ++i) {
      hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
  }
  return hash;
}

uint64_t HashOf(const BitsCase& c, uint64_t seed) {
  return WithElement(c.type, [&](auto element) {
    return HashOfCall<decltype(element)>(c, seed);
  });
}

std::string Line(int index, const BitsCase& c) {
  std::ostringstream line;
  line << index << ' ' << c.name() << ' ' << std::hex << std::setw(16)
       << std::setfill('0') << HashOf(c, static_cast<uint64_t>(index));
  return line.str();
}

TEST(EngineBitsTest, AreThoseOfEarlierVersions) {
  const std::vector<BitsCase> cases = Cases();
  const std::string name = SelectSimdTarget().name;
  const std::string path = "tests/engine/engine_bits/" + name + ".txt";
  if (const char* folder = std::getenv("ENGINE_BITS_FOLDER")) {
    std::ofstream out(std::string(folder) + "/" + name + ".txt");
    for (size_t i = 0; i < cases.size(); ++i) {
      out << Line(static_cast<int>(i), cases[i]) << '\n';
    }
    ASSERT_TRUE(out.flush().good());
    return;
  }
  std::ifstream in(path);
  ASSERT_TRUE(in) << path << " is missing; tools/write_engine_bits.sh";
  int num_different = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    std::string expected;
    std::getline(in, expected);
    const std::string line = Line(static_cast<int>(i), cases[i]);
    if (line == expected) continue;
    if (++num_different <= 20) {
      ADD_FAILURE() << "on " << name << " with " << cases[i].num_threads
                    << " threads\n  now    " << line << "\n  before "
                    << expected;
    }
  }
  std::string left_over;
  EXPECT_FALSE(std::getline(in, left_over))
      << path << " goes on behind the last call: " << left_over;
  EXPECT_EQ(num_different, 0) << "of " << cases.size() << " calls on " << name;
}

}  // namespace
}  // namespace rnn
