// Products of bfloat16 on tile registers (AMX): matrices of 16 rows, which one
// instruction multiplies and adds up. Include vec_avx512_bf16.h first.
//
// In a chunk of 32 of the depth, the first of all pairs are a chain of
// multiply-adds from zero, the second another; their sum is added to the
// element. Denormals are zeros and sums round to nearest even, whatever the
// floating-point environment says (Intel, "Intel 64 and IA-32 Architectures
// Software Developer's Manual", volume 2, TDPBF16PS).
//
// Products with B given by its columns stay dot products in vectors.
#ifndef KERNELS_ENGINE_SIMD_AMX_INL_H_
#define KERNELS_ENGINE_SIMD_AMX_INL_H_

#include "kernels/engine/simd/cells-inl.h"
#include "kernels/engine/simd/product-inl.h"
#include "kernels/engine/simd/simd_kernels.h"

namespace rnn {
namespace RNN_ISA {
namespace {

constexpr int kRegisterRows = 16;
constexpr int kRegisterLanes = 16;      // floats of a row
constexpr int64_t kRegisterDepth = 32;  // bfloat16 of a row

// Registers 0 to 3 hold sums, of two blocks of rows in turn or of one; two hold
// rows of A, and two rows of B.
constexpr int kNumSums = 4;
constexpr int kFirstA = kNumSums;
constexpr int kFirstB = kFirstA + 2;

// The compiler does not know that loads read what was stored before: hence
// assembler, which keeps its order, and of which those that touch memory say
// so.
template <int kRegister>
RNN_ALWAYS_INLINE inline void ZeroRegister() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kRegister));
}
template <int kRegister>
RNN_ALWAYS_INLINE inline void LoadRegister(const void* rows,
                                           int64_t stride_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(rows), "r"(stride_bytes), "i"(kRegister)
               : "memory");
}
template <int kRegister>
RNN_ALWAYS_INLINE inline void StoreRegister(void* rows, int64_t stride_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(rows), "r"(stride_bytes), "i"(kRegister)
               : "memory");
}
template <int kSums, int kA, int kB>
RNN_ALWAYS_INLINE inline void MultiplyAddRegisters() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
               :
               : "i"(kSums), "i"(kA), "i"(kB));
}

// Stores some register where nobody looks. A store that more than some 120
// products after the last one came took 0.25 microseconds longer than one that
// came sooner, and these cost next to nothing (measured on Granite Rapids: a
// product in parts of 64 x 256 x 64 runs at 382 instead of 331 GFLOP/s).
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
    if (rows_[0] > 0) asm volatile("tilerelease");
  }

  // How many rows of A, and of sums, the two blocks of rows have.
  void SetRows(int first, int second) {
    if (first == rows_[0] && second == rows_[1]) return;
    rows_[0] = first;
    rows_[1] = second;
    alignas(64) Configuration c = {};
    c.palette = 1;
    for (int i = 0; i < kNumRegisters; ++i) {
      c.row_bytes[i] = kRegisterLanes * sizeof(float);
      c.rows[i] = kRegisterRows;
    }
    for (int i = 0; i < kNumSums; ++i) c.rows[i] = rows_[i % 2];
    for (int i = 0; i < 2; ++i) c.rows[kFirstA + i] = rows_[i];
    asm volatile("ldtilecfg %0" : : "m"(c) : "memory");
  }

 private:
  static constexpr int kNumRegisters = 8;

  struct Configuration {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  static_assert(sizeof(Configuration) == 64);

  int rows_[2] = {0, 0};
};

// A tile's memory.
struct RegisterMemory {
  const BFloat16* first;
  int64_t stride;  // elements

  template <int kRegister>
  RNN_ALWAYS_INLINE void Load() const {
    LoadRegister<kRegister>(first, stride * int64_t{sizeof(BFloat16)});
  }
};

// Up to 16 rows of A.
class RegistersOfA {
 public:
  RegistersOfA(const BFloat16* const* rows, int num_rows, int64_t offset,
               int64_t depth)
      : rows_(rows), num_rows_(num_rows), offset_(offset), depth_(depth) {
    stride_ = num_rows > 1 ? rows[1] - rows[0] : 0;
    for (int m = 2; m < num_rows; ++m) {
      is_regular_ = is_regular_ && rows[m] - rows[m - 1] == stride_;
    }
  }

  // The tile of [k, k + 32), zeros beyond the depth. Good until the next call.
  RegisterMemory At(int64_t k) {
    const Lanes<Vec<BFloat16>> lanes{(depth_ - k) / 2};
    if (is_regular_ && lanes.count >= kRegisterLanes) {
      return {rows_[0] + offset_ + k, stride_};
    }
    for (int m = 0; m < num_rows_; ++m) {
      lanes.Load(rows_[m] + offset_ + k).Store(copy_ + m * kRegisterDepth);
    }
    return {copy_, kRegisterDepth};
  }

 private:
  const BFloat16* const* rows_;
  int num_rows_;
  int64_t offset_;
  int64_t depth_;
  int64_t stride_;
  bool is_regular_ = true;
  alignas(64) BFloat16 copy_[kRegisterRows * kRegisterDepth];
};

// B in a panel of `columns`, packed.
class PackedRegistersOfB {
 public:
  PackedRegistersOfB(const BFloat16* panel, int64_t columns, int64_t depth)
      : panel_(panel), stride_(2 * columns), depth_(depth) {}

  // The tile of [k, k + 32) and of vector `vector`, zeros beyond the depth.
  // Good until the next call of the same kSlot.
  template <int kSlot>
  RegisterMemory At(int64_t k, int vector) {
    const BFloat16* first =
        panel_ + k / 2 * stride_ + vector * 2 * kRegisterLanes;
    if (k + kRegisterDepth <= depth_) return {first, stride_};
    BFloat16* copy = copies_[kSlot];
    for (int64_t i = 0; i < kRegisterRows; ++i) {
      (k + 2 * i < depth_ ? Vec<BFloat16>::Load(first + i * stride_)
                          : ZeroStep<BFloat16>())
          .Store(copy + i * kRegisterDepth);
    }
    return {copy, kRegisterDepth};
  }

 private:
  const BFloat16* panel_;
  int64_t stride_;
  int64_t depth_;
  alignas(64) BFloat16 copies_[2][kRegisterRows * kRegisterDepth];
};

// B in rows of vectors, which become tiles here.
class StridedRegistersOfB {
 public:
  StridedRegistersOfB(const Panel<BFloat16>& panel, int64_t k_begin,
                      int64_t depth)
      : panel_(panel), k_begin_(k_begin), depth_(depth) {}

  template <int kSlot>
  RegisterMemory At(int64_t k, int vector) {
    BFloat16* copy = copies_[kSlot];
    for (int64_t i = 0; i < kRegisterRows; ++i) {
      const int64_t row = k + 2 * i;
      const BFloat16* first =
          panel_.vectors[vector] + (k_begin_ + row) * panel_.stride;
      (row < depth_ ? Vec<BFloat16>::Interleave(first, first + panel_.stride)
                    : ZeroStep<BFloat16>())
          .Store(copy + i * kRegisterDepth);
    }
    return {copy, kRegisterDepth};
  }

 private:
  const Panel<BFloat16>& panel_;
  int64_t k_begin_;
  int64_t depth_;
  alignas(64) BFloat16 copies_[2][kRegisterRows * kRegisterDepth];
};

// Sums of some rows times vectors of B.
template <int kMaxVectors>
struct RegisterSums {
  static constexpr int64_t kStride = kMaxVectors * kRegisterLanes;
  alignas(64) float values[2 * kRegisterRows][kStride];
};

// sums = A times kVectors vectors of B from `vector` on. kBlocks blocks of rows
// of A, each of no more than a tile has; two have no more than two vectors.
template <int kBlocks, int kVectors, typename RegistersOfB, int kMaxVectors>
inline void MultiplyRegisters(RegistersOfA* (&a)[2], const int (&first_rows)[2],
                              RegistersOfB* b, int64_t depth, int vector,
                              FetchAhead* ahead,
                              RegisterSums<kMaxVectors>* sums) {
  static_assert(kBlocks * kVectors <= kNumSums);
  Unroll<kNumSums>([](auto i) RNN_ALWAYS_INLINE { ZeroRegister<i.value>(); });
  for (int64_t k = 0; k < depth; k += kRegisterDepth) {
    FetchAhead lines = ahead->Take(kRegisterRows, b);
    Unroll<kRegisterRows>([&](auto) RNN_ALWAYS_INLINE { lines.Next(); });
    Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
      a[i.value]->At(k).template Load<kFirstA + i.value>();
    });
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      constexpr int kSlot = j.value % 2;
      b->template At<kSlot>(k, vector + j.value)
          .template Load<kFirstB + kSlot>();
      Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
        MultiplyAddRegisters<kBlocks * j.value + i.value, kFirstA + i.value,
                             kFirstB + kSlot>();
      });
    });
  }
  Unroll<kBlocks>([&](auto i) RNN_ALWAYS_INLINE {
    Unroll<kVectors>([&](auto j) RNN_ALWAYS_INLINE {
      StoreRegister<kBlocks * j.value + i.value>(
          sums->values[first_rows[i.value]] +
              (vector + j.value) * kRegisterLanes,
          RegisterSums<kMaxVectors>::kStride * int64_t{sizeof(float)});
    });
  });
}

// The same for all `vectors`, of up to two tiles of rows.
template <typename RegistersOfB, int kMaxVectors>
inline void MultiplyRegisters(RegisterShapes* shapes,
                              const BFloat16* const* rows, int num_rows,
                              int64_t a_offset, int64_t depth, RegistersOfB* b,
                              int vectors, FetchAhead* ahead,
                              RegisterSums<kMaxVectors>* sums) {
  const int first = num_rows <= kRegisterRows ? num_rows : (num_rows + 1) / 2;
  const int first_rows[2] = {0, first};
  const bool is_one = first == num_rows;
  RegistersOfA upper(rows, first, a_offset, depth);
  RegistersOfA lower(rows + (is_one ? 0 : first), is_one ? 1 : num_rows - first,
                     a_offset, depth);
  RegistersOfA* a[2] = {&upper, &lower};
  if (is_one) {
    shapes->SetRows(first, first);
    WithConstant<kMaxVectors>(vectors, [&](auto count) {
      MultiplyRegisters<1, decltype(count)::value>(a, first_rows, b, depth, 0,
                                                   ahead, sums);
    });
    return;
  }
  shapes->SetRows(first, num_rows - first);
  int vector = 0;
  for (; vector + 2 <= vectors; vector += 2) {
    MultiplyRegisters<2, 2>(a, first_rows, b, depth, vector, ahead, sums);
  }
  if (vector < vectors) {
    MultiplyRegisters<2, 1>(a, first_rows, b, depth, vector, ahead, sums);
  }
}

// As many rows of A as MultiplyRegisters() takes.
constexpr int kRowsTogether = 2 * kRegisterRows;

void MultiplyPanelInRegisters(const PanelProduct<BFloat16>& p) {
  using V = Vec<float>;
  if (p.b.transposed != nullptr || p.depth == 0) return MultiplyPanel(p);
  constexpr int64_t kColumns = kTileVectors * V::kLanes;
  constexpr int64_t kBlock = kDepthBlock<BFloat16>;
  const int vectors = (p.columns + V::kLanes - 1) / V::kLanes;
  RegisterShapes shapes;
  RegisterSums<kTileVectors> sums;
  for (int64_t k = 0; k < p.depth; k += kBlock) {
    const int64_t depth = p.depth - k < kBlock ? p.depth - k : kBlock;
    const auto multiply = [&](auto* b, FetchAhead ahead) {
      ForEachPart<kRowsTogether>(p.rows, [&](int64_t row, int num_rows) {
        for (int m = 0; m < num_rows; ++m) {
          FetchTile<1, kTileVectors, V>(p, row + m);
        }
        MultiplyRegisters(&shapes, p.a + row, num_rows, p.a_offset + k, depth,
                          b, vectors, &ahead, &sums);
        for (int m = 0; m < num_rows; ++m) {
          for (int v = 0; v < vectors; ++v) {
            const V sum[1][1] = {{V::Load(sums.values[m] + v * V::kLanes)}};
            StoreTile(p, row + m, k == 0, sum, v);
          }
        }
      });
    };
    if (p.b.packed != nullptr) {
      PackedRegistersOfB b(p.b.packed + k * kColumns, kColumns, depth);
      multiply(&b, AheadOfBlock<kColumns, kRowsTogether>(p, k + depth));
    } else {
      StridedRegistersOfB b(p.b, k, depth);
      multiply(&b, FetchAhead());
    }
  }
}

template <typename Cell>
void CellForwardInRegisters(const CellForwardStep<BFloat16>& s) {
  using V = Vec<float>;
  constexpr int kVectors = kCellVectors<Cell>;
  static_assert(kVectors == kVectorsTogether<Cell>);
  if (s.recurrent == nullptr) return CellForward<Cell>(s);
  RegisterShapes shapes;
  RegisterSums<kVectors> sums;
  PackedRegistersOfB b(s.recurrent, kVectors * V::kLanes, s.depth);
  FetchAhead ahead = AheadOfPanel<Cell, kRowsTogether>(s);
  ForEachPart<kRowsTogether>(s.rows, [&](int64_t row, int num_rows) {
    MultiplyRegisters(&shapes, s.h_prev + row, num_rows, 0, s.depth, &b,
                      kVectors, &ahead, &sums);
    for (int m = 0; m < num_rows; ++m) {
      CellForwardRow<Cell>(s, row + m, sums.values[m], V::kLanes);
    }
  });
}

constexpr SimdKernels<BFloat16> MakeRegisterKernels() {
  SimdKernels<BFloat16> kernels = MakeKernels<BFloat16>();
  kernels.multiply_panel = MultiplyPanelInRegisters;
  kernels.cell_forward[static_cast<int>(CellMode::kRelu)] =
      CellForwardInRegisters<VanillaCell<true>>;
  kernels.cell_forward[static_cast<int>(CellMode::kTanh)] =
      CellForwardInRegisters<VanillaCell<false>>;
  kernels.cell_forward[static_cast<int>(CellMode::kLstm)] =
      CellForwardInRegisters<LstmCell>;
  kernels.cell_forward[static_cast<int>(CellMode::kGru)] =
      CellForwardInRegisters<GruCell>;
  return kernels;
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_AMX_INL_H_
