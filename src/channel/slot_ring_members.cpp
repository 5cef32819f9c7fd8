// SlotRing: who reads the frames, and what each of them has and holds. See slot_ring.hpp.
#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "channel/slot_ring.hpp"

namespace vramlink::inline v0::channel {

using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;

std::shared_ptr<Membership> SlotRing::entries() {
  auto next = std::make_shared<Membership>();
  next->reserve(wire::kSubscriberCountMax);
  next->stream_ordered.reserve(wire::kStreamOrderedCountMax);
  return next;
}

void SlotRing::admit_locked(Member& member, std::uint64_t floor) {
  member.first_ticket = tickets_ + 1;
  member.words->first_ticket = member.first_ticket;  // before GO, which publishes it
  member.floor = floor;
  member.first_cursor = floor;
  member.words->cursor.store(floor, memory_order_release);
}

Result<void> SlotRing::add(const std::shared_ptr<Member>& member) {
  std::shared_ptr<Membership> next = entries();
  std::shared_ptr<const Membership> old;  // ends outside M
  const std::lock_guard lock(mutex_);
  if (state_ != wire::ChannelState::open) return end_error("add subscriber");
  // A newcomer's first frame is the newest one of this generation.
  const bool has_frame = last_sequence_ != before_.last_sequence;
  admit_locked(*member, has_frame ? last_sequence_ - 1 : last_sequence_);
  next->assign(members_->begin(), members_->end());
  next->push_back(member);
  old = members_;
  replace_members(std::move(next));
  return {};
}

void SlotRing::expect(const std::shared_ptr<Member>& member) {
  VRAMLINK_ASSERT(member->expected);
  std::shared_ptr<Membership> next = entries();
  std::shared_ptr<const Membership> old;
  const std::lock_guard lock(mutex_);
  admit_locked(*member, last_sequence_);
  next->assign(members_->begin(), members_->end());
  next->push_back(member);
  old = members_;
  replace_members(std::move(next));
}

Result<void> SlotRing::join(const Member& expected, const std::shared_ptr<Member>& member) {
  std::shared_ptr<Membership> next = entries();
  std::shared_ptr<const Membership> old;
  const std::lock_guard lock(mutex_);
  next->assign(members_->begin(), members_->end());
  const auto entry = std::find_if(next->begin(), next->end(),
                                  [&](const auto& other) { return other.get() == &expected; });
  if (entry == next->end()) return Error(Code::closed, "add subscriber");
  admit_locked(*member, expected.floor);
  *entry = member;
  old = members_;
  replace_members(std::move(next));
  return {};
}

bool SlotRing::expects() const {
  const std::shared_ptr<const Membership> members = this->members();
  return std::any_of(members->begin(), members->end(),
                     [](const auto& member) { return member->is_on_its_way(); });
}

void SlotRing::replace_members(std::shared_ptr<Membership> next) noexcept {
  next->stream_set = members_->stream_set;
  for (const std::shared_ptr<Member>& member : *next) {
    if (member->is_stream_ordered()) next->stream_ordered.push_back(member.get());
  }
  VRAMLINK_ASSERT(next->stream_ordered.size() <= wire::kStreamOrderedCountMax);
  if (next->stream_ordered != members_->stream_ordered) next->stream_set = ++stream_sets_;
  members_ = std::move(next);
}

void SlotRing::remove(const Member& member) {
  std::shared_ptr<Membership> next = entries();
  std::shared_ptr<const Membership> old;  // may hold the last reference: ends outside M
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Member>& other : *members_) {
    if (other.get() != &member) next->push_back(other);
  }
  old = members_;
  replace_members(std::move(next));
}

std::shared_ptr<const Membership> SlotRing::members() const {
  const std::lock_guard lock(mutex_);
  return members_;
}

bool SlotRing::is_drained() const {
  const std::lock_guard lock(mutex_);
  return std::all_of(members_->begin(), members_->end(), [&](const auto& member) {
    if (member->is_on_its_way()) return false;  // it could not see the end
    return member->queue_depth == 0 || member->leaving.load(memory_order_relaxed) ||
           member->floor >= last_sequence_ ||
           member->words->cursor.load(memory_order_acquire) >= last_sequence_;
  });
}

std::vector<SlotRing::View> SlotRing::views() const {
  std::shared_ptr<const Membership> members;
  std::uint64_t last = 0;
  std::vector<View> views;
  views.reserve(wire::kSubscriberCountMax);
  {
    const std::lock_guard lock(mutex_);
    members = members_;
    last = last_sequence_;
    for (const std::shared_ptr<Member>& member : *members) {
      View view;
      const std::uint64_t cursor = member->words->cursor.load(memory_order_relaxed);
      const std::uint64_t taken = std::max(cursor, member->floor);
      view.subscriber = member->subscriber;
      view.has_taken = cursor > member->floor;
      view.shown.lag = last > taken ? last - taken : 0;
      views.push_back(view);
    }
  }
  for (std::size_t j = 0; j < views.size(); ++j) {
    const Member& member = *(*members)[j];
    SubscriberView& view = views[j].shown;
    view.pid = member.pid;
    view.queue_depth = member.queue_depth;
    view.held = member.held_at_once(slot_count_);
    view.evicted = member.evicted.load(memory_order_relaxed);
    view.blocked_claims = member.blocked_claims->load(memory_order_relaxed);
    view.received = member.words->received.load(memory_order_relaxed);
    view.skipped = member.words->skipped.load(memory_order_relaxed);
    view.lost = member.words->lost.load(memory_order_relaxed);
  }
  return views;
}

}  // namespace vramlink::inline v0::channel
