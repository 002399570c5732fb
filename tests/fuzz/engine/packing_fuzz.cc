// What copies matrices into panels, and products with them. Micro-kernels: on
// every instruction set of this machine; what the engine packs: on the one that
// TF_CUDNN_RNN_ISA allows. All values are small integers, so that every sum is
// exact in any order; rows lie between guard pages.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/engine/elements/elements.h"
#include "kernels/engine/plan/kernel_shape.h"
#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/weights/cell_panels.h"
#include "kernels/engine/weights/matrix_source.h"
#include "kernels/engine/weights/packing.h"
#include "network/element_types.h"
#include "tests/engine/element_values.h"
#include "tests/engine/guard_pages.h"
#include "tests/engine/guarded.h"
#include "tests/engine/simd_targets.h"
#include "tests/engine/threads_in_turn.h"
#include "tests/engine/unused.h"
#include "tests/fuzz/engine/fuzz.h"
#include "tests/fuzz/engine/input.h"

namespace rnn {
namespace fuzz {
namespace {

constexpr int64_t kMaxRows = 70;
constexpr int64_t kMaxRowSize = 300;

// A small integer for each place, in which neither rows nor columns are alike.
int64_t ValueAt(uint32_t seed, int64_t i, int64_t j) {
  uint32_t bits = seed + static_cast<uint32_t>(i) * 0x9E3779B1u +
                  static_cast<uint32_t>(j) * 0x85EBCA77u;
  bits ^= bits >> 15;
  bits *= 0x2C1B3C6Du;
  return static_cast<int64_t>(bits >> 16 & 15) - 8;
}

// Rows with guards of their own, in memory that all inputs use in turn.
template <typename Value, int kUse>
class GuardedRows {
 public:
  static Value* Row(int64_t i, GuardedSide side, int64_t count) {
    static auto* const rows =
        new std::vector<std::unique_ptr<GuardPages<Value>>>(kMaxRows);
    auto& row = (*rows)[i];
    if (row == nullptr) row = std::make_unique<GuardPages<Value>>(kMaxRowSize);
    return row->At(side, count);
  }
  // [rows] -> [count], of ValueAt().
  static std::vector<const Value*> Filled(uint32_t seed, GuardedSide side,
                                          int64_t num_rows, int64_t count) {
    std::vector<const Value*> pointers;
    for (int64_t i = 0; i < num_rows; ++i) {
      Value* row = Row(i, side, count);
      for (int64_t j = 0; j < count; ++j) {
        row[j] = FromDouble<Value>(static_cast<double>(ValueAt(seed, i, j)));
      }
      pointers.push_back(row);
    }
    return pointers;
  }
  static std::vector<Value*> Unused(GuardedSide side, int64_t num_rows,
                                    int64_t count) {
    std::vector<Value*> pointers;
    for (int64_t i = 0; i < num_rows; ++i) {
      pointers.push_back(Row(i, side, count));
      FillUnused(pointers.back(), kPoison, count * int64_t{sizeof(Value)});
    }
    return pointers;
  }
};

// The place of B[k][j] in a panel of so many columns.
template <typename Operand>
int64_t PanelIndex(int64_t k, int64_t j, int64_t columns) {
  constexpr int64_t kStep = kDepthStep<Operand>;
  return (k / kStep * columns + j) * kStep + k % kStep;
}

template <typename Value>
void RequireIs(Value value, int64_t expected) {
  FUZZ_REQUIRE(ToDouble(value) == static_cast<double>(expected));
}

// ---- Micro-kernels ----------------------------------------------------------

struct Sizes {
  uint32_t seed;
  GuardedSide side;
  int64_t rows, depth, columns;
};

// Some rows that are missing give zeros.
template <typename Operand>
void CheckTranspose(const SimdKernels<Operand>& kernels, const Sizes& s,
                    int64_t k_begin, uint64_t missing) {
  const int64_t columns = std::min<int64_t>(s.columns, kMaxRows);
  const int64_t k_end = k_begin + s.depth;
  auto rows = GuardedRows<Operand, 0>::Filled(s.seed, s.side, columns, k_end);
  for (int64_t j = 0; j < columns; ++j) {
    if (missing >> (j % 64) & 1) rows[j] = nullptr;
  }
  const int64_t padded = PaddedDepth<Operand>(columns);
  EndGuarded<Operand> out(s.depth * padded);
  FillUnused(out.data(), kPoison, out.size() * int64_t{sizeof(Operand)});
  kernels.transpose_rows(rows.data(), columns, k_begin, k_end, out.data(),
                         padded);
  for (int64_t k = 0; k < s.depth; ++k) {
    for (int64_t j = 0; j < padded; ++j) {
      RequireIs(out[k * padded + j], j < columns && rows[j] != nullptr
                                         ? ValueAt(s.seed, j, k_begin + k)
                                         : 0);
    }
  }
}

template <typename Operand>
void CheckPackColumns(const SimdKernels<Operand>& kernels, const Sizes& s,
                      int64_t k_begin, uint64_t missing) {
  const int64_t columns = std::min<int64_t>(s.columns, kMaxRows);
  const int64_t depth = PaddedDepth<Operand>(s.depth);
  k_begin = PaddedDepth<Operand>(k_begin);
  auto rows =
      GuardedRows<Operand, 0>::Filled(s.seed, s.side, columns, k_begin + depth);
  for (int64_t j = 0; j < columns; ++j) {
    if (missing >> (j % 64) & 1) rows[j] = nullptr;
  }
  EndGuarded<Operand> out(depth * columns);
  FillUnused(out.data(), kPoison, out.size() * int64_t{sizeof(Operand)});
  kernels.pack_columns(rows.data(), columns, k_begin, k_begin + depth,
                       out.data());
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t j = 0; j < columns; ++j) {
      RequireIs(out[PanelIndex<Operand>(k, j, columns)],
                rows[j] == nullptr ? 0 : ValueAt(s.seed, j, k_begin + k));
    }
  }
}

template <typename Operand>
void CheckPackRows(const SimdKernels<Operand>& kernels, const Sizes& s,
                   int64_t padding) {
  constexpr int64_t kStep = kDepthStep<Operand>;
  const auto rows =
      GuardedRows<Operand, 0>::Filled(s.seed, s.side, s.rows, s.columns);
  const int64_t num_steps = (s.rows + kStep - 1) / kStep;
  const int64_t stride = kStep * (s.columns + padding);
  GuardPages<Operand> pages(num_steps * stride);
  Operand* out = pages.At(s.side, num_steps * stride);
  FillUnused(out, kPoison, num_steps * stride * int64_t{sizeof(Operand)});
  kernels.pack_rows(rows.data(), s.rows, s.columns, s.columns + padding, out,
                    stride);
  for (int64_t i = 0; i < num_steps * stride; ++i) {
    const int64_t row = i / stride * kStep + i % kStep;
    const int64_t j = i % stride / kStep;
    RequireIs(out[i],
              row < s.rows && j < s.columns ? ValueAt(s.seed, row, j) : 0);
  }
}

template <typename Operand>
void CheckSumRows(const SimdKernels<Operand>& kernels, const Sizes& s,
                  int64_t first_column, bool accumulates) {
  using F = ComputeType<Operand>;
  const auto rows = GuardedRows<F, 2>::Filled(s.seed, s.side, s.rows,
                                              first_column + s.columns);
  F* sums = GuardedRows<F, 3>::Unused(s.side, 1, s.columns)[0];
  if (accumulates) std::fill_n(sums, s.columns, F{7});
  kernels.sum_rows(rows.data(), s.rows, first_column, s.columns, accumulates,
                   sums);
  for (int64_t j = 0; j < s.columns; ++j) {
    int64_t sum = accumulates ? 7 : 0;
    for (int64_t i = 0; i < s.rows; ++i) {
      sum += ValueAt(s.seed, i, first_column + j);
    }
    RequireIs(sums[j], sum);
  }
}

enum class Way { kPacked, kTransposed, kRows };

template <typename Operand>
void CheckProduct(const SimdKernels<Operand>& kernels, Sizes s, Way way,
                  int64_t offset, bool has_bias, bool accumulates) {
  using F = ComputeType<Operand>;
  s.depth = PaddedDepth<Operand>(s.depth);
  if (way == Way::kPacked) {
    s.columns = std::min<int64_t>(s.columns, kernels.panel_columns);
  }
  const uint32_t b_seed = s.seed + 1;
  const auto a =
      GuardedRows<Operand, 0>::Filled(s.seed, s.side, s.rows, offset + s.depth);
  const int64_t width = way == Way::kPacked ? kernels.panel_columns : s.columns;
  const int64_t stride = way == Way::kTransposed ? s.depth : width;
  EndGuarded<Operand> b(s.depth * width);
  for (int64_t k = 0; k < s.depth; ++k) {
    for (int64_t j = 0; j < width; ++j) {
      const int64_t place = way == Way::kPacked
                                ? PanelIndex<Operand>(k, j, width)
                            : way == Way::kTransposed ? j * stride + k
                                                      : k * stride + j;
      b[place] =
          FromDouble<Operand>(static_cast<double>(ValueAt(b_seed, k, j)));
    }
  }
  b.MakeReadOnly();
  const auto c = GuardedRows<F, 3>::Unused(s.side, s.rows, offset + s.columns);
  for (F* row : c) {
    if (accumulates) std::fill_n(row + offset, s.columns, F{5});
  }
  F* bias = GuardedRows<F, 4>::Row(0, s.side, s.columns);
  std::fill_n(bias, s.columns, F{-3});
  const int64_t start = accumulates ? 5 : has_bias ? -3 : 0;
  if (way == Way::kRows) {
    RowsProduct<Operand> product{};
    product.rows = s.rows;
    product.depth = s.depth;
    product.columns = s.columns;
    std::vector<const Operand*> a_at;
    for (const Operand* row : a) a_at.push_back(row + offset);
    product.a = a_at.data();
    product.b = b.data();
    product.stride = stride;
    product.c = c.data();
    product.c_offset = offset;
    product.bias = has_bias ? bias : nullptr;
    product.accumulate = accumulates;
    kernels.multiply_rows(product);
  } else {
    PanelProduct<Operand> product{};
    product.rows = s.rows;
    product.depth = s.depth;
    product.columns = s.columns;
    product.a = a.data();
    product.a_offset = offset;
    if (way == Way::kPacked) {
      product.b.packed = b.data();
    } else {
      product.b.transposed = b.data();
      product.b.stride = stride;
    }
    product.c = c.data();
    product.c_offset = offset;
    product.bias = has_bias ? bias : nullptr;
    product.accumulate = accumulates;
    kernels.multiply_panel(product);
  }
  for (int64_t m = 0; m < s.rows; ++m) {
    for (int64_t j = 0; j < s.columns; ++j) {
      int64_t sum = start;
      for (int64_t k = 0; k < s.depth; ++k) {
        sum += ValueAt(s.seed, m, offset + k) * ValueAt(b_seed, k, j);
      }
      RequireIs(c[m][offset + j], sum);
    }
  }
}

template <typename Operand>
void CheckKernels(const SimdKernels<Operand>& kernels, Input input) {
  Sizes s;
  s.seed = input.Any<uint32_t>();
  s.side = input.Flag() ? GuardedSide::kBegin : GuardedSide::kEnd;
  s.rows = input.Between(1, 14);
  s.depth = input.Between(0, 70);
  s.columns = input.Between(1, 140);
  const int64_t offset = input.Between(0, 5);
  const int what = input.Byte() % 8;
  const uint64_t missing = input.Flag() ? input.Any<uint64_t>() : 0;
  const int flags = input.Byte();
  switch (what) {
    case 0:
      return CheckTranspose(kernels, s, offset, missing);
    case 1:
      return CheckPackColumns(kernels, s, offset, missing);
    case 2:
      return CheckPackRows(kernels, s, static_cast<int64_t>(missing % 64));
    case 3:
      return CheckSumRows(kernels, s, offset, flags % 2 != 0);
    default:
      return CheckProduct(kernels, s, static_cast<Way>(what % 3), offset,
                          flags % 2 != 0, flags % 4 >= 2);
  }
}

// ---- What the engine packs --------------------------------------------------

// A matrix in memory of exactly its size, as MatrixSource describes it.
template <typename Element>
struct Matrix {
  explicit Matrix(Input& input) {
    seed = input.Any<uint32_t>();
    pieces.count = static_cast<int>(input.Between(1, kMaxGates));
    pieces.width = input.Between(1, 1 + kMaxRowSize / 5);
    const int64_t first = input.Byte() % pieces.count;
    for (int p = 0; p < pieces.count; ++p) {
      pieces.begins[p] = (first + p) % pieces.count * pieces.width;
    }
    num_rows = input.Between(1, kMaxRows);
    if (input.Flag()) {
      rows = GuardedRows<Element, 5>::Filled(seed, GuardedSide::kEnd, num_rows,
                                             pieces.size());
      source = MatrixSource<Element>::RowsAt(rows.data(), num_rows, pieces);
    } else {
      const int64_t stride = pieces.size() + input.Between(0, 3);
      values = std::make_unique<EndGuarded<Element>>((num_rows - 1) * stride +
                                                     pieces.size());
      FillUnused(values->data(), kPoison,
                 values->size() * int64_t{sizeof(Element)});
      for (int64_t i = 0; i < num_rows; ++i) {
        for (int64_t j = 0; j < pieces.size(); ++j) {
          (*values)[i * stride + j] =
              FromDouble<Element>(static_cast<double>(ValueAt(seed, i, j)));
        }
      }
      source =
          MatrixSource<Element>::Rows(values->data(), stride, num_rows, pieces);
    }
    is_transposed = input.Flag();
    if (is_transposed) source = source.Transposed();
  }

  // B[k][j], zero outside.
  int64_t At(int64_t k, int64_t j) const {
    if (k >= source.depth || j >= source.columns) return 0;
    return is_transposed ? ValueAt(seed, j, pieces.PlaceOf(k))
                         : ValueAt(seed, k, pieces.PlaceOf(j));
  }

  uint32_t seed;
  Pieces pieces;
  int64_t num_rows;
  bool is_transposed;
  std::vector<const Element*> rows;
  std::unique_ptr<EndGuarded<Element>> values;
  MatrixSource<Element> source;
};

template <typename Element, typename Operand>
void CheckPackPanels(Input& input) {
  const Matrix<Element> matrix(input);
  const MatrixSource<Element>& b = matrix.source;
  ThreadsInTurn executor(static_cast<int>(input.Between(1, 4)));
  const int64_t panel_columns = Kernels<Operand>().panel_columns;
  const int64_t depth = PaddedDepth<Operand>(b.depth);
  const int64_t num_panels = NumPanels<Operand>(b.columns);
  EndGuarded<Operand> panels(num_panels * depth * panel_columns);
  FillUnused(panels.data(), kPoison, panels.size() * int64_t{sizeof(Operand)});
  PackPanels(b, executor, panels.data());
  for (int64_t panel = 0; panel < num_panels; ++panel) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t j = 0; j < panel_columns; ++j) {
        RequireIs(panels[panel * depth * panel_columns +
                         PanelIndex<Operand>(k, j, panel_columns)],
                  matrix.At(k, panel * panel_columns + j));
      }
    }
  }
}

// R in the panels of forward's cells, of params and of Keras' weights.
template <typename Element, typename Operand>
void CheckCellPanels(Input& input) {
  RnnDescriptor d;
  d.mode = static_cast<CellMode>(input.Between(0, kNumCellModes - 1));
  d.hidden_size = input.Between(1, 1 + kMaxRowSize / 5);
  d.input_size = 1;
  const bool is_keras = input.Flag();
  if (d.mode == CellMode::kLstm && !is_keras) {
    d.num_proj = input.Between(0, d.hidden_size);
  }
  const int64_t H = d.hidden_size, P = d.output_size();
  const uint32_t seed = input.Any<uint32_t>();
  ThreadsInTurn executor(static_cast<int>(input.Between(1, 4)));
  // Params: [G*H, P]; Keras: [P, G*H].
  EndGuarded<Element> memory(d.gates_size() * P);
  const int64_t stride = is_keras ? d.gates_size() : P;
  for (int64_t i = 0; i < memory.size(); ++i) {
    memory[i] = FromDouble<Element>(
        static_cast<double>(ValueAt(seed, i / stride, i % stride)));
  }
  memory.MakeReadOnly();
  Pieces pieces;
  pieces.count = d.num_gates();
  pieces.width = H;
  for (int gate = 0; gate < pieces.count; ++gate) {
    pieces.begins[gate] = (gate + 1) % pieces.count * H;
  }
  const auto source =
      is_keras ? MatrixSource<Element>::Rows(memory.data(), stride, P, pieces)
               : MatrixSource<Element>::Columns(memory.data(), stride, P,
                                                d.gates_size());
  const auto expected = [&](int64_t k, int64_t gate, int64_t unit) -> int64_t {
    if (k >= P || gate >= d.num_gates()) return 0;
    return is_keras ? ValueAt(seed, k, pieces.begins[gate] + unit)
                    : ValueAt(seed, gate * H + unit, k);
  };
  const CellPanelShape shape =
      CellPanelShape::Of(d, KernelShape::Of(kElementTypeOf<Element>));
  const int64_t size = shape.panel_size(d.num_gates());
  const bool in_turn = input.Flag();
  const int64_t num_places = input.Between(1, 4);
  EndGuarded<Operand> panels((in_turn ? num_places : shape.num_panels) * size);
  FillUnused(panels.data(), kPoison, panels.size() * int64_t{sizeof(Operand)});
  CellPanels<Operand> cell_panels(d, shape);
  cell_panels.Use(panels.data());
  constexpr int64_t kStep = kDepthStep<Operand>;
  const int64_t together =
      Kernels<Operand>().cell_columns[static_cast<int>(d.mode)];
  const auto check = [&](int64_t panel, const Operand* values) {
    const int64_t first_unit = panel * shape.units;
    const int64_t units = std::min(shape.units, H - first_unit);
    for (int64_t column = 0; column < d.num_gates() * shape.units; ++column) {
      const int64_t first = column / together * together;
      for (int64_t k = 0; k < shape.depth; ++k) {
        const int64_t place = first * shape.depth +
                              (k / kStep * together + column - first) * kStep +
                              k % kStep;
        RequireIs(values[place],
                  expected(k, column / units, first_unit + column % units));
      }
    }
  };
  if (in_turn) {
    cell_panels.PackInTurn(source, num_places, executor, input.Any<uint16_t>(),
                           check);
    return;
  }
  cell_panels.Pack(source, executor);
  for (int64_t panel = 0; panel < shape.num_panels; ++panel) {
    check(panel, panels.data() + panel * size);
  }
}

template <typename Element>
void CheckEngine(Input& input) {
  const bool is_of_cells = input.Flag();
  WithOperand<Element>([&](auto operand) {
    using Operand = decltype(operand);
    if (is_of_cells) {
      CheckCellPanels<Element, Operand>(input);
    } else {
      CheckPackPanels<Element, Operand>(input);
    }
  });
}

void Run(Input input) {
  const int kind = input.Byte() % 7;
  for (const SimdTarget* target : AllSimdTargets()) {
    SetGuardedCase(target->name);
    if (kind == 0) {
      CheckKernels(*target->float_kernels, input);
    } else if (kind == 1) {
      CheckKernels(*target->double_kernels, input);
    } else if (kind == 2 && target->bfloat16_kernels != nullptr) {
      CheckKernels(*target->bfloat16_kernels, input);
    }
  }
  SetGuardedCase(SelectSimdTarget().name);
  if (kind == 3) CheckEngine<float>(input);
  if (kind == 4) CheckEngine<double>(input);
  if (kind == 5) CheckEngine<Half>(input);
  if (kind == 6) CheckEngine<BFloat16>(input);
}

}  // namespace
}  // namespace fuzz
}  // namespace rnn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rnn::fuzz::Run(rnn::fuzz::Input(data, size));
  return 0;
}
