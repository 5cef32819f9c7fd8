// See readiness.hpp.
#include "channel/readiness.hpp"

#include <utility>

#include "base/try.hpp"
#include "channel/subscriber_core.hpp"
#include "os/threads.hpp"

namespace vramlink::inline v0::channel {

Readiness::Readiness(SubscriberCore& core, os::UniqueFd event) noexcept
    : core_(core), event_(std::move(event)) {}

Result<std::shared_ptr<Readiness>> Readiness::start(SubscriberCore& core) {
  std::shared_ptr<Readiness> made(new Readiness(core, VRAMLINK_TRY(os::event_fd())));
  made->thread_ =
      VRAMLINK_TRY(os::launch_thread("vl-readiness", [self = made.get()] { self->run(); }));
  return made;
}

Readiness::~Readiness() {
  stop_.store(true, std::memory_order_seq_cst);
  {
    const std::lock_guard lock(mutex_);
    wake_.notify_one();
  }
  core_.wake();
  if (thread_.joinable()) thread_.join();
}

void Readiness::clear() noexcept { os::drain_event(event_.get()); }

void Readiness::set() noexcept { os::signal_event(event_.get()); }

void Readiness::rearm() noexcept {
  const std::lock_guard lock(mutex_);
  armed_ = true;
  wake_.notify_one();
}

void Readiness::run() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return armed_ || stop_.load(std::memory_order_seq_cst); });
    if (stop_.load(std::memory_order_seq_cst)) return;
    lock.unlock();
    core_.wait_for_news(stop_);
    lock.lock();
    armed_ = false;
    os::signal_event(event_.get());
  }
}

}  // namespace vramlink::inline v0::channel
