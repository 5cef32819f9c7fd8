// Who is at the other end of a connection, proven by the kernel.
#pragma once

#include <cstdint>

#include <vramlink/result.hpp>

#include "os/fd.hpp"
#include "os/socket.hpp"
#include "wire/messages.hpp"

namespace vramlink::link {

struct Peer {
  std::int32_t pid = 0;  ///< 0: not visible from our pid namespace
  os::UniqueFd pidfd;    ///< readable once the process has ended
};

/// What we say of ourselves in a first message. Codes: unsupported (no /proc).
[[nodiscard]] Result<wire::ProcessFacts> own_facts();

/// Whether the peer runs as our user, before anything is read from it. Codes: permission_denied,
/// os.
[[nodiscard]] Result<os::PeerCredentials> check_user(const os::Socket& socket);

/// Checks a peer against its own words: same user, and where its pid is visible the pid and start
/// time that it claims. Where it is not and the kernel has no SO_PEERPIDFD either, `sent_pidfd`
/// must be a pidfd. Codes: permission_denied, corrupt, peer_gone, unsupported.
[[nodiscard]] Result<Peer> authenticate(const os::Socket& socket, const wire::ProcessFacts& claimed,
                                        os::UniqueFd sent_pidfd);

}  // namespace vramlink::link
