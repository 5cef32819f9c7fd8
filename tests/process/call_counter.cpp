// See call_counter.hpp. On x86-64 the signal handler makes the trapped call itself; elsewhere no
// thread is watched.
#include "call_counter.hpp"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>

extern "C" {
// glibc's own allocator, under the names that it keeps for interposers.
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace vramlink::test {
namespace {

constinit thread_local CallCounts counts;
constinit thread_local bool counting = false;

void count_allocation() noexcept {
  if (counting) ++counts.allocations;
}

/// A sixth argument that no caller passes marks the handler's own calls, which the filter lets
/// through.
constexpr unsigned long kPass = 0x76726d6c;

#if defined(__x86_64__)
long call(long number, const greg_t* registers) noexcept {
  long result = 0;
  register long r10 asm("r10") = registers[REG_R10];
  register long r8 asm("r8") = registers[REG_R8];
  register long r9 asm("r9") = static_cast<long>(kPass);
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(registers[REG_RDI]), "S"(registers[REG_RSI]),
                 "d"(registers[REG_RDX]), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

void on_trap(int, siginfo_t* info, void* context) {
  auto* const machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
  const long number = info->si_syscall;
  if (counting) {
    const long operation = machine->gregs[REG_RSI] & FUTEX_CMD_MASK;
    if (number == SYS_futex && operation == FUTEX_WAKE) {
      ++counts.futex_wakes;
    } else if (number == SYS_clock_gettime) {
      ++counts.clock_calls;
    } else {
      ++counts.system_calls;
      counts.last_system_call = number;
    }
  }
  machine->gregs[REG_RAX] = call(number, machine->gregs);
}
constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#endif

}  // namespace

#if defined(__x86_64__)
bool watch_this_thread() {
  struct sigaction action {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (::sigaction(SIGSYS, &action, nullptr) != 0) return false;
  // The low half of the sixth argument; the call that returns from the handler, the one that waits
  // with six arguments of its own and the end of the process pass.
  constexpr unsigned kSixth = offsetof(seccomp_data, args) + 5 * sizeof(std::uint64_t);
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kSixth),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kPass, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  const sock_fprog filter{sizeof program / sizeof program[0], program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}
#else
bool watch_this_thread() { return false; }
#endif

void start_counting() noexcept {
  counts = {};
  counting = true;
}

CallCounts stop_counting() noexcept {
  counting = false;
  return counts;
}

}  // namespace vramlink::test

// The program's allocator: glibc's, counted.
extern "C" {
void* malloc(std::size_t size) {
  vramlink::test::count_allocation();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  vramlink::test::count_allocation();
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
  vramlink::test::count_allocation();
  return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  vramlink::test::count_allocation();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  vramlink::test::count_allocation();
  *out = __libc_memalign(alignment, size);
  return *out ? 0 : ENOMEM;
}
}
