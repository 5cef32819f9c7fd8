// See peer.hpp.
#include "link/peer.hpp"

#include <unistd.h>

#include <string>
#include <utility>

#include "base/try.hpp"
#include "os/process.hpp"

namespace vramlink::link {
namespace {

Error not_the_claimed(std::int32_t pid, const char* what) {
  return Error(Code::corrupt, "authenticate peer")
      .because(std::string("its first message names another ") + what + " than the kernel does")
      .peer(pid);
}

/// The peer has a pid here: it must be the process that it says it is.
Result<void> check_visible(pid_t pid, const wire::ProcessFacts& claimed) {
  const os::ProcessIdentity actual = VRAMLINK_TRY(os::identify(pid));
  if (actual.boot_id != claimed.boot_id) return not_the_claimed(pid, "boot");
  if (!os::is_same_start(actual.start_time_ticks, claimed.start_time)) {
    return not_the_claimed(pid, "start time");
  }
  // In another pid namespace it knows itself by another number.
  if (actual.pid_namespace == claimed.pid_namespace && actual.pid != claimed.pid) {
    return not_the_claimed(pid, "pid");
  }
  return {};
}

}  // namespace

Result<wire::ProcessFacts> own_facts() {
  const os::ProcessIdentity self = VRAMLINK_TRY(os::identify_self());
  wire::ProcessFacts facts{};
  facts.boot_id = self.boot_id;
  facts.pid_namespace = self.pid_namespace;
  facts.pid = self.pid;
  facts.start_time = self.start_time_ticks;
  return facts;
}

Result<os::PeerCredentials> check_user(const os::Socket& socket) {
  const os::PeerCredentials credentials = VRAMLINK_TRY(socket.peer());
  if (credentials.uid == ::geteuid()) return credentials;
  return Error(Code::permission_denied, "authenticate peer")
      .because("it runs as uid " + std::to_string(credentials.uid) + ", we run as uid " +
               std::to_string(::geteuid()))
      .remedy("run both as one user")
      .peer(credentials.pid);
}

Result<Peer> authenticate(const os::Socket& socket, const wire::ProcessFacts& claimed,
                          os::UniqueFd sent_pidfd) {
  const os::PeerCredentials credentials = VRAMLINK_TRY(check_user(socket));
  Peer peer;
  peer.pid = credentials.pid;
  if (credentials.pid != 0) {
    peer.pidfd = VRAMLINK_TRY(socket.peer_pidfd());
    // After the pidfd was taken: a pid that was used again shows another start time.
    VRAMLINK_CHECK(check_visible(credentials.pid, claimed));
    return peer;
  }
  // The kernel's word first: a sent pidfd may be another process's, which outlives the peer.
  Result<os::UniqueFd> pidfd = socket.peer_pidfd();
  if (pidfd) {
    peer.pidfd = *std::move(pidfd);
    return peer;
  }
  if (!pidfd.failed_with(Code::unsupported)) return std::move(pidfd).error();
  if (sent_pidfd && os::is_pidfd(sent_pidfd.get())) {
    peer.pidfd = std::move(sent_pidfd);
    return peer;
  }
  return Error(Code::unsupported, "authenticate peer")
      .because("it lives in a pid namespace that we cannot see and sent no pidfd of itself")
      .remedy("use Linux 6.5 or newer, or share the pid namespace");
}

}  // namespace vramlink::link
