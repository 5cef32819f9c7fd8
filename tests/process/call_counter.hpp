// Counts what a thread must not do in steady state: allocate, and call the kernel.
#pragma once

#include <cstdint>

namespace vramlink::test {

/// What one thread did between start and stop.
struct CallCounts {
  std::uint64_t allocations = 0;   ///< malloc, calloc, realloc, aligned_alloc, posix_memalign
  std::uint64_t system_calls = 0;  ///< all but futex wake-ups
  std::uint64_t futex_wakes = 0;
  std::uint64_t clock_calls = 0;  ///< clock_gettime that the vDSO could not answer
  long last_system_call = -1;     ///< number of the last counted one
};

/// Puts a seccomp filter on the calling thread, for good: from now on each of its system calls is
/// counted, by a signal, and then made, until the counters stop looking. False if the kernel
/// refuses, and on machines other than x86-64.
[[nodiscard]] bool watch_this_thread();
void start_counting() noexcept;
[[nodiscard]] CallCounts stop_counting() noexcept;

}  // namespace vramlink::test
