// Tells whether this process is a forked child of one that used the library. Such a child shares
// descriptors and file locks with its parent, so every object in it is inert.
#pragma once

#include <atomic>
#include <cstdint>

#include <vramlink/result.hpp>

namespace vramlink::os {

namespace detail {
/// Points to a byte that is 1 in this process and 0 in its forked children: first a constant 1,
/// after arm_fork_guard() a byte that fork() wipes.
extern std::atomic<const std::atomic<std::uint8_t>*> fork_guard_byte;
}  // namespace detail

/// True in a child that was forked after arm_fork_guard(), and in that child's children. Two loads,
/// no system call; callable from everywhere.
[[nodiscard]] inline bool in_forked_child() noexcept {
  // Pairs with the exchange in arm_fork_guard().
  const auto* byte = detail::fork_guard_byte.load(std::memory_order_acquire);
  return byte->load(std::memory_order_relaxed) == 0;
}

/// From now on forked children are known as such. Idempotent; thread-safe; cheap when done.
/// `out_of_memory` or `os` if neither a wiped page nor a fork handler can be had.
[[nodiscard]] Result<void> arm_fork_guard();

/// For entry points that create shared objects: arms the guard; `wrong_state` in a forked child.
[[nodiscard]] Result<void> require_not_forked(const char* operation);

/// For tests that fork instead of starting a program: makes this child a process of its own. The
/// objects that it inherited must then be neither used nor destroyed.
void become_own_process() noexcept;

}  // namespace vramlink::os
