// Memory that counts how often each of its bytes is read, on 64-bit x86. Its
// pages are closed: an access faults, is counted, and is done by itself, in a
// single step of the CPU, with the pages open.
#ifndef TESTS_ENGINE_COUNTED_READS_H_
#define TESTS_ENGINE_COUNTED_READS_H_

#if defined(__x86_64__) && defined(__linux__)
#define RNN_COUNTS_READS 1

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rnn {

// One at a time, and of one thread. No more than a page.
class CountedReads {
 public:
  CountedReads(const void* content, int64_t bytes)
      : page_bytes_(sysconf(_SC_PAGESIZE)),
        page_(static_cast<char*>(mmap(nullptr, page_bytes_,
                                      PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (page_ == MAP_FAILED || bytes > page_bytes_ || current_ != nullptr) {
      std::fprintf(stderr, "no page to count reads of\n");
      std::abort();
    }
    std::memcpy(page_, content, bytes);
    current_ = this;
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = OnFault;
    sigaction(SIGSEGV, &action, &previous_segv_);
    action.sa_sigaction = OnStep;
    sigaction(SIGTRAP, &action, &previous_trap_);
    mprotect(page_, page_bytes_, PROT_NONE);
  }
  CountedReads(const CountedReads&) = delete;
  CountedReads& operator=(const CountedReads&) = delete;
  ~CountedReads() {
    sigaction(SIGSEGV, &previous_segv_, nullptr);
    sigaction(SIGTRAP, &previous_trap_, nullptr);
    munmap(page_, page_bytes_);
    current_ = nullptr;
  }

  // What is counted.
  const void* data() const { return page_; }

  // How many accesses began at the byte at `offset`.
  int count(int64_t offset) const { return counts_[offset]; }

 private:
  static constexpr int64_t kMaxBytes = 1 << 16;
  static constexpr greg_t kTrapFlag = 0x100;

  static void OnFault(int, siginfo_t* info, void* context) {
    CountedReads& counted = *current_;
    const int64_t offset = static_cast<char*>(info->si_addr) - counted.page_;
    if (offset < 0 || offset >= counted.page_bytes_ || offset >= kMaxBytes) {
      // Happens again, for who handled faults before to end the program.
      sigaction(SIGSEGV, &counted.previous_segv_, nullptr);
      return;
    }
    counted.counts_[offset] = counted.counts_[offset] + 1;
    mprotect(counted.page_, counted.page_bytes_, PROT_READ | PROT_WRITE);
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] |= kTrapFlag;
  }

  static void OnStep(int, siginfo_t*, void* context) {
    mprotect(current_->page_, current_->page_bytes_, PROT_NONE);
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
  }

  inline static CountedReads* current_ = nullptr;

  const int64_t page_bytes_;
  char* const page_;
  struct sigaction previous_segv_, previous_trap_;
  // The compiler does not know who writes them meanwhile.
  volatile int counts_[kMaxBytes] = {};
};

// Whether this machine counts: an emulator of CPUs may not do single steps.
inline bool CountsReads() {
  static const bool counts = [] {
    const uint32_t content[] = {7, 8};
    const CountedReads counted(content, sizeof content);
    const auto* const values =
        static_cast<const volatile uint32_t*>(counted.data());
    const bool is_right = values[1] + values[1] == 16 && values[0] == 7;
    return is_right && counted.count(0) == 1 && counted.count(4) == 2;
  }();
  return counts;
}

}  // namespace rnn

#endif  // defined(__x86_64__) && defined(__linux__)

#endif  // TESTS_ENGINE_COUNTED_READS_H_
