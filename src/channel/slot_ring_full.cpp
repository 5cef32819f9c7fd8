// SlotRing: what it does about claims that find no slot. Leases, and whether a generation with
// other slots should take its place; docs/policies.md. See slot_ring.hpp.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/steps.hpp"
#include "channel/slot_ring.hpp"

namespace vramlink::inline v0::channel {

using std::memory_order_relaxed;

namespace {

constexpr std::uint32_t kUsableMin = 2;  // one is the newest frame, which is not overwritten
/// Refused claims after which more slots are asked for, and claims that found a slot after which
/// they do not count any more.
constexpr std::uint32_t kRefusalsMax = 3;
constexpr std::uint32_t kClaimsBetweenMax = 256;

}  // namespace

void SlotRing::meet(std::uint32_t slot_index, std::uint64_t holders, Look& look) {
  if (policy_.when_full != WhenFull::evict) return;
  for (std::uint64_t rest = holders; rest != 0; rest &= rest - 1) {
    const auto& member = (*members_)[static_cast<std::size_t>(std::countr_zero(rest))];
    if (member->overdue || member->evicted.load(memory_order_relaxed)) continue;
    const std::uint64_t hold_number = member->hold_on(slot_index);
    if (hold_number == 0) continue;  // let go since it was seen
    Member::Met& met = member->met[slot_index];
    // Another hold is another lease: who takes and lets go in time is never overdue.
    const bool is_new = met.hold_number != hold_number;
    if (is_new) met = {hold_number, Deadline::after(policy_.lease)};
    if (is_new || !met.lease_end.has_passed()) {
      look.lease_end = std::min(look.lease_end, met.lease_end);
      continue;
    }
    member->overdue = true;
    overdue_.push_back(member);
    raise_trouble();
  }
}

std::vector<std::shared_ptr<Member>> SlotRing::take_overdue() {
  const std::lock_guard lock(mutex_);
  return std::exchange(overdue_, {});
}

bool SlotRing::evict(const Member& holder) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(members_->begin(), members_->end(),
                                  [&](const auto& member) { return member.get() == &holder; });
  if (found == members_->end()) return false;
  Member& member = **found;
  member.overdue = false;
  bool is_over = false;
  for (std::uint32_t i = 0; i < slot_count_; ++i) {
    const Member::Met& met = member.met[i];
    const bool is_met = met.hold_number != 0 && met.hold_number == member.hold_on(i);
    is_over = is_over || (is_met && met.lease_end.has_passed());
  }
  if (!is_over) return false;
  member.evicted.store(true, memory_order_relaxed);
  member.leaving.store(true, memory_order_relaxed);
  VRAMLINK_STEP("evict.quarantined");
  return true;
}

std::uint32_t SlotRing::lost_slots_locked() const noexcept {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < slot_count_; ++i) {
    const bool is_lost = std::any_of(members_->begin(), members_->end(), [i](const auto& member) {
      return member->evicted.load(memory_order_relaxed) && member->holds(i);
    });
    count += is_lost ? 1 : 0;
  }
  return count;
}

std::uint32_t SlotRing::lost_slots() const {
  const std::lock_guard lock(mutex_);
  return lost_slots_locked();
}

bool SlotRing::has_too_few() const noexcept {
  if (policy_.when_full != WhenFull::evict) return false;
  const auto count = static_cast<std::uint32_t>(std::count_if(
      slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.state == State::lost; }));
  return slot_count_ < kUsableMin + count + lost_slots_locked();
}

void SlotRing::find_too_few(Look& look) {
  look.hopeless = false;
  if (asked_ || !has_too_few()) return;
  look.hopeless = !denied_until_.has_passed();
  if (!look.hopeless) raise_trouble();
}

std::uint32_t SlotRing::more_slots() const noexcept {
  // Twice as many at a time: what was granted is not always used.
  return std::min({policy_.slot_count_max, slots_for_all(), 2 * slot_count_});
}

std::uint32_t SlotRing::slots_for_all() const noexcept {
  std::uint32_t in_work = 0;
  for (std::uint32_t i = 0; i < slot_count_; ++i) {
    const Slot& slot = slots_[i];
    const bool waits = slot.state != State::free && !generation_->complete(i, slot.ticket);
    in_work += waits ? 1 : 0;
  }
  std::uint32_t held = 0;
  std::uint32_t queued = 0;
  for (const std::shared_ptr<Member>& member : *members_) {
    if (member->evicted.load(memory_order_relaxed)) continue;
    held += member->held_count_wanted;
    queued = std::max(queued, member->queue_depth_wanted);
  }
  // The newest frame, and the one that a claim wants.
  return 2 + in_work + held + (block_ ? queued : 0);
}

void SlotRing::count_refused(std::uint64_t blockers) noexcept {
  if (policy_.slot_count_max <= slot_count_) return;
  bool is_honest = false;
  for (std::uint64_t rest = blockers; rest != 0; rest &= rest - 1) {
    const auto& member = (*members_)[static_cast<std::size_t>(std::countr_zero(rest))];
    is_honest = is_honest || !(member->overdue || member->evicted.load(memory_order_relaxed));
  }
  if (!is_honest) return;
  refusals_ = claims_between_ > kClaimsBetweenMax ? 1 : refusals_ + 1;
  claims_between_ = 0;
  if (refusals_ < kRefusalsMax || asked_ || !denied_until_.has_passed()) return;
  if (more_slots() > slot_count_) raise_trouble();
}

SlotRing::Want SlotRing::take_want() {
  const std::lock_guard lock(mutex_);
  if (state_ != wire::ChannelState::open || asked_ || !denied_until_.has_passed()) return {};
  Want want;
  if (has_too_few()) {
    want = {slot_count_, false};
  } else if (refusals_ >= kRefusalsMax && more_slots() > slot_count_) {
    want = {more_slots(), true};
  }
  asked_ = want.slot_count != 0;
  return want;
}

void SlotRing::deny(Deadline until) {
  const std::lock_guard lock(mutex_);
  asked_ = false;
  denied_until_ = until;
  refusals_ = 0;
}

}  // namespace vramlink::inline v0::channel
