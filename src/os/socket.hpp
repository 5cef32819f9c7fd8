// AF_UNIX sockets that carry whole messages and file descriptors.
//
// | handle   | closed by                                          | depends on                    |
// |----------|----------------------------------------------------|-------------------------------|
// | Socket   | close                                              | nothing                       |
// | Listener | unlink of its path while the path is its own, close | the LockFile that guards it |
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <vramlink/result.hpp>

#include "os/fd.hpp"

namespace vramlink::os {

inline constexpr std::size_t kFdsPerMessageMax = 8;

/// Bytes that a socket's path may have. Listener::bind() needs kBindSuffixBytes of them for itself.
inline constexpr std::size_t kSocketPathMaxBytes = 107;
inline constexpr std::size_t kBindSuffixBytes = 4;  // ".new"

/// Who connected or listened, from the kernel, at the moment of connect() or listen().
struct PeerCredentials {
  pid_t pid = 0;  ///< 0: the peer is not visible from this pid namespace
  uid_t uid = 0;
  gid_t gid = 0;
};

/// One end of a connection: SOCK_SEQPACKET, nonblocking. No member blocks.
/// Thread-safety: one thread may send while another receives; shut_down() from any thread.
class Socket {
 public:
  /// Owns nothing; only assignment and destruction are useful.
  Socket() noexcept = default;
  explicit Socket(UniqueFd fd) noexcept : fd_(std::move(fd)) {}

  /// `not_found` if nothing is there; `peer_gone` if nobody listens; `full` if the listener's
  /// backlog is full, which is worth another try later; `permission_denied`; `invalid_argument` for
  /// a path that does not fit.
  [[nodiscard]] static Result<Socket> connect(const std::string& path);

  /// Two connected ends.
  [[nodiscard]] static Result<std::pair<Socket, Socket>> pair();

  /// Sends the whole message with the descriptors or nothing. The peer gets duplicates; `fds` stay
  /// the caller's. `full` if the peer reads too slowly; `peer_gone`; `resource_exhausted` if too
  /// many descriptors are under way; `invalid_argument` for an empty message, more than
  /// kFdsPerMessageMax descriptors, or more bytes than the socket's buffer can ever hold.
  [[nodiscard]] Result<void> send(std::span<const std::byte> message,
                                  std::span<const int> fds = {}) const;

  struct Received {
    std::size_t size_bytes = 0;
    std::vector<UniqueFd> fds;  ///< at most kFdsPerMessageMax; without any, nothing is allocated
  };

  /// Takes one message. `empty` if there is none; `closed` when the peer hung up (also by dying)
  /// and all that it sent before was taken; `corrupt` if the message is larger than `buffer` or
  /// carries too many descriptors; `resource_exhausted` if our own limit kept a descriptor out.
  /// After an error that message is gone and its descriptors are closed.
  [[nodiscard]] Result<Received> receive(std::span<std::byte> buffer) const;

  [[nodiscard]] Result<PeerCredentials> peer() const;

  /// Its supplementary groups, of the same moment. Those that our user namespace does not know are
  /// one number. `unsupported` before Linux 4.13.
  [[nodiscard]] Result<std::vector<gid_t>> peer_groups() const;

  /// A pidfd of the peer process: from the connection itself where the kernel can (Linux 6.5), else
  /// by peer_pidfd_by_pid(). `peer_gone` if the process is gone; `unsupported` if neither works.
  [[nodiscard]] Result<UniqueFd> peer_pidfd() const;

  /// A pidfd from the connection itself, which is the peer's without doubt. `peer_gone`;
  /// `unsupported` before Linux 6.5.
  [[nodiscard]] Result<UniqueFd> peer_pidfd_by_connection() const;

  /// A pidfd by the peer's pid. The pid may have been used again since the peer connected: compare
  /// the start time that the peer states (identify()) before trusting it.
  [[nodiscard]] Result<UniqueFd> peer_pidfd_by_pid() const;

  /// Hangs up in both directions: both ends read what was sent before, then `closed`. Does nothing
  /// in a forked child, whose copy is the parent's connection.
  void shut_down() const noexcept;

  /// Borrowed; for polling.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

 private:
  UniqueFd fd_;
};

/// A listening socket with a name in the file system. Only the holder of the channel's LockFile
/// binds and unlinks it. The destructor unlinks the path if it still names this socket, so destroy
/// it before the lock; in a forked child it does not.
class Listener {
 public:
  /// Owns nothing; only assignment and destruction are useful.
  Listener() noexcept = default;
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&& other) noexcept;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();

  /// Binds to `path` + ".new", listens, sets `mode`, then renames onto `path`, replacing what was
  /// there: a socket that appears is listening already, and no wider mode is ever visible.
  /// `invalid_argument` for a path that does not fit, with the numbers (bytes, limit).
  [[nodiscard]] static Result<Listener> bind(const std::string& path, mode_t mode);

  /// The next connection; `empty` if none waits; `resource_exhausted` leaves it waiting.
  [[nodiscard]] Result<Socket> accept() const;

  /// Unlinks the path now, if it is still this socket's; who is connected stays connected.
  void remove_path() noexcept;

  /// Borrowed; for polling.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

 private:
  UniqueFd fd_;
  std::string path_;  // empty: nothing to unlink
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
};

}  // namespace vramlink::os
