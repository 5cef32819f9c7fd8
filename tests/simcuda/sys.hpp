// System calls without libc: the device process must touch no errno, no lock and nothing else that
// belongs to a thread of the client, and the client's sanitizers must not see the locks in here, or
// they would hide races of the program under test.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace vramlink::simcuda {

inline constexpr std::uint64_t kPageBytes = 4096;  // of the host

}  // namespace vramlink::simcuda

namespace vramlink::simcuda::sys {

#if defined(__x86_64__)
inline long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                 long f = 0) noexcept {
  long result = number;
  register long fourth asm("r10") = d;
  register long fifth asm("r8") = e;
  register long sixth asm("r9") = f;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
               : "rcx", "r11", "memory");
  return result;
}

/// clone() with a stack of its own for the child, which runs `body` and must not return from it.
inline long clone(unsigned long flags, void* stack_top, void (*body)()) noexcept {
  long result = SYS_clone;
  register void (*entry)() asm("r12") = body;
  register long parent_tid asm("rdx") = 0;
  register long child_tid asm("r10") = 0;
  register long tls asm("r8") = 0;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "call *%%r12\n\t"
      "ud2\n"
      "1:"
      : "+a"(result)
      : "D"(flags), "S"(stack_top), "r"(parent_tid), "r"(child_tid), "r"(tls), "r"(entry)
      : "rcx", "r11", "memory", "cc");
  return result;
}

inline void copy_bytes(std::byte* to, const std::byte* from, std::uint64_t size_bytes) noexcept {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size_bytes) : : "memory");
}
#elif defined(__aarch64__)
inline long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                 long f = 0) noexcept {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc #0"
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory", "cc");
  return x0;
}

/// clone() with a stack of its own for the child, which runs `body` and must not return from it.
inline long clone(unsigned long flags, void* stack_top, void (*body)()) noexcept {
  register long x8 asm("x8") = SYS_clone;
  register long x0 asm("x0") = static_cast<long>(flags);
  register void* x1 asm("x1") = stack_top;
  register long x2 asm("x2") = 0;
  register long x3 asm("x3") = 0;
  register long x4 asm("x4") = 0;
  register void (*entry)() asm("x10") = body;
  asm volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "blr x10\n\t"
      "brk #1\n"
      "1:"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(entry)
      : "memory", "cc");
  return x0;
}

inline void copy_bytes(std::byte* to, const std::byte* from, std::uint64_t size_bytes) noexcept {
  for (; size_bytes >= 8; size_bytes -= 8, to += 8, from += 8) {
    std::uint64_t word;
    asm volatile("ldr %0, [%2]\n\tstr %0, [%1]" : "=&r"(word) : "r"(to), "r"(from) : "memory");
  }
  for (; size_bytes > 0; --size_bytes, ++to, ++from) *static_cast<volatile std::byte*>(to) = *from;
}
#else
#error "the stand-in driver knows x86-64 and aarch64"
#endif

/// A pointer as an argument of call().
inline long arg(const volatile void* pointer) noexcept { return reinterpret_cast<long>(pointer); }

inline bool failed(long result) noexcept { return result < 0 && result > -4096; }

inline long futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                       std::uint64_t limit_ns) noexcept {
  const timespec limit{static_cast<time_t>(limit_ns / 1'000'000'000),
                       static_cast<long>(limit_ns % 1'000'000'000)};
  return call(SYS_futex, arg(&word), FUTEX_WAIT_PRIVATE, static_cast<long>(expected), arg(&limit));
}

inline void futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept {
  call(SYS_futex, arg(&word), FUTEX_WAKE_PRIVATE, count);
}

inline std::uint64_t now_ns() noexcept {
  timespec now{};
  call(SYS_clock_gettime, CLOCK_MONOTONIC, arg(&now));
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

inline int pid() noexcept { return static_cast<int>(call(SYS_getpid)); }
inline int tid() noexcept { return static_cast<int>(call(SYS_gettid)); }
inline void yield() noexcept { call(SYS_sched_yield); }

/// A mutex that is taken in the order of asking: a thread that calls all the time does not keep the
/// others out.
class Lock {
 public:
  void lock() noexcept {
    const std::uint32_t ticket = next_.fetch_add(1);
    for (std::uint32_t turn = turn_.load(); turn != ticket; turn = turn_.load()) {
      futex_wait(turn_, turn, kLongWaitNs);
    }
  }
  void unlock() noexcept {
    // Pairs with lock(), which takes a ticket and then looks at the turn.
    const std::uint32_t turn = turn_.load(std::memory_order_relaxed) + 1;
    turn_.store(turn);
    if (next_.load() != turn) futex_wake(turn_, INT_MAX);
  }

 private:
  static constexpr std::uint64_t kLongWaitNs = 1'000'000'000;
  std::atomic<std::uint32_t> next_{0};
  std::atomic<std::uint32_t> turn_{0};
};

}  // namespace vramlink::simcuda::sys
