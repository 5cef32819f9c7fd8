// Sleeping on words in memory that processes share. std::atomic::wait() of libstdc++ uses the
// private futex, which does not cross processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <vramlink/deadline.hpp>

namespace vramlink::os {

enum class Woken : std::uint8_t {
  woken,        ///< somebody called futex_wake(), or it looks so: check the word
  changed,      ///< a word was not `expected` any more; nobody slept
  timed_out,    ///< the deadline passed
  interrupted,  ///< a signal handler ran, or another reason to look again
};

/// Sleeps while `word` is `expected`, until futex_wake() or the deadline. The word may lie in a
/// read-only mapping. Orders nothing: the caller's own loads do.
[[nodiscard]] Woken futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                               Deadline deadline) noexcept;

/// Wakes up to `count` sleepers of `word`, in any process, and returns how many.
int futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept;

struct FutexWaiter {
  const std::atomic<std::uint32_t>* word = nullptr;
  std::uint32_t expected = 0;
};

inline constexpr std::size_t kFutexWaitersMax = 128;

/// True if futex_wait_any() can sleep on several words (Linux 5.16). Asked once.
[[nodiscard]] bool futex_wait_any_supported() noexcept;

/// Sleeps until one of the words is woken or is not as expected, or until the deadline; 1 to
/// kFutexWaitersMax waiters. Without kernel support it sleeps for at most 1 ms and then returns
/// `changed`, `timed_out` or `interrupted`: a caller that loops stays correct, a wake-up comes
/// late.
[[nodiscard]] Woken futex_wait_any(std::span<const FutexWaiter> waiters,
                                   Deadline deadline) noexcept;

/// For tests: true makes futex_wait_any_supported() say no; false lets it ask the kernel again.
void pretend_futex_wait_any_missing(bool missing) noexcept;

}  // namespace vramlink::os
