// The thread that listens: sockets, pidfds, timers. It makes no back-end call, takes no lock that
// any thread holds across one, and runs no user code; only so can it release a thread that a peer's
// death left waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include <vramlink/deadline.hpp>
#include <vramlink/result.hpp>

#include "os/epoll.hpp"
#include "os/fd.hpp"

namespace vramlink::runtime {

/// Names one watched fd or timer; never reused within a process.
using WatchId = std::uint64_t;

/// Thread-safety: all members from any thread. Handlers run on the reactor's thread, one at a time,
/// and should hold weak references: when unwatch() returns on another thread, one call may still be
/// running or about to run.
class Reactor {
 public:
  using FdHandler = std::function<void(std::uint32_t events)>;
  using Task = std::function<void()>;

  /// `first` runs on the new thread before all else. Codes: os, resource_exhausted.
  [[nodiscard]] static Result<std::unique_ptr<Reactor>> start(Task first = {});
  /// Ends the thread; tasks that did not run are dropped. Not from the reactor's thread.
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Level-triggered; `fd` stays the caller's and must stay open until unwatch().
  [[nodiscard]] Result<WatchId> watch(int fd, std::uint32_t events, FdHandler handler);
  /// On the reactor's thread: no call starts after this returns. On others, one may have been
  /// chosen already: it is running or about to run. Unknown ids are ignored.
  void unwatch(WatchId id) noexcept;
  /// Runs `task` once, at or after `when`.
  WatchId at(Deadline when, Task task);
  /// Runs `task` soon. In order of posting.
  void post(Task task);

  [[nodiscard]] bool on_reactor_thread() const noexcept;

 private:
  struct Watch {
    int fd;
    std::shared_ptr<FdHandler> handler;
  };

  using Timers = std::multimap<std::int64_t, std::pair<WatchId, Task>>;

  Reactor(os::Epoll epoll, os::UniqueFd wake) noexcept;
  void run() noexcept;
  void dispatch(std::uint64_t token, std::uint32_t events);
  void run_due();
  [[nodiscard]] Deadline next_timer();

  os::Epoll epoll_;
  os::UniqueFd wake_;
  std::mutex mutex_;
  WatchId last_id_ = 0;
  std::unordered_map<WatchId, Watch> watches_;
  Timers timers_;
  std::unordered_map<WatchId, Timers::iterator> timer_of_;  // one for each of timers_
  std::vector<Task> tasks_;
  std::deque<std::pair<WatchId, Task>> due_;  ///< of the round that runs; tasks have no id
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace vramlink::runtime
