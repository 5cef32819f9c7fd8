// Which process is meant, and whether it still lives. A pid alone says neither.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>

#include <vramlink/result.hpp>

#include "os/fd.hpp"

namespace vramlink::os {

/// Names one process among all that ran on this host. No padding.
struct ProcessIdentity {
  std::array<std::uint8_t, 16> boot_id{};
  std::uint64_t pid_namespace = 0;  ///< the namespace in which `pid` counts
  std::int32_t pid = 0;
  std::uint32_t reserved = 0;
  std::uint64_t start_time_ticks = 0;  ///< since boot; tells two users of one pid apart

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) noexcept = default;
};

/// `unsupported` if /proc is missing or belongs to another pid namespace.
[[nodiscard]] Result<ProcessIdentity> identify_self();

/// The process that has `pid` in our pid namespace now. `peer_gone` if there is none.
[[nodiscard]] Result<ProcessIdentity> identify(pid_t pid);

/// Whether two start times are one process's, given one pid: the conversion between time namespaces
/// rounds, so neighbours are equal. A pid is not used again within one tick.
[[nodiscard]] constexpr bool is_same_start(std::uint64_t a, std::uint64_t b) noexcept {
  return (a > b ? a - b : b - a) <= 1;
}

enum class Life : std::uint8_t { alive, dead, unknown };

/// dead is a proof: another boot, no such process, its pid belongs to another process, or only its
/// zombie is left. unknown: another pid namespace, or /proc does not tell.
[[nodiscard]] Life life_of(const ProcessIdentity& identity);

/// A pidfd, which becomes readable when the process has ended. `peer_gone` if there is no such
/// process, `unsupported` without kernel support, `invalid_argument` for a pid below 1.
[[nodiscard]] Result<UniqueFd> open_pidfd(pid_t pid);

/// Whether a descriptor, for example one that a peer sent, is a pidfd.
[[nodiscard]] bool is_pidfd(int fd) noexcept;

/// The process behind a pidfd, as our pid namespace numbers it: 0 if it is not visible here, -1 if
/// it was reaped. `invalid_argument` if `fd` is not a pidfd.
[[nodiscard]] Result<pid_t> pid_of_pidfd(int fd);

/// True once the process behind a pidfd has ended, threads included. Never blocks.
[[nodiscard]] bool pidfd_exited(int fd) noexcept;

/// The process's name in printable characters, "" if unknown.
[[nodiscard]] std::string process_name(pid_t pid);

}  // namespace vramlink::os
