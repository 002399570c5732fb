// Products of floats by their bfloat16 parts, on tile registers: see
// PartsKernels. Include amx-inl.h first.
#ifndef KERNELS_ENGINE_SIMD_AMX_PARTS_INL_H_
#define KERNELS_ENGINE_SIMD_AMX_PARTS_INL_H_

#include "kernels/engine/simd/amx-inl.h"
#include "kernels/engine/simd/lanes-inl.h"
#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/simd/tile-inl.h"

namespace rnn {
namespace RNN_ISA {
namespace {

static_assert(kPartsDepth == kRegisterDepth && kPartsRows == kRegisterRows);
static_assert(kPartsRowsTogether == kRowsTogether);
static_assert(kTileVectors * kRegisterLanes <= kMaxPartsColumns);

// In elements of a group: of a row of A, and of a panel of B.
constexpr int64_t kGroupOfA = kNumParts * kPartsDepth;
constexpr int64_t kBlockOfB = kPartsDepth * kRegisterLanes;
constexpr int64_t kPartOfB = kTileVectors * kBlockOfB;
constexpr int64_t kGroupOfB = kNumParts * kPartOfB;

constexpr int kNaN = 0x81;
constexpr int kNaNOrInfinity = kNaN | 0x18;

// The parts of 16 floats.
struct Parts {
  __m256i values[kNumParts];

  static Parts Of(Vec<float> a) {
    Parts parts;
    const Vec<float> first = Rounded(a, &parts.values[0]);
    Vec<float> rest = a - first;
    if (_mm512_fpclass_ps_mask(first.v, kNaNOrInfinity) != 0) {
      rest = RestOfSome(a, first, &parts.values[0]);
    }
    const Vec<float> second = Rounded(rest, &parts.values[1]);
    Rounded(rest - second, &parts.values[2]);
    return parts;
  }

  static Vec<float> Sum(Vec<float> first, Vec<float> second, Vec<float> third) {
    return first + (second + third);
  }

 private:
  static Vec<float> Rounded(Vec<float> a, __m256i* bits) {
    *bits = RoundToBits(a);
    return WidenBits(*bits);
  }

  // If some are no numbers or infinite, which have no rest, or so large that
  // they become infinite when rounded: then these are cut off.
  static Vec<float> RestOfSome(Vec<float> a, Vec<float> first,
                               __m256i* first_bits) {
    const __mmask16 special = _mm512_fpclass_ps_mask(a.v, kNaNOrInfinity);
    const __mmask16 large =
        _mm512_fpclass_ps_mask(first.v, kNaNOrInfinity) & ~special;
    const __m512i upper_half = _mm512_set1_epi32(-0x10000);
    first.v = _mm512_mask_mov_ps(first.v, large,
                                 _mm512_castsi512_ps(_mm512_and_si512(
                                     _mm512_castps_si512(a.v), upper_half)));
    Rounded(first, first_bits);
    return {
        _mm512_maskz_sub_ps(static_cast<__mmask16>(~special), a.v, first.v)};
  }
};

void SplitRow(const float* row, int64_t depth, BFloat16* out) {
  constexpr int kLanes = Vec<float>::kLanes;
  const auto split = [&](Vec<float> values, int64_t k) RNN_ALWAYS_INLINE {
    const Parts parts = Parts::Of(values);
    BFloat16* group = out + k / kPartsDepth * kGroupOfA + k % kPartsDepth;
    Unroll<kNumParts>([&](auto part) RNN_ALWAYS_INLINE {
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(group + part.value * kPartsDepth),
          parts.values[part.value]);
    });
  };
  int64_t k = 0;
  for (; k + kLanes <= depth; k += kLanes) split(Vec<float>::Load(row + k), k);
  for (; k < PaddedPartsDepth(depth); k += kLanes) {
    split(Vec<float>::Load(row + k, depth > k ? depth - k : 0), k);
  }
}

void SplitGroup(const float* rows, int64_t depth, BFloat16* out) {
  constexpr int kLanes = Vec<float>::kLanes;
  for (int64_t k = 0; k < kPartsDepth; k += 2) {
    for (int v = 0; v < kTileVectors; ++v) {
      const auto parts_of = [&](int64_t row) {
        return Parts::Of(
            row < depth ? Vec<float>::Load(rows + row * kTileVectors * kLanes +
                                           v * kLanes)
                        : Vec<float>::Broadcast(0));
      };
      const Parts first = parts_of(k), second = parts_of(k + 1);
      BFloat16* pairs = out + v * kBlockOfB + k * kLanes;
      Unroll<kNumParts>([&](auto part) RNN_ALWAYS_INLINE {
        Vec<BFloat16>::Interleave(first.values[part.value],
                                  second.values[part.value])
            .Store(pairs + part.value * kPartOfB);
      });
    }
  }
}

// Replaces sums that are infinite or NaN by chains of multiply-adds of floats,
// for they may owe it to the parts: an infinity has a product with a part that
// is zero, and large terms may cancel in another order.
class SpecialSums {
 public:
  SpecialSums() = default;
  SpecialSums(const BFloat16* b, int64_t depth) : b_(b), depth_(depth) {}

  // `a` is the row, `first_vector` the place of the first vector in B.
  template <int kVectors>
  void Replace(const BFloat16* a, int first_vector,
               Vec<float> (&sums)[1][kVectors]) {
    // A NaN in a row or column is one in the result, whatever the order.
    if (HasNaN(a)) return;
    Unroll<kVectors>([&](auto v) RNN_ALWAYS_INLINE {
      __m512& sum = sums[0][v.value].v;
      const __mmask16 lanes = _mm512_fpclass_ps_mask(sum, kNaNOrInfinity) &
                              ~NaNColumns(first_vector + v.value);
      if (lanes != 0) {
        sum =
            _mm512_mask_mov_ps(sum, lanes, Chains(a, first_vector + v.value).v);
      }
    });
  }

 private:
  bool HasNaN(const BFloat16* a) const {
    __mmask16 lanes = 0;
    for (int64_t k = 0; k < depth_; k += Vec<float>::kLanes) {
      lanes |= _mm512_fpclass_ps_mask(
          Widen(a + k / kPartsDepth * kGroupOfA + k % kPartsDepth).v, kNaN);
    }
    return lanes != 0;
  }

  __mmask16 NaNColumns(int v) {
    if (!knows_columns_[v]) {
      knows_columns_[v] = true;
      for (int64_t k = 0; k < depth_; ++k) {
        nan_columns_[v] |=
            _mm512_fpclass_ps_mask(PartOfColumns(v, k, 0).v, kNaN);
      }
    }
    return nan_columns_[v];
  }

  Vec<float> PartOfColumns(int v, int64_t k, int part) const {
    const BFloat16* pairs = b_ + k / kPartsDepth * kGroupOfB + part * kPartOfB +
                            v * kBlockOfB +
                            k % kPartsDepth / 2 * 2 * kRegisterLanes;
    const __m512i bits = _mm512_loadu_si512(pairs);
    return {_mm512_castsi512_ps(
        k % 2 == 0 ? _mm512_slli_epi32(bits, 16)
                   : _mm512_and_si512(bits, _mm512_set1_epi32(-0x10000)))};
  }

  Vec<float> Chains(const BFloat16* a, int v) const {
    Vec<float> sums = Vec<float>::Broadcast(0);
    for (int64_t k = 0; k < depth_; ++k) {
      const BFloat16* parts = a + k / kPartsDepth * kGroupOfA + k % kPartsDepth;
      const auto part_of_a = [&](int part) {
        return Vec<float>{_mm512_castsi512_ps(_mm512_set1_epi32(
            static_cast<int32_t>(parts[part * kPartsDepth].bits) << 16))};
      };
      sums = MulAdd(Parts::Sum(part_of_a(0), part_of_a(1), part_of_a(2)),
                    Parts::Sum(PartOfColumns(v, k, 0), PartOfColumns(v, k, 1),
                               PartOfColumns(v, k, 2)),
                    sums);
    }
    return sums;
  }

  const BFloat16* b_ = nullptr;
  int64_t depth_ = 0;
  bool knows_columns_[kTileVectors] = {};
  __mmask16 nan_columns_[kTileVectors] = {};
};

// Columns of blocks of the result, which have twice as many rows as a register.
constexpr int kBlockVectors = 2;

// The sums of a block of the result, which wait in L1 to be added to it: some
// rows at a time, while the next block is computed.
class BlockSums {
 public:
  static constexpr int64_t kStride = kBlockVectors * kRegisterLanes;

  float* values(int row) { return values_ + row * kStride; }

  // Rows and vectors of a product's result, for a block of depth.
  struct Place {
    const PartsProduct* product = nullptr;
    const BFloat16* a = nullptr;  // the rows of A, from this depth on
    SpecialSums* special = nullptr;
    bool is_first_of_depth = false;
    int64_t row = 0;
    int rows = 0;
    int first_vector = 0;
    int vectors = 0;
  };

  void Set(const Place& place) {
    place_ = place;
    next_ = 0;
  }

  // Adds up to `rows` more rows.
  void Add(int rows) {
    const int end = next_ + rows < place_.rows ? next_ + rows : place_.rows;
    if (place_.vectors == kBlockVectors) {
      for (; next_ < end; ++next_) AddRow<kBlockVectors>();
    } else {
      for (; next_ < end; ++next_) AddRow<1>();
    }
  }

 private:
  template <int kVectors>
  RNN_ALWAYS_INLINE void AddRow() {
    using V = Vec<float>;
    V sums[1][kVectors];
    __mmask16 special_lanes = 0;
    Unroll<kVectors>([&](auto v) RNN_ALWAYS_INLINE {
      sums[0][v.value] = V::Load(values(next_) + v.value * V::kLanes);
      special_lanes |=
          _mm512_fpclass_ps_mask(sums[0][v.value].v, kNaNOrInfinity);
    });
    if (__builtin_expect(special_lanes != 0, 0)) {
      place_.special->Replace(place_.a + next_ * place_.product->a_stride,
                              place_.first_vector, sums);
    }
    StoreTile(*place_.product, place_.row + next_, place_.is_first_of_depth,
              sums, place_.first_vector);
  }

  alignas(64) float values_[2 * kRegisterRows * kStride];
  Place place_;
  int next_ = 0;
};

// Registers of sums = some blocks of rows of A, of block_rows each, times
// blocks of columns of B. Parts come in an order in which those of one operand
// stay where they are. Calls between() once and fetch() four times for each
// group of the depth.
template <int kRowBlocks, int kColumnBlocks, typename Between, typename Fetch>
inline void MultiplyParts(const BFloat16* a, int64_t a_stride, int block_rows,
                          const BFloat16* b, int64_t depth, Between between,
                          Fetch fetch) {
  constexpr int64_t kDepthOfStore = 4 * kPartsDepth;
  IdleStores idle_stores;
  Unroll<kNumSums>([](auto i) RNN_ALWAYS_INLINE { ZeroRegister<i.value>(); });
  for (int64_t k = 0; k < depth; k += kPartsDepth) {
    const auto load_a = [&](auto part) RNN_ALWAYS_INLINE {
      Unroll<kRowBlocks>([&](auto i) RNN_ALWAYS_INLINE {
        LoadRegister<kFirstA + i.value>(
            a + i.value * block_rows * a_stride + part.value * kPartsDepth,
            a_stride * int64_t{sizeof(BFloat16)});
      });
    };
    const auto load_b = [&](auto part) RNN_ALWAYS_INLINE {
      Unroll<kColumnBlocks>([&](auto j) RNN_ALWAYS_INLINE {
        LoadRegister<kFirstB + j.value>(
            b + part.value * kPartOfB + j.value * kBlockOfB,
            kPartsDepth * int64_t{sizeof(BFloat16)});
      });
    };
    const auto multiply = [&]() RNN_ALWAYS_INLINE {
      Unroll<kRowBlocks>([&](auto i) RNN_ALWAYS_INLINE {
        Unroll<kColumnBlocks>([&](auto j) RNN_ALWAYS_INLINE {
          MultiplyAddRegisters<kRowBlocks * j.value + i.value,
                               kFirstA + i.value, kFirstB + j.value>();
        });
      });
    };
    load_a(Constant<2>());
    load_b(Constant<0>());
    multiply();
    fetch();
    load_a(Constant<1>());
    multiply();
    fetch();
    load_b(Constant<1>());
    multiply();
    between();
    load_a(Constant<0>());
    multiply();
    fetch();
    load_b(Constant<2>());
    multiply();
    fetch();
    load_b(Constant<0>());
    multiply();
    if (k % kDepthOfStore == 0) idle_stores.Store<kFirstA>();
    a += kGroupOfA;
    b += kGroupOfB;
  }
}

// What is used after the block of depth that ends at k_end.
inline FetchAhead AheadOfParts(const PartsProduct& p, int64_t k_end) {
  const bool is_last = k_end == p.depth;
  const BFloat16* panel = is_last ? p.next : p.b;
  if (panel == nullptr) return FetchAhead();
  const int64_t begin = is_last ? 0 : k_end;
  const int64_t depth = p.depth - begin < kDepthBlock<float>
                            ? p.depth - begin
                            : kDepthBlock<float>;
  return FetchAhead(
      panel + begin / kPartsDepth * kGroupOfB,
      depth / kPartsDepth * kGroupOfB * int64_t{sizeof(BFloat16)});
}

// Lines that are fetched ahead between products, four times a group. More at a
// time would be in the way of what is loaded.
constexpr int kLinesTogether = 8;

// A product, each of whose blocks is added to the result while the next is
// computed.
class ProductByParts {
 public:
  void Multiply(const PartsProduct& p) {
    // Or the sums of two blocks of depth would wait.
    if (p.rows == 0 || p.columns == 0 || p.depth == 0) return;
    ForEachDepthBlock<float>(p.depth, [&](int64_t k, int64_t k_end) {
      // The finished block may still be of the depth before.
      SpecialSums* const special = &special_[num_depth_blocks_++ % 2];
      *special = SpecialSums(p.b + k / kPartsDepth * kGroupOfB, k_end - k);
      MultiplyBlockOfDepth(p, k, k_end - k, special);
    });
    finished_->Add(kRowsTogether);
  }

 private:
  void MultiplyBlockOfDepth(const PartsProduct& p, int64_t k, int64_t depth,
                            SpecialSums* special) {
    using V = Vec<float>;
    const int vectors = (p.columns + V::kLanes - 1) / V::kLanes;
    const int64_t groups = depth / kPartsDepth;
    const int rows_per_group = (kRowsTogether + groups - 1) / groups;
    const BFloat16* b = p.b + k / kPartsDepth * kGroupOfB;
    FetchAhead ahead = AheadOfParts(p, k + depth);
    for (int64_t row = 0; row < p.rows; row += kRowsTogether) {
      const int num_rows =
          p.rows - row < kRowsTogether ? p.rows - row : kRowsTogether;
      const BFloat16* a = p.a + row * p.a_stride + k / kPartsDepth * kGroupOfA;
      // Products of fewer rows take less time.
      const int num_blocks = num_rows > kPartsRows ? 2 : 1;
      const int block_rows = (num_rows + num_blocks - 1) / num_blocks;
      shapes_.SetRows(block_rows, block_rows);
      for (int v = 0; v < vectors; v += kBlockVectors) {
        int fetched = 0;
        const auto fetch = [&]() RNN_ALWAYS_INLINE {
          FetchAhead lines = ahead.Take(kLinesTogether, b);
          Unroll<kLinesTogether>([&](auto) RNN_ALWAYS_INLINE { lines.Next(); });
        };
        const auto between = [&]() RNN_ALWAYS_INLINE {
          for (int i = 0; i < rows_per_group && fetched < num_rows; ++i) {
            FetchTile<1, kBlockVectors, V>(p, row + fetched++, v);
          }
          finished_->Add(rows_per_group);
        };
        WithConstant<2>(num_blocks, [&](auto row_blocks) {
          WithConstant<kBlockVectors>(vectors - v, [&](auto column_blocks) {
            constexpr int kRowBlocks = decltype(row_blocks)::value;
            constexpr int kColumnBlocks = decltype(column_blocks)::value;
            MultiplyParts<kRowBlocks, kColumnBlocks>(a, p.a_stride, block_rows,
                                                     b + v * kBlockOfB, depth,
                                                     between, fetch);
            StoreSums<kRowBlocks, kColumnBlocks>(block_rows, sums_->values(0),
                                                 BlockSums::kStride);
            BlockSums::Place place;
            place.product = &p;
            place.a = a;
            place.special = special;
            place.is_first_of_depth = k == 0;
            place.row = row;
            place.rows = num_rows;
            place.first_vector = v;
            place.vectors = kColumnBlocks;
            sums_->Set(place);
          });
        });
        BlockSums* const next = finished_;
        finished_ = sums_;
        sums_ = next;
      }
    }
  }

  RegisterShapes shapes_;
  BlockSums blocks_[2];
  BlockSums* sums_ = &blocks_[0];
  BlockSums* finished_ = &blocks_[1];
  SpecialSums special_[2];
  int num_depth_blocks_ = 0;
};

void MultiplyPanelByParts(const PartsProduct& product) {
  ProductByParts().Multiply(product);
}

constexpr PartsKernels MakePartsKernels() {
  return {MultiplyPanelByParts, SplitRow, SplitGroup};
}

}  // namespace
}  // namespace RNN_ISA
}  // namespace rnn

#endif  // KERNELS_ENGINE_SIMD_AMX_PARTS_INL_H_
