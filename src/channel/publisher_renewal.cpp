// PublisherCore: generations that it makes by itself, because evictions have left too few slots or
// claims find none. Nobody waits for them: each step begins where the one before ends.
#include <chrono>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "base/steps.hpp"
#include "channel/attachment.hpp"
#include "channel/publisher_core.hpp"

namespace vramlink::inline v0::channel {
namespace {

/// Of one publisher at a time, with that which is published in; the others are held by
/// subscribers still. Each has the memory of all its slots.
constexpr std::size_t kGenerationsMax = 4;
/// After one could not be made.
constexpr std::chrono::seconds kRetry{1};

}  // namespace

void PublisherCore::begin_renewal() {
  if (renewal_) return;
  const std::shared_ptr<SlotRing> before = ring();
  const SlotRing::Want want = before->take_want();
  if (want.slot_count == 0) return;
  Turn found = Turn::free;
  if (!turn_.compare_exchange_strong(found, Turn::renewal, std::memory_order_seq_cst)) {
    before->deny(Deadline::passed());  // a resize is under way: its slots may do
    return;
  }
  renewal_ = Renewal{.before = before, .want = want};
  const std::size_t in_use = rings().size();
  if (in_use >= kGenerationsMax) {
    return give_up_renewal(
        Error(Code::resource_exhausted, "begin generation")
            .about(name_)
            .because("subscribers hold frames of as many generations as there may be at a time")
            .remedy("let subscribers release their frames, or end those that do not")
            .numbers(in_use, kGenerationsMax));
  }
  process_->janitor().post([weak = weak_from_this(), before, want] {
    const std::shared_ptr<PublisherCore> self = weak.lock();
    if (!self) return;
    Result<std::shared_ptr<SlotRing>> built =
        self->build_after(*before, before->generation()->shape.format, want.slot_count);
    VRAMLINK_STEP("renew.built");
    self->process_->reactor().post([weak, built = std::move(built)] {
      if (const auto core = weak.lock()) core->announce_renewal(built);
    });
  });
}

void PublisherCore::announce_renewal(const Result<std::shared_ptr<SlotRing>>& built) {
  if (!built) return give_up_renewal(built.error());
  if (renewal_->before->ended()) return give_up_renewal(Error(Code::closed, "begin generation"));
  renewal_->next = *built;
  renewal_->patience = Deadline::after(ResizeOptions().follow_within);
  let_follow(renewal_->next);
  VRAMLINK_STEP("renew.announced");
  renewal_->timer = process_->reactor().at(renewal_->patience, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->settle_renewal();
  });
  settle_renewal();
}

void PublisherCore::settle_renewal() {
  if (!renewal_ || !renewal_->next) return;
  const bool is_late = renewal_->patience.has_passed();
  const bool is_over = renewal_->before->ended();
  if (renewal_->next->expects() && !is_late && !is_over) return;
  {
    const std::lock_guard lock(renewal_mutex_);
    if (turn_.load(std::memory_order_relaxed) != Turn::renewal) return;  // it is in place
    ready_ = renewal_->next;
    ready_grows_ = renewal_->want.grows;
    renewal_ready_.store(true, std::memory_order_relaxed);
  }
  wake_claimers();  // a resize may wait for it
  // A frame that is claimed now would be stale: a later claim, which finds none, puts it in place.
  // Where claims fail until then, only for a while.
  finish_renewal((is_late && !renewal_->want.grows) || is_over);
}

void PublisherCore::finish_renewal(bool at_once) {
  std::unique_lock lock(renewal_mutex_, std::defer_lock);
  if (at_once) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return;  // another thread is at it
  }
  if (!ready_) return;
  std::atomic<std::uint64_t>& counter = ready_grows_ ? counters_.growths : counters_.replacements;
  const Result<void> placed = put_in_place(ready_, counter, !at_once);
  if (placed.failed_with(Code::full)) return;
  if (placed) VRAMLINK_STEP("renew.in_place");
  ready_.reset();
  renewal_ready_.store(false, std::memory_order_relaxed);
  free_turn();  // under the mutex: settle_renewal() must not find it undone
  process_->reactor().post([weak = weak_from_this()] {
    const std::shared_ptr<PublisherCore> self = weak.lock();
    if (!self || !self->renewal_) return;
    self->process_->reactor().unwatch(self->renewal_->timer);
    self->renewal_.reset();
    self->begin_renewal();  // what was wanted meanwhile
  });
}

void PublisherCore::give_up_renewal(const Error& why) {
  if (why.code() != Code::closed) base::report_failure("make slots", why);
  renewal_->before->deny(Deadline::after(kRetry));
  renewal_.reset();
  free_turn();
}

}  // namespace vramlink::inline v0::channel
