// Who is at the other end of a connection, proven by the kernel.
#pragma once

#include <cstdint>
#include <string_view>

#include <vramlink/result.hpp>

#include "os/fd.hpp"
#include "os/group_directory.hpp"
#include "os/socket.hpp"
#include "wire/messages.hpp"

namespace vramlink::link {

struct Peer {
  std::int32_t pid = 0;  ///< 0: not visible from our pid namespace
  os::UniqueFd pidfd;    ///< readable once the process has ended
};

/// What we say of ourselves in a first message. Codes: unsupported (no /proc).
[[nodiscard]] Result<wire::ProcessFacts> own_facts();

/// Whether a publisher lets the peer in, before anything is read from it: it runs as our user, or
/// is in the group that the directory is open to. Codes: permission_denied, os.
[[nodiscard]] Result<void> check_reader(const os::Socket& socket, const os::DirectoryUsers& users);

/// Connects to who publishes `name`, once the directory was checked, and the socket of a group's;
/// the peer runs as the directory's owner. Codes: those of os::Socket::connect() and of
/// os::RuntimeDirectory::users().
[[nodiscard]] Result<os::Socket> connect_to_publisher(const os::RuntimeDirectory& directory,
                                                      std::string_view name);

/// Checks a peer, whose user was checked before, against its own words: where its pid is visible,
/// the pid and start time that it claims. Where it is not and the kernel has no SO_PEERPIDFD
/// either, `sent_pidfd` must be a pidfd. A /proc that hides other users' processes is no obstacle
/// if the kernel has SO_PEERPIDFD. Codes: corrupt, peer_gone, unsupported.
[[nodiscard]] Result<Peer> authenticate(const os::Socket& socket, const wire::ProcessFacts& claimed,
                                        os::UniqueFd sent_pidfd);

}  // namespace vramlink::link
