// Lets libraries load, and be linked, on systems whose glibc and libstdc++ are
// older than those it was compiled with: back to glibc 2.28 (Debian 10, RHEL 8,
// Ubuntu 20.04), as the wheels' platform tag promises. The headers of newer
// ones refer to symbols that older ones lack. Each is defined here. Nothing
// outside of a shared library sees it; in a program that has the static one, a
// definition of the system's own goes before it.

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#if defined(__GLIBC__) && defined(__GLIBCXX__)

#define OURS __attribute__((visibility("hidden"), weak))

// glibc 2.32: libstdc++ counts references of shared pointers without atomic
// instructions where it is true. False is always right.
extern "C" OURS char __libc_single_threaded;
char __libc_single_threaded = 0;

// glibc 2.33: it was a function in headers before.
extern "C" OURS int fstat(int descriptor, struct stat* status) noexcept;
int fstat(int descriptor, struct stat* status) noexcept {
  return static_cast<int>(syscall(SYS_fstat, descriptor, status));
}

namespace std {

// GLIBCXX_3.4.29: for an array whose size overflows.
[[noreturn]] OURS void __throw_bad_array_new_length();
void __throw_bad_array_new_length() { throw bad_array_new_length(); }

}  // namespace std

#endif
