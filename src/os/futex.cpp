// os: the shared futex, on one word and on several.
#include "os/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "base/assert.hpp"
#include "os/threads.hpp"
#include "os/timespec.hpp"

namespace vramlink::os {
namespace {

constexpr long kFutexWaitvCall = 449;      // the same on every architecture
constexpr std::uint32_t kFutex32Bits = 2;  // shared between processes: no FUTEX_PRIVATE_FLAG
constexpr std::chrono::milliseconds kNapWithoutWaitv{1};

/// struct futex_waitv, which headers older than Linux 5.16 do not have.
struct KernelWaiter {
  std::uint64_t value;
  std::uint64_t address;
  std::uint32_t flags;
  std::uint32_t reserved;
};
static_assert(sizeof(KernelWaiter) == 24);

enum class Support : std::uint8_t { not_asked, yes, no };
constinit std::atomic<Support> wait_any_support{Support::not_asked};

Woken from_failure(int error_number) noexcept {
  switch (error_number) {
    case EAGAIN:
      return Woken::changed;
    case ETIMEDOUT:
      return Woken::timed_out;
    default:
      // EINTR. Others would be bugs of ours; to look again is right for them, too.
      return Woken::interrupted;
  }
}

Woken nap_instead(std::span<const FutexWaiter> waiters, Deadline deadline) noexcept {
  const auto any_changed = [waiters] {
    return std::any_of(waiters.begin(), waiters.end(), [](const FutexWaiter& waiter) {
      // Orders nothing, as the kernel's own look at the word: the caller loads it again.
      return waiter.word->load(std::memory_order_relaxed) != waiter.expected;
    });
  };
  if (any_changed()) return Woken::changed;
  nap_until(std::min(deadline, Deadline::after(kNapWithoutWaitv)));
  if (any_changed()) return Woken::changed;
  return deadline.has_passed() ? Woken::timed_out : Woken::interrupted;
}

}  // namespace

Woken futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                 Deadline deadline) noexcept {
  const timespec until = to_timespec(deadline.time_ns());
  const long result =
      ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected,
                deadline.is_never() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
  return result == 0 ? Woken::woken : from_failure(errno);
}

int futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept {
  const long woken = ::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
  return woken < 0 ? 0 : static_cast<int>(woken);
}

bool futex_wait_any_supported() noexcept {
  Support support = wait_any_support.load(std::memory_order_relaxed);
  if (support == Support::not_asked) {
    // No waiters are an invalid argument to a kernel that knows the call. Older ones say ENOSYS,
    // some sandboxes EPERM.
    ::syscall(kFutexWaitvCall, nullptr, 0, 0, nullptr, CLOCK_MONOTONIC);
    support = errno == EINVAL ? Support::yes : Support::no;
    wait_any_support.store(support, std::memory_order_relaxed);
  }
  return support == Support::yes;
}

Woken futex_wait_any(std::span<const FutexWaiter> waiters, Deadline deadline) noexcept {
  VRAMLINK_ASSERT(!waiters.empty() && waiters.size() <= kFutexWaitersMax);
  if (!futex_wait_any_supported()) return nap_instead(waiters, deadline);
  std::array<KernelWaiter, kFutexWaitersMax> kernel_waiters;  // only the used part is filled
  std::transform(waiters.begin(), waiters.end(), kernel_waiters.begin(),
                 [](const FutexWaiter& waiter) {
                   return KernelWaiter{.value = waiter.expected,
                                       .address = reinterpret_cast<std::uintptr_t>(waiter.word),
                                       .flags = kFutex32Bits,
                                       .reserved = 0};
                 });
  const timespec until = to_timespec(deadline.time_ns());
  const long result =
      ::syscall(kFutexWaitvCall, kernel_waiters.data(), static_cast<unsigned>(waiters.size()), 0,
                deadline.is_never() ? nullptr : &until, CLOCK_MONOTONIC);
  return result >= 0 ? Woken::woken : from_failure(errno);
}

void pretend_futex_wait_any_missing(bool missing) noexcept {
  wait_any_support.store(missing ? Support::no : Support::not_asked, std::memory_order_relaxed);
}

}  // namespace vramlink::os
