#include "benchmarks/benchmark_cases.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "network/params_layout.h"
#include "tests/engine/random_values.h"

namespace rnn {

namespace {

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

const std::map<std::string, CellMode>& Modes() {
  static const auto* const modes =
      new std::map<std::string, CellMode>{{"rnn_relu", CellMode::kRelu},
                                          {"rnn_tanh", CellMode::kTanh},
                                          {"lstm", CellMode::kLstm},
                                          {"gru", CellMode::kGru}};
  return *modes;
}

// A line of the file, by column.
class Row {
 public:
  Row(const std::string& where, const std::vector<std::string>& columns,
      const std::vector<std::string>& fields)
      : where_(where) {
    if (fields.size() != columns.size()) {
      Fail("has " + std::to_string(fields.size()) + " fields instead of " +
           std::to_string(columns.size()));
    }
    for (size_t i = 0; i < std::min(columns.size(), fields.size()); ++i) {
      fields_[columns[i]] = fields[i];
    }
  }

  std::string Text(const std::string& column) {
    if (fields_.count(column) == 0) Fail("has no `" + column + "`");
    return fields_[column];
  }
  double Number(const std::string& column) {
    const std::string text = Text(column);
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') {
      Fail("`" + column + "` must be a number; got \"" + text + "\"");
    }
    return number;
  }
  int64_t Integer(const std::string& column) {
    return static_cast<int64_t>(Number(column));
  }
  CellMode Mode(const std::string& column) {
    const auto mode = Modes().find(Text(column));
    if (mode != Modes().end()) return mode->second;
    Fail("`" + column + "` must be rnn_relu, rnn_tanh, lstm or gru; got \"" +
         Text(column) + "\"");
    return CellMode::kLstm;
  }

  void Fail(const std::string& what) {
    if (status_.ok()) {
      status_ = Status::InvalidArgument(where_ + ": " + what + ".");
    }
  }
  const Status& status() const { return status_; }

 private:
  const std::string where_;
  std::map<std::string, std::string> fields_;
  Status status_;
};

}  // namespace

bool BenchmarkCase::IsIn(const std::string& set) const {
  return std::find(sets.begin(), sets.end(), set) != sets.end();
}

Status ReadBenchmarkCases(const std::string& path,
                          std::vector<BenchmarkCase>* cases) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) {
    return Status::InvalidArgument(path + ": cannot be read.");
  }
  const std::vector<std::string> columns = Split(line, ',');
  for (int number = 2; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    Row row(path + ":" + std::to_string(number), columns, Split(line, ','));
    BenchmarkCase c;
    c.name = row.Text("name");
    c.sets = Split(row.Text("sets"), ' ');
    c.descriptor.mode = row.Mode("rnn_mode");
    c.descriptor.num_layers = row.Integer("num_layers");
    c.descriptor.num_directions = row.Integer("num_dirs");
    c.descriptor.hidden_size = row.Integer("num_units");
    c.descriptor.num_proj = row.Integer("num_proj");
    c.descriptor.input_size = row.Integer("input_size");
    c.descriptor.dropout = static_cast<float>(row.Number("dropout"));
    c.seq_length = row.Integer("seq_length");
    c.batch = row.Integer("batch");
    if (c.seq_length < 1 || c.batch < 1) {
      row.Fail("`seq_length` and `batch` must be positive");
    }
    if (!row.status().ok()) return row.status();
    const Status status = Validate(c.descriptor);
    if (!status.ok()) row.Fail(status.message());
    if (!row.status().ok()) return row.status();
    cases->push_back(std::move(c));
  }
  return Status();
}

std::vector<int32_t> RaggedLengths(const BenchmarkCase& c) {
  constexpr double kMean = 0.6, kLowest = 2 * kMean - 1;
  std::vector<int32_t> lengths;
  for (int64_t b = 0; b < c.batch; ++b) {
    const double share =
        c.batch == 1 ? kMean
                     : kLowest + (1 - kLowest) * static_cast<double>(b) /
                                     static_cast<double>(c.batch - 1);
    lengths.push_back(static_cast<int32_t>(
        std::max(std::rint(share * static_cast<double>(c.seq_length)), 1.0)));
  }
  RandomValues random(1);
  for (int64_t b = c.batch - 1; b > 0; --b) {
    std::swap(lengths[b], lengths[random.Integer(0, b)]);
  }
  return lengths;
}

double ForwardFlops(const RnnDescriptor& d, int64_t valid_steps) {
  ParamsLayout layout;
  if (!ParamsLayout::Create(d, &layout).ok()) return 0;
  int64_t elements = 0;  // of all matrices
  for (int64_t k = 0; k < d.num_pseudo_layers(); ++k) {
    elements += layout.InputWeights(k).size() +
                layout.RecurrentWeights(k).size() + layout.Projection(k).size();
  }
  return 2.0 * static_cast<double>(elements) * static_cast<double>(valid_steps);
}

}  // namespace rnn
