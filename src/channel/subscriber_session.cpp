// See subscriber_session.hpp. The order of the atomic operations is the protocol: each names its
// partner in slot_ring.cpp.
#include "channel/subscriber_session.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "base/prefetch.hpp"
#include "base/steps.hpp"
#include "base/try.hpp"
#include "channel/device_wait.hpp"
#include "os/futex.hpp"
#include "runtime/end_on_janitor.hpp"

namespace vramlink::inline v0::channel {

using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

namespace {

/// Neither a publisher that is always faster nor a broken one may keep a look for ever.
constexpr int kLooksMax = 64;

}  // namespace

SubscriberSession::SubscriberSession(Parts parts) noexcept
    : parts_(std::move(parts)),
      broadcast_(&wire::broadcast_at(static_cast<const std::byte*>(parts_.broadcast.data))),
      words_(&wire::private_at(parts_.words.data)),
      cursor_(parts_.first_cursor) {}

std::shared_ptr<SubscriberSession> SubscriberSession::make(Parts parts) {
  const std::shared_ptr<runtime::ProcessState> process = parts.process;
  std::shared_ptr<SubscriberSession> made = runtime::ends_on_janitor(
      process, std::unique_ptr<SubscriberSession>(new SubscriberSession(std::move(parts))));
  made->link()->add(made);
  if (made->stream_work()) watch_device(made);
  return made;
}

SubscriberSession::~SubscriberSession() { say_farewell(wire::ByeReason::drained); }

void SubscriberSession::let_go() noexcept {
  if (!parts_.stream_work || parts_.stream_work->is_idle()) {
    say_farewell(wire::ByeReason::drained);
  } else {
    leave();
  }
}

bool SubscriberSession::may_end() {
  // A device that failed does nothing any more.
  if (parts_.stream_work && !parts_.stream_work->is_idle()) {
    check_device();
    return failure().has_value();
  }
  return !parts_.copies || parts_.copies->is_idle() || !parts_.backend->check_health();
}

void SubscriberSession::watch_device(const std::shared_ptr<SubscriberSession>& session) {
  session->parts_.process->janitor().post_at(
      kOverdue, [weak = std::weak_ptr<SubscriberSession>(session)] {
        const std::shared_ptr<SubscriberSession> self = weak.lock();
        if (!self || self->failure()) return;
        self->check_device();
        watch_device(self);
      });
}

void SubscriberSession::check_device() {
  const std::int64_t since_ns = monotonic_ns() - std::chrono::nanoseconds(kOverdue).count();
  // A device that has failed may refuse a release; then nothing is under way that could be overdue.
  const bool suspect = parts_.stream_work->take_suspicion();
  if (!suspect && !parts_.stream_work->has_work_since(since_ns)) return;
  const Result<void> healthy = parts_.backend->check_health();
  if (healthy || failure()) return;
  base::report_failure("receive frames", healthy.error());
  // What was read with it can never be published: our holds end with this word.
  // The fate first: the publisher hangs up when it has read the farewell, and that is another.
  set_failure(healthy.error());
  parts_.link->fail(healthy.error());
  say_farewell(wire::ByeReason::failed);
}

void SubscriberSession::set_failure(const Error& why) noexcept {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_) return;
    failure_ = why;
  }
  set_fate(Fate::failed);
}

std::optional<Error> SubscriberSession::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void SubscriberSession::say_farewell(wire::ByeReason reason) noexcept {
  if (farewell_said_.exchange(true)) return;
  if (failure()) reason = wire::ByeReason::failed;  // whoever says it first
  parts_.link->part(parts_.facts.generation, reason);
}

void SubscriberSession::leave() noexcept {
  reap();
  if (superseded_.load(memory_order_relaxed)) return;  // DETACHED follows when it has drained
  if (left_.exchange(true) || held_count() == 0) return;
  parts_.link->leave(parts_.facts.generation);
}

bool SubscriberSession::is_ready(std::uint32_t slot_index, std::uint64_t ticket) const noexcept {
  // Pairs with the back end's signal: the bytes of the frame are visible after it.
  return broadcast_->ready[slot_index].ticket.load(memory_order_acquire) >= ticket;
}

bool SubscriberSession::valid(std::uint64_t packed) const noexcept {
  return wire::slot_of(packed) < parts_.facts.slot_count &&
         wire::sequence_of(packed) < wire::kSequenceEnd;
}

bool SubscriberSession::hold(std::uint32_t slot_index, std::uint64_t sequence) noexcept {
  const wire::SlotHeader& slot = broadcast_->slot[slot_index];
  // A claim that met another's hold puts the tag back, and then the frame is still there. Bounded,
  // because a publisher that does nothing else must not keep us here.
  constexpr int kUndoneMax = 8;
  for (int attempt = 0; attempt < kUndoneMax; ++attempt) {
    const std::uint64_t number = ++hold_number_;  // fresh for every attempt
    VRAMLINK_STEP("take.before_hold");
    // Pairs with claim: it clears tag, then loads held. In the one order of all four seq_cst
    // operations either it sees this hold or we see the 0.
    words_->held[slot_index].store(number, memory_order_seq_cst);
    VRAMLINK_STEP("take.held");
    if (slot.tag.load(memory_order_seq_cst) == sequence) return true;
    give_up(slot_index, number);
    VRAMLINK_STEP("take.given_up");
    // Pairs with try_take()'s release store of the old tag.
    if (slot.tag.load(memory_order_acquire) != sequence) return false;
  }
  return false;
}

SubscriberSession::Attempt SubscriberSession::take(std::uint32_t slot_index, std::uint64_t sequence,
                                                   bool submitted, Taken& taken) {
  if (!hold(slot_index, sequence)) return Attempt::lost;
  // From here header and bytes stand still until released reaches this hold.
  const std::uint64_t ticket = broadcast_->slot[slot_index].ticket.load(memory_order_relaxed);
  if (!is_usable(slot_index, ticket, submitted)) {
    give_up(slot_index, hold_number_);
    return Attempt::incomplete;
  }
  VRAMLINK_STEP("take.checked");
  taken = {slot_index, sequence, hold_number_, ticket};
  return Attempt::taken;
}

void SubscriberSession::advance(std::uint64_t sequence, std::uint64_t& gaps) noexcept {
  gaps += sequence - cursor_ - 1;
  ++received_;
  cursor_ = sequence;
  // For display at the publisher.
  const Reported all = reported();
  words_->received.store(all.received, memory_order_relaxed);
  words_->received_bytes.store(all.received_bytes, memory_order_relaxed);
  words_->skipped.store(all.skipped, memory_order_relaxed);
  words_->lost.store(all.lost, memory_order_relaxed);
  if (parts_.granted.depth == 0) {
    // For display: no claim waits for the cursor of a subscriber that wants the latest frame only.
    words_->cursor.store(sequence, memory_order_release);
    VRAMLINK_STEP("take.cursor_set");
    return;
  }
  // Pairs with claim's acquire load; seq_cst so that it comes before the look at claim_waiters.
  words_->cursor.store(sequence, memory_order_seq_cst);
  VRAMLINK_STEP("take.cursor_set");
  ring_free_bell();
}

void SubscriberSession::fetch(std::uint32_t slot_index) const noexcept {
  // Three lines that other cores had last: asked for at once, they cost one trip instead of three.
  base::prefetch_for_write(&words_->held[slot_index]);
  base::prefetch_for_read(&broadcast_->ready[slot_index]);
  base::prefetch_for_read(&broadcast_->slot[slot_index]);
}

void SubscriberSession::count_release(std::uint64_t count) noexcept {
  // Pairs with is_full(): it sets full_, then counts again; we count, then look (seq_cst all).
  released_count_.fetch_add(count, memory_order_seq_cst);
  if (full_.load(memory_order_seq_cst) && full_.exchange(false, memory_order_seq_cst)) {
    ring_own_bell();
  }
}

void SubscriberSession::reap() noexcept {
  if (!parts_.stream_work) return;
  if (const std::uint32_t count = parts_.stream_work->reap()) count_release(count);
}

bool SubscriberSession::is_full() noexcept {
  if (held_count() < parts_.granted.max_held) return false;
  reap();  // a stream tells nobody that it got there
  full_.store(true, memory_order_seq_cst);
  if (held_count() >= parts_.granted.max_held) return true;
  full_.store(false, memory_order_seq_cst);
  return false;
}

SubscriberSession::Look SubscriberSession::take_latest(Taken& taken, bool submitted) {
  for (int look = 0; look < kLooksMax; ++look) {
    // Pairs with publish's store of newest.
    const std::uint64_t newest = broadcast_->newest.load(memory_order_acquire);
    const std::uint64_t last = wire::sequence_of(newest);
    if (last <= cursor_) return Look::nothing;
    if (!valid(newest)) return Look::corrupt;
    fetch(wire::slot_of(newest));
    if (is_full()) return Look::full;
    const std::uint64_t oldest = last >= kSlotCountMax ? last - kSlotCountMax + 1 : 1;
    for (std::uint64_t q = last; q > cursor_ && q >= oldest; --q) {
      const std::uint64_t entry =
          q == last ? newest : broadcast_->recent[q % kSlotCountMax].load(memory_order_acquire);
      if (wire::sequence_of(entry) != q) continue;  // overtaken meanwhile
      if (!valid(entry)) return Look::corrupt;
      const std::uint32_t slot_index = wire::slot_of(entry);
      const std::uint64_t ticket = broadcast_->slot[slot_index].ticket.load(memory_order_relaxed);
      if (!is_usable(slot_index, ticket, submitted)) continue;  // an older one may be complete
      if (take(slot_index, q, submitted, taken) == Attempt::taken) {
        advance(q, skipped_);
        return Look::taken;
      }
    }
    // Once one was complete there always is one: while we looked, it may have become a newer one.
    if (broadcast_->newest.load(memory_order_acquire) == newest) return Look::pending;
  }
  return Look::pending;
}

SubscriberSession::Look SubscriberSession::take_queued(Taken& taken, bool submitted) {
  for (int look = 0; look < kLooksMax; ++look) {
    const std::uint64_t newest = broadcast_->newest.load(memory_order_acquire);
    const std::uint64_t last = wire::sequence_of(newest);
    if (last <= cursor_) return Look::nothing;
    if (!valid(newest)) return Look::corrupt;
    if (is_full()) return Look::full;
    // The next one, or after an overrun the oldest that is still there.
    const std::uint64_t oldest = last >= kSlotCountMax ? last - kSlotCountMax + 1 : 1;
    for (std::uint64_t q = std::max(cursor_ + 1, oldest); q <= last; ++q) {
      const std::uint64_t entry = broadcast_->recent[q % kSlotCountMax].load(memory_order_acquire);
      // The entry went round, perhaps before newest says so: the publisher may have stopped there.
      if (wire::sequence_of(entry) > q) continue;
      if (wire::sequence_of(entry) < q || !valid(entry)) return Look::corrupt;
      const std::uint32_t slot_index = wire::slot_of(entry);
      fetch(slot_index);
      if (broadcast_->slot[slot_index].tag.load(memory_order_acquire) != q) continue;
      const Attempt attempt = take(slot_index, q, submitted, taken);
      if (attempt == Attempt::incomplete) return Look::pending;  // nothing later before it
      if (attempt == Attempt::lost) continue;
      advance(q, lost_);
      return Look::taken;
    }
    // The newest is never lost: newer ones came, or a claim is just trying it.
    if (broadcast_->newest.load(memory_order_acquire) == newest) return Look::pending;
  }
  return Look::pending;
}

std::optional<SubscriberSession::End> SubscriberSession::end() const noexcept {
  const Fate fate = fate_.load(memory_order_seq_cst);
  // Pairs with SlotRing::end(): what was published before it stored this, we see now.
  const auto state = static_cast<wire::ChannelState>(broadcast_->state.load(memory_order_seq_cst));
  // Pairs with the publisher's fetch_or, which comes before it forgets our holds.
  const std::uint32_t flags = words_->flags.load(memory_order_acquire);
  if (fate == Fate::failed) return End{Code::driver, true};
  if ((flags & wire::kRevoked) != 0 || fate == Fate::revoked || fate == Fate::evicted) {
    return End{Code::revoked, true, (flags & wire::kLeaseOver) != 0 || fate == Fate::evicted};
  }
  if (state == wire::ChannelState::closed) return End{Code::closed, fate != Fate::live};
  const bool goes_on = state == wire::ChannelState::open || state == wire::ChannelState::replaced;
  if (fate == Fate::gone || !goes_on) return End{Code::peer_gone, true};
  return std::nullopt;
}

bool SubscriberSession::is_replaced() const noexcept {
  // As in end().
  return static_cast<wire::ChannelState>(broadcast_->state.load(memory_order_seq_cst)) ==
         wire::ChannelState::replaced;
}

bool SubscriberSession::is_through(const SubscriberSession& next) const noexcept {
  if (wire::sequence_of(broadcast_->newest.load(memory_order_acquire)) <= cursor_) return true;
  if (parts_.granted.depth != 0) return false;  // a queue takes all that is left
  // Who wants the newest frame finds a newer one there. If that is not complete, the publisher may
  // die of it, and ours is the newest that there is, also for who has to let go of others first.
  return next.finds_frame(false);
}

bool SubscriberSession::is_void() const noexcept {
  return is_replaced() && broadcast_->newest.load(memory_order_acquire) == 0;
}

bool SubscriberSession::is_drained(const End& end) const noexcept {
  if (end.pending_too) return !finds_frame(parts_.granted.depth != 0);
  return wire::sequence_of(broadcast_->newest.load(memory_order_acquire)) <= cursor_;
}

SubscriberSession::Reported SubscriberSession::reported() const noexcept {
  return {before_.received + received_,
          before_.received_bytes + received_ * parts_.facts.format.payload_bytes,
          before_.skipped + skipped_, before_.lost + lost_};
}

void SubscriberSession::go_on_after(SubscriberSession& before) noexcept {
  before.superseded_.store(true, memory_order_relaxed);
  before_ = before.reported();
  // Stored before the state that we have seen. Frames from here on are this generation's; a queue
  // that begins earlier would look for others.
  const std::uint64_t last = before.broadcast_->last_sequence.load(memory_order_acquire);
  cursor_ = before.cursor_;
  if (parts_.granted.depth == 0 || last < cursor_ || last >= wire::kSequenceEnd) return;
  lost_ += last - cursor_;
  cursor_ = last;
}

bool SubscriberSession::has_news() const noexcept {
  // Pairs, seq_cst all, with publish, end and set_fate: each stores, then looks at the bell; the
  // sleeper sets the bell, then looks here. While all holds are used, only a release is news, or
  // that nothing is to be taken any more.
  const Fate fate = fate_.load(memory_order_seq_cst);
  if (full_.load(memory_order_seq_cst)) return fate != Fate::live && fate != Fate::gone;
  const auto state = static_cast<wire::ChannelState>(broadcast_->state.load(memory_order_seq_cst));
  // That it was replaced is news only once the next one is there: the Subscriber knows.
  return wire::sequence_of(broadcast_->newest.load(memory_order_seq_cst)) > cursor_ ||
         (state != wire::ChannelState::open && state != wire::ChannelState::replaced) ||
         fate != Fate::live;
}

bool SubscriberSession::has_complete_news(bool in_order) const noexcept {
  if (full_.load(memory_order_seq_cst)) return has_news();
  const std::optional<End> over = end();
  if (over && over->pending_too) return true;
  const std::uint64_t newest = broadcast_->newest.load(memory_order_acquire);
  // It comes after the frames that are pending.
  if (wire::sequence_of(newest) <= cursor_) return over.has_value();
  return !valid(newest) || finds_frame(in_order);
}

bool SubscriberSession::finds_frame(bool in_order) const noexcept {
  // By the same words as a take: what it would not find must not call anybody.
  const std::uint64_t newest = broadcast_->newest.load(memory_order_acquire);
  const std::uint64_t last = wire::sequence_of(newest);
  if (last <= cursor_ || !valid(newest)) return false;
  const std::uint64_t oldest = last >= kSlotCountMax ? last - kSlotCountMax + 1 : 1;
  for (std::uint64_t q = std::max(cursor_ + 1, oldest); q <= last; ++q) {
    const std::uint64_t entry = broadcast_->recent[q % kSlotCountMax].load(memory_order_acquire);
    if (wire::sequence_of(entry) != q || !valid(entry)) continue;
    const wire::SlotHeader& slot = broadcast_->slot[wire::slot_of(entry)];
    if (slot.tag.load(memory_order_acquire) != q) continue;
    const bool ready = is_ready(wire::slot_of(entry), slot.ticket.load(memory_order_relaxed));
    if (ready || in_order) return ready;
  }
  return false;
}

bool SubscriberSession::awaits_release() noexcept {
  if (!parts_.stream_work || !full_.load(memory_order_seq_cst)) return false;
  reap();
  return full_.load(memory_order_seq_cst) && parts_.stream_work->has_pending_releases();
}

void SubscriberSession::ring_free_bell() noexcept {
  // Pairs with add_claim_waiter(): it counts itself, then scans; we let go, then look (seq_cst
  // all).
  if (broadcast_->claim_waiters.load(memory_order_seq_cst) == 0) return;
  words_->free_bell.fetch_add(1, memory_order_seq_cst);
  VRAMLINK_STEP("release.bell_rung");
  os::futex_wake(words_->free_bell, INT_MAX);
}

void SubscriberSession::give_up(std::uint32_t slot_index, std::uint64_t hold_number) noexcept {
  VRAMLINK_STEP("release.before_store");
  // Pairs with claim's acquire load of released: all reads of the slot come before it.
  words_->released[slot_index].store(hold_number, memory_order_seq_cst);
  VRAMLINK_STEP("release.stored");
  ring_free_bell();
}

void SubscriberSession::release(std::uint32_t slot_index, std::uint64_t hold_number) noexcept {
  give_up(slot_index, hold_number);
  count_release(1);
}

Result<bool> SubscriberSession::order(const Taken& taken, StreamView stream, Deadline deadline) {
  if (is_ready(taken.slot_index, taken.ticket)) return false;
  VRAMLINK_CHECK(parts_.stream_work->wait(stream, taken.slot_index, taken.ticket, deadline));
  return true;
}

Result<void> SubscriberSession::copy_frame(std::uint32_t slot_index, StreamView stream) {
  return parts_.copies->fill(stream, slot_index, payload_data(slot_index));
}

Result<void> SubscriberSession::start_copy(std::uint32_t slot_index, std::uint64_t hold_number) {
  return parts_.copies->start(slot_index, hold_number, payload_data(slot_index));
}

Result<void> SubscriberSession::order_behind_copies(StreamView stream) {
  return parts_.backend->order(copies_stream(), stream);
}

Result<void> SubscriberSession::check_stream(StreamView stream) const {
  VRAMLINK_CHECK(parts_.backend->check_stream(stream));
  if (parts_.stream_work || stream.is_already_complete()) return {};
  return Error(Code::wrong_state, "receive frame")
      .because("the subscriber was opened without stream order")
      .remedy("open it with SubscriberOptions::stream_order, or receive without a stream");
}

Result<void> SubscriberSession::release_behind(StreamView last_user, StreamView stream,
                                               std::uint32_t slot_index,
                                               std::uint64_t hold_number) {
  if (stream.is_already_complete()) {
    release(slot_index, hold_number);
    return {};
  }
  if (!parts_.stream_work) return check_stream(stream);
  VRAMLINK_CHECK(parts_.stream_work->release(last_user, stream, slot_index, hold_number));
  ring_free_bell();  // a publisher that sleeps naps from now on
  // So does our own sleeper. Pairs with is_full(), after which awaits_release() looks at the list.
  if (full_.load(memory_order_seq_cst)) ring_own_bell();
  return {};
}

void SubscriberSession::drop_behind(StreamView last_user, std::uint32_t slot_index,
                                    std::uint64_t hold_number) noexcept {
  if (!parts_.stream_work) {
    // No stream of the caller's was made to read it; a copy of ours that still does is of no use
    // any more.
    release(slot_index, hold_number);
    return;
  }
  Result<void> released = release_behind(last_user, last_user, slot_index, hold_number);
  // Nobody can try later: a driver that fails once is asked again.
  if (!released) released = release_behind(last_user, last_user, slot_index, hold_number);
  if (released) return;
  base::report_failure("release frame", released.error());
  // Never early: a stream may still read it.
  parts_.stream_work->forsake(slot_index, hold_number);
}

void SubscriberSession::set_fate(Fate fate) noexcept {
  Fate expected = Fate::live;
  // Pairs with has_news().
  fate_.compare_exchange_strong(expected, fate, memory_order_seq_cst);
  // The words of an evicted one are written until it has let go.
  if (parts_.stream_work && fate != Fate::evicted) parts_.stream_work->set_gone();
  ring_own_bell();
}

void SubscriberSession::ring_own_bell() noexcept {
  // Whatever the bell says: a publisher may have taken the ring over and died before its wake-up.
  words_->bell.exchange(0, memory_order_seq_cst);
  os::futex_wake(words_->bell, 1);
}

}  // namespace vramlink::inline v0::channel
