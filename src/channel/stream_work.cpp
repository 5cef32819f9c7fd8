// See stream_work.hpp.
#include "channel/stream_work.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/steps.hpp"
#include "base/try.hpp"
#include "runtime/call.hpp"

namespace vramlink::inline v0::channel {
namespace {

/// A publisher that writes the word while we end a wait for it is looked after again.
constexpr std::int64_t kAgainNs = 10'000'000;

}  // namespace

StreamWork::StreamWork(Parts parts)
    : parts_(std::move(parts)),
      broadcast_(&wire::broadcast_at(static_cast<const std::byte*>(parts_.broadcast.data))),
      words_(&wire::private_at(parts_.words.view.data)) {
  verdicts_.reserve(2 * kSlotCountMax);
  for (std::uint32_t i = 0; i < parts_.slot_count; ++i) {
    verdicts_.push_back(std::make_shared<Verdict>());
  }
}

StreamWork::~StreamWork() {
  if (timer_ != 0) parts_.process->reactor().unwatch(timer_);
  if (!parts_.parking) return;
  runtime::call([&] { parts_.parking->keep(std::move(parts_.words)); });
}

std::shared_ptr<Verdict> StreamWork::take_verdict() {
  for (const std::shared_ptr<Verdict>& verdict : verdicts_) {
    if (verdict.use_count() != 1) continue;
    verdict->aborted.store(false, std::memory_order_relaxed);
    return verdict;
  }
  return verdicts_.emplace_back(std::make_shared<Verdict>());  // receipts hold all of them
}

Result<void> StreamWork::wait(StreamView stream, std::uint32_t slot_index, std::uint64_t ticket,
                              Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    Wait& wait = waits_[slot_index];
    // An earlier one has passed, or the publisher has claimed a slot that was not complete.
    if (wait.ticket != 0) end_wait(slot_index, wait);
    wait.verdict.reset();
    wait = {ticket, deadline.time_ns(), monotonic_ns(), take_verdict()};
  }
  arm(deadline);
  VRAMLINK_STEP("receive.wait_listed");
  const Result<void> enqueued =
      parts_.backend->wait(stream, {parts_.my_ready.get(), slot_index}, ticket);
  VRAMLINK_STEP("receive.wait_enqueued");
  if (!enqueued) {
    suspect_.store(true, std::memory_order_relaxed);
    if (enqueued.error().origin() != Origin::driver) {
      const std::lock_guard lock(mutex_);
      waits_[slot_index].ticket = 0;
      waits_[slot_index].verdict.reset();
      return enqueued;
    }
    // What the driver refuses may be in the stream all the same, and nothing else would end it. The
    // store that ends a wait which is not there harms nobody.
  }
  // Pairs with set_gone(): it sets the flag, then steps what is listed; we have listed, then look
  // (seq_cst both).
  if (gone_.load(std::memory_order_seq_cst)) step();
  return enqueued;
}

bool StreamWork::has_passed(std::uint32_t slot_index, const Wait& wait) const noexcept {
  // Signed and cyclic, as the device compares.
  const std::uint64_t word = words_->my_ready[slot_index].load(std::memory_order_acquire);
  return static_cast<std::int64_t>(word - wait.ticket) >= 0;
}

void StreamWork::end_wait(std::uint32_t slot_index, Wait& wait) noexcept {
  // The word first, then READY: in between the slot may be claimed and written anew, and a store
  // that did not look at the word before would turn it back, for a wait that then never ends.
  std::uint64_t word = words_->my_ready[slot_index].load(std::memory_order_acquire);
  if (static_cast<std::int64_t>(word - wait.ticket) >= 0) return;
  // Pairs with the publisher's signal, whose my_ready comes before it: the stream goes on by
  // itself, unless the publisher keeps to no order.
  if (broadcast_->ready[slot_index].ticket.load(std::memory_order_acquire) >= wait.ticket) {
    word = words_->my_ready[slot_index].load(std::memory_order_acquire);
    if (static_cast<std::int64_t>(word - wait.ticket) >= 0) return;
  }
  // Before the word: who sees a stream that was let go on sees why.
  if (!wait.verdict->aborted.exchange(true, std::memory_order_seq_cst)) {
    aborted_count_.fetch_add(1, std::memory_order_relaxed);
  }
  VRAMLINK_STEP("watchdog.flag_set");
  // The awaited ticket itself: the comparison is cyclic, a larger value may release nothing, and a
  // device that is just dying may write this one still. Release: pairs with the stream's look.
  words_->my_ready[slot_index].compare_exchange_strong(word, wait.ticket,
                                                       std::memory_order_seq_cst);
  VRAMLINK_STEP("watchdog.word_stored");
}

Deadline StreamWork::step_locked(std::int64_t now_ns) noexcept {
  const bool gone = gone_.load(std::memory_order_seq_cst);
  Deadline next = kForever;
  for (std::uint32_t i = 0; i < parts_.slot_count; ++i) {
    Wait& wait = waits_[i];
    if (wait.ticket == 0) continue;
    const bool is_due = gone || wait.deadline_ns <= now_ns;
    if (is_due) end_wait(i, wait);
    if (has_passed(i, wait)) {
      wait.ticket = 0;
      continue;
    }
    next = std::min(next, Deadline::at_ns(is_due ? now_ns + kAgainNs : wait.deadline_ns));
  }
  return next;
}

void StreamWork::step() {
  Deadline next = kForever;
  {
    const std::lock_guard lock(mutex_);
    next = step_locked(monotonic_ns());
  }
  if (!next.is_never()) arm(next);
}

void StreamWork::arm(Deadline when) {
  runtime::Reactor& reactor = parts_.process->reactor();
  runtime::WatchId replaced = 0;
  {
    const std::lock_guard lock(mutex_);
    if (timer_ != 0 && timer_at_ <= when) return;  // it comes back for this one
    replaced = timer_;
    // The reactor's lock below ours: it holds its own over nothing.
    timer_ = reactor.at(when, [weak = weak_from_this()] {
      const std::shared_ptr<StreamWork> self = weak.lock();
      if (!self) return;
      {
        const std::lock_guard timer_lock(self->mutex_);
        self->timer_ = 0;
      }
      self->step();
    });
    timer_at_ = when;
  }
  if (replaced != 0) reactor.unwatch(replaced);
}

void StreamWork::set_gone() noexcept {
  gone_.store(true, std::memory_order_seq_cst);  // pairs with wait()
  step();
}

void StreamWork::list_release(std::uint32_t slot_index, std::uint64_t hold_number) noexcept {
  // The slot was taken since, so the release before has been reached.
  if (releases_[slot_index].hold_number != 0) ++reached_;
  releases_[slot_index] = {hold_number, monotonic_ns()};
  last_release_[slot_index].store(hold_number, std::memory_order_relaxed);
}

Result<void> StreamWork::release(StreamView last_user, StreamView stream, std::uint32_t slot_index,
                                 std::uint64_t hold_number) {
  if (!last_user.is_already_complete() && !(last_user == stream)) {
    VRAMLINK_CHECK(parts_.backend->order(last_user, stream));
  }
  // Before the ring, and before the publisher can sleep without a nap: it looks at the flag after
  // it has read the bells.
  if (!flag_set_.exchange(true, std::memory_order_relaxed)) {
    words_->flags.fetch_or(wire::kReleasesByStream, std::memory_order_seq_cst);
  }
  {
    const std::lock_guard lock(mutex_);
    list_release(slot_index, hold_number);
  }
  VRAMLINK_STEP("release.before_enqueue");
  const backend::WordWrite write{{parts_.released.get(), slot_index}, hold_number};
  const Result<void> enqueued = parts_.backend->signal(stream, {&write, 1});
  VRAMLINK_STEP("release.enqueued");
  if (!enqueued) {
    suspect_.store(true, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    releases_[slot_index] = {};
    last_release_[slot_index].store(0, std::memory_order_relaxed);
  }
  return enqueued;
}

void StreamWork::forsake(std::uint32_t slot_index, std::uint64_t hold_number) noexcept {
  const std::lock_guard lock(mutex_);
  list_release(slot_index, hold_number);
}

std::shared_ptr<const Verdict> StreamWork::verdict(std::uint32_t slot_index) const noexcept {
  const std::lock_guard lock(mutex_);
  return waits_[slot_index].verdict;
}

std::uint32_t StreamWork::reap() noexcept {
  const std::lock_guard lock(mutex_);
  std::uint32_t count = std::exchange(reached_, 0);
  for (std::uint32_t i = 0; i < parts_.slot_count; ++i) {
    Release& release = releases_[i];
    if (release.hold_number == 0 || !has_released(i, release.hold_number)) continue;
    release = {};
    ++count;
  }
  return count;
}

bool StreamWork::has_pending_releases() const noexcept {
  const std::lock_guard lock(mutex_);
  return std::any_of(releases_.begin(), releases_.end(),
                     [](const Release& release) { return release.hold_number != 0; });
}

bool StreamWork::is_idle() noexcept {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < parts_.slot_count; ++i) {
    Wait& wait = waits_[i];
    if (wait.ticket != 0 && has_passed(i, wait)) wait.ticket = 0;
    if (wait.ticket != 0) return false;
    const std::uint64_t hold_number = releases_[i].hold_number;
    if (hold_number != 0 && !has_released(i, hold_number)) return false;
  }
  return true;
}

bool StreamWork::has_work_since(std::int64_t time_ns) const noexcept {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < parts_.slot_count; ++i) {
    const Wait& wait = waits_[i];
    if (wait.ticket != 0 && wait.since_ns < time_ns && !has_passed(i, wait)) return true;
    const Release& release = releases_[i];
    if (release.hold_number != 0 && release.since_ns < time_ns &&
        !has_released(i, release.hold_number)) {
      return true;
    }
  }
  return false;
}

}  // namespace vramlink::inline v0::channel
