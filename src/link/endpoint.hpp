// The owner's end of a name: the lock that makes it ours and the socket that others connect to.
//
// | handle   | closed by                       | depends on      |
// |----------|---------------------------------|-----------------|
// | listener | unlink of the socket, close     | the lock        |
// | lock     | unlink of the lock file, close  | the directory   |
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <vramlink/result.hpp>

#include "os/fd.hpp"
#include "os/lock_file.hpp"
#include "os/socket.hpp"
#include "runtime/reactor.hpp"

namespace vramlink::link {

/// Listens from listen() to destruction. Thread-safety: one thread at a time; the handler runs on
/// the reactor's thread.
class Endpoint {
 public:
  /// `accepted` gets each connection. With `refused_for_fds` set, the process has no descriptor
  /// left for more: tell the peer and let go.
  using Handler = std::function<void(os::Socket socket, bool refused_for_fds)>;

  /// Takes the name. With `group`, its members may connect and see whose the name is; the directory
  /// hands that group down to its files. Codes: invalid_argument, already_exists (with the owner's
  /// pid), permission_denied, os, resource_exhausted.
  [[nodiscard]] static Result<std::unique_ptr<Endpoint>> create(const std::string& directory,
                                                                std::string_view name,
                                                                std::optional<gid_t> group = {});
  /// Starts to accept. Once.
  [[nodiscard]] Result<void> listen(runtime::Reactor& reactor, Handler accepted);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

 private:
  struct Shared;
  Endpoint(os::LockFile lock, os::Listener listener, os::UniqueFd reserve);

  os::LockFile lock_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace vramlink::link
