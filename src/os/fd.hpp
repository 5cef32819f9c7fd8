// File descriptors with an owner, and eventfds. os: the only layer that knows Linux.
//
// | handle   | closed by       | depends on |
// |----------|-----------------|------------|
// | UniqueFd | FdTraits::close | nothing    |
#pragma once

#include <vramlink/result.hpp>

#include "base/unique_handle.hpp"

namespace vramlink::os {

struct FdTraits {
  using Raw = int;
  static constexpr int kEmpty = -1;
  static void close(int fd) noexcept;
};

/// Owns one file descriptor. Every descriptor that this layer makes is close-on-exec.
using UniqueFd = base::UniqueHandle<FdTraits>;

/// A second descriptor of the same open file, owned by the caller. `resource_exhausted` at the
/// limit of descriptors, `os` if `fd` is not open.
[[nodiscard]] Result<UniqueFd> duplicate(int fd);

/// A nonblocking eventfd with the count 0, owned by the caller. `resource_exhausted`.
[[nodiscard]] Result<UniqueFd> event_fd();

/// Makes an eventfd readable. Never blocks: a count at its maximum is readable already.
void signal_event(int fd) noexcept;

/// Makes an eventfd unreadable until the next signal_event(). Never blocks.
void drain_event(int fd) noexcept;

}  // namespace vramlink::os
