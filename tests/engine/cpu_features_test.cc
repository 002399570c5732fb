// From what a CPU and its system say to the instruction set that is used: each
// machine takes one it can run, also where some flags are masked, where the
// system does not save all registers, or refuses tile registers.

#include "kernels/engine/simd/cpu_features.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <string>

#include "kernels/engine/simd/simd_kernels.h"
#include "kernels/engine/simd/tile_registers.h"

#if defined(__linux__) && defined(__x86_64__)
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__)

namespace rnn {
namespace {

constexpr uint32_t Bit(int i) { return uint32_t{1} << i; }

// As Intel's and AMD's manuals number them, independently of the code.
constexpr uint32_t kFma = Bit(12), kOsXsave = Bit(27), kAvx = Bit(28),
                   kF16c = Bit(29);  // leaf 1, ecx
constexpr uint32_t kAvx2 = Bit(5), kAvx512f = Bit(16), kAvx512dq = Bit(17),
                   kAvx512bw = Bit(30), kAvx512vl = Bit(31);  // leaf 7, ebx
constexpr uint32_t kAvx512Vnni = Bit(11);                     // leaf 7, ecx
constexpr uint32_t kAmxBf16 = Bit(22), kAmxTile = Bit(24);    // leaf 7, edx
constexpr uint32_t kAvx512Bf16 = Bit(5);  // leaf 7, subleaf 1, eax
constexpr uint64_t kXmm = Bit(1), kYmm = Bit(2), kMasks = Bit(5),
                   kLowZmm = Bit(6), kHighZmm = Bit(7), kTileConfig = Bit(17),
                   kTileData = Bit(18);  // XCR0

int num_requests = 0;
bool Grant() { return ++num_requests > 0; }
bool Refuse() { return ++num_requests < 0; }

// One that has everything.
CpuFeatures Everything() {
  CpuFeatures cpu;
  cpu.is_amd = true;
  cpu.leaf1_ecx = ~uint32_t{0};
  cpu.leaf7_ebx = ~uint32_t{0};
  cpu.leaf7_ecx = ~uint32_t{0};
  cpu.leaf7_edx = ~uint32_t{0};
  cpu.leaf7_1_eax = ~uint32_t{0};
  cpu.xcr0 = ~uint64_t{0};
  cpu.request_tile_registers = Grant;
  return cpu;
}

std::string Chosen(const CpuFeatures& cpu, const char* limit = nullptr) {
  return ChooseSimdTarget(cpu, limit).name;
}

TEST(CpuFeaturesTest, ACpuThatSaysNothingIsTheBaseline) {
  EXPECT_EQ(Chosen(CpuFeatures()), "scalar");
}

TEST(CpuFeaturesTest, EachTakesWhatItNeedsAndNoMore) {
  CpuFeatures cpu;
  cpu.is_amd = true;
  cpu.leaf1_ecx = kFma | kOsXsave | kAvx | kF16c;
  cpu.xcr0 = kXmm | kYmm;
  EXPECT_EQ(Chosen(cpu), "scalar");  // AVX alone
  cpu.leaf7_ebx = kAvx2;
  EXPECT_EQ(Chosen(cpu), "avx2");
  cpu.leaf7_ebx |= kAvx512f | kAvx512dq | kAvx512bw | kAvx512vl;
  cpu.xcr0 |= kMasks | kLowZmm | kHighZmm;
  EXPECT_EQ(Chosen(cpu), "avx512");
  cpu.leaf7_1_eax = kAvx512Bf16;
  EXPECT_EQ(Chosen(cpu), "avx512");  // without VNNI
  cpu.leaf7_ecx = kAvx512Vnni;
  EXPECT_EQ(Chosen(cpu), "avx512_bf16");
  cpu.leaf7_edx = kAmxTile | kAmxBf16;
  cpu.xcr0 |= kTileConfig | kTileData;
  EXPECT_EQ(Chosen(cpu), "avx512_bf16");  // nobody to ask
  cpu.request_tile_registers = Grant;
  EXPECT_EQ(Chosen(cpu), "avx512_amx");
}

// As hypervisors mask flags: one by one.
TEST(CpuFeaturesTest, WithoutOneOfItsFlagsAnInstructionSetIsNotUsed) {
  struct Masked {
    const char* name;
    uint32_t CpuFeatures::* word;
    uint32_t flag;
    const char* chosen;
  };
  const Masked kMasked[] = {
      {"osxsave", &CpuFeatures::leaf1_ecx, kOsXsave, "scalar"},
      {"avx", &CpuFeatures::leaf1_ecx, kAvx, "scalar"},
      {"fma", &CpuFeatures::leaf1_ecx, kFma, "scalar"},
      {"f16c", &CpuFeatures::leaf1_ecx, kF16c, "scalar"},
      {"avx2", &CpuFeatures::leaf7_ebx, kAvx2, "scalar"},
      {"avx512f", &CpuFeatures::leaf7_ebx, kAvx512f, "avx2"},
      {"avx512dq", &CpuFeatures::leaf7_ebx, kAvx512dq, "avx2"},
      {"avx512bw", &CpuFeatures::leaf7_ebx, kAvx512bw, "avx2"},
      {"avx512vl", &CpuFeatures::leaf7_ebx, kAvx512vl, "avx2"},
      {"avx512_vnni", &CpuFeatures::leaf7_ecx, kAvx512Vnni, "avx512"},
      {"avx512_bf16", &CpuFeatures::leaf7_1_eax, kAvx512Bf16, "avx512"},
      {"amx_tile", &CpuFeatures::leaf7_edx, kAmxTile, "avx512_bf16"},
      {"amx_bf16", &CpuFeatures::leaf7_edx, kAmxBf16, "avx512_bf16"},
  };
  for (const Masked& masked : kMasked) {
    CpuFeatures cpu = Everything();
    cpu.*masked.word &= ~masked.flag;
    EXPECT_EQ(Chosen(cpu), masked.chosen) << "without " << masked.name;
  }
}

// As with `noxsave`, `clearcpuid` or an old kernel.
TEST(CpuFeaturesTest, RegistersThatTheSystemDoesNotSaveAreNotUsed) {
  struct Unsaved {
    const char* name;
    uint64_t state;
    const char* chosen;
  };
  const Unsaved kUnsaved[] = {
      {"xmm", kXmm, "scalar"},
      {"ymm", kYmm, "scalar"},
      {"masks", kMasks, "avx2"},
      {"lower zmm", kLowZmm, "avx2"},
      {"upper zmm", kHighZmm, "avx2"},
      {"tile configuration", kTileConfig, "avx512_bf16"},
      {"tiles", kTileData, "avx512_bf16"},
  };
  for (const Unsaved& unsaved : kUnsaved) {
    CpuFeatures cpu = Everything();
    cpu.xcr0 &= ~unsaved.state;
    EXPECT_EQ(Chosen(cpu), unsaved.chosen) << unsaved.name << " not saved";
  }
}

TEST(CpuFeaturesTest, TileRegistersThatTheSystemRefusesAreNotUsed) {
  CpuFeatures cpu = Everything();
  cpu.request_tile_registers = Refuse;
  num_requests = 0;
  EXPECT_EQ(Chosen(cpu), "avx512_bf16");
  EXPECT_EQ(num_requests, 1);
}

#if defined(__linux__) && !defined(RNN_EMULATED_TILE_REGISTERS)

// arch_prctl's, by Linux, Documentation/arch/x86/xstate.rst and man 2
// arch_prctl.
constexpr uint32_t kRequestPermission = 0x1023, kGetFs = 0x1003;
constexpr long kTileDataComponent = 18;
constexpr char kNoFilter[] = "no filter";

// From now on the kernel answers this process' requests for permission with an
// error, or with 0, and asks nobody: a filter of system calls (seccomp).
bool AnswerRequestsWith(int error) {
  sock_filter instructions[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRequestPermission, 0, 1),
      BPF_STMT(BPF_RET | BPF_K,
               SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(instructions), instructions};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// What `say` returns in a process of its own, which the kernel answers so; or
// kNoFilter. (Permission is asked for once in a process, and a filter stays.)
std::string SaidWhenAnswered(int error, std::string (*say)()) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string said = AnswerRequestsWith(error) ? say() : kNoFilter;
    _exit(write(ends[1], said.data(), said.size()) < 0);
  }
  close(ends[1]);
  char said[1000];
  const ssize_t size = read(ends[0], said, sizeof said);
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  if (status != 0 || size < 0) return "the child failed";
  return std::string(said, size);
}

// Whether the kernel answers this request; arch_prctl's others reach it.
std::string Answers() {
  uint64_t fs = 0;
  if (syscall(SYS_arch_prctl, kGetFs, &fs) != 0 || fs == 0) return "all fail";
  errno = 0;
  syscall(SYS_arch_prctl, kRequestPermission, kTileDataComponent);
  return std::to_string(errno);
}

// By a CPU that has everything, and this machine's system.
std::string ChosenBySystem() {
  CpuFeatures cpu = Everything();
  cpu.request_tile_registers = RequestTileRegisters;
  return Chosen(cpu);
}

TEST(CpuFeaturesTest, TileRegistersAreUsedIfTheKernelGrantsThem) {
  // One that no kernel gives: it comes from the filter.
  const std::string answer = SaidWhenAnswered(EXDEV, Answers);
  if (answer == kNoFilter) {
    GTEST_SKIP() << "This system takes no filters of system calls (seccomp).";
  }
  ASSERT_EQ(answer, std::to_string(EXDEV));
  for (const int error : {EXDEV, EPERM, EINVAL, EOPNOTSUPP, ENOSYS}) {
    EXPECT_EQ(SaidWhenAnswered(error, ChosenBySystem), "avx512_bf16") << error;
  }
  EXPECT_EQ(SaidWhenAnswered(0, ChosenBySystem), "avx512_amx");
}

#endif  // __linux__

// Permission changes what the process may do (tile_registers.h).
TEST(CpuFeaturesTest, TheSystemIsAskedForTileRegistersOnlyIfTheyWouldBeUsed) {
  num_requests = 0;
  CpuFeatures cpu = Everything();
  EXPECT_EQ(Chosen(cpu, "avx512_bf16"), "avx512_bf16");
  EXPECT_EQ(Chosen(cpu, "avx2"), "avx2");
  cpu.leaf7_edx = 0;
  EXPECT_EQ(Chosen(cpu), "avx512_bf16");
  EXPECT_EQ(num_requests, 0);
  EXPECT_EQ(Chosen(Everything()), "avx512_amx");
  EXPECT_EQ(num_requests, 1);
}

// Their products of bfloat16 take longer than those of floats.
TEST(CpuFeaturesTest,
     Bfloat16OfOtherMakesThanAmdIsUsedByNameOrInTileRegisters) {
  CpuFeatures cpu = Everything();
  cpu.is_amd = false;
  EXPECT_EQ(Chosen(cpu), "avx512_amx");
  EXPECT_EQ(Chosen(cpu, "avx512_bf16"), "avx512_bf16");
  cpu.request_tile_registers = Refuse;
  EXPECT_EQ(Chosen(cpu), "avx512");
  EXPECT_EQ(Chosen(cpu, "avx512_amx"), "avx512");
  EXPECT_EQ(Chosen(cpu, "avx512_bf16"), "avx512_bf16");
  EXPECT_EQ(Chosen(cpu, "no such set"), "avx512");
}

TEST(CpuFeaturesTest, ALimitIsNoPromise) {
  CpuFeatures cpu = Everything();
  cpu.leaf7_ebx &= ~kAvx512f;
  EXPECT_EQ(Chosen(cpu, "avx512_amx"), "avx2");
  EXPECT_EQ(Chosen(cpu, "avx512"), "avx2");
  EXPECT_EQ(Chosen(cpu, "avx2"), "avx2");
  EXPECT_EQ(Chosen(cpu, "scalar"), "scalar");
  EXPECT_EQ(Chosen(CpuFeatures(), "avx512"), "scalar");
}

// What the compiler's library makes of the same facts.
TEST(CpuFeaturesTest, AgreesWithTheCompilerOnThisMachine) {
  const CpuFeatures cpu = CpuFeatures::Here();
  EXPECT_EQ(cpu.is_amd, __builtin_cpu_is("amd"));
  EXPECT_EQ(cpu.HasAvx2(), __builtin_cpu_supports("avx2") &&
                               __builtin_cpu_supports("fma") &&
                               __builtin_cpu_supports("f16c"));
#ifdef RNN_EMULATED_AVX512
  EXPECT_EQ(cpu.HasAvx512Bf16(), cpu.HasAvx2());
#else
  EXPECT_EQ(cpu.HasAvx512(), cpu.HasAvx2() &&
                                 __builtin_cpu_supports("avx512f") &&
                                 __builtin_cpu_supports("avx512vl") &&
                                 __builtin_cpu_supports("avx512dq") &&
                                 __builtin_cpu_supports("avx512bw"));
  EXPECT_EQ(cpu.HasAvx512Bf16(), cpu.HasAvx512() &&
                                     __builtin_cpu_supports("avx512vnni") &&
                                     __builtin_cpu_supports("avx512bf16"));
#endif
}

}  // namespace
}  // namespace rnn

#endif  // __x86_64__
