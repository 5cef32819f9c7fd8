// See slot_ring.hpp. The order of the atomic operations is the protocol: each names its partner.
#include "channel/slot_ring.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/prefetch.hpp"
#include "base/steps.hpp"

namespace vramlink::inline v0::channel {

using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

namespace {
constexpr std::uint32_t kExcessInARowMax = 64;  // refused claims
}  // namespace

SlotRing::SlotRing(std::shared_ptr<Generation> generation, const FullPolicy& policy)
    : generation_(std::move(generation)),
      broadcast_(*generation_->broadcast),
      slot_count_(generation_->shape.slot_count),
      block_(policy.when_full == WhenFull::block),
      policy_(policy),
      members_(std::make_shared<const Membership>()),
      before_{generation_->shape.first_sequence - 1, 0},
      last_sequence_(before_.last_sequence) {}

SlotRing::~SlotRing() {
  for (std::uint32_t i = 0; i < slot_count_; ++i) {
    if (slots_[i].state == State::lost) {
      generation_->lost_work = true;
    } else {
      generation_->awaited[i] = slots_[i].ticket;
    }
  }
}

SlotRing::QueueNeeds SlotRing::queue_needs() {
  QueueNeeds needs;
  for (std::size_t j = 0; j < members_->size(); ++j) {
    Member& member = *(*members_)[j];
    if (member.queue_depth == 0 || member.leaving.load(memory_order_relaxed)) continue;
    // Pairs with take()'s store of cursor, after which it looks at claim_waiters (seq_cst all).
    const std::uint64_t cursor = member.words->cursor.load(memory_order_seq_cst);
    if (cursor > last_sequence_) {
      judge(std::uint64_t{1} << j);  // it cannot have taken what was never published
      continue;
    }
    const std::uint64_t taken = std::max(cursor, member.floor);
    const std::uint64_t window =
        last_sequence_ > member.queue_depth ? last_sequence_ - member.queue_depth : 0;
    needs.wish = std::min(needs.wish, std::max(taken, window));
    if (!block_) continue;
    if (taken < last_sequence_) needs.behind |= std::uint64_t{1} << j;
    needs.law = std::min(needs.law, taken);
  }
  return needs;
}

std::uint64_t SlotRing::candidates(const QueueNeeds& needs, Look& look) const {
  std::uint64_t mask = 0;
  std::uint64_t newest_complete = 0;
  std::uint32_t newest_slot = 0;
  for (std::uint32_t i = 0; i < slot_count_; ++i) {
    const Slot& slot = slots_[i];
    if (slot.state == State::claimed || slot.state == State::lost) continue;
    if (slot.state != State::free && !generation_->complete(i, slot.ticket)) {
      look.work_pending = true;
      continue;
    }
    if (slot.state == State::published) {
      if (slot.sequence > newest_complete) {
        newest_complete = slot.sequence;
        newest_slot = i;
      }
      if (slot.sequence > needs.law) continue;
    }
    mask |= std::uint64_t{1} << i;
  }
  // A newcomer must always find one complete frame.
  if (newest_complete != 0) mask &= ~(std::uint64_t{1} << newest_slot);
  return mask;
}

std::uint64_t SlotRing::order_key(std::uint32_t slot_index,
                                  const QueueNeeds& needs) const noexcept {
  constexpr std::uint64_t kWished = std::uint64_t{1} << 62;
  const Slot& slot = slots_[slot_index];
  if (slot.state == State::free) return 0;
  if (slot.state == State::abandoned) return 1;
  return slot.sequence + 1 + (slot.sequence > needs.wish ? kWished : 0);
}

std::uint64_t SlotRing::holders(std::uint32_t slot_index) const {
  std::uint64_t mask = 0;
  for (std::size_t j = 0; j < members_->size(); ++j) {
    if ((*members_)[j]->holds(slot_index)) mask |= std::uint64_t{1} << j;
  }
  return mask;
}

bool SlotRing::try_take(std::uint32_t slot_index, std::uint64_t& blockers, Look& look) {
  // First without touching the tag: a held slot's tag would flicker for its readers.
  if (const std::uint64_t held = holders(slot_index)) {
    blockers |= held;
    meet(slot_index, held, look);
    return false;
  }
  Slot& slot = slots_[slot_index];
  wire::SlotHeader& header = broadcast_.slot[slot_index];
  VRAMLINK_STEP("claim.before_tag");
  // Pairs with take(): it stores held, then loads tag. In the one order of all four seq_cst
  // operations either it sees this 0 or we see its hold.
  header.tag.store(0, memory_order_seq_cst);
  VRAMLINK_STEP("claim.tag_cleared");
  if (const std::uint64_t held = holders(slot_index)) {
    // Undone: readers find the frame as it was. Pairs with their load of tag.
    header.tag.store(slot.state == State::published ? slot.sequence : 0, memory_order_release);
    blockers |= held;
    meet(slot_index, held, look);
    return false;
  }
  slot.state = State::claimed;
  slot.ticket = ++tickets_;
  slot.members = members_;
  return true;
}

Result<Claim> SlotRing::try_claim(Look& look) {
  const std::lock_guard lock(mutex_);
  if (state_ != wire::ChannelState::open) return end_error("claim slot");
  look.lease_end = kForever;
  const QueueNeeds needs = queue_needs();
  std::uint64_t left = candidates(needs, look);
  std::uint64_t blockers = needs.behind;
  while (left != 0) {
    std::uint32_t best = static_cast<std::uint32_t>(std::countr_zero(left));
    std::uint64_t best_key = order_key(best, needs);
    for (std::uint64_t rest = left & (left - 1); rest != 0; rest &= rest - 1) {
      const auto i = static_cast<std::uint32_t>(std::countr_zero(rest));
      if (const std::uint64_t key = order_key(i, needs); key < best_key) {
        best = i;
        best_key = key;
      }
    }
    if (try_take(best, blockers, look)) {
      ++claims_between_;
      // Others have looked at the line that READY goes to; it is ours again when the caller has
      // rendered, and publish() does not wait for it.
      base::prefetch_for_write(&broadcast_.ready[best]);
      VRAMLINK_STEP("claim.done");
      return Claim{best, slots_[best].ticket};
    }
    left &= ~(std::uint64_t{1} << best);
  }
  if (look.first) {
    count_blocked(blockers);
    count_refused(blockers);
  }
  judge(blockers);
  find_too_few(look);
  return Error(Code::full, "claim slot");
}

void SlotRing::count_blocked(std::uint64_t blockers) noexcept {
  for (std::uint64_t rest = blockers; rest != 0; rest &= rest - 1) {
    ++*(*members_)[static_cast<std::size_t>(std::countr_zero(rest))]->blocked_claims;
  }
}

void SlotRing::judge(std::uint64_t suspects) {
  for (std::uint64_t rest = suspects; rest != 0; rest &= rest - 1) {
    const auto j = static_cast<std::size_t>(std::countr_zero(rest));
    const std::shared_ptr<Member>& member = (*members_)[j];
    const std::uint32_t held = member->held_at_once(slot_count_);
    const std::uint64_t cursor = member->words->cursor.load(memory_order_acquire);
    // One attempt may be under way beside the frames that it holds.
    const std::uint32_t held_max = member->held_count_max + 1;
    // One that writes new numbers all the time never holds the same twice; but an honest reader,
    // which runs out of frames while claims are refused, is not met with too many again and again.
    const bool excess = member->held_in_a_look(slot_count_) > held_max;
    member->excess_in_a_row = excess ? member->excess_in_a_row + 1 : 0;
    const bool moves = member->excess_in_a_row >= kExcessInARowMax;
    if (held <= held_max && cursor <= last_sequence_ && !moves) continue;
    if (std::find(offenders_.begin(), offenders_.end(), member) == offenders_.end()) {
      offenders_.push_back(member);
      raise_trouble();
    }
  }
}

std::vector<std::shared_ptr<Member>> SlotRing::take_offenders() {
  const std::lock_guard lock(mutex_);
  return std::exchange(offenders_, {});
}

void SlotRing::write_header(const Claim& claim, const FrameInfo& info, std::int64_t publish_ns,
                            std::uint64_t sequence) noexcept {
  wire::SlotHeader& header = broadcast_.slot[claim.slot_index];
  // Each word with release: an observer that sees one of them also sees the tag that was cleared
  // before. Pairs with its acquire loads; a subscriber is covered by the tag.
  header.ticket.store(claim.ticket, memory_order_release);
  header.publish_ns.store(static_cast<std::uint64_t>(publish_ns), memory_order_release);
  header.media_ns.store(info.media_ns, memory_order_release);
  header.user_bytes.store(static_cast<std::uint32_t>(info.user_data.size()), memory_order_release);
  header.flags.store(info.flags, memory_order_release);
  for (std::size_t offset = 0; offset < info.user_data.size(); offset += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, info.user_data.data() + offset,
                std::min<std::size_t>(8, info.user_data.size() - offset));
    header.user[offset / 8].store(word, memory_order_release);
  }
  VRAMLINK_STEP("publish.header_written");
  // Pairs with take()'s second load of tag and with an observer's.
  header.tag.store(sequence, memory_order_release);
}

Result<std::uint64_t> SlotRing::publish(const Claim& claim, const FrameInfo& info,
                                        std::int64_t publish_ns, WakeList& wakes) {
  // May be the last reference to a member that left meanwhile, whose end unmaps: outside M.
  std::shared_ptr<const Membership> members;
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[claim.slot_index];
  VRAMLINK_ASSERT(slot.state == State::claimed && slot.ticket == claim.ticket);
  members = std::move(slot.members);
  if (state_ != wire::ChannelState::open) {
    slot.state = State::abandoned;
    return end_error("publish frame");
  }
  const std::uint64_t sequence = ++last_sequence_;
  write_header(claim, info, publish_ns, sequence);
  VRAMLINK_STEP("publish.tag_set");
  const std::uint64_t packed = wire::pack_newest(sequence, claim.slot_index);
  // Pairs with the acquire loads of a queue's reader.
  broadcast_.recent[sequence % kSlotCountMax].store(packed, memory_order_release);
  VRAMLINK_STEP("publish.recent_set");
  // Pairs with receive()'s load, and, both seq_cst, with the sleeper's look after it set its bell.
  broadcast_.newest.store(packed, memory_order_seq_cst);
  VRAMLINK_STEP("publish.newest_set");
  slot.state = State::published;
  slot.sequence = sequence;
  for (const std::shared_ptr<Member>& member : *members_) wakes.ring(*member);
  wakes.keep(members_);
  return sequence;
}

void SlotRing::abandon(const Claim& claim, bool lost) noexcept {
  std::shared_ptr<const Membership> members;  // as in publish()
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[claim.slot_index];
  VRAMLINK_ASSERT(slot.state == State::claimed && slot.ticket == claim.ticket);
  slot.state = lost ? State::lost : State::abandoned;
  slot.sequence = 0;  // the tag stays 0
  members = std::move(slot.members);
}

Error SlotRing::end_error(const char* operation) const noexcept {
  return Error(state_ == wire::ChannelState::replaced ? Code::stale : Code::closed, operation);
}

bool SlotRing::end(wire::ChannelState state, WakeList& wakes) {
  const std::lock_guard lock(mutex_);
  if (state_ == wire::ChannelState::replaced) return false;
  if (state_ != wire::ChannelState::open) return true;
  // Before the state, which a reader loads first: it then knows where to stop.
  broadcast_.last_sequence.store(last_sequence_, memory_order_release);
  VRAMLINK_STEP("close.last_sequence_set");
  store_end(state, wakes);
  VRAMLINK_STEP("close.state_set");
  return true;
}

void SlotRing::store_end(wire::ChannelState state, WakeList& wakes) {
  state_ = state;
  // Pairs with the sleeper's look after it set its bell (both seq_cst).
  broadcast_.state.store(static_cast<std::uint32_t>(state), memory_order_seq_cst);
  for (const std::shared_ptr<Member>& member : *members_) wakes.ring(*member);
  wakes.keep(members_);
}

bool SlotRing::give_way(SlotRing& next, WakeList& wakes, const std::function<void()>& put_in_place,
                        bool only_unclaimed) {
  const std::lock_guard lock(mutex_);
  if (state_ != wire::ChannelState::open) return false;
  const auto is_claimed = [](const Slot& slot) { return slot.state == State::claimed; };
  if (only_unclaimed && std::any_of(slots_.begin(), slots_.end(), is_claimed)) return false;
  broadcast_.last_sequence.store(last_sequence_, memory_order_release);  // as in end()
  VRAMLINK_STEP("resize.last_sequence_set");
  next.go_on_after(output_locked());
  // Readers of this generation know of its end before the next one can have a frame.
  store_end(wire::ChannelState::replaced, wakes);
  VRAMLINK_STEP("resize.state_set");
  put_in_place();
  return true;
}

void SlotRing::go_on_after(const Output& before) {
  const std::lock_guard lock(mutex_);
  before_ = before;
  last_sequence_ = before.last_sequence;
  // What came before is none of this generation's business.
  for (const std::shared_ptr<Member>& member : *members_) member->floor = last_sequence_;
}

SlotRing::Output SlotRing::output_locked() const noexcept {
  const std::uint64_t count = last_sequence_ - before_.last_sequence;
  return {last_sequence_, before_.bytes + count * generation_->shape.format.payload_bytes};
}

SlotRing::Output SlotRing::output() const {
  const std::lock_guard lock(mutex_);
  return output_locked();
}

bool SlotRing::is_empty() const {
  const std::lock_guard lock(mutex_);
  return last_sequence_ == before_.last_sequence;
}

bool SlotRing::is_overdue() {
  const Tickets now = incomplete();
  bool overdue = false;
  for (std::size_t i = 0; i < now.size(); ++i) {
    overdue = overdue || (now[i] != 0 && now[i] == watched_[i]);
  }
  watched_ = now;
  return overdue;
}

SlotRing::Tickets SlotRing::incomplete() const {
  Tickets tickets{};
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < slot_count_; ++i) {
    const Slot& slot = slots_[i];
    if (slot.state != State::published && slot.state != State::abandoned) continue;
    if (!generation_->complete(i, slot.ticket)) tickets[i] = slot.ticket;
  }
  return tickets;
}

std::uint64_t SlotRing::last_sequence() const {
  const std::lock_guard lock(mutex_);
  return last_sequence_;
}

bool SlotRing::ended() const {
  const std::lock_guard lock(mutex_);
  return state_ != wire::ChannelState::open;
}

bool SlotRing::is_replaced() const {
  const std::lock_guard lock(mutex_);
  return state_ == wire::ChannelState::replaced;
}

void SlotRing::add_claim_waiter() noexcept {
  const std::lock_guard lock(mutex_);
  // Pairs with the load in a subscriber's release() and take() (both seq_cst).
  broadcast_.claim_waiters.fetch_add(1, memory_order_seq_cst);
}

void SlotRing::remove_claim_waiter() noexcept {
  const std::lock_guard lock(mutex_);
  broadcast_.claim_waiters.fetch_sub(1, memory_order_seq_cst);
}

}  // namespace vramlink::inline v0::channel
