// One connection between two processes: whole messages with fds, and the two signs of a death.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <vramlink/result.hpp>

#include "os/fd.hpp"
#include "os/socket.hpp"
#include "runtime/reactor.hpp"
#include "wire/codec.hpp"

namespace vramlink::link {

/// A message as it arrived: the header is checked, the body is not.
struct Message {
  wire::MessageType type;
  std::span<const std::byte> bytes;  ///< with the header; valid during the handler
  std::vector<os::UniqueFd> fds;

  /// The body, checked. Codes: corrupt, incompatible.
  template <class Body>
  [[nodiscard]] Result<Body> decode() const {
    return wire::decode<Body>(bytes, fds.size());
  }
};

/// Handlers run on the reactor's thread and hold weak references to what they serve.
struct ConnectionHandlers {
  std::function<void(Message)> on_message;
  /// The peer hung up, or sent what no peer of ours sends. An alarm: its GPU may still work. Once,
  /// and nothing arrives after it.
  std::function<void(const Error& why)> on_hangup;
  /// The peer's process has ended: the proof. Once; may come without a hang-up before it, since a
  /// forked child can keep the socket open.
  std::function<void()> on_exit;
};

/// Thread-safety: send() and close() from any thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// Codes: os, resource_exhausted.
  [[nodiscard]] static Result<std::shared_ptr<Connection>> open(runtime::Reactor& reactor,
                                                                os::Socket socket,
                                                                ConnectionHandlers handlers);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Sends whole or not at all; never blocks. Codes: peer_gone, full (the peer does not read),
  /// resource_exhausted.
  template <class Body>
  Result<void> send(Body body, std::span<const int> fds = {}) {
    const auto bytes = wire::encode(body);
    return send_bytes(bytes, fds);
  }
  /// From now on on_exit tells of that process's end. Once.
  [[nodiscard]] Result<void> watch_exit(os::UniqueFd pidfd);
  /// Stops listening and hangs up; no handler starts afterwards, but the watch of the exit goes on
  /// if `keep_exit_watch`. Idempotent.
  void close(bool keep_exit_watch = false) noexcept;

  [[nodiscard]] const os::Socket& socket() const noexcept { return socket_; }

 private:
  Connection(runtime::Reactor& reactor, os::Socket socket, ConnectionHandlers handlers) noexcept;
  Result<void> send_bytes(std::span<const std::byte> bytes, std::span<const int> fds);
  /// What is there, but no more than a turn's part. True if that was not all.
  bool read_turn();
  /// Of a process that has ended.
  void read_rest();
  void hang_up(const Error& why);
  void stop_watch(std::atomic<runtime::WatchId>& id) noexcept;

  runtime::Reactor& reactor_;
  os::Socket socket_;
  os::UniqueFd pidfd_;
  ConnectionHandlers handlers_;
  std::atomic<runtime::WatchId> socket_watch_{0};
  std::atomic<runtime::WatchId> exit_watch_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> exit_done_{false};  ///< on_exit has run, or must not run any more
};

}  // namespace vramlink::link
