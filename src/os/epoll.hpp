// Waiting for many descriptors at once, with a Deadline.
#pragma once

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include <vramlink/deadline.hpp>
#include <vramlink/result.hpp>

#include "os/fd.hpp"

namespace vramlink::os {

/// A set of watched descriptors, each with a token of the caller's. Watches do not own: remove() a
/// descriptor before closing it, because a duplicate of it elsewhere would keep the watch alive.
/// Thread-safety: all members from any thread.
class Epoll {
 public:
  /// Owns nothing; only assignment and destruction are useful.
  Epoll() noexcept = default;

  [[nodiscard]] static Result<Epoll> create();

  /// `events` are EPOLLIN and the like. `already_exists` if watched already; `permission_denied`
  /// for a file that cannot be polled.
  [[nodiscard]] Result<void> add(int fd, std::uint32_t events, std::uint64_t token) const;
  /// `not_found` if not watched.
  [[nodiscard]] Result<void> modify(int fd, std::uint32_t events, std::uint64_t token) const;
  /// `not_found` if not watched.
  Result<void> remove(int fd) const;

  /// Fills `events` with what is ready, `data.u64` being the token, and returns how many: 0 when
  /// the deadline passed first or a signal handler ran. Never returns before the deadline without a
  /// reason. Blocks.
  [[nodiscard]] Result<std::size_t> wait(std::span<epoll_event> events, Deadline deadline) const;

  /// Borrowed; an Epoll can be watched itself.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

 private:
  explicit Epoll(UniqueFd fd) noexcept : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

/// Blocks until `fd` is readable or hung up. `timed_out`; `resource_exhausted`.
[[nodiscard]] Result<void> wait_readable(int fd, Deadline deadline);

/// For tests: true makes wait() use the milliseconds of older kernels (before Linux 5.11).
void pretend_epoll_pwait2_missing(bool missing) noexcept;

}  // namespace vramlink::os
