// os: messages and descriptors over AF_UNIX.
#include "os/socket.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/try.hpp"
#include "os/errno.hpp"
#include "os/fork_guard.hpp"
#include "os/process.hpp"
#include "os/socket_address.hpp"

namespace vramlink::os {
namespace {

constexpr int kSocketPeerPidfd = 77;  // SO_PEERPIDFD, Linux 6.5

/// Room for the descriptors of one message, aligned as the kernel wants it.
struct ControlBuffer {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kFdsPerMessageMax * sizeof(int))> bytes{};
};

Result<void> check_message(std::span<const std::byte> message, std::span<const int> fds) {
  if (message.empty()) {
    return Error(Code::invalid_argument, "send message")
        .because("an empty message looks like the end of the stream");
  }
  if (fds.size() > kFdsPerMessageMax) {
    return Error(Code::invalid_argument, "send message")
        .because("a message carries fewer descriptors")
        .numbers(fds.size(), kFdsPerMessageMax);
  }
  return {};
}

Error send_failure(int error_number, std::size_t size_bytes) {
  if (error_number == EAGAIN) return Error(Code::full, "sendmsg").from(Origin::os, EAGAIN);
  if (error_number == EMSGSIZE) {
    return Error(Code::invalid_argument, "sendmsg")
        .from(Origin::os, EMSGSIZE)
        .because("the message is larger than the socket's buffer")
        .numbers(size_bytes, 0);
  }
  return from_errno("sendmsg", error_number);
}

/// Takes every descriptor out of the message before anything else can fail.
std::vector<UniqueFd> take_fds(msghdr& header) {
  std::array<UniqueFd, kFdsPerMessageMax> taken;
  std::size_t count = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t size_bytes = part->cmsg_len - CMSG_LEN(0);
    for (std::size_t at = 0; at + sizeof(int) <= size_bytes; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + at, sizeof(fd));
      // The buffer has no room for more than the array.
      if (count < taken.size()) taken[count++].reset(fd);
    }
  }
  std::vector<UniqueFd> fds;
  if (count == 0) return fds;
  fds.reserve(count);
  std::move(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(count),
            std::back_inserter(fds));
  return fds;
}

Result<void> check_received(const msghdr& header, std::size_t sent_bytes, std::size_t buffer_bytes,
                            std::size_t fd_count) {
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    // The kernel puts in as many descriptors as fit. Fewer than our room: this process could not
    // take more, and that is not the peer's fault.
    if (fd_count < kFdsPerMessageMax) return from_errno("recvmsg", EMFILE);
    return Error(Code::corrupt, "receive message")
        .because("the message carries too many descriptors")
        .numbers(kFdsPerMessageMax, 0);
  }
  if ((header.msg_flags & MSG_TRUNC) != 0) {
    return Error(Code::corrupt, "receive message")
        .because("the message is larger than the protocol allows")
        .numbers(buffer_bytes, sent_bytes);
  }
  return {};
}

}  // namespace

Result<Socket> Socket::connect(const std::string& path) {
  VRAMLINK_CHECK(detail::check_path_length("connect", path, kSocketPathMaxBytes));
  Socket socket(VRAMLINK_TRY(detail::open_unix_socket()));
  int result = 0;
  do {
    result = detail::connect_to(socket.fd(), path);
  } while (result == -1 && errno == EINTR);
  if (result == 0) return socket;
  if (errno == EAGAIN) return Error(Code::full, "connect").from(Origin::os, EAGAIN);
  const int error_number = errno;
  // Outcomes stay without facts: connecting again and again is part of normal work.
  Error outcome = from_errno("connect", error_number);
  if (outcome.code() == Code::peer_gone) return outcome;
  return from_errno_at(path, "connect", error_number);
}

Result<std::pair<Socket, Socket>> Socket::pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == -1) {
    return from_errno("socketpair");
  }
  return std::pair(Socket(UniqueFd(ends[0])), Socket(UniqueFd(ends[1])));
}

Result<void> Socket::send(std::span<const std::byte> message, std::span<const int> fds) const {
  VRAMLINK_CHECK(check_message(message, fds));
  ControlBuffer control;
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  for (;;) {
    if (::sendmsg(fd_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return {};
    if (errno != EINTR) return send_failure(errno, message.size());
  }
}

Result<Socket::Received> Socket::receive(std::span<std::byte> buffer) const {
  ControlBuffer control;
  iovec part{buffer.data(), buffer.size()};
  msghdr header{};
  ssize_t size_bytes = -1;
  do {
    header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes.data();
    header.msg_controllen = control.bytes.size();
    // With MSG_TRUNC the result is the size that was sent, whatever fitted.
    size_bytes = ::recvmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
    // ECONNRESET says once that the peer left messages of ours unread. What it sent itself, and
    // then the end, come after it.
  } while (size_bytes == -1 && (errno == EINTR || errno == ECONNRESET));
  if (size_bytes == -1 && errno == EAGAIN) return Error(Code::empty, "recvmsg");
  if (size_bytes == -1) return from_errno("recvmsg");
  Received received{static_cast<std::size_t>(size_bytes), take_fds(header)};
  VRAMLINK_CHECK(check_received(header, received.size_bytes, buffer.size(), received.fds.size()));
  // An empty message cannot be told from the end; our own side never sends one.
  if (received.size_bytes == 0) return Error(Code::closed, "recvmsg");
  return received;
}

void Socket::shut_down() const noexcept {
  if (!in_forked_child()) ::shutdown(fd_.get(), SHUT_RDWR);
}

Result<PeerCredentials> Socket::peer() const {
  ucred credentials{};
  socklen_t size_bytes = sizeof(credentials);
  if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size_bytes) == -1) {
    return from_errno("getsockopt(SO_PEERCRED)");
  }
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

Result<std::vector<gid_t>> Socket::peer_groups() const {
  std::vector<gid_t> groups(32);
  for (;;) {
    auto size_bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    const int failed =
        ::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size_bytes);
    // The kernel says how much room it needs; what it says never changes.
    const std::size_t count = size_bytes / sizeof(gid_t);
    if (failed == -1 && errno == ERANGE && count > groups.size()) {
      groups.resize(count);
      continue;
    }
    if (failed == -1) return from_errno("getsockopt(SO_PEERGROUPS)");
    groups.resize(count);
    return groups;
  }
}

Result<UniqueFd> Socket::peer_pidfd() const {
  Result<UniqueFd> pidfd = peer_pidfd_by_connection();
  if (pidfd.failed_with(Code::unsupported)) return peer_pidfd_by_pid();
  return pidfd;
}

Result<UniqueFd> Socket::peer_pidfd_by_connection() const {
  int fd = -1;
  socklen_t size_bytes = sizeof(fd);
  if (::getsockopt(fd_.get(), SOL_SOCKET, kSocketPeerPidfd, &fd, &size_bytes) == 0) {
    return UniqueFd(fd);
  }
  // The kernels before 6.16 refuse a pidfd of a process that was reaped, with one of these.
  if (errno == EINVAL || errno == ESRCH) return Error(Code::peer_gone, "getsockopt(SO_PEERPIDFD)");
  return from_errno("getsockopt(SO_PEERPIDFD)");
}

Result<UniqueFd> Socket::peer_pidfd_by_pid() const {
  const PeerCredentials credentials = VRAMLINK_TRY(peer());
  if (credentials.pid == 0) {
    return Error(Code::unsupported, "open peer pidfd")
        .because("the peer is not visible from this pid namespace");
  }
  UniqueFd pidfd = VRAMLINK_TRY(open_pidfd(credentials.pid));
  // While the connection stands, its process has most likely not been reaped and its pid not used
  // again since the line above.
  pollfd connection{.fd = fd_.get(), .events = 0, .revents = 0};
  if (::poll(&connection, 1, 0) == 1 && (connection.revents & POLLHUP) != 0) {
    return Error(Code::peer_gone, "open peer pidfd");
  }
  return pidfd;
}

}  // namespace vramlink::os
