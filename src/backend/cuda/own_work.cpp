// See own_work.hpp.
#include "backend/cuda/own_work.hpp"

#include <algorithm>
#include <chrono>

#include "base/log.hpp"
#include "base/try.hpp"
#include "os/threads.hpp"

namespace vramlink::cuda {
namespace {
constexpr std::chrono::microseconds kFinishNap{200};
}  // namespace

Result<api::Stream> OwnWork::add_stream() {
  StreamHandle stream = VRAMLINK_TRY(make_stream(context_));
  const api::Stream raw = stream.get().value;
  const std::lock_guard lock(mutex_);
  streams_.push_back(std::move(stream));
  return raw;
}

void OwnWork::retire_stream(api::Stream stream) noexcept {
  if (os::in_forked_child()) return;
  const ContextScope scope(context_);
  StreamHandle ending;
  {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(streams_.begin(), streams_.end(),
                     [stream](const StreamHandle& each) { return each.get().value == stream; });
    if (found == streams_.end()) return;
    if (scope && !is_busy(stream)) {
      ending = std::move(*found);
      streams_.erase(found);
    }
  }
  if (ending) return;
  // Its work is still known as ours, so it stays in the list until it is idle.
  struct Ending {
    OwnWork* owner;
    api::Stream stream;
  };
  const auto retire = [](Ending* last) {
    last->owner->retire_stream(last->stream);
    delete last;
  };
  destroy_later(std::unique_ptr<Ending, decltype(retire)>(new Ending{this, stream}, retire));
}

bool OwnWork::is_busy(api::Stream stream) const noexcept {
  // An error is a context that performs nothing any more.
  const auto ask = [&] { return context_.driver().stream_query(stream); };
  return state_of_work(ask) == api::Status::not_ready;
}

void OwnWork::bury(std::unique_ptr<Grave> grave) noexcept {
  const ContextScope scope(context_);
  const std::lock_guard lock(mutex_);
  const Result<void> dated = scope ? date(*grave) : scope.entered();
  if (dated && grave->until.empty()) return;                           // destroyed behind the lock
  if (!dated) base::report_failure("free GPU memory", dated.error());  // later, then
  graves_.push_back(std::move(grave));
}

Result<void> OwnWork::date(Grave& grave) {
  const Driver& driver = context_.driver();
  grave.until.clear();
  for (const StreamHandle& stream : streams_) {
    if (!is_busy(stream.get().value)) continue;
    EventHandle event = VRAMLINK_TRY(make_event(context_));
    VRAMLINK_CHECK(
        driver.check("cuEventRecord", driver.event_record(event.get().value, stream.get().value)));
    grave.until.push_back(std::move(event));
  }
  grave.is_undated = false;
  return {};
}

bool OwnWork::is_over(Grave& grave) noexcept {
  if (grave.is_undated && !date(grave)) return false;
  return std::all_of(grave.until.begin(), grave.until.end(), [this](const EventHandle& event) {
    const auto ask = [&] { return context_.driver().event_query(event.get().value); };
    return state_of_work(ask) != api::Status::not_ready;
  });
}

void OwnWork::sweep() noexcept {
  std::vector<std::unique_ptr<Grave>> due;  // destroyed outside the lock: that calls the driver
  const ContextScope scope(context_);
  if (!scope) return;  // nothing can be asked, and nothing destroyed
  const std::lock_guard lock(mutex_);
  const auto first_due = std::stable_partition(
      graves_.begin(), graves_.end(), [this](const auto& grave) { return !is_over(*grave); });
  std::move(first_due, graves_.end(), std::back_inserter(due));
  graves_.erase(first_due, graves_.end());
}

bool OwnWork::finish(Deadline deadline) noexcept {
  while (true) {
    sweep();
    {
      const std::lock_guard lock(mutex_);
      if (graves_.empty()) return true;
    }
    if (deadline.has_passed()) return false;
    os::nap_until(Deadline::after(kFinishNap));
  }
}

void OwnWork::leak() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& grave : graves_) static_cast<void>(grave.release());
  for (StreamHandle& stream : streams_) static_cast<void>(stream.release());
  graves_.clear();
  streams_.clear();
}

}  // namespace vramlink::cuda
