// See reactor.hpp.
#include "runtime/reactor.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/assert.hpp"
#include "base/driver_calls.hpp"
#include "base/log.hpp"
#include "base/try.hpp"
#include "os/threads.hpp"
#include "runtime/call.hpp"

namespace vramlink::runtime {
namespace {
constexpr std::uint64_t kWakeToken = 0;  // WatchIds start at 1
constexpr std::chrono::milliseconds kNoMemoryNap{10};
}  // namespace

Result<std::unique_ptr<Reactor>> Reactor::start(Task first) {
  os::Epoll epoll = VRAMLINK_TRY(os::Epoll::create());
  os::UniqueFd wake = VRAMLINK_TRY(os::event_fd());
  VRAMLINK_CHECK(epoll.add(wake.get(), EPOLLIN, kWakeToken));
  std::unique_ptr<Reactor> reactor(new Reactor(std::move(epoll), std::move(wake)));
  reactor->thread_ = VRAMLINK_TRY(
      os::launch_thread("vl-reactor", [self = reactor.get(), begin = std::move(first)] {
        base::forbid_driver_calls();
        if (begin) begin();
        self->run();
      }));
  return reactor;
}

Reactor::Reactor(os::Epoll epoll, os::UniqueFd wake) noexcept
    : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

Reactor::~Reactor() {
  stopping_.store(true, std::memory_order_release);  // pairs with the load in run()
  os::signal_event(wake_.get());
  if (thread_.joinable()) thread_.join();
}

Result<WatchId> Reactor::watch(int fd, std::uint32_t events, FdHandler handler) {
  const std::lock_guard lock(mutex_);
  const WatchId id = ++last_id_;
  VRAMLINK_CHECK(epoll_.add(fd, events, id));
  watches_.emplace(id, Watch{fd, std::make_shared<FdHandler>(std::move(handler))});
  return id;
}

void Reactor::unwatch(WatchId id) noexcept {
  std::shared_ptr<FdHandler> dropped;  // what it captured dies outside the lock
  Task dropped_task;
  Result<void> removed;  // told outside the lock: another thread's log may block
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = watches_.find(id); found != watches_.end()) {
      removed = epoll_.remove(found->second.fd);
      dropped = std::move(found->second.handler);
      watches_.erase(found);
    } else if (const auto timer = timer_of_.find(id); timer != timer_of_.end()) {
      dropped_task = std::move(timer->second->second.second);
      timers_.erase(timer->second);
      timer_of_.erase(timer);
    } else if (id != 0) {
      const auto due = std::find_if(due_.begin(), due_.end(),
                                    [id](const auto& entry) { return entry.first == id; });
      if (due != due_.end()) dropped_task = std::exchange(due->second, nullptr);
    }
  }
  if (!removed) base::report_failure("unwatch", removed.error());
}

WatchId Reactor::at(Deadline when, Task task) {
  WatchId id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = ++last_id_;
    timer_of_.emplace(id, timers_.emplace(when.time_ns(), std::pair(id, std::move(task))));
  }
  if (!on_reactor_thread()) os::signal_event(wake_.get());
  return id;
}

void Reactor::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  os::signal_event(wake_.get());
}

bool Reactor::on_reactor_thread() const noexcept {
  return std::this_thread::get_id() == thread_.get_id();
}

Deadline Reactor::next_timer() {
  const std::lock_guard lock(mutex_);
  return timers_.empty() ? kForever : Deadline::at_ns(timers_.begin()->first);
}

void Reactor::dispatch(std::uint64_t token, std::uint32_t events) {
  std::shared_ptr<FdHandler> handler;
  {
    const std::lock_guard lock(mutex_);
    const auto found = watches_.find(token);
    if (found == watches_.end()) return;  // unwatched by an earlier handler of this round
    handler = found->second.handler;
  }
  if (!call([&] { (*handler)(events); })) {
    // What is readable stays so: it is tried again, when there may be memory.
    os::nap_until(Deadline::after(kNoMemoryNap));
  }
}

void Reactor::run_due() {
  {
    const std::lock_guard lock(mutex_);
    for (Task& task : tasks_) due_.emplace_back(0, std::move(task));
    tasks_.clear();
    const std::int64_t now_ns = monotonic_ns();
    while (!timers_.empty() && timers_.begin()->first <= now_ns) {
      due_.push_back(std::move(timers_.begin()->second));
      timer_of_.erase(due_.back().first);
      timers_.erase(timers_.begin());
    }
  }
  while (true) {
    Task task;
    {
      const std::lock_guard lock(mutex_);
      if (due_.empty()) return;
      task = std::move(due_.front().second);
      due_.pop_front();
    }
    if (task) call(task);  // an earlier one may have unwatched it
  }
}

void Reactor::run() noexcept {
  std::array<epoll_event, 32> events;
  while (!stopping_.load(std::memory_order_acquire)) {  // pairs with the destructor's store
    const Result<std::size_t> count = epoll_.wait(events, next_timer());
    VRAMLINK_ASSERT(count.has_value());  // our own epoll and buffer: nothing else can fail
    for (std::size_t i = 0; i < *count; ++i) {
      const std::uint64_t token = events[i].data.u64;
      if (token == kWakeToken) {
        os::drain_event(wake_.get());
      } else {
        dispatch(token, events[i].events);
      }
    }
    if (!call([this] { run_due(); })) os::nap_until(Deadline::after(kNoMemoryNap));
  }
}

}  // namespace vramlink::runtime
