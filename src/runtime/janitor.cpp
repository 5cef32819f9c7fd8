// See janitor.hpp.
#include "runtime/janitor.hpp"

#include <chrono>
#include <utility>

#include "base/assert.hpp"
#include "base/try.hpp"
#include "os/threads.hpp"
#include "runtime/call.hpp"

namespace vramlink::runtime {
namespace {

/// steady_clock is CLOCK_MONOTONIC, as a Deadline is.
std::chrono::steady_clock::time_point steady_time(Deadline deadline) noexcept {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline.time_ns()));
}

}  // namespace

Janitor::~Janitor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Result<void> Janitor::start() {
  const std::lock_guard lock(mutex_);
  if (thread_.joinable()) return {};
  thread_ = VRAMLINK_TRY(os::launch_thread("vl-janitor", [this] { run(); }));
  return {};
}

void Janitor::post(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  VRAMLINK_ASSERT(thread_.joinable());
  jobs_.push_back(std::move(job));
  wake_.notify_one();
}

void Janitor::post_at(Deadline when, std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  VRAMLINK_ASSERT(thread_.joinable());
  later_.emplace(when, std::move(job));
  wake_.notify_one();
}

void Janitor::drain() { static_cast<void>(drain_until(kForever)); }

Result<void> Janitor::drain_until(Deadline deadline) {
  // Shared: a job that comes to it after we gave up must still find it.
  struct Mark {
    std::mutex mutex;
    std::condition_variable wake;
    bool reached = false;
  };
  const auto mark = std::make_shared<Mark>();
  post([mark] {
    const std::lock_guard lock(mark->mutex);
    mark->reached = true;
    mark->wake.notify_one();
  });
  std::unique_lock lock(mark->mutex);
  while (!mark->reached) {
    if (deadline == kForever) {
      mark->wake.wait(lock);
    } else {
      if (deadline.has_passed()) return Error(Code::timed_out, "drain janitor");
      mark->wake.wait_until(lock, steady_time(deadline));
    }
  }
  return {};
}

bool Janitor::on_janitor_thread() noexcept {
  const std::lock_guard lock(mutex_);
  return std::this_thread::get_id() == thread_.get_id();
}

void Janitor::take_due() {
  while (!later_.empty() && later_.begin()->first.has_passed()) {
    jobs_.push_back(std::move(later_.begin()->second));
    later_.erase(later_.begin());
  }
}

void Janitor::run() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    take_due();
    if (jobs_.empty()) {
      if (stopping_) break;
      if (later_.empty()) {
        wake_.wait(lock);
      } else {
        wake_.wait_until(lock, steady_time(later_.begin()->first));
      }
      continue;
    }
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    call(job);
    job = nullptr;  // what it captured dies outside the lock
    lock.lock();
  }
  const auto dropped = std::move(later_);
  lock.unlock();  // as above
}

}  // namespace vramlink::runtime
