// See connection.hpp.
#include "link/connection.hpp"

#include <sys/epoll.h>

#include <array>
#include <utility>

#include "base/try.hpp"
#include "os/fork_guard.hpp"
#include "os/process.hpp"
#include "wire/limits.hpp"

namespace vramlink::link {
namespace {

/// A peer that never stops talking must not keep the others waiting; the watch is level-triggered
/// and comes back for the rest.
constexpr int kMessagesPerTurn = 16;
constexpr int kTurnsOfTheDead = 64;

}  // namespace

Connection::Connection(runtime::Reactor& reactor, os::Socket socket,
                       ConnectionHandlers handlers) noexcept
    : reactor_(reactor), socket_(std::move(socket)), handlers_(std::move(handlers)) {}

Result<std::shared_ptr<Connection>> Connection::open(runtime::Reactor& reactor, os::Socket socket,
                                                     ConnectionHandlers handlers) {
  std::shared_ptr<Connection> connection(
      new Connection(reactor, std::move(socket), std::move(handlers)));
  std::weak_ptr<Connection> weak = connection;
  const runtime::WatchId id = VRAMLINK_TRY(
      reactor.watch(connection->socket_.fd(), EPOLLIN | EPOLLRDHUP, [weak](std::uint32_t) {
        if (const std::shared_ptr<Connection> self = weak.lock())
          static_cast<void>(self->read_turn());
      }));
  connection->socket_watch_.store(id);
  // The first handler may have run before this: its close() or hang_up() found no id to stop. Each
  // sets the flag and then looks for the id; we store the id and then look at the flag.
  if (connection->closed_.load()) connection->stop_watch(connection->socket_watch_);
  return connection;
}

Connection::~Connection() {
  if (os::in_forked_child()) return;
  close();
}

Result<void> Connection::send_bytes(std::span<const std::byte> bytes, std::span<const int> fds) {
  if (closed_.load()) return Error(Code::peer_gone, "send message");
  return socket_.send(bytes, fds);
}

Result<void> Connection::watch_exit(os::UniqueFd pidfd) {
  pidfd_ = std::move(pidfd);
  std::weak_ptr<Connection> weak = weak_from_this();
  const runtime::WatchId id =
      VRAMLINK_TRY(reactor_.watch(pidfd_.get(), EPOLLIN, [weak](std::uint32_t) {
        const std::shared_ptr<Connection> self = weak.lock();
        if (!self || !os::pidfd_exited(self->pidfd_.get())) return;
        const bool first = !self->exit_done_.exchange(true);
        self->stop_watch(self->exit_watch_);
        if (!first) return;
        self->read_rest();
        if (self->handlers_.on_exit) self->handlers_.on_exit();
      }));
  exit_watch_.store(id);
  if (exit_done_.load()) stop_watch(exit_watch_);  // as in open()
  return {};
}

void Connection::stop_watch(std::atomic<runtime::WatchId>& id) noexcept {
  if (const runtime::WatchId watched = id.exchange(0)) reactor_.unwatch(watched);
}

void Connection::close(bool keep_exit_watch) noexcept {
  closed_.store(true);
  stop_watch(socket_watch_);
  if (!keep_exit_watch) {
    exit_done_.store(true);
    stop_watch(exit_watch_);
  }
  socket_.shut_down();
}

void Connection::hang_up(const Error& why) {
  if (closed_.load()) return;  // what was received meanwhile was our own close()
  stop_watch(socket_watch_);
  // First the handler: it may have something to say to a peer whose message it cannot read.
  if (handlers_.on_hangup) handlers_.on_hangup(why);
  closed_.store(true);
  stop_watch(socket_watch_);  // open() may have stored it since
  socket_.shut_down();
}

bool Connection::read_turn() {
  std::array<std::byte, wire::kMessageBytesMax> buffer;
  for (int left = kMessagesPerTurn; left > 0 && !closed_.load(); --left) {
    Result<os::Socket::Received> received = socket_.receive(buffer);
    if (received.failed_with(Code::empty)) return false;
    if (!received) {
      const bool end = received.failed_with(Code::closed);
      hang_up(end ? Error(Code::peer_gone, "receive message") : received.error());
      return false;
    }
    const std::span<const std::byte> bytes(buffer.data(), received->size_bytes);
    const Result<wire::MessageHeader> header = wire::decode_header(bytes, received->fds.size());
    if (!header) {
      hang_up(header.error());
      return false;
    }
    handlers_.on_message(Message{header->type, bytes, std::move(received->fds)});
  }
  return !closed_.load();
}

void Connection::read_rest() {
  // A farewell may be the last of it: then this was no death. Its socket's buffer holds no more
  // than this, and a forked child that has the socket, too, may go on for ever.
  for (int turn = 0; turn < kTurnsOfTheDead && read_turn(); ++turn) {
  }
}

}  // namespace vramlink::link
