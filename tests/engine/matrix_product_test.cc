// Packing, and products with what was packed, against plain loops. On the
// instruction set that TF_CUDNN_RNN_ISA allows, as the engine.

#include "kernels/engine/products/matrix_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "kernels/engine/plan/machine.h"
#include "kernels/engine/plan/operand_plan.h"
#include "kernels/engine/threads/executor.h"
#include "kernels/engine/threads/team.h"
#include "tests/engine/element_values.h"
#include "tests/engine/guarded.h"
#include "tests/engine/random_values.h"
#include "tests/engine/thread_pool.h"

namespace rnn {
namespace {

constexpr int64_t kGap = 3;  // poison after each row

const testing::KilledBySignal kAborts(SIGABRT);

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

constexpr int kMaxThreads = 3;

// A right operand in memory of exactly its size.
template <typename Element, typename Operand>
struct GuardedOperand {
  GuardedOperand(const MatrixSource<Element>& source, Route route,
                 Executor& executor, int depth_pieces = 1,
                 int64_t core_cache_bytes = CoreCacheBytes())
      : plan(PlanOf(route, SizeOf(source, depth_pieces), core_cache_bytes)),
        memory(plan.Bytes(KernelShape::Of(kElementTypeOf<Operand>))) {
    operand.Prepare(source, plan, memory.data(), executor);
  }

  static OperandSize SizeOf(const MatrixSource<Element>& source,
                            int depth_pieces) {
    OperandSize size;
    size.depth = source.depth;
    size.columns = source.columns;
    size.depth_pieces = depth_pieces;
    return size;
  }

  static OperandPlan PlanOf(Route route, const OperandSize& size,
                            int64_t core_cache_bytes) {
    KernelShape kernels = KernelShape::Of(kElementTypeOf<Operand>);
    kernels.element_bytes = sizeof(Element);
    const auto b = OperandPlan::Of(route, size, kernels, core_cache_bytes);
    return IsInTurn(route) ? b.InTurn(kernels, kMaxThreads) : b;
  }

  const OperandPlan plan;
  Guarded<unsigned char> memory;
  RightOperand<Element, Operand> operand;
};

int64_t LeftPartsSize(int64_t rows, int64_t padded_depth) {
  return LeftPartsBytes(rows, padded_depth) / int64_t{sizeof(BFloat16)};
}

// Room for a left operand in parts.
class LeftPartsMemory {
 public:
  LeftPartsMemory(int64_t rows, int64_t padded_depth, bool in_parts)
      : values_(in_parts ? LeftPartsSize(rows, padded_depth) : 0),
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
  static constexpr Route kRoute = kInParts ? Route::kParts : Route::kPacked;

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

  // Packs the source into memory of exactly its size, and multiplies it by
  // some rows; b(k, j) is what should be in it.
  template <typename Source>
  void ExpectPacked(const MatrixSource<Source>& source,
                    const std::function<double(int64_t, int64_t)>& b,
                    int depth_pieces = 1) {
    constexpr int64_t kRows = 7;
    const int64_t depth = source.depth, columns = source.columns;
    GuardedOperand<Source, Operand> right(source, kRoute, executor_,
                                          depth_pieces);
    const RightOperand<Source, Operand>& packed = right.operand;
    ASSERT_TRUE(right.memory.intact());
    const int64_t row_size = kInParts ? depth : PaddedDepth<Operand>(depth);
    ASSERT_EQ(packed.depth(),
              kInParts ? depth_pieces * PaddedPartsDepth(depth / depth_pieces)
                       : row_size);
    ASSERT_EQ(packed.columns(), columns);

    RandomValues random(9);
    Matrix<Operand> a(kRows, row_size, &random);
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t k = depth; k < row_size; ++k) a.At(i, k) = Operand{};
    }
    Matrix<F> c(kRows, columns);
    LeftPartsMemory left(kRows, packed.depth(), kInParts);
    RowsTimesMatrix<Operand> product;
    product.rows = kRows;
    product.a = a.const_pointers.data();
    product.left_parts = left.get();
    product.c = c.pointers.data();
    Multiply(product, packed, executor_);
    ExpectSums(a, depth, b, [](int64_t, int64_t) { return 0; }, c);
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = columns; j < columns + kGap; ++j) {
        ASSERT_TRUE(IsPoison(c.At(i, j)));
      }
    }
  }

  // c should be start(i, j) + sum over k < depth of a(i, k) b(k, j).
  void ExpectSums(Matrix<Operand>& a, int64_t depth,
                  const std::function<double(int64_t, int64_t)>& b,
                  const std::function<double(int64_t, int64_t)>& start,
                  Matrix<F>& c) {
    ASSERT_TRUE(c.values.intact());
    const auto rows = static_cast<int64_t>(c.pointers.size());
    const int64_t columns = c.stride - kGap;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = start(i, j);
        double magnitude = std::abs(sum);
        for (int64_t k = 0; k < depth; ++k) {
          const double term = ToDouble(a.At(i, k)) * b(k, j);
          sum += term;
          magnitude += std::abs(term);
        }
        ASSERT_NEAR(c.At(i, j), sum,
                    static_cast<double>(depth + 4) * Epsilon<F>() * magnitude)
            << i << ' ' << j;
      }
    }
  }

  // Calls check(executor) for one thread and for several, if operands of this
  // kind may stay in place.
  template <typename Check>
  void ForExecutorsInPlace(const Check& check) {
    if (kInParts || !std::is_same_v<Element, Operand>) {
      GTEST_SKIP() << "never in place";
    }
    ThreadPool pool(kMaxThreads - 1);
    Team team(kMaxThreads, pool.AsSchedule());
    for (Executor* executor :
         {static_cast<Executor*>(&executor_), static_cast<Executor*>(&team)}) {
      check(*executor);
    }
  }

  // Multiplies some rows by the source as it lies, written with a bias and
  // added; b(k, j) is what should be in it.
  void ExpectInPlace(const MatrixSource<Element>& source, Route route,
                     int depth_pieces, Executor& executor,
                     const std::function<double(int64_t, int64_t)>& b) {
    const int64_t depth = source.depth, columns = source.columns;
    for (int64_t rows : {1, 2, 5, 13}) {
      for (bool accumulate : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << depth << " x " << columns << ", pieces from "
                     << source.pieces.begins[0] << ", rows " << rows
                     << (accumulate ? ", added" : ""));
        RandomValues random(5);
        Matrix<Operand> a(rows, depth, &random);
        Matrix<F> bias(1, columns, &random);
        Matrix<F> c(rows, columns, &random);
        const std::vector<F> before = c.values.values();
        GuardedOperand<Element, Operand> right(source, route, executor,
                                               depth_pieces);
        RowsTimesMatrix<Operand> product;
        product.rows = rows;
        product.a = a.const_pointers.data();
        product.c = c.pointers.data();
        product.bias = accumulate ? nullptr : bias.values.data();
        product.accumulate = accumulate;
        Multiply(product, right.operand, executor);
        ExpectSums(
            a, depth, b,
            [&](int64_t i, int64_t j) {
              return accumulate ? before[i * c.stride + j] : bias.At(0, j);
            },
            c);
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
    ThreadPool pool(kMaxThreads - 1);
    Team team(kMaxThreads, pool.AsSchedule());
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
    Matrix<Element> matrix(depth, columns, &random);
    this->ExpectPacked(
        MatrixSource<Element>::Rows(matrix.values.data(), matrix.stride, depth,
                                    Pieces::Whole(columns)),
        [&](int64_t k, int64_t j) { return ToDouble(matrix.At(k, j)); });
  });
}

TYPED_TEST(MatrixProductTest, PacksRowsOfOperands) {
  using Operand = typename TestFixture::Operand;
  ForSizes([&](int64_t depth, int64_t columns) {
    RandomValues random(2);
    Matrix<Operand> matrix(depth, columns, &random);
    this->ExpectPacked(
        MatrixSource<Operand>::RowsAt(matrix.const_pointers.data(), depth,
                                      Pieces::Whole(columns)),
        [&](int64_t k, int64_t j) { return ToDouble(matrix.At(k, j)); });
  });
}

TYPED_TEST(MatrixProductTest, PacksColumns) {
  using Element = typename TestFixture::Element;
  ForSizes([&](int64_t depth, int64_t columns) {
    RandomValues random(3);
    Matrix<Element> matrix(columns, depth, &random);
    this->ExpectPacked(
        MatrixSource<Element>::Columns(matrix.values.data(), matrix.stride,
                                       depth, columns),
        [&](int64_t k, int64_t j) { return ToDouble(matrix.At(j, k)); });
  });
}

// Three pieces in another order, of even and odd widths: the second begins
// within a step if steps are pairs.
TYPED_TEST(MatrixProductTest, PacksPieces) {
  using Element = typename TestFixture::Element;
  using Operand = typename TestFixture::Operand;
  for (int64_t width : {1, 2, 5, 16, 33, 70, 300}) {
    for (int64_t other : {1, 4, 65, 67}) {
      SCOPED_TRACE(testing::Message() << "width " << width << ", " << other);
      const Pieces pieces = {{width, 2 * width, 0}, 3, width};
      RandomValues random(4);
      Matrix<Element> matrix(other, pieces.size(), &random);
      const auto by_rows = MatrixSource<Element>::Rows(
          matrix.values.data(), matrix.stride, other, pieces);
      this->ExpectPacked(by_rows, [&](int64_t k, int64_t j) {
        return ToDouble(matrix.At(k, pieces.PlaceOf(j)));
      });
      // Parts may fill up each piece of the depth.
      for (int depth_pieces : {1, TestFixture::kInParts ? pieces.count : 1}) {
        this->ExpectPacked(
            by_rows.Transposed(),
            [&](int64_t k, int64_t j) {
              return ToDouble(matrix.At(j, pieces.PlaceOf(k)));
            },
            depth_pieces);
      }
      Matrix<Operand> operands(other, pieces.size(), &random);
      this->ExpectPacked(MatrixSource<Operand>::RowsAt(
                             operands.const_pointers.data(), other, pieces),
                         [&](int64_t k, int64_t j) {
                           return ToDouble(operands.At(k, pieces.PlaceOf(j)));
                         });
    }
  }
}

// Columns in place, each of three pieces in another order.
TYPED_TEST(MatrixProductTest, ColumnsInPlaceMayHavePieces) {
  using Element = typename TestFixture::Element;
  this->ForExecutorsInPlace([&](Executor& executor) {
    for (int64_t width : {2, 16, 34, 600}) {  // whole steps
      const Pieces pieces = {{width, 2 * width, 0}, 3, width};
      for (int64_t columns : {1, 3, 65, 200}) {
        RandomValues random(4);
        Matrix<Element> b(columns, pieces.size(), &random);
        const auto source = MatrixSource<Element>::Rows(
            b.values.data(), b.stride, columns, pieces);
        this->ExpectInPlace(source.Transposed(), Route::kColumnsInPlace,
                            pieces.count, executor, [&](int64_t k, int64_t j) {
                              return ToDouble(b.At(j, pieces.PlaceOf(k)));
                            });
      }
    }
  });
}

// Rows in place, of pieces in any order: some lie one after another.
TYPED_TEST(MatrixProductTest, RowsInPlaceMayHavePieces) {
  using Element = typename TestFixture::Element;
  this->ForExecutorsInPlace([&](Executor& executor) {
    constexpr int64_t kDepth = 34;  // whole steps
    for (int64_t width : {1, 16, 33, 700}) {
      for (const Pieces& pieces : {Pieces{{0, width, 2 * width}, 3, width},
                                   Pieces{{width, 2 * width, 0}, 3, width},
                                   Pieces{{2 * width, width, 0}, 3, width}}) {
        RandomValues random(4);
        Matrix<Element> b(kDepth, pieces.size(), &random);
        this->ExpectInPlace(MatrixSource<Element>::Rows(
                                b.values.data(), b.stride, kDepth, pieces),
                            Route::kRowsInPlace, /*depth_pieces=*/1, executor,
                            [&](int64_t k, int64_t j) {
                              return ToDouble(b.At(k, pieces.PlaceOf(j)));
                            });
      }
    }
  });
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
  GuardedOperand<Operand, Operand> right(
      MatrixSource<Operand>::RowsAt(b.const_pointers.data(), depth,
                                    Pieces::Whole(kColumns)),
      TestFixture::kRoute, this->executor_);
  const RightOperand<Operand, Operand>& packed = right.operand;
  this->ExpectSameBits(
      a, kRows, kColumns,
      [&](auto product, Executor&) {
        if constexpr (TestFixture::kInParts) {
          SplitRows(product.a, kRows, packed.parts_depth(), this->executor_,
                    product.left_parts);
        }
        for (int64_t panel = 0; panel < packed.num_panels(); ++panel) {
          MultiplyPanel(product, packed, PanelRows::Alone(panel, 0, kRows));
        }
      },
      [&](auto product, Executor& executor) {
        Multiply(product, packed, executor);
      });
}

// Whether a product packs its right operand by itself, as few or many panels,
// or finds it packed, is not seen in its bits.
TYPED_TEST(MatrixProductTest, PackedByProductsHasTheBitsOfPacked) {
  if (TestFixture::kInParts) GTEST_SKIP() << "no product packs parts";
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
    GuardedOperand<Element, Operand> right(source, TestFixture::kRoute,
                                           this->executor_);
    GuardedOperand<Element, Operand> in_turn(source, Route::kPackedInTurn,
                                             this->executor_);
    this->ExpectSameBits(
        a, rows, source.columns,
        [&](auto product, Executor& executor) {
          Multiply(product, right.operand, executor);
        },
        [&](auto product, Executor& executor) {
          std::fill_n(in_turn.memory.data(), in_turn.memory.size(), 0xff);
          Multiply(product, in_turn.operand, executor);
          ASSERT_TRUE(in_turn.memory.intact());
        });
  };
  const auto check_sources = [&](int64_t depth, int64_t columns, int64_t rows) {
    RandomValues random(8);
    Matrix<Element> by_rows(depth, columns, &random);
    check(Source::Rows(by_rows.values.data(), by_rows.stride, depth,
                       Pieces::Whole(columns)),
          rows);
    Matrix<Element> by_columns(columns, depth, &random);
    check(Source::Columns(by_columns.values.data(), by_columns.stride, depth,
                          columns),
          rows);
    if (depth % 3 == 0) {
      const Pieces pieces = {{2 * depth / 3, 0, depth / 3}, 3, depth / 3};
      check(Source::Rows(by_columns.values.data(), by_columns.stride, columns,
                         pieces)
                .Transposed(),
            rows);
    }
    if (columns % 3 == 0) {
      const Pieces pieces = {{2 * columns / 3, 0, columns / 3}, 3, columns / 3};
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

// Wrong numbers would be worse than an end (route.h).
TEST(MatrixProductDeathTest, NothingComesAlongARouteThatItDoesNotFit) {
  constexpr int64_t kSize = 64;
  RandomValues random(2);
  Matrix<float> values(kSize, kSize, &random);
  const auto as_rows = MatrixSource<float>::Rows(
      values.values.data(), values.stride, kSize, Pieces::Whole(kSize));
  const auto as_columns = as_rows.Transposed();
  const auto by_pointers = MatrixSource<float>::RowsAt(
      values.const_pointers.data(), kSize, Pieces::Whole(kSize));
  SerialExecutor executor;
  const auto expect_death = [&](const MatrixSource<float>& source,
                                Route route) {
    using Right = GuardedOperand<float, float>;
    EXPECT_EXIT(Right(source, route, executor), kAborts, "")
        << RouteName(route);
  };
  expect_death(as_columns, Route::kRowsInPlace);
  expect_death(as_rows, Route::kColumnsInPlace);
  expect_death(as_rows, Route::kDotPanels);
  expect_death(by_pointers, Route::kRowsInPlace);
  expect_death(by_pointers.Transposed(), Route::kColumnsInPlace);
  expect_death(as_columns, Route::kInt8);
}

TEST(MatrixProductDeathTest, WhatIsNotPackedHasNoPanels) {
  constexpr int64_t kSize = 64;
  RandomValues random(2);
  Matrix<float> a(1, kSize, &random), b(kSize, kSize, &random), c(1, kSize);
  const auto as_rows = MatrixSource<float>::Rows(b.values.data(), b.stride,
                                                 kSize, Pieces::Whole(kSize));
  SerialExecutor executor;
  RowsTimesMatrix<float> product;
  product.rows = 1;
  product.a = a.const_pointers.data();
  product.c = c.pointers.data();
  const GuardedOperand<float, float> packed(as_rows, Route::kPacked, executor);
  MultiplyPanel(product, packed.operand, PanelRows::Alone(0, 0, 1));
  const auto expect_abort = [&](const MatrixSource<float>& source,
                                Route route) {
    GuardedOperand<float, float> right(source, route, executor);  // does not
    EXPECT_EXIT(
        MultiplyPanel(product, right.operand, PanelRows::Alone(0, 0, 1)),
        kAborts, "")
        << RouteName(route);
  };
  expect_abort(as_rows, Route::kPackedInTurn);
  expect_abort(as_rows, Route::kRowsInPlace);
  expect_abort(as_rows.Transposed(), Route::kColumnsInPlace);
  expect_abort(as_rows.Transposed(), Route::kDotPanels);
  // Nor is there room for a left operand in parts.
  if (SelectSimdTarget().parts_kernels == nullptr) return;
  expect_abort(as_rows, Route::kParts);
  GuardedOperand<float, float> parts(as_rows, Route::kParts, executor);
  EXPECT_EXIT(Multiply(product, parts.operand, executor), kAborts, "");
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
        std::vector<BFloat16> values(LeftPartsSize(rows, depth.padded()));
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
        SplitRows(matrix.const_pointers.data(), rows, two, executor, left);
      });
    }
  }
}

}  // namespace
}  // namespace rnn
