#include "kernels/memory/scratch_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/memory/huge_pages.h"

namespace tf_cudnn_rnn {
namespace {

constexpr int64_t kSizes[] = {0,
                              1,
                              4096,
                              65537,
                              kHugePageBytes - 1,
                              kHugePageBytes,
                              3 * kHugePageBytes + 1};

TEST(ScratchPoolTest, BlocksAreLargeEnoughAlignedAndApart) {
  ScratchPool pool;
  std::vector<ScratchPool::Block> blocks;
  for (int64_t bytes : kSizes) {
    const auto block = pool.Take(bytes);
    ASSERT_NE(block.memory, nullptr) << bytes;
    EXPECT_GE(block.bytes, bytes);
    EXPECT_LT(block.bytes, bytes + kHugePageBytes);
    const int64_t alignment = bytes < kHugePageBytes ? 4096 : kHugePageBytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.memory) % alignment, 0u)
        << bytes;
    std::memset(block.memory, static_cast<int>(blocks.size()), block.bytes);
    blocks.push_back(block);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto* values = static_cast<const char*>(blocks[i].memory);
    for (int64_t j = 0; j < blocks[i].bytes; ++j) {
      ASSERT_EQ(values[j], static_cast<char>(i)) << kSizes[i] << " at " << j;
    }
    pool.Return(blocks[i]);
  }
}

TEST(ScratchPoolTest, TheNextCallGetsTheSameMemory) {
  for (int64_t bytes : kSizes) {
    ScratchPool pool;
    void* memory;
    {
      const Scratch scratch(bytes, pool);
      memory = scratch.data();
      EXPECT_EQ(pool.kept_bytes(), 0);
    }
    EXPECT_EQ(Scratch(bytes, pool).data(), memory);
    EXPECT_EQ(Scratch(bytes / 2, pool).data(), memory);
  }
}

TEST(ScratchPoolTest, TakesTheLeastBlockThatIsLargeEnough) {
  ScratchPool pool;
  const auto small = pool.Take(100000), large = pool.Take(1000000),
             middle = pool.Take(500000);
  for (const auto& block : {large, small, middle}) pool.Return(block);
  for (const auto& [bytes, expected] :
       {std::pair{300000, middle}, {70000, small}, {600000, large}}) {
    EXPECT_EQ(Scratch(bytes, pool).data(), expected.memory) << bytes;
  }
}

TEST(ScratchPoolTest, ALargerBlockReplacesASmallerOne) {
  ScratchPool pool;
  for (int64_t bytes = 1000; bytes < 100 << 20; bytes *= 3) {
    int64_t size;
    {
      const auto block = pool.Take(bytes);
      size = block.bytes;
      pool.Return(block);
    }
    EXPECT_EQ(pool.kept_bytes(), size) << bytes;
  }
}

TEST(ScratchPoolTest, KeepsNoMoreThanItsLimit) {
  ScratchPool pool;
  {
    const Scratch too_large(ScratchPool::kMaxKeptBytes + 1, pool);
    ASSERT_NE(too_large.data(), nullptr);
  }
  EXPECT_EQ(pool.kept_bytes(), 0);
  constexpr int64_t kBytes = ScratchPool::kMaxKeptBytes * 2 / 5;
  {
    const Scratch a(kBytes, pool), b(kBytes, pool), c(kBytes, pool);
  }
  EXPECT_EQ(pool.kept_bytes(), 2 * ((kBytes + kHugePageBytes - 1) /
                                    kHugePageBytes * kHugePageBytes));
}

TEST(ScratchPoolTest, GivesBackWhatManyCallsInARowHaveNotNeeded) {
  ScratchPool pool;
  constexpr int64_t kLarge = 10 * kHugePageBytes;
  const auto call = [&](int64_t bytes) { const Scratch scratch(bytes, pool); };
  const auto many_small_calls = [&](int count) {
    for (int i = 0; i < count; ++i) call(kHugePageBytes);
  };
  call(kLarge);
  many_small_calls(ScratchPool::kManyCalls - 1);
  EXPECT_EQ(pool.kept_bytes(), kLarge);
  call(kLarge);  // which begins the count anew
  many_small_calls(ScratchPool::kManyCalls - 1);
  EXPECT_EQ(pool.kept_bytes(), kLarge);
  many_small_calls(1);
  EXPECT_EQ(pool.kept_bytes(), 0);
  call(kLarge);
  for (int i = 0; i < 2 * ScratchPool::kManyCalls; ++i) {
    call(kLarge / ScratchPool::kFarTooLarge);
  }
  EXPECT_EQ(pool.kept_bytes(), kLarge);
}

TEST(ScratchPoolTest, WhatTheSystemHasNotIsNull) {
  ScratchPool pool;
  for (int64_t bytes :
       {std::numeric_limits<int64_t>::max(), int64_t{1} << 60}) {
    const Scratch scratch(bytes, pool);
    EXPECT_EQ(scratch.data(), nullptr);
  }
  EXPECT_EQ(pool.kept_bytes(), 0);
}

TEST(ScratchPoolTest, ReleasesAllThatIsKept) {
  ScratchPool pool;
  int64_t kept = 0;
  {
    const Scratch a(1, pool), b(kHugePageBytes, pool), c(70000, pool);
    EXPECT_EQ(pool.Release(), 0);
  }
  kept = pool.kept_bytes();
  EXPECT_GT(kept, kHugePageBytes + 70000);
  EXPECT_EQ(pool.Release(), kept);
  EXPECT_EQ(pool.kept_bytes(), 0);
  EXPECT_EQ(pool.Release(), 0);
  EXPECT_NE(Scratch(1, pool).data(), nullptr);
}

// What is kept gives way where the system has nothing else left.
TEST(ScratchPoolTest, KeptBlocksMakeRoomForALargerOne) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need addresses of their own";
#endif
  constexpr int64_t kBlock = ScratchPool::kMaxKeptBytes / 4;
  ScratchPool pool;
  {
    const Scratch a(kBlock, pool), b(kBlock, pool), c(kBlock, pool);
  }
  EXPECT_EQ(pool.kept_bytes(), 3 * kBlock);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages;
  rlimit tight = before;
  tight.rlim_cur = pages * sysconf(_SC_PAGESIZE) + kBlock / 4;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  void* memory;
  int64_t kept;
  {
    const Scratch large(2 * kBlock, pool);
    memory = large.data();
    kept = pool.kept_bytes();
  }
  setrlimit(RLIMIT_AS, &before);
  EXPECT_NE(memory, nullptr);
  EXPECT_EQ(kept, 0);
}

// Some thread of the parent's may hold its pool's mutex.
TEST(ScratchPoolTest, AForkedChildHasAPoolOfItsOwn) {
  ScratchPool& parents = ScratchPool::OfProcess();
  std::atomic<bool> stops{false};
  std::thread other([&] {
    while (!stops) const Scratch scratch(1);
  });
  int num_failed = 0;
  for (int i = 0; i < 200; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);  // which ends it, should it hang
      const bool is_other = &ScratchPool::OfProcess() != &parents;
      _exit(is_other && Scratch(1).data() != nullptr ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    num_failed += status != 0;
    if (num_failed > 0) break;
  }
  stops = true;
  other.join();
  EXPECT_EQ(num_failed, 0);
}

TEST(ScratchPoolTest, CallsAtOnceHaveBlocksOfTheirOwn) {
  constexpr int kThreads = 8, kCalls = 300;
  ScratchPool pool;
  std::atomic<int> num_shared{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kCalls; ++i) {
        const int64_t bytes = 1 + (i * 7919 + thread * 104729) % 200000;
        const Scratch scratch(bytes, pool);
        auto* const values = static_cast<volatile char*>(scratch.data());
        for (int64_t j = 0; j < bytes; j += 97) {
          values[j] = static_cast<char>(thread);
        }
        std::this_thread::yield();
        for (int64_t j = 0; j < bytes; j += 97) {
          if (values[j] != static_cast<char>(thread)) ++num_shared;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_shared, 0);
  EXPECT_GT(pool.kept_bytes(), 0);
}

TEST(HugePagesTest, AnyMemoryWillDo) {
  std::vector<char> values(5 * kHugePageBytes, 'a');
  for (int64_t bytes : {int64_t{0}, int64_t{1}, kHugePageBytes,
                        static_cast<int64_t>(values.size())}) {
    PreferHugePages(values.data(), bytes);
  }
  for (char value : values) ASSERT_EQ(value, 'a');
}

}  // namespace
}  // namespace tf_cudnn_rnn
