// Products of bfloat16 on tile registers (AMX): matrices of 16 rows, which one
// instruction multiplies and adds up. Include vec_avx512_bf16.h first.
//
// In a group of 32 of the depth, the first of all pairs are a chain of
// multiply-adds from zero, the second another; their sum is added to the
// element. Denormals are zeros and sums round to nearest even, whatever the
// floating-point environment says (Intel, "Intel 64 and IA-32 Architectures
// Software Developer's Manual", volume 2, TDPBF16PS).
//
// Floats, in three bfloat16 parts each: amx_parts-inl.h. Which calls take these
// products, plan/ decides.
//
// Products with B given by its columns stay dot products in vectors.
#ifndef KERNELS_ENGINE_SIMD_AMX_INL_H_
#define KERNELS_ENGINE_SIMD_AMX_INL_H_

#include "kernels/engine/simd/avx512_kernels.h"
#include "kernels/engine/simd/cells-inl.h"
#include "kernels/engine/simd/lanes-inl.h"
#include "kernels/engine/simd/panel_product-inl.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/simd/tile-inl.h"
#ifdef RNN_EMULATED_TILE_REGISTERS  // the header that emulates them
#include RNN_EMULATED_TILE_REGISTERS
#else
#include "kernels/engine/simd/tile_registers-inl.h"
#endif

namespace rnn {
namespace RNN_ISA {
namespace {

constexpr int kRegisterLanes = 16;      // floats of a row
constexpr int64_t kRegisterDepth = 32;  // bfloat16 of a row

// Registers 0 to 3 hold sums, of two blocks of rows in turn or of one; two hold
// rows of A, and two rows of B.
constexpr int kNumSums = 4;
constexpr int kFirstA = kNumSums;
constexpr int kFirstB = kFirstA + 2;

// Stores some register where nobody looks. A store that more than some 120
// products after the last one came takes a quarter of a microsecond longer than
// one that comes sooner (Granite Rapids), and these cost next to nothing.
class IdleStores {
 public:
  template <int kRegister>
  RNN_ALWAYS_INLINE void Store() {
    StoreRegister<kRegister>(memory_, sizeof memory_ / kRegisterRows);
  }

 private:
  alignas(64) BFloat16 memory_[kRegisterRows * kRegisterDepth];
};

// The shapes of this thread's tile registers, as long as it lives.
class RegisterShapes {
 public:
  RegisterShapes() = default;
  RegisterShapes(const RegisterShapes&) = delete;
  RegisterShapes& operator=(const RegisterShapes&) = delete;
  ~RegisterShapes() {
    if (rows_[0] > 0) ReleaseRegisters();
  }

  // How many rows of A, and of sums, the two blocks of rows have.
  void SetRows(int first, int second) {
    if (first == rows_[0] && second == rows_[1]) return;
    rows_[0] = first;
    rows_[1] = second;
    alignas(64) RegisterConfiguration c = {};
    c.palette = 1;
    for (int i = 0; i < kNumRegisters; ++i) {
      c.row_bytes[i] = kRegisterLanes * sizeof(float);
      c.rows[i] = kRegisterRows;
    }
    for (int i = 0; i < kNumSums; ++i) c.rows[i] = rows_[i % 2];
    for (int i = 0; i < 2; ++i) c.rows[kFirstA + i] = rows_[i];
    ConfigureRegisters(c);
  }

 private:
  int rows_[2] = {0, 0};
};

// B in a panel of `columns`, packed.
class PackedRegistersOfB {
 public:
  PackedRegistersOfB(const BFloat16* panel, int64_t columns, int64_t depth)
      : panel_(panel), stride_(2 * columns), depth_(depth) {}

  // Up to this depth, tiles can be loaded from where they lie.
  int64_t whole_depth() const {
    return depth_ / kRegisterDepth * kRegisterDepth;
  }
  // The first of vector `vector`, and how far its rows are apart.
  const BFloat16* first(int vector) const {
    return panel_ + vector * 2 * kRegisterLanes;
  }
  int64_t stride() const { return stride_; }

  // One of any depth, with zeros beyond the end.
  void Copy(int64_t k, int vector, BFloat16* out) const {
    const BFloat16* row = first(vector) + k / 2 * stride_;
    for (int64_t i = 0; i < kRegisterRows; ++i) {
      (k + 2 * i < depth_ ? Vec<BFloat16>::Load(row + i * stride_)
                          : ZeroStep<BFloat16>())
          .Store(out + i * kRegisterDepth);
    }
  }

 private:
  const BFloat16* panel_;
  int64_t stride_;
  int64_t depth_;
};

// Stores the registers of sums of some blocks of rows, of block_rows each,
// times some vectors: sums [rows][stride].
template <int kBlocks, int kVectors>
inline void StoreSums(int block_rows, float* sums, int64_t stride) {
  Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      StoreRegister<kBlocks * j.value + i.value>(
          sums + i.value * block_rows * stride + j.value * kRegisterLanes,
          stride * int64_t{sizeof(float)});
    });
  });
}

// As many rows of A as are multiplied together.
constexpr int kRowsTogether = 2 * kRegisterRows;

// Up to so many rows of A: one or two tiles.
class RowsInRegisters {
 public:
  RowsInRegisters(const BFloat16* const* rows, int num_rows, int64_t offset,
                  int64_t depth)
      : rows_(rows),
        num_rows_(num_rows),
        num_blocks_(num_rows > kRegisterRows ? 2 : 1),
        block_rows_((num_rows + num_blocks_ - 1) / num_blocks_),
        offset_(offset),
        depth_(depth) {
    for (int i = 0; i < num_blocks_; ++i) {
      const int begin = i * block_rows_;
      strides_[i] = RowsOf(i) > 1 ? rows[begin + 1] - rows[begin] : 0;
      for (int m = begin + 2; m < begin + RowsOf(i); ++m) {
        are_regular_ = are_regular_ && rows[m] - rows[m - 1] == strides_[i];
      }
    }
  }

  // sums [rows][kMaxVectors vectors] = the rows times the first `vectors` of B.
  // Calls between() num_groups(vectors) times.
  template <int kMaxVectors, typename RegistersOfB, typename Between>
  void Multiply(const RegistersOfB& b, int vectors, RegisterShapes* shapes,
                FetchAhead* ahead, float* sums, Between between) const {
    shapes->SetRows(RowsOf(0), RowsOf(num_blocks_ - 1));
    WithConstant<2>(num_blocks_, [&](auto blocks) {
      constexpr int kBlocks = decltype(blocks)::value;
      constexpr int kTogether = kNumSums / kBlocks;
      for (int v = 0; v < vectors; v += kTogether) {
        WithConstant<kTogether>(vectors - v, [&](auto count) {
          constexpr int kVectors = decltype(count)::value;
          AddProducts<kBlocks, kVectors>(b, v, ahead, between);
          StoreSums<kBlocks, kVectors>(block_rows_, sums + v * kRegisterLanes,
                                       kMaxVectors * kRegisterLanes);
        });
      }
    });
  }
  int num_groups(int vectors) const {
    const int together = kNumSums / num_blocks_;
    return static_cast<int>((depth_ + kRegisterDepth - 1) / kRegisterDepth) *
           ((vectors + together - 1) / together);
  }

 private:
  // The registers of sums = these rows times kVectors vectors from `vector` on.
  template <int kBlocks, int kVectors, typename RegistersOfB, typename Between>
  void AddProducts(const RegistersOfB& b, int vector, FetchAhead* ahead,
                   Between between) const {
    static_assert(kBlocks * kVectors <= kNumSums);
    const auto multiply_group = [&](auto load_a,
                                    auto load_b) RNN_ALWAYS_INLINE {
      FetchAhead lines = ahead->Take(kRegisterRows, &b);
      Unroll<kRegisterRows>([&](auto) RNN_ALWAYS_INLINE { lines.Next(); });
      Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE { load_a(i); });
      Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
        load_b(j);
        Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
          MultiplyAddRegisters<kBlocks * j.value + i.value, kFirstA + i.value,
                               kFirstB + j.value % 2>();
        });
      });
      between();
    };
    Unroll<kNumSums>([](auto i) RNN_ALWAYS_INLINE { ZeroRegister<i.value>(); });
    // Of tiles that do not lie in memory: one each, or a load would wait.
    alignas(64) BFloat16 a_copies[kBlocks][kRegisterRows * kRegisterDepth];
    alignas(64) BFloat16 b_copies[2][kRegisterRows * kRegisterDepth];
    constexpr int64_t kCopyBytes = kRegisterDepth * sizeof(BFloat16);
    const BFloat16* b_tile = b.first(vector);
    const int64_t b_bytes = b.stride() * int64_t{sizeof(BFloat16)};
    const auto load_b = [&](auto j) RNN_ALWAYS_INLINE {
      LoadRegister<kFirstB + j.value % 2>(b_tile + j.value * 2 * kRegisterLanes,
                                          b_bytes);
    };
    int64_t k = 0;
    const auto copy_a = [&](auto i) RNN_ALWAYS_INLINE {
      CopyRows(i.value, k, a_copies[i.value]);
      LoadRegister<kFirstA + i.value>(a_copies[i.value], kCopyBytes);
    };
    const int64_t whole_depth = b.whole_depth();
    if (are_regular_) {
      const BFloat16* a_tiles[kBlocks];
      Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
        a_tiles[i.value] = rows_[i.value * block_rows_] + offset_;
      });
      for (; k < whole_depth; k += kRegisterDepth) {
        multiply_group(
            [&](auto i) RNN_ALWAYS_INLINE {
              LoadRegister<kFirstA + i.value>(
                  a_tiles[i.value],
                  strides_[i.value] * int64_t{sizeof(BFloat16)});
              a_tiles[i.value] += kRegisterDepth;
            },
            load_b);
        b_tile += kRegisterRows * b.stride();
      }
    }
    for (; k < whole_depth; k += kRegisterDepth) {
      multiply_group(copy_a, load_b);
      b_tile += kRegisterRows * b.stride();
    }
    for (; k < depth_; k += kRegisterDepth) {
      multiply_group(copy_a, [&](auto j) RNN_ALWAYS_INLINE {
        constexpr int kSlot = j.value % 2;
        b.Copy(k, vector + j.value, b_copies[kSlot]);
        LoadRegister<kFirstB + kSlot>(b_copies[kSlot], kCopyBytes);
      });
    }
  }

  // The tile of [k, k + 32) of a block's rows, with zeros beyond the depth.
  void CopyRows(int block, int64_t k, BFloat16* out) const {
    const Lanes<Vec<BFloat16>> lanes{(depth_ - k) / 2};
    const BFloat16* const* rows = rows_ + block * block_rows_;
    for (int m = 0; m < RowsOf(block); ++m, out += kRegisterDepth) {
      lanes.Load(rows[m] + offset_ + k).Store(out);
    }
  }

  int RowsOf(int block) const {
    return block == 0 ? block_rows_ : num_rows_ - block_rows_;
  }

  const BFloat16* const* rows_;
  int num_rows_;
  int num_blocks_;
  int block_rows_;  // of the first
  int64_t offset_;
  int64_t depth_;
  // Whether each block's rows are as far apart as its first two are.
  bool are_regular_ = true;
  int64_t strides_[2];
};

void MultiplyPanelInRegisters(const PanelProduct<BFloat16>& p) {
  using V = Vec<float>;
  if (p.b.transposed != nullptr || p.depth == 0) {
    return kAvx512BFloat16Kernels.multiply_panel(p);
  }
  constexpr int64_t kColumns = kTileVectors * V::kLanes;
  const int64_t packed_columns = PackedColumns(p);
  const int vectors = (p.columns + V::kLanes - 1) / V::kLanes;
  RegisterShapes shapes;
  alignas(64) float sums[kRowsTogether * kColumns];
  ForEachDepthBlock<BFloat16>(p.depth, [&](int64_t k, int64_t k_end) {
    const PackedRegistersOfB b(p.b.packed + k * packed_columns, packed_columns,
                               k_end - k);
    FetchAhead ahead = AheadOfBlock<kRowsTogether>(p, k_end);
    ForEachRowRange<kRowsTogether>(p.rows, [&](int64_t row, int num_rows) {
      for (int m = 0; m < num_rows; ++m) {
        FetchTile<1, kTileVectors, V>(p, row + m);
      }
      RowsInRegisters a(p.a + row, num_rows, p.a_offset + k, k_end - k);
      a.Multiply<kTileVectors>(b, vectors, &shapes, &ahead, sums, [] {});
      for (int m = 0; m < num_rows; ++m) {
        for (int v = 0; v < vectors; ++v) {
          const V sum[1][1] = {{V::Load(sums + m * kColumns + v * V::kLanes)}};
          StoreTile(p, row + m, k == 0, sum, v);
        }
      }
    });
  });
}

// The recurrent sums of some rows of a panel, which wait in L1 for their cells
// to be computed: some rows at a time, while tile registers multiply the next.
template <typename Cell>
class WaitingCells {
 public:
  // [rows][kCellVectors vectors]
  float* sums() { return sums_; }

  void Set(const CellForwardStep<BFloat16>& step, int64_t row, int num_rows) {
    step_ = &step;
    row_ = row;
    num_rows_ = num_rows;
    next_ = 0;
  }

  // Up to `rows` more rows.
  void Compute(int rows) {
    const int end = next_ + rows < num_rows_ ? next_ + rows : num_rows_;
    for (; next_ < end; ++next_) {
      const float* const sums =
          sums_ + next_ * kCellVectors<Cell> * kRegisterLanes;
      CellsOfRows<Cell, 1>(
          *step_, row_ + next_, [&](int) { return sums; }, step_->units);
    }
  }

 private:
  alignas(64) float sums_[kRowsTogether * kCellVectors<Cell> * kRegisterLanes];
  const CellForwardStep<BFloat16>* step_ = nullptr;
  int64_t row_ = 0;
  int num_rows_ = 0;
  int next_ = 0;
};

template <typename Cell>
void CellForwardInRegisters(const CellForwardStep<BFloat16>* panels,
                            int count) {
  constexpr int kVectors = kCellVectors<Cell>;
  static_assert(kVectors == kVectorsTogether<Cell>);
  RegisterShapes shapes;
  WaitingCells<Cell> cells[2];
  WaitingCells<Cell>* multiplied = &cells[0];
  WaitingCells<Cell>* waiting = &cells[1];
  for (int i = 0; i < count; ++i) {
    const CellForwardStep<BFloat16>& s = panels[i];
    if (s.recurrent == nullptr) {
      kAvx512BFloat16Kernels.cell_forward[static_cast<int>(Cell::kMode)](&s, 1);
      continue;
    }
    const PackedRegistersOfB b(s.recurrent, kVectors * kRegisterLanes, s.depth);
    FetchAhead ahead = AheadOfPanel<Cell, kRowsTogether>(s);
    ForEachRowRange<kRowsTogether>(s.rows, [&](int64_t row, int num_rows) {
      const RowsInRegisters a(s.h_prev + row, num_rows, 0, s.depth);
      const int groups = a.num_groups(kVectors);
      const int rows_per_group =
          groups == 0 ? 0 : (kRowsTogether + groups - 1) / groups;
      a.Multiply<kVectors>(b, kVectors, &shapes, &ahead, multiplied->sums(),
                           [&]() { waiting->Compute(rows_per_group); });
      waiting->Compute(kRowsTogether);  // a depth of 0 has no groups
      multiplied->Set(s, row, num_rows);
      WaitingCells<Cell>* const next = waiting;
      waiting = multiplied;
      multiplied = next;
    });
  }
  waiting->Compute(kRowsTogether);
}

// A kernel that tile registers do not change. The table, which the compiler has
// to fill in, cannot have what another file's table holds, but what calls it.
template <auto kKernel>
struct Shared;
template <typename... Arguments,
          void (*SimdKernels<BFloat16>::*kKernel)(Arguments...)>
struct Shared<kKernel> {
  static void Call(Arguments... arguments) {
    (kAvx512BFloat16Kernels.*kKernel)(arguments...);
  }
};
template <typename Cell>
void SharedCellBackward(const CellBackwardStep<BFloat16>& s) {
  kAvx512BFloat16Kernels.cell_backward[static_cast<int>(Cell::kMode)](s);
}

template <typename Cell>
constexpr void SetRegisterCell(SimdKernels<BFloat16>* kernels) {
  const int i = static_cast<int>(Cell::kMode);
  kernels->cell_forward[i] = CellForwardInRegisters<Cell>;
  kernels->cell_backward[i] = SharedCellBackward<Cell>;
}

constexpr SimdKernels<BFloat16> MakeRegisterKernels() {
  using Kernels = SimdKernels<BFloat16>;
  Kernels kernels = MakeKernels<BFloat16>();
  kernels.rows_together = kRowsTogether;
  kernels.has_tile_registers = true;
  kernels.multiply_panel = MultiplyPanelInRegisters;
  kernels.multiply_dot_panels = Shared<&Kernels::multiply_dot_panels>::Call;
  kernels.multiply_rows = Shared<&Kernels::multiply_rows>::Call;
  kernels.transpose_rows = Shared<&Kernels::transpose_rows>::Call;
  kernels.pack_columns = Shared<&Kernels::pack_columns>::Call;
  kernels.pack_rows = Shared<&Kernels::pack_rows>::Call;
  kernels.sum_rows = Shared<&Kernels::sum_rows>::Call;
  kernels.drop_out = Shared<&Kernels::drop_out>::Call;
  SetRegisterCell<VanillaCell<true>>(&kernels);
  SetRegisterCell<VanillaCell<false>>(&kernels);
  SetRegisterCell<LstmCell>(&kernels);
  SetRegisterCell<GruCell>(&kernels);
  return kernels;
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_AMX_INL_H_
