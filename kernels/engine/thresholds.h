// Every threshold of the engine that decides how a call is computed.
//
// The first section changes bits: shapes and the instruction set alone may
// decide there, never caches or threads, nor the lengths of sequences, but for
// where time and batch are cut: chunks and halves count valid rows, and the
// sums that are gradients of weights follow them. The second changes speed
// only: there the machine may decide, too.
//
// Each line says why the value is what it is. What measures it again:
//
//   [calls]     make bench CASES=sweep, and the rows of `gate` that it concerns
//   [bfloat16]  make bench CASES=bfloat16
//   [streams]   make bench CASES=streaming
//   [runtime]   make bench CASES=runtime
//   [engine]    bazel run //benchmarks:engine_benchmark --
//                   --cases=PATH --benchmark_filter='^Engine/NAME/'
//               PATH is the path from the root of a list like cases.csv, with
//               a shape on each side of the threshold; NAME is one of them
//
// They are run with the value before and after, in turns, on two makes of CPU,
// but for what one make alone has, such as tile registers, and for lines that
// say "by reasoning" or "not measured"; docs/decisions/ has what they gave, and
// on which CPUs. Micro-kernels have constants of their own (simd/), which cut
// work to what registers and caches of a core hold.
#ifndef KERNELS_ENGINE_THRESHOLDS_H_
#define KERNELS_ENGINE_THRESHOLDS_H_

#include <cstdint>

namespace rnn {

inline constexpr int64_t kMegabyte = int64_t{1} << 20;

// ---- Thresholds that change bits --------------------------------------------

namespace bits {

// Time is cut into chunks of so many rows, and the sums over time into sums of
// chunks: large enough for products to run at full speed, small enough for what
// lies between them and the steps to stay in the caches. Where threads take
// parts of the batch forward, fewer (kMinBatchPartChunkRows). [engine]
inline constexpr int64_t kChunkRows = 384;

// Gradients of weights are made of sums over two halves of the batch, so that
// two threads can have one each: from such a batch and so many rows in all on,
// unless params have more elements, for the second sum takes memory of their
// size. Backward's chunks then have twice as many rows. [engine]
inline constexpr int kGradientHalves = 2;
inline constexpr int64_t kMinHalvedBatch = 8;
inline constexpr int64_t kMinHalvedRows = 512;
inline constexpr int64_t kMaxHalvedParams = int64_t{1} << 22;

// Sums over all rows, which gradients of weights are, are made of sums of so
// many at least: shorter ones would err less still, but take longer. [engine],
// and python -m benchmarks.accuracy
inline constexpr int64_t kMinGradientChain = 128;

// A call is small up to so many rows (time steps times batch): W is read in
// place, for packing moves all of it about as often as the rows read it. That
// is forward's W, and backward's in Keras' order. [calls], [engine]
inline constexpr int64_t kMaxSmallCallRows = 32;

// A small call of so few steps reads R in place as well: packing costs about as
// much as these steps. That is forward's R, and backward's in Keras' order, as
// in the next two; backward was measured on one make. [engine]
inline constexpr int64_t kMaxStepsInPlace = 8;

// Unless it has no more bytes than this, and more than one step reads it: it is
// packed at once, and cells then multiply by it themselves. [engine]
inline constexpr int64_t kMaxQuicklyPackedBytes = 80 << 10;

// With more steps a small call reads R in place if it has more bytes than this:
// packed, it would come from beyond a core's cache no faster, and so few steps
// hardly pay for packing. Where threads read whole rows of memory: forward in
// params' order, backward in that of Keras. [engine], whose rows of Keras'
// order end in /keras_weights
inline constexpr int64_t kMaxPackedBytes = 2 * kMegabyte;
// Forward in Keras' order, of whose rows each thread needs some columns.
// [engine]
inline constexpr int64_t kMaxPackedKerasBytes = 12 * kMegabyte;

// A product of floats is made of bfloat16 parts, where tile registers multiply
// these, from so many rows and such sizes of the weights on: below, splitting
// takes longer than it saves. [engine]
inline constexpr int64_t kMinPartsRows = 96;
inline constexpr int64_t kMinPartsWidth = 96;
inline constexpr int64_t kMinPartsElements = int64_t{1} << 15;

}  // namespace bits

// ---- Thresholds that change speed only --------------------------------------

namespace speed {

// Floating-point operations that are worth a task: one or two microseconds,
// several times what handing it to a team costs. [engine], [streams]
inline constexpr int64_t kMinTaskWork = int64_t{1} << 17;
// Several per thread, so that a thread that comes late, or is taken away for a
// while, leaves its share to the others. [calls]
inline constexpr int kTasksPerThread = 4;
// What helpers must spare the caller, in floating-point operations. Some 75
// microseconds, for helpers come late, or to the caller's core. [calls]
inline constexpr double kMinTeamWork = 8e6;
// Some 25 microseconds if helpers had work just before, as they have between
// layers of a stack: one of them is still looking for work. [calls]
inline constexpr double kMinAwakeWork = 2e6;
// Some five microseconds if helpers wait for the call, as those of a stream do.
// [streams], [runtime]
inline constexpr double kMinCrewWork = 6e5;
// Values that go from core to core in backward, for each that does in forward:
// the gates' gradients go to those of the input, of W and R, and of the biases.
// [engine]
inline constexpr double kBackwardPassedValues = 3;

// What other work costs, in floating-point operations: moving an element from
// one buffer to another, the elementwise work of a step per hidden unit, and
// reading a weight from far in multiply-adds. [engine]
inline constexpr int64_t kMoveWork = 16;
inline constexpr int64_t kCellWork = 64;
inline constexpr int64_t kFarWeightRows = 4;
// Products of fewer rows take as long as of so many: weights then come from a
// core's cache more slowly than they are multiplied. [streams], [calls]
inline constexpr int64_t kLeastProductRows = 4;

// Both directions run at once, a thread each, where steps are too short to be
// split: up to such a batch, and with weights that a core's cache holds.
// [engine]
inline constexpr int64_t kMaxTogetherBatch = 16;
inline constexpr int64_t kMaxTogetherBytes = kMegabyte;

// A batch is split into groups of rows that never wait for each other if R has
// no more bytes; each group reads all of R at each step. Not measured. [engine]
inline constexpr int64_t kMaxGroupedBytes = 14 * kMegabyte;
// Forward takes a part of the batch for each thread through all layers if each
// has so many valid rows, and if all weights, which are then prepared at once,
// have no more bytes than caches that cores share hold. [engine]
inline constexpr int64_t kMinBatchPartRows = 128;
inline constexpr int64_t kMaxBatchPartsWeightBytes = 16 * kMegabyte;
// Such parts are taken in calls of more steps than so many: in shorter ones
// weights come from far for most steps, and threads had better share what they
// read. [engine], with layers enough to fill caches
inline constexpr int64_t kMaxStepsFromFar = 8;
// If lengths differ much, the longest part may take so many times what an even
// share would, a step of few rows counting as one of kLeastProductRows: beyond,
// threads had better share chunks. By reasoning. [engine], rows of /ragged
inline constexpr double kMostUnevenParts = 1.5;
// The chunks of such a part have a share of kChunkRows, and so many rows at
// least. [engine]
inline constexpr int64_t kMinBatchPartChunkRows = 96;
// The largest group has so many rows at least, for fewer would not hide that
// each group reads R: the larger number if R comes from beyond a core's cache.
// [engine]
inline constexpr int64_t kFewRowsOfGroup = 4;
inline constexpr int64_t kManyRowsOfGroup = 16;
// If it comes from beyond, and slowly, more: so many for each floating-point
// operation that a core does while a byte comes. A float takes four bytes, and
// a row two operations: multiplying then takes twice as long as reading. The
// factor is by reasoning; groups that it allows took as long as shared steps on
// one make, and a little less on another. [engine], with
// TF_CUDNN_RNN_MACHINE=flops_per_far_byte=1 and =100
inline constexpr double kRowsOfGroupPerFarFlop = 4;
// Threads that share steps take them in lockstep if each thread's share of one
// has no more floating-point operations, some 100 microseconds: of longer ones,
// what threads tell each other is little, and they had better help each other
// within a step, as they do where they come together for it. By reasoning.
// [engine]
inline constexpr double kMaxLockstepWork = 8e6;
// If the rows are too few for all threads, there are fewer groups, unless a
// step is done sooner by all threads together. The next three say what either
// way costs. They were measured with 8 threads and more of one make, before
// steps were taken in lockstep, in floating-point operations, of which a core
// did 80 in a nanosecond (floats, AVX-512; other types were not measured).
//
// Threads that share a step wait for each other: some four microseconds.
// [engine], with 8 threads and more
inline constexpr double kSharedStepWork = 3e5;
// Each then needs every element of the rows that others made: a nanosecond for
// one. Machine::flops_per_passed_value is more, for it decides another thing,
// whether helpers are worth having at all: there it has to hold for cores that
// are far from each other, too. [engine], with 8 threads and more
inline constexpr double kSharedElementWork = 80;
// Groups have few rows each, and take so many times what their products have.
// A factor. [engine], with 8 threads and more
inline constexpr double kFewRowsFactor = 1.5;
// On tile registers so many times the rows that are multiplied at a time, for
// they multiply faster than weights come. [engine]
inline constexpr int64_t kTilesOfGroup = 2;
// Tile registers already need the larger number where R takes more than this
// share of a core's cache, and so many rows where it takes less. [bfloat16]
inline constexpr double kNearlyFullShare = 0.75;
inline constexpr int64_t kFewRowsOfTileGroup = 8;

// An operand that one product uses is packed in its turn if each thread has so
// many panels: with fewer, rows had better be split, and each share would pack
// all. [engine]
inline constexpr int64_t kMinPanelsPerThread = 1;
// With more rows the panels had better be there for all threads, but for those
// of a step's cells. [engine]
inline constexpr int64_t kMaxRowsInTurn = 128;

// Backward reads params in place for so many rows of W; for R of so many steps,
// and so many rows in all: more read them more often than packing would. It
// gives the bits of packed ones. [engine]
inline constexpr int64_t kMaxLeftRowsInPlace = 16;
inline constexpr int64_t kMaxBackwardStepsOfNearInPlace = 2;
inline constexpr int64_t kMaxLeftRowsOfStepsInPlace = 32;
// More steps if R has more bytes than this: to copy it takes longer, and pushes
// much else out of the caches. Measured on one make, with two threads. [engine]
inline constexpr int64_t kMaxNearRecurrentBytes = 8 * kMegabyte;
inline constexpr int64_t kMaxBackwardStepsOfFarInPlace = 16;
// Rows of pairs, of bfloat16, are woven into steps each time they are read: for
// no more than one tile of rows, forward in the order of Keras, too. [bfloat16]
inline constexpr int64_t kMaxLeftRowsInPlaceOfPairs = 4;

// Prepared weights of a small call lie in dot panels if they have so many
// columns: of fewer, panels are mostly zeros. More rows than are multiplied at
// a time are copied for it, and want more of them. [streams], [runtime]
inline constexpr int64_t kMinFewRowsPanelColumns = 32;
inline constexpr int64_t kMinManyRowsPanelColumns = 256;

// A product's rows are split where there are too few panels, but not into fewer
// than two tiles of the micro-kernels. [engine]
inline constexpr int64_t kMinBlockRows = 12;
inline constexpr int64_t kBlocksPerTask = 2;
// Of so many panels it hardly counts that the last one's cells are computed
// beside no other panel. [engine]
inline constexpr int kMaxPanelsTogether = 8;
// Rows of the left operand that a small right operand, one that fills no more
// than this share of a core's cache, is multiplied by at a time. [engine]
inline constexpr int64_t kRowBlock = 24;
inline constexpr int64_t kSmallOperandShare = 4;
// The left operand may fill this share of a core's cache while a larger right
// one comes by. [engine]
inline constexpr double kLeftOperandShare = 0.375;

// R whose rows are read in place, of so many bytes, is read for one row in
// pieces as long as can be, and cells follow when all threads are done: one
// piece for each gate of a thread's units would touch more pages. Of smaller R
// that gains less than threads take to meet, and with more rows their sums fill
// the first-level cache. Measured on one make. [engine], whose rows end in
// /keras_weights
inline constexpr int64_t kMinWholeRowsBytes = 5 * kMegabyte;

// Packing reads a row for so many panels, and so many rows, at a time:
// memory is read in long pieces, and what is written stays in L1. [engine]
inline constexpr int64_t kPanelsPackedTogether = 16;
inline constexpr int64_t kRowsPackedTogether = 8;
// What is read of a row is fetched ahead if it is shorter; a product that packs
// in turn fills so many bytes of a row at a time. [engine]
inline constexpr int64_t kFetchedRowBytes = 512;
inline constexpr int64_t kRowBytesTogether = 256;
// What is transposed, split, converted or added up on its way stays in L1
// meanwhile: rows and columns of a block of weights, columns and depth of a
// left operand that is split, columns that are converted and their depth,
// features that dropout is applied to, columns of two gradients that are added
// up. [engine]
inline constexpr int64_t kTransposedBlock = 64;
inline constexpr int64_t kSplitColumns = 16;
inline constexpr int64_t kSplitDepth = 256;
inline constexpr int64_t kConvertedColumns = 16;
inline constexpr int64_t kConvertedDepth = 256;
inline constexpr int64_t kDroppedFeatures = 2048;
inline constexpr int64_t kAddedColumns = 64;
// Columns that a thread sums over all rows of a chunk at a time. [engine]
inline constexpr int64_t kSummedColumns = 128;

// A thread of a team that waits for the next task looks so often before it lets
// others run, three to nine microseconds: a helper that was just woken may
// share its core for a while. It looks so often in all, about a millisecond,
// before it goes back where it came from. A thread in lockstep that is not done
// after so many looks may have lost its core: others take its next share at
// once. [calls], [engine]
inline constexpr int kSpins = 200;
inline constexpr int kPatience = 2200;

}  // namespace speed

}  // namespace rnn

#endif  // KERNELS_ENGINE_THRESHOLDS_H_
