// See peer.hpp.
#include "link/peer.hpp"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/try.hpp"
#include "link/names.hpp"
#include "os/process.hpp"

namespace vramlink::link {
namespace {

Error not_the_claimed(std::int32_t pid, const char* what) {
  return Error(Code::corrupt, "authenticate peer")
      .because(std::string("its first message names another ") + what + " than the kernel does")
      .peer(pid);
}

Error of_another_user(const os::PeerCredentials& peer, std::string other) {
  return Error(Code::permission_denied, "authenticate peer")
      .because("it runs as uid " + std::to_string(peer.uid) + ", " + std::move(other))
      .peer(peer.pid);
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

/// /proc may keep the processes of other users from us (its option hidepid).
bool is_hidden(const Result<void>& visible) {
  return visible.failed_with(Code::permission_denied) || visible.failed_with(Code::not_found);
}

/// What it claims only guards against a pid that was used again, which a pidfd of the connection
/// leaves no room for.
Result<void> check_hidden(const os::Socket& socket, pid_t pid) {
  const Result<os::UniqueFd> pidfd = socket.peer_pidfd_by_connection();
  if (pidfd) return {};
  if (!pidfd.failed_with(Code::unsupported)) return pidfd.error();
  return Error(Code::unsupported, "authenticate peer")
      .because("/proc hides the processes of other users, and the kernel is older than Linux 6.5")
      .remedy("mount /proc without hidepid, or use Linux 6.5 or newer")
      .peer(pid);
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

Result<void> check_reader(const os::Socket& socket, const os::DirectoryUsers& users) {
  const os::PeerCredentials peer = VRAMLINK_TRY(socket.peer());
  const std::string us = "we run as uid " + std::to_string(::geteuid());
  if (peer.uid == ::geteuid()) return {};
  if (!users.group) {
    return of_another_user(peer, us).remedy(
        "run both as one user, or share the channel with a group of users (--group)");
  }
  if (peer.gid == *users.group) return {};
  const std::vector<gid_t> groups = VRAMLINK_TRY(socket.peer_groups());
  if (std::find(groups.begin(), groups.end(), *users.group) != groups.end()) return {};
  return of_another_user(peer, us + ", and it is not in group " + std::to_string(*users.group))
      .remedy("make its user a member of that group");
}

Result<os::Socket> connect_to_publisher(const os::RuntimeDirectory& directory,
                                        std::string_view name) {
  const os::DirectoryUsers users = VRAMLINK_TRY(directory.users());
  const std::string path = socket_path(directory.path, name);
  if (users.group) VRAMLINK_CHECK(os::check_group_socket(path, users));
  os::Socket socket = VRAMLINK_TRY(os::Socket::connect(path));
  const os::PeerCredentials peer = VRAMLINK_TRY(socket.peer());
  if (peer.uid == users.owner) return socket;
  return of_another_user(peer, directory.path + " belongs to uid " + std::to_string(users.owner))
      .remedy("end it, or publish and subscribe in another directory");
}

Result<Peer> authenticate(const os::Socket& socket, const wire::ProcessFacts& claimed,
                          os::UniqueFd sent_pidfd) {
  const os::PeerCredentials credentials = VRAMLINK_TRY(socket.peer());
  Peer peer;
  peer.pid = credentials.pid;
  if (credentials.pid != 0) {
    peer.pidfd = VRAMLINK_TRY(socket.peer_pidfd());
    // After the pidfd was taken: a pid that was used again shows another start time.
    Result<void> visible = check_visible(credentials.pid, claimed);
    if (is_hidden(visible)) visible = check_hidden(socket, credentials.pid);
    if (!visible) return std::move(visible).error();
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
