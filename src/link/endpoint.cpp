// See endpoint.hpp.
#include "link/endpoint.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <utility>

#include "base/log.hpp"
#include "base/steps.hpp"
#include "base/try.hpp"
#include "link/names.hpp"
#include "os/fork_guard.hpp"
#include "os/group_directory.hpp"

namespace vramlink::link {
namespace {

/// Of connections; whoever connects without end does not keep the reactor from its other work.
constexpr int kAcceptsPerTurn = 16;
constexpr mode_t kOwnSocketMode = 0600;
constexpr std::chrono::milliseconds kPauseWithoutFds{50};

}  // namespace

/// What the handler uses; outlives the Endpoint by at most one running call.
struct Endpoint::Shared : std::enable_shared_from_this<Endpoint::Shared> {
  std::mutex mutex;
  os::Listener listener;  // empty once the Endpoint has ended
  os::UniqueFd reserve;   // given up for an instant to answer a peer when no descriptor is left
  Handler accepted;
  runtime::Reactor* reactor = nullptr;
  runtime::WatchId watch = 0;  // the listener's, or the timer's of a pause
  bool exhausted = false;      // reported; once until a connection is accepted again

  /// With the mutex.
  Result<void> watch_listener() {
    watch = VRAMLINK_TRY(
        reactor->watch(listener.fd(), EPOLLIN,
                       [shared = shared_from_this()](std::uint32_t) { shared->accept_all(); }));
    return {};
  }

  void accept_all() {
    const std::lock_guard lock(mutex);
    for (int left = kAcceptsPerTurn; left > 0 && listener; --left) {
      Result<os::Socket> socket = listener.accept();
      if (socket) {
        exhausted = false;
        accepted(*std::move(socket), false);
        continue;
      }
      if (socket.failed_with(Code::empty)) return;
      if (!std::exchange(exhausted, true)) {
        base::report_failure("accept connection", socket.error());
      }
      const Result<void> refused = refuse_one();
      if (refused.failed_with(Code::empty)) return;  // the kernel asks for the descriptor first
      if (!refused) return pause();
    }
  }

  /// Not even the reserve helped: until the timer, the connection that waits must not wake the
  /// reactor, or it would spin. With the mutex.
  void pause() {
    reactor->unwatch(watch);
    watch = reactor->at(Deadline::after(kPauseWithoutFds), [weak = weak_from_this()] {
      if (const std::shared_ptr<Shared> shared = weak.lock()) shared->resume();
    });
  }

  void resume() {
    const std::lock_guard lock(mutex);
    if (!listener) return;  // the Endpoint ended when this call had begun
    if (!reserve) {
      if (Result<os::UniqueFd> again = os::event_fd(); again) reserve = *std::move(again);
    }
    if (!watch_listener()) pause();
  }

  /// A connection that stays in the backlog would wake the reactor for ever.
  Result<void> refuse_one() {
    reserve.reset();
    Result<os::Socket> socket = listener.accept();
    if (socket) accepted(*std::move(socket), true);
    Result<os::UniqueFd> again = os::event_fd();
    if (again) reserve = *std::move(again);
    if (!socket) return std::move(socket).error();
    return {};
  }
};

Endpoint::Endpoint(os::LockFile lock, os::Listener listener, os::UniqueFd reserve)
    : lock_(std::move(lock)), shared_(std::make_shared<Shared>()) {
  shared_->listener = std::move(listener);
  shared_->reserve = std::move(reserve);
}

Result<std::unique_ptr<Endpoint>> Endpoint::create(const std::string& directory,
                                                   std::string_view name,
                                                   std::optional<gid_t> group) {
  VRAMLINK_CHECK(check_name(name));
  const std::string socket = socket_path(directory, name);
  os::LockFile lock =
      VRAMLINK_TRY(os::LockFile::acquire(lock_path(directory, name), std::string(name), {socket},
                                         group ? os::kGroupLockMode : os::LockFile::kOwnMode));
  VRAMLINK_STEP("open.locked");
  os::Listener listener =
      VRAMLINK_TRY(os::Listener::bind(socket, group ? os::kGroupSocketMode : kOwnSocketMode));
  if (group) VRAMLINK_CHECK(os::check_group_socket(socket, {::geteuid(), group}));
  os::UniqueFd reserve = VRAMLINK_TRY(os::event_fd());
  return std::unique_ptr<Endpoint>(
      new Endpoint(std::move(lock), std::move(listener), std::move(reserve)));
}

Result<void> Endpoint::listen(runtime::Reactor& reactor, Handler accepted) {
  const std::lock_guard lock(shared_->mutex);
  shared_->accepted = std::move(accepted);
  shared_->reactor = &reactor;
  return shared_->watch_listener();
}

Endpoint::~Endpoint() {
  if (os::in_forked_child()) return;
  const std::lock_guard lock(shared_->mutex);
  if (shared_->watch != 0) shared_->reactor->unwatch(shared_->watch);
  shared_->listener = os::Listener();  // unlinks the socket while the lock is still ours
}

}  // namespace vramlink::link
