// Packing, and products with what was packed, against plain loops. On the
// instruction set that TF_CUDNN_RNN_ISA allows, as the engine.

#include "kernels/engine/products/matrix_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/engine/plan/arena.h"
#include "kernels/engine/plan/cache.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/team.h"
#include "tests/engine/element_values.h"
#include "tests/engine/guarded.h"
#include "tests/engine/random_values.h"
#include "tests/engine/thread_pool.h"

namespace rnn {
namespace {

constexpr int64_t kGap = 3;  // poison after each row

// [rows, columns] and gaps.
template <typename Value>
struct Matrix {
  Matrix(int64_t rows, int64_t columns, RandomValues* random = nullptr)
      : stride(columns + kGap), values(rows * stride) {
    for (int64_t i = 0; i < rows; ++i) {
      pointers.push_back(values.data() + i * stride);
      for (int64_t j = 0; random != nullptr && j < columns; ++j) {
        At(i, j) = FromDouble<Value>(random->Real(-1, 1));
      }
    }
    const_pointers.assign(pointers.begin(), pointers.end());
  }
  Value& At(int64_t i, int64_t j) { return values[i * stride + j]; }

  int64_t stride;
  Guarded<Value> values;
  std::vector<Value*> pointers;
  std::vector<const Value*> const_pointers;
};

// A packed matrix in memory of exactly its size.
template <typename Operand>
struct GuardedPackedMatrix {
  GuardedPackedMatrix(int64_t depth, int64_t columns, bool in_parts,
                      int depth_pieces = 1)
      : memory(Bytes(depth, columns, in_parts, depth_pieces)) {
    Arena arena(memory.data());
    packed = PackedMatrix<Operand>::Take(arena, depth, columns, in_parts,
                                         depth_pieces);
    packed.SetInParts(in_parts, depth_pieces);
  }

  Guarded<unsigned char> memory;
  PackedMatrix<Operand> packed;

 private:
  static int64_t Bytes(int64_t depth, int64_t columns, bool in_parts,
                       int depth_pieces) {
    Arena arena(nullptr);
    PackedMatrix<Operand>::Take(arena, depth, columns, in_parts, depth_pieces);
    return arena.bytes();
  }
};

// Room for a left operand in parts, of any depth of the tests.
class LeftPartsMemory {
 public:
  LeftPartsMemory(int64_t rows, int64_t padded_depth, bool in_parts)
      : values_(in_parts ? LeftParts::Size(rows, padded_depth) : 0),
        padded_depth_(padded_depth) {}

  LeftParts get() {
    return values_.empty() ? LeftParts{}
                           : LeftParts::In(values_.data(), padded_depth_);
  }

 private:
  std::vector<BFloat16> values_;
  int64_t padded_depth_;
};

// Calls check(depth, columns).
template <typename Check>
void ForSizes(Check check) {
  for (int64_t depth : {1, 2, 3, 8, 15, 33, 1030}) {
    for (int64_t columns : {1, 3, 16, 63, 64, 65, 130}) {
      SCOPED_TRACE(testing::Message()
                   << "depth " << depth << ", columns " << columns);
      check(depth, columns);
    }
  }
}

template <typename Types>
class MatrixProductTest : public testing::Test {
 public:
  using Element = typename Types::Element;
  using Operand = typename Types::Operand;
  using F = ComputeType<Operand>;
  static constexpr bool kInParts = Types::kInParts;

 protected:
  void SetUp() override {
    if (std::is_same_v<Operand, BFloat16> &&
        SelectSimdTarget().bfloat16_kernels == nullptr) {
      GTEST_SKIP() << SelectSimdTarget().name << " multiplies no bfloat16";
    }
    if (kInParts && SelectSimdTarget().parts_kernels == nullptr) {
      GTEST_SKIP() << SelectSimdTarget().name << " multiplies no parts";
    }
  }

  // Has `pack` fill a matrix of exactly its size, and multiplies it by some
  // rows; b(k, j) is what should be in it.
  void ExpectPacked(int64_t depth, int64_t columns,
                    const std::function<void(PackedMatrix<Operand>*)>& pack,
                    const std::function<double(int64_t, int64_t)>& b,
                    int depth_pieces = 1) {
    constexpr int64_t kRows = 7;
    GuardedPackedMatrix<Operand> right(depth, columns, kInParts, depth_pieces);
    PackedMatrix<Operand>& packed = right.packed;
    pack(&packed);
    ASSERT_TRUE(right.memory.intact());
    const int64_t row_size = kInParts ? depth : PaddedDepth<Operand>(depth);
    ASSERT_EQ(packed.depth,
              kInParts ? depth_pieces * PaddedPartsDepth(depth / depth_pieces)
                       : row_size);
    ASSERT_EQ(packed.columns, columns);

    RandomValues random(9);
    Matrix<Operand> a(kRows, row_size, &random);
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t k = depth; k < row_size; ++k) a.At(i, k) = Operand{};
    }
    Matrix<F> c(kRows, columns);
    LeftPartsMemory left(kRows, packed.depth, kInParts);
    RowsTimesMatrix<Operand> product;
    product.rows = kRows;
    product.a = a.const_pointers.data();
    product.left_parts = left.get();
    product.b = &packed;
    product.c = c.pointers.data();
    Multiply(product, executor_);
    ASSERT_TRUE(c.values.intact());
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < depth; ++k) {
          const double term = ToDouble(a.At(i, k)) * b(k, j);
          sum += term;
          magnitude += std::abs(term);
        }
        ASSERT_NEAR(c.At(i, j), sum,
                    static_cast<double>(depth + 4) * Epsilon<F>() * magnitude)
            << i << ' ' << j;
      }
      for (int64_t j = columns; j < columns + kGap; ++j) {
        ASSERT_TRUE(IsPoison(c.At(i, j)));
      }
    }
  }

  // Expects the same bits of both on one thread and on several, written with a
  // bias and added: each is called with the executor and a product that lacks
  // its right operand.
  using Compute =
      std::function<void(RowsTimesMatrix<Operand>, Executor& executor)>;
  void ExpectSameBits(const Matrix<Operand>& a, int64_t rows, int64_t columns,
                      const Compute& compute_expected, const Compute& compute) {
    const int64_t depth = a.stride - kGap;
    LeftPartsMemory left(rows, PaddedPartsDepth(depth), kInParts);
    RandomValues random(6);
    Matrix<F> bias(1, columns, &random);
    Matrix<F> c(rows, columns, &random), expected(rows, columns);
    RowsTimesMatrix<Operand> product;
    product.rows = rows;
    product.a = a.const_pointers.data();
    product.left_parts = left.get();
    ThreadPool pool(2);
    Team team(3, pool.AsSchedule());
    for (Executor* executor :
         {static_cast<Executor*>(&executor_), static_cast<Executor*>(&team)}) {
      for (bool accumulate : {false, true}) {
        product.accumulate = accumulate;
        product.bias = accumulate ? nullptr : bias.values.data();
        std::copy_n(c.values.data(), c.values.size(), expected.values.data());
        product.c = expected.pointers.data();
        compute_expected(product, *executor);
        product.c = c.pointers.data();
        compute(product, *executor);
        ASSERT_TRUE(c.values.intact());
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            ASSERT_EQ(c.At(i, j), expected.At(i, j)) << i << ' ' << j;
          }
        }
      }
    }
  }

  SerialExecutor executor_;
};
template <typename TensorElement, typename ProductOperand,
          bool are_parts = false>
struct Case {
  using Element = TensorElement;
  using Operand = ProductOperand;
  static constexpr bool kInParts = are_parts;
};
using Types =
    testing::Types<Case<float, float>, Case<double, double>, Case<Half, float>,
                   Case<BFloat16, float>, Case<BFloat16, BFloat16>,
                   Case<float, float, true>, Case<Half, float, true>>;
TYPED_TEST_SUITE(MatrixProductTest, Types);

TYPED_TEST(MatrixProductTest, PacksRowsOfElements) {
  using Element = typename TestFixture::Element;
  ForSizes([&](int64_t depth, int64_t columns) {
    RandomValues random(1);
    Matrix<Element> source(depth, columns, &random);
    this->ExpectPacked(
        depth, columns,
        [&](auto* packed) {
          Pack(MatrixSource<Element>::Rows(source.values.data(), source.stride,
                                           depth, columns),
               this->executor_, packed);
        },
        [&](int64_t k, int64_t j) { return ToDouble(source.At(k, j)); });
  });
}

TYPED_TEST(MatrixProductTest, PacksRowsOfOperands) {
  using Operand = typename TestFixture::Operand;
  ForSizes([&](int64_t depth, int64_t columns) {
    RandomValues random(2);
    Matrix<Operand> source(depth, columns, &random);
    this->ExpectPacked(
        depth, columns,
        [&](auto* packed) {
          PackRows(source.const_pointers.data(), depth, columns,
                   this->executor_, packed);
        },
        [&](int64_t k, int64_t j) { return ToDouble(source.At(k, j)); });
  });
}

TYPED_TEST(MatrixProductTest, PacksColumns) {
  using Element = typename TestFixture::Element;
  ForSizes([&](int64_t depth, int64_t columns) {
    RandomValues random(3);
    Matrix<Element> source(columns, depth, &random);
    this->ExpectPacked(
        depth, columns,
        [&](auto* packed) {
          Pack(MatrixSource<Element>::Columns(source.values.data(),
                                              source.stride, depth, columns),
               this->executor_, packed);
        },
        [&](int64_t k, int64_t j) { return ToDouble(source.At(j, k)); });
  });
}

// Three pieces in another order, of even and odd widths: the second begins
// within a step if steps are pairs.
TYPED_TEST(MatrixProductTest, PacksPieces) {
  using Element = typename TestFixture::Element;
  using Operand = typename TestFixture::Operand;
  for (int64_t width : {1, 2, 5, 16, 33, 70}) {
    for (int64_t other : {1, 4, 65, 67}) {
      SCOPED_TRACE(testing::Message() << "width " << width << ", " << other);
      const int64_t begins[] = {width, 2 * width, 0};
      const Pieces pieces = {begins, 3, width};
      const auto place = [&](int64_t index) {
        return begins[index / width] + index % width;
      };
      RandomValues random(4);
      Matrix<Element> source(other, pieces.size(), &random);
      this->ExpectPacked(
          other, pieces.size(),
          [&](auto* packed) {
            Pack(MatrixSource<Element>::Rows(source.values.data(),
                                             source.stride, other, pieces),
                 this->executor_, packed);
          },
          [&](int64_t k, int64_t j) {
            return ToDouble(source.At(k, place(j)));
          });
      // Parts may fill up each piece of the depth.
      for (int depth_pieces : {1, TestFixture::kInParts ? pieces.count : 1}) {
        this->ExpectPacked(
            pieces.size(), other,
            [&](auto* packed) {
              Pack(MatrixSource<Element>::Columns(source.values.data(),
                                                  source.stride, pieces, other),
                   this->executor_, packed);
            },
            [&](int64_t k, int64_t j) {
              return ToDouble(source.At(j, place(k)));
            },
            depth_pieces);
      }
      Matrix<Operand> operands(other, pieces.size(), &random);
      this->ExpectPacked(
          other, pieces.size(),
          [&](auto* packed) {
            PackRowPieces(operands.const_pointers.data(), other, pieces,
                          this->executor_, packed);
          },
          [&](int64_t k, int64_t j) {
            return ToDouble(operands.At(k, place(j)));
          });
    }
  }
}

// A product that outgrows the caches is computed block by block; one panel is
// not.
TYPED_TEST(MatrixProductTest, BlocksHaveTheBitsOfPanels) {
  using Operand = typename TestFixture::Operand;
  constexpr int64_t kRows = 31, kColumns = 1001;
  // More than a block of depth, and a matrix larger than a quarter of a core's
  // cache.
  const int64_t depth = std::max<int64_t>(
      2 * Kernels<Operand>().depth_block + 6,
      CoreCacheBytes() / (2 * kColumns * int64_t{sizeof(Operand)}) + 2);
  RandomValues random(6);
  Matrix<Operand> a(kRows, PaddedDepth<Operand>(depth), &random);
  Matrix<Operand> b(depth, kColumns, &random);
  GuardedPackedMatrix<Operand> right(depth, kColumns, TestFixture::kInParts);
  const PackedMatrix<Operand>& packed = right.packed;
  PackRows(b.const_pointers.data(), depth, kColumns, this->executor_,
           &right.packed);
  this->ExpectSameBits(
      a, kRows, kColumns,
      [&](auto product, Executor&) {
        product.b = &packed;
        SplitLeft(product, this->executor_);
        for (int64_t panel = 0; panel < packed.num_panels(); ++panel) {
          MultiplyPanel(product, {panel, PanelRows::kNone, 0, kRows});
        }
      },
      [&](auto product, Executor& executor) {
        product.b = &packed;
        Multiply(product, executor);
      });
}

// Whether a product packs its right operand by itself, as few or many panels,
// or finds it packed, is not seen in its bits.
TYPED_TEST(MatrixProductTest, PackedByProductsHasTheBitsOfPacked) {
  using Element = typename TestFixture::Element;
  using Operand = typename TestFixture::Operand;
  using Source = MatrixSource<Element>;
  const auto check = [&](const Source& source, int64_t rows) {
    SCOPED_TRACE(testing::Message() << source.depth << " x " << source.columns
                                    << (source.is_transposed ? " columns" : "")
                                    << ", pieces " << source.pieces.count);
    RandomValues random(7);
    Matrix<Operand> a(rows, PaddedDepth<Operand>(source.depth), &random);
    for (int64_t i = 0; i < rows; ++i) {
      if (source.depth < PaddedDepth<Operand>(source.depth)) {
        a.At(i, source.depth) = Operand{};
      }
    }
    GuardedPackedMatrix<Operand> right(source.depth, source.columns,
                                       TestFixture::kInParts);
    this->ExpectSameBits(
        a, rows, source.columns,
        [&](auto product, Executor& executor) {
          Pack(source, executor, &right.packed);
          product.b = &right.packed;
          Multiply(product, executor);
        },
        [&](auto product, Executor& executor) {
          std::fill_n(right.memory.data(), right.memory.size(), 0xff);
          PackAndMultiply(source, product, &right.packed, executor);
          ASSERT_TRUE(right.memory.intact());
        });
  };
  const auto check_sources = [&](int64_t depth, int64_t columns, int64_t rows) {
    RandomValues random(8);
    Matrix<Element> by_rows(depth, columns, &random);
    check(Source::Rows(by_rows.values.data(), by_rows.stride, depth, columns),
          rows);
    Matrix<Element> by_columns(columns, depth, &random);
    check(Source::Columns(by_columns.values.data(), by_columns.stride, depth,
                          columns),
          rows);
    if (depth % 3 == 0) {
      const int64_t begins[] = {2 * depth / 3, 0, depth / 3};
      const Pieces pieces = {begins, 3, depth / 3};
      check(Source::Columns(by_columns.values.data(), by_columns.stride, pieces,
                            columns),
            rows);
    }
    if (columns % 3 == 0) {
      const int64_t begins[] = {2 * columns / 3, 0, columns / 3};
      const Pieces pieces = {begins, 3, columns / 3};
      check(Source::Rows(by_rows.values.data(), by_rows.stride, depth, pieces),
            rows);
    }
  };
  // Several blocks of depth, and a matrix larger than a quarter of a core's
  // cache.
  constexpr int64_t kColumns = 1002;
  const int64_t depth =
      std::max<int64_t>(
          2 * Kernels<Operand>().depth_block,
          CoreCacheBytes() / (2 * kColumns * int64_t{sizeof(Operand)})) /
          6 * 6 +
      9;
  check_sources(depth, kColumns, 17);
  check_sources(depth, 70, 17);  // too few panels for each thread
  check_sources(33, 12, 5);      // and small
  check_sources(33, 1002, 17);   // small, and panels enough
  check_sources(33, 1002, 193);  // and rows enough to share what is packed
}

// A left operand is the same whether it is split by rows, or from its
// transpose, or a part after another.
TEST(LeftPartsTest, AreTheSameFromRowsColumnsAndParts) {
  if (SelectSimdTarget().parts_kernels == nullptr) {
    GTEST_SKIP() << SelectSimdTarget().name << " multiplies no parts";
  }
  SerialExecutor executor;
  for (int64_t rows : {1, 15, 16, 17, 40}) {
    for (int64_t width : {1, 31, 32, 33, 100, 300}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      RandomValues random(3);
      Matrix<float> matrix(rows, 2 * width, &random);
      Matrix<float> transpose(2 * width, rows);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t k = 0; k < 2 * width; ++k) {
          transpose.At(k, i) = matrix.At(i, k);
        }
      }
      const auto expect_parts = [&](const PartsDepth& depth,
                                    const auto& split) {
        std::vector<BFloat16> values(LeftParts::Size(rows, depth.padded()));
        const LeftParts left = LeftParts::In(values.data(), depth.padded());
        split(left);
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t k = 0; k < depth.padded(); ++k) {
            const int64_t place = k % depth.padded_width();
            const float expected =
                place < depth.width
                    ? matrix.At(i,
                                k / depth.padded_width() * depth.width + place)
                    : 0;
            double sum = 0;
            for (int part = 0; part < kNumParts; ++part) {
              sum += ToDouble(values[i * left.stride +
                                     k / kPartsDepth * kNumParts * kPartsDepth +
                                     part * kPartsDepth + k % kPartsDepth]);
            }
            ASSERT_EQ(sum, expected) << i << ' ' << k;
          }
        }
      };
      expect_parts({1, 2 * width}, [&](const LeftParts& left) {
        SplitRows(matrix.const_pointers.data(), rows, {1, 2 * width}, executor,
                  left);
      });
      expect_parts({1, 2 * width}, [&](const LeftParts& left) {
        SplitColumns(transpose.const_pointers.data(), 2 * width, rows, executor,
                     left);
      });
      const PartsDepth two = {2, width};
      expect_parts(two, [&](const LeftParts& left) {
        for (int64_t begin = 0; begin < width; begin += kPartsDepth) {
          SplitPartOfRows(matrix.const_pointers.data(), rows, two, begin,
                          std::min(begin + kPartsDepth, width), left);
        }
      });
    }
  }
}

}  // namespace
}  // namespace rnn
