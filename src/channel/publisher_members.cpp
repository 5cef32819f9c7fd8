// PublisherCore: subscribers that come and go, the end of the stream, statistics.
#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/steps.hpp"
#include "base/try.hpp"
#include "channel/attachment.hpp"
#include "channel/memory_path.hpp"
#include "channel/publisher_core.hpp"
#include "link/peer.hpp"
#include "os/fork_guard.hpp"
#include "os/futex.hpp"
#include "runtime/call.hpp"

namespace vramlink::inline v0::channel {
namespace {

/// Connections that may be silent at once. Beyond it the longest silent one goes, so that those who
/// connect and say nothing keep nobody else out; whoever is in earnest says HELLO at once.
constexpr std::size_t kNewcomersMax = 64;
constexpr std::size_t kObserversMax = 64;
/// Between two looks whether the last frames are complete.
constexpr std::chrono::milliseconds kHangUpNap{1};

Result<void> check_count(std::ptrdiff_t present, std::uint64_t limit, const char* reason) {
  if (static_cast<std::uint64_t>(present) < limit) return {};
  return Error(Code::resource_exhausted, "attach subscriber")
      .because(reason)
      .numbers(static_cast<std::uint64_t>(present), limit);
}

/// The end of a publisher's connections. A reader takes a hang-up for a death and gives up what it
/// waits for, so frames that a device still works on are waited for, by the janitor.
struct HangUp {
  /// A generation and what is under way in it.
  struct Work {
    std::shared_ptr<Generation> generation;
    SlotRing::Tickets tickets;
  };
  std::vector<Work> work;  ///< one at least
  std::vector<std::shared_ptr<Attachment>> attachments;

  [[nodiscard]] static bool is_done(const Work& work) {
    for (std::uint32_t i = 0; i < work.generation->shape.slot_count; ++i) {
      if (work.tickets[i] != 0 && !work.generation->complete(i, work.tickets[i])) return false;
    }
    return true;
  }
  void operator()() const {
    if (attachments.empty()) return;
    const Generation& generation = *work.front().generation;
    runtime::Janitor& janitor = generation.process->janitor();
    const bool may_ask = janitor.on_janitor_thread();  // whoever else is here must not wait
    if (std::all_of(work.begin(), work.end(), is_done) ||
        (may_ask && !generation.backend->check_health())) {
      for (const std::shared_ptr<Attachment>& attachment : attachments) attachment->close();
    } else {
      janitor.post_at(kHangUpNap, *this);
    }
  }
};

/// Adds what subscribers still have in an older generation.
void merge(std::vector<SlotRing::View>& views, const std::vector<SlotRing::View>& older) {
  for (const SlotRing::View& old : older) {
    const auto found = std::find_if(views.begin(), views.end(), [&](const auto& view) {
      return view.subscriber == old.subscriber;
    });
    if (found == views.end()) {  // it takes no more, and holds frames still
      views.push_back(old);
      continue;
    }
    SubscriberView& shown = found->shown;
    if (!found->has_taken) shown.lag += old.shown.lag;
    found->has_taken = found->has_taken || old.has_taken;
    shown.held += old.shown.held;
    shown.evicted = shown.evicted || old.shown.evicted;
    // Its own reports go on from generation to generation.
    shown.received = std::max(shown.received, old.shown.received);
    shown.skipped = std::max(shown.skipped, old.shown.skipped);
    shown.lost = std::max(shown.lost, old.shown.lost);
  }
}

}  // namespace

void PublisherCore::accept(os::Socket socket, bool refused_for_fds) {
  if (refused_for_fds) {
    Attachment::refuse(socket, Error(Code::resource_exhausted, "attach subscriber")
                                   .because("the publisher has no file descriptor left"));
    return;
  }
  // Before a byte of it is read.
  if (const auto user = link::check_reader(socket, users_); !user) {
    return Attachment::refuse(socket, user.error());
  }
  Result<std::shared_ptr<Attachment>> attachment =
      Attachment::start(shared_from_this(), std::move(socket));
  if (!attachment) {
    base::report_failure("attach subscriber", attachment.error());
    return;
  }
  {
    const std::lock_guard lock(attachments_mutex_);
    attachments_.emplace(attachment->get(), *attachment);
  }
  newcomers_.push_back(*attachment);
  limit_silent();
}

void PublisherCore::limit_silent() {
  // Who has said HELLO is no newcomer any more: only the handshake's own limit ends it early.
  std::erase_if(newcomers_, [](const auto& weak) {
    const auto newcomer = weak.lock();
    return !newcomer || !newcomer->is_silent();
  });
  if (newcomers_.size() <= kNewcomersMax) return;
  if (const auto oldest = newcomers_.front().lock()) oldest->make_room();
  newcomers_.pop_front();
}

Result<void> PublisherCore::check_places(bool stream_ordered) {
  const std::lock_guard lock(attachments_mutex_);
  const auto count = [this](bool (Attachment::*takes)() const noexcept) {
    return std::count_if(attachments_.begin(), attachments_.end(),
                         [takes](const auto& entry) { return ((*entry.second).*takes)(); });
  };
  VRAMLINK_CHECK(check_count(count(&Attachment::takes_place), options_.subscriber_count_max,
                             "the channel has all the subscribers that it admits"));
  // Who was evicted may come again before it has let go; but every member is scanned and counted.
  VRAMLINK_CHECK(check_count(count(&Attachment::is_scanned), wire::kSubscriberCountMax,
                             "evicted subscribers still hold frames of the channel, and with them "
                             "it has all that there can be"));
  if (!stream_ordered) return {};
  return check_count(count(&Attachment::takes_stream_place), wire::kStreamOrderedCountMax,
                     "the channel has all the stream-ordered subscribers that it admits (open "
                     "without stream_order)");
}

Result<void> PublisherCore::check_observers() {
  const std::lock_guard lock(attachments_mutex_);
  return check_count(std::count_if(attachments_.begin(), attachments_.end(),
                                   [](const auto& entry) { return entry.second->observes(); }),
                     kObserversMax, "the channel has all the observers that it admits");
}

void PublisherCore::forget(const Attachment& attachment) {
  std::shared_ptr<Attachment> dropped;  // dies outside the lock
  const std::lock_guard lock(attachments_mutex_);
  if (const auto found = attachments_.find(&attachment); found != attachments_.end()) {
    dropped = std::move(found->second);
    attachments_.erase(found);
  }
}

void PublisherCore::welcome(Member& member, wire::MemoryKind kind) noexcept {
  if (kind == wire::MemoryKind::legacy_handle) add(counters_.legacy_imports);
  member.welcomed.store(true, std::memory_order_release);  // pairs with wait_for_subscribers()
  members_changed();
}

void PublisherCore::count_leave(Leave how) noexcept {
  // Counted first: whoever sees it gone, or gets its slots, sees why.
  if (how == Leave::died) add(counters_.subscribers_died);
  if (how == Leave::revoked) add(counters_.subscribers_revoked);
  if (how == Leave::evicted) add(counters_.subscribers_evicted);
}

void PublisherCore::wake_claimers() noexcept {
  // Pairs with the load in Sleep: it reads the bell, then scans; we change, then ring.
  local_bell_.fetch_add(1, std::memory_order_seq_cst);
  os::futex_wake(local_bell_, INT32_MAX);
}

void PublisherCore::members_changed() {
  wake_claimers();
  if (!renewal_) return;
  process_->reactor().post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->settle_renewal();
  });
}

void PublisherCore::interrupt() noexcept {
  if (os::in_forked_child()) return;
  interrupts_.fetch_add(1, std::memory_order_acq_rel);
  wake_claimers();
}

std::vector<std::shared_ptr<Attachment>> PublisherCore::attachments() {
  std::vector<std::shared_ptr<Attachment>> all;
  const std::lock_guard lock(attachments_mutex_);
  for (const auto& [key, attachment] : attachments_) all.push_back(attachment);
  return all;
}

void PublisherCore::for_each_attachment(std::function<void(Attachment&)> action) {
  process_->reactor().post([weak = weak_from_this(), action = std::move(action)] {
    const std::shared_ptr<PublisherCore> self = weak.lock();
    if (!self) return;
    for (const std::shared_ptr<Attachment>& attachment : self->attachments()) action(*attachment);
  });
}

void PublisherCore::take_care() {
  if (caring_.exchange(true, std::memory_order_acq_rel)) return;
  const bool posted = runtime::call([&] {
    process_->reactor().post([weak = weak_from_this()] {
      const std::shared_ptr<PublisherCore> self = weak.lock();
      if (!self) return;
      // What is found after this comes with another task.
      self->caring_.store(false, std::memory_order_seq_cst);
      for (const std::shared_ptr<SlotRing>& ring : self->rings()) {
        for (const std::shared_ptr<Member>& offender : ring->take_offenders()) {
          for (const auto& attachment : self->attachments()) attachment->revoke(*offender);
        }
        for (const std::shared_ptr<Member>& holder : ring->take_overdue()) {
          for (const auto& attachment : self->attachments()) attachment->evict(*holder);
        }
      }
      self->begin_renewal();
    });
  });
  if (!posted) caring_.store(false, std::memory_order_seq_cst);
}

Result<void> PublisherCore::wait_for_subscribers(std::uint32_t count, Deadline deadline) {
  VRAMLINK_CHECK(os::require_not_forked("wait for subscribers"));
  const std::uint32_t interrupts = interrupts_.load(std::memory_order_acquire);
  while (true) {
    const std::uint32_t bell = local_bell_.load(std::memory_order_seq_cst);
    const std::shared_ptr<SlotRing> ring = this->ring();
    const auto members = ring->members();
    const auto present = std::count_if(members->begin(), members->end(), [](const auto& member) {
      return member->welcomed.load(std::memory_order_acquire) &&
             !member->leaving.load(std::memory_order_relaxed);
    });
    if (ring->ended() && ring == this->ring()) return end_error("wait for subscribers");
    if (present >= static_cast<std::ptrdiff_t>(count)) return {};
    if (interrupts_.load(std::memory_order_acquire) != interrupts) {
      return Error(Code::interrupted, "wait for subscribers");
    }
    if (deadline.has_passed()) return Error(Code::timed_out, "wait for subscribers");
    static_cast<void>(os::futex_wait(local_bell_, bell, deadline));
  }
}

bool PublisherCore::queues_drained() const {
  const std::vector<std::shared_ptr<SlotRing>> rings = this->rings();
  return std::all_of(rings.begin(), rings.end(),
                     [](const auto& ring) { return ring->is_drained(); });
}

Result<void> PublisherCore::close(Deadline deadline) {
  VRAMLINK_CHECK(os::require_not_forked("close publisher"));
  const std::uint32_t interrupts = interrupts_.load(std::memory_order_acquire);
  end_ring(wire::ChannelState::closed);
  Result<void> outcome;
  while (true) {
    Sleep sleep(*this);
    if (queues_drained()) break;
    if (has_failed()) {
      outcome = end_error("close publisher");
      break;
    }
    if (interrupts_.load(std::memory_order_acquire) != interrupts) {
      outcome = Error(Code::interrupted, "close publisher");
      break;
    }
    if (deadline.has_passed()) {
      outcome = Error(Code::timed_out, "close publisher");
      break;
    }
    // A queue reader whose next frames were overwritten moves its cursor without a release.
    sleep.wait(deadline, true, 1'000'000);
  }
  shut_down();
  return outcome;
}

void PublisherCore::shut_down() noexcept {
  if (os::in_forked_child()) return;
  shut_down_.store(true, std::memory_order_relaxed);
  end_ring(wire::ChannelState::closed);
  std::map<const Attachment*, std::shared_ptr<Attachment>> attachments;
  {
    const std::lock_guard lock(endpoint_mutex_);
    endpoint_.reset();  // first: nobody new comes
  }
  VRAMLINK_STEP("close.name_free");
  {
    const std::lock_guard lock(attachments_mutex_);
    attachments.swap(attachments_);
  }
  std::vector<std::shared_ptr<Attachment>> to_close;
  for (auto& [key, attachment] : attachments) to_close.push_back(std::move(attachment));
  HangUp hang_up{{}, std::move(to_close)};
  for (const std::shared_ptr<SlotRing>& ring : rings()) {
    hang_up.work.push_back({ring->generation(), ring->incomplete()});
  }
  hang_up();
}

PublisherStatistics PublisherCore::statistics() const {
  PublisherStatistics statistics;
  if (os::in_forked_child()) return statistics;  // the words are not mapped here
  const auto load = [](const std::atomic<std::uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  const std::vector<std::shared_ptr<SlotRing>> rings = this->rings();
  statistics.published = load(counters_.published);
  statistics.published_bytes = rings.front()->output().bytes;
  statistics.abandoned = load(counters_.abandoned);
  statistics.refused_full = load(counters_.refused_full);
  statistics.timed_out = load(counters_.timed_out);
  statistics.subscribers_ever = load(counters_.subscribers_ever);
  statistics.subscribers_died = load(counters_.subscribers_died);
  statistics.subscribers_revoked = load(counters_.subscribers_revoked);
  statistics.subscribers_evicted = load(counters_.subscribers_evicted);
  statistics.replacements = load(counters_.replacements);
  statistics.growths = load(counters_.growths);
  statistics.legacy_imports = load(counters_.legacy_imports);
  statistics.path = path_of(rings.front()->generation()->capabilities.memory_kind);
  statistics.resizes = load(counters_.resizes) + statistics.replacements + statistics.growths;
  statistics.slot_count = rings.front()->generation()->shape.slot_count;
  statistics.slot_count_max = slot_count_max(statistics.slot_count);
  // After the hang-up nobody tells us who is still there.
  if (shut_down_.load(std::memory_order_relaxed)) return statistics;
  statistics.slots_lost = rings.front()->lost_slots();
  std::vector<SlotRing::View> views = rings.front()->views();
  for (std::size_t i = 1; i < rings.size(); ++i) merge(views, rings[i]->views());
  for (const SlotRing::View& view : views) statistics.subscribers.push_back(view.shown);
  return statistics;
}

wire::Status PublisherCore::status() const {
  const PublisherStatistics statistics = this->statistics();
  wire::Status status{};
  status.parts = 1;
  status.published = statistics.published;
  status.published_bytes = statistics.published_bytes;
  status.refused_full = statistics.refused_full;
  status.timed_out = statistics.timed_out;
  status.abandoned = statistics.abandoned;
  status.subscribers_now = statistics.subscribers.size();
  status.subscribers_ever = statistics.subscribers_ever;
  status.subscribers_died = statistics.subscribers_died;
  status.subscribers_revoked = statistics.subscribers_revoked;
  status.subscribers_evicted = statistics.subscribers_evicted;
  status.replacements = statistics.replacements;
  status.growths = statistics.growths;
  status.legacy_imports = statistics.legacy_imports;
  status.slot_count_max = statistics.slot_count_max;
  status.slots_lost = statistics.slots_lost;
  status.uptime_ns = static_cast<std::uint64_t>(monotonic_ns() - start_ns_);
  for (const SubscriberView& view : statistics.subscribers) {
    wire::SubscriberStatus& entry = status.subscribers[status.subscriber_count++];
    entry.pid = view.pid;
    entry.depth = view.queue_depth;
    entry.held = std::min(view.held, wire::kSlotCountMax);  // of all generations
    entry.flags = view.evicted ? wire::kStatusRevoked : 0;
    entry.received = view.received;
    entry.skipped = view.skipped;
    entry.lost = view.lost;
    entry.lag = view.lag;
    entry.blocked_claims = view.blocked_claims;
  }
  return status;
}

}  // namespace vramlink::inline v0::channel
