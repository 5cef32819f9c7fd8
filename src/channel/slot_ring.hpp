// The publisher's side of the slots: which are free, who holds them, what is newest.
//
// The protocol is in docs/channel.md. A slot's life at the publisher:
//
//   FREE -> CLAIMED -> PUBLISHED -> CLAIMED ...      claim() takes only slots that nobody holds and
//                   -> ABANDONED -> CLAIMED ...      whose own work is complete
//                   -> LOST                          its work can never be known to be complete
//
// A ring is one generation's. With a resize the next one takes its place: this one has no more
// claims and publishes then, and lives until its frames are published, dropped and let go.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <vramlink/channel.hpp>
#include <vramlink/result.hpp>

#include "channel/generation.hpp"
#include "channel/member.hpp"
#include "channel/wake_list.hpp"

namespace vramlink::inline v0::channel {

/// The right to write one slot, until publish or abandon.
struct Claim {
  std::uint32_t slot_index = 0;
  std::uint64_t ticket = 0;
};

/// What is done about claims that find every slot held, queued or in work.
struct FullPolicy {
  WhenFull when_full = WhenFull::drop;
  std::chrono::nanoseconds lease{0};  ///< of evict
  std::uint32_t slot_count_max = 0;   ///< more slots are asked for, up to so many; 0: none are
};

/// One mutex, the M of the protocol: never held over a back-end call, a system call or user code;
/// that of the next generation is taken under it. Thread-safety: all members from any thread.
class SlotRing {
 public:
  SlotRing(std::shared_ptr<Generation> generation, const FullPolicy& policy);
  /// Leaves word to the generation of the work that is under way.
  ~SlotRing();
  SlotRing(const SlotRing&) = delete;
  SlotRing& operator=(const SlotRing&) = delete;

  /// What a look that found no slot saw.
  struct Look {
    bool first = true;          ///< in: not a claim's second look, so who is in its way is counted
    bool work_pending = false;  ///< out: a slot's work is under way, and no bell rings at its end
    Deadline lease_end = kForever;  ///< out: of evict, the first one of the holds that it met
    bool hopeless = false;          ///< out: too few slots are left, and others could not be made
  };
  /// Codes: full, closed, stale (the next ring has taken its place).
  [[nodiscard]] Result<Claim> try_claim(Look& look);
  [[nodiscard]] Result<Claim> try_claim() {
    Look look;
    return try_claim(look);
  }
  /// The members that the claim was made under. For its holder alone, until publish or abandon.
  [[nodiscard]] const Membership& members_of(const Claim& claim) const noexcept {
    return *slots_[claim.slot_index].members;
  }
  /// Makes the frame visible; its READY has been enqueued. Bells go to `wakes`. Returns the
  /// sequence. Codes: closed, stale (the slot is abandoned then).
  [[nodiscard]] Result<std::uint64_t> publish(const Claim& claim, const FrameInfo& info,
                                              std::int64_t publish_ns, WakeList& wakes);
  /// Gives a claimed slot back; its READY has been enqueued, or with `lost` could not be.
  void abandon(const Claim& claim, bool lost) noexcept;

  /// Adds a member whose segment is filled but for what only this moment knows: cursor and first
  /// ticket, which are stored here. Codes: closed, stale.
  [[nodiscard]] Result<void> add(const std::shared_ptr<Member>& member);
  /// An entry for a member of the ring before, until it can come itself. Before this ring takes
  /// that one's place: so no frame is published here that does not wait for it.
  void expect(const std::shared_ptr<Member>& member);
  /// It comes, in its entry's place; also when the ring has ended meanwhile. Codes: closed (there
  /// is no such entry any more).
  [[nodiscard]] Result<void> join(const Member& expected, const std::shared_ptr<Member>& member);
  /// Members that are expected still.
  [[nodiscard]] bool expects() const;
  /// Its holds end. Unknown members are ignored.
  void remove(const Member& member);
  [[nodiscard]] std::shared_ptr<const Membership> members() const;
  /// The tickets of frames and abandoned slots that are not complete; 0 for the others.
  using Tickets = std::array<std::uint64_t, kSlotCountMax>;
  [[nodiscard]] Tickets incomplete() const;
  /// One call has found a ticket incomplete that the call before found so. From one thread.
  [[nodiscard]] bool is_overdue();
  /// Nothing was published here.
  [[nodiscard]] bool is_empty() const;
  /// Every queue subscriber has taken all that was published here, and nobody is expected still.
  [[nodiscard]] bool is_drained() const;
  /// A member for statistics.
  struct View {
    std::uint64_t subscriber = 0;
    bool has_taken = false;  ///< a frame of this generation, or one after it
    SubscriberView shown;
  };
  [[nodiscard]] std::vector<View> views() const;
  /// Frames that were published here, and all their bytes and those before them.
  struct Output {
    std::uint64_t last_sequence = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] Output output() const;
  /// There is something for the reactor below. True once after each find; one relaxed load
  /// otherwise.
  [[nodiscard]] bool found_trouble() noexcept {
    return has_trouble_.load(std::memory_order_relaxed) &&
           has_trouble_.exchange(false, std::memory_order_relaxed);
  }
  /// Members that wrote what the protocol forbids, each reported once.
  [[nodiscard]] std::vector<std::shared_ptr<Member>> take_offenders();
  /// Members with a hold whose lease was over when a claim met it, each until evict() is asked.
  [[nodiscard]] std::vector<std::shared_ptr<Member>> take_overdue();
  /// If it still has such a hold: it gets no new frames from now on, and its slots are missing
  /// until it lets them go. False: it has let go.
  [[nodiscard]] bool evict(const Member& holder);
  /// Slots that evicted members hold.
  [[nodiscard]] std::uint32_t lost_slots() const;
  /// The slots of a generation that should take this one's place; 0: none.
  struct Want {
    std::uint32_t slot_count = 0;
    bool grows = false;  ///< more slots are wanted; else evictions have left fewer than two
  };
  /// Of a generation that was not asked for yet.
  [[nodiscard]] Want take_want();
  /// It is not there: not asked for again before `until`.
  void deny(Deadline until);

  /// No more claims and publishes; readers see `state` after all frames. Bells go to `wakes`. False
  /// if the next ring has taken this one's place: that one has to end.
  [[nodiscard]] bool end(wire::ChannelState state, WakeList& wakes);
  /// The same, and `next` goes on with the sequence. `put_in_place` makes it the one that is looked
  /// for: under the mutex, so that whoever finds this one replaced finds it. False, and nothing is
  /// done, if this one has ended before, or, with `only_unclaimed`, if a slot is claimed: its frame
  /// would be stale.
  [[nodiscard]] bool give_way(SlotRing& next, WakeList& wakes,
                              const std::function<void()>& put_in_place,
                              bool only_unclaimed = false);
  [[nodiscard]] std::uint64_t last_sequence() const;
  [[nodiscard]] bool ended() const;
  /// The next ring has taken this one's place.
  [[nodiscard]] bool is_replaced() const;

  /// Counts one more thread asleep in claim; subscribers ring free_bell while it is not 0.
  void add_claim_waiter() noexcept;
  void remove_claim_waiter() noexcept;

  [[nodiscard]] const std::shared_ptr<Generation>& generation() const noexcept {
    return generation_;
  }

 private:
  enum class State : std::uint8_t { free, claimed, published, abandoned, lost };
  struct Slot {
    State state = State::free;
    std::uint64_t ticket = 0;
    std::uint64_t sequence = 0;                 ///< of the published frame; 0: none
    std::shared_ptr<const Membership> members;  ///< those of its claim
  };
  /// What the queue subscribers still want, read once a claim.
  struct QueueNeeds {
    std::uint64_t law = ~std::uint64_t{0};   ///< block: later sequences are not candidates
    std::uint64_t wish = ~std::uint64_t{0};  ///< later sequences are taken last
    std::uint64_t behind = 0;                ///< bit per member that the law waits for
  };

  [[nodiscard]] QueueNeeds queue_needs();
  [[nodiscard]] std::uint64_t candidates(const QueueNeeds& needs, Look& look) const;
  [[nodiscard]] std::uint64_t order_key(std::uint32_t slot_index,
                                        const QueueNeeds& needs) const noexcept;
  [[nodiscard]] std::uint64_t holders(std::uint32_t slot_index) const;
  [[nodiscard]] bool try_take(std::uint32_t slot_index, std::uint64_t& blockers, Look& look);
  void go_on_after(const Output& before);
  // Under the mutex.
  void store_end(wire::ChannelState state, WakeList& wakes);
  [[nodiscard]] Output output_locked() const noexcept;
  [[nodiscard]] Error end_error(const char* operation) const noexcept;
  [[nodiscard]] static std::shared_ptr<Membership> entries();
  void admit_locked(Member& member, std::uint64_t floor);
  void replace_members(std::shared_ptr<Membership> next) noexcept;
  void count_blocked(std::uint64_t blockers) noexcept;
  void raise_trouble() noexcept { has_trouble_.store(true, std::memory_order_relaxed); }
  void meet(std::uint32_t slot_index, std::uint64_t holders, Look& look);
  void find_too_few(Look& look);
  void count_refused(std::uint64_t blockers) noexcept;
  [[nodiscard]] std::uint32_t lost_slots_locked() const noexcept;
  [[nodiscard]] bool has_too_few() const noexcept;
  [[nodiscard]] std::uint32_t more_slots() const noexcept;
  [[nodiscard]] std::uint32_t slots_for_all() const noexcept;
  void judge(std::uint64_t suspects);
  void write_header(const Claim& claim, const FrameInfo& info, std::int64_t publish_ns,
                    std::uint64_t sequence) noexcept;

  const std::shared_ptr<Generation> generation_;
  wire::Broadcast& broadcast_;
  const std::uint32_t slot_count_;
  const bool block_;
  const FullPolicy policy_;

  mutable std::mutex mutex_;
  std::array<Slot, kSlotCountMax> slots_;
  std::shared_ptr<const Membership> members_;
  std::vector<std::shared_ptr<Member>> offenders_;
  std::vector<std::shared_ptr<Member>> overdue_;
  std::atomic<bool> has_trouble_{false};
  std::uint32_t refusals_ = 0;        ///< claims refused for what honest members hold and queue
  std::uint32_t claims_between_ = 0;  ///< since the last one of these
  bool asked_ = false;                ///< for another generation
  Deadline denied_until_ = Deadline::passed();
  std::uint64_t tickets_ = 0;
  std::uint64_t stream_sets_ = 0;
  Output before_;  ///< of the generations before
  std::uint64_t last_sequence_ = 0;
  wire::ChannelState state_ = wire::ChannelState::open;
  Tickets watched_{};  ///< is_overdue()'s own
};

}  // namespace vramlink::inline v0::channel
