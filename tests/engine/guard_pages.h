// Memory between two pages that nobody may touch: the CPU itself notices one
// element too many, read or written.
#ifndef TESTS_ENGINE_GUARD_PAGES_H_
#define TESTS_ENGINE_GUARD_PAGES_H_

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace rnn {

// What the test is doing, told if a guard is touched. One line, no more than
// 500 characters.
inline char guarded_case[512] = "";
inline void SetGuardedCase(const std::string& description) {
  std::snprintf(guarded_case, sizeof guarded_case, "%s", description.c_str());
}

namespace guard_pages_internal {

struct Area {
  const char* begin;  // what may be used
  const char* end;
};

inline std::mutex& AreasMutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}
inline std::vector<Area>& Areas() {
  static auto* const areas = new std::vector<Area>;
  return *areas;
}

// Who handled these before: a sanitizer, a fuzzer, or nobody.
inline struct sigaction previous_segv, previous_bus;

// Says where the access went, then lets it happen again, for who handled faults
// before to end the program.
inline void OnFault(int signal, siginfo_t* info, void*) {
  const auto* address = static_cast<const char*>(info->si_addr);
  const auto page = static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  char message[1024] = "access to memory that is no buffer's guard\n";
  for (const Area& area : Areas()) {
    const char* where = nullptr;
    if (address >= area.begin - page && address < area.begin) {
      where = "before the begin";
    } else if (address >= area.end && address < area.end + page) {
      where = "past the end";
    } else if (address >= area.begin && address < area.end) {
      where = "writing";
    }
    if (where != nullptr) {
      std::snprintf(message, sizeof message, "%s of a buffer (%s)\n", where,
                    guarded_case);
    }
  }
  if (write(STDERR_FILENO, message, std::strlen(message)) < 0) _exit(1);
  sigaction(signal, signal == SIGSEGV ? &previous_segv : &previous_bus,
            nullptr);
}

// Once.
inline void InstallHandler() {
  static const bool is_installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
    return true;
  }();
  static_cast<void>(is_installed);
}

}  // namespace guard_pages_internal

// Where the values lie: they end, or begin, at a guard.
enum class GuardedSide { kEnd, kBegin };

template <typename Value>
class GuardPages {
 public:
  // Room for at most `capacity` values.
  explicit GuardPages(int64_t capacity) {
    guard_pages_internal::InstallHandler();
    const auto page = static_cast<int64_t>(sysconf(_SC_PAGESIZE));
    const int64_t bytes = capacity * int64_t{sizeof(Value)};
    room_ = (bytes + page - 1) / page * page;
    mapped_ = room_ + 2 * page;
    base_ = static_cast<char*>(
        mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) std::abort();
    begin_ = base_ + page;
    Protect(PROT_READ | PROT_WRITE);
    std::lock_guard<std::mutex> lock(guard_pages_internal::AreasMutex());
    guard_pages_internal::Areas().push_back({begin_, begin_ + room_});
  }
  ~GuardPages() {
    std::lock_guard<std::mutex> lock(guard_pages_internal::AreasMutex());
    auto& areas = guard_pages_internal::Areas();
    for (size_t i = 0; i < areas.size(); ++i) {
      if (areas[i].begin != begin_) continue;
      areas[i] = areas.back();
      areas.pop_back();
      break;
    }
    munmap(base_, mapped_);
  }
  GuardPages(const GuardPages&) = delete;
  GuardPages& operator=(const GuardPages&) = delete;

  // Memory for `count` values, at most the capacity, on one side.
  Value* At(GuardedSide side, int64_t count) {
    char* begin = side == GuardedSide::kBegin
                      ? begin_
                      : begin_ + room_ - count * int64_t{sizeof(Value)};
    return reinterpret_cast<Value*>(begin);
  }

  // From now on writing is an error, too.
  void MakeReadOnly() { Protect(PROT_READ); }

  // All bytes, wherever the values are.
  void FillBytes(unsigned char byte) {
    if (room_ > 0) std::memset(begin_, byte, room_);
  }

 private:
  void Protect(int protection) {
    if (room_ > 0 && mprotect(begin_, room_, protection) != 0) std::abort();
  }

  int64_t room_;
  int64_t mapped_;
  char* base_;
  char* begin_;
};

// `size` values that end, respectively begin, at a guard.
template <typename Value, GuardedSide kSide>
class GuardedValues {
 public:
  explicit GuardedValues(int64_t size) : size_(size), pages_(size) {}

  Value* data() { return pages_.At(kSide, size_); }
  Value& operator[](int64_t i) { return data()[i]; }
  int64_t size() const { return size_; }
  std::vector<Value> values() { return {data(), data() + size_}; }

  void MakeReadOnly() { pages_.MakeReadOnly(); }
  void FillBytes(unsigned char byte) { pages_.FillBytes(byte); }

 private:
  int64_t size_;
  GuardPages<Value> pages_;
};

template <typename Value>
using EndGuarded = GuardedValues<Value, GuardedSide::kEnd>;
template <typename Value>
using BeginGuarded = GuardedValues<Value, GuardedSide::kBegin>;

}  // namespace rnn

#endif  // TESTS_ENGINE_GUARD_PAGES_H_
