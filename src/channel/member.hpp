// One subscriber as its publisher keeps it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <vramlink/deadline.hpp>

#include "channel/parking.hpp"
#include "wire/layout_v1.hpp"

namespace vramlink::inline v0::channel {

/// One subscriber in one generation: in its membership from GO until it is detached, says farewell
/// or is proven dead. Every word that it writes is untrusted.
///
/// A member of the generation before has an entry here already before its GO, `expected`: its words
/// are of this process alone, nobody writes them, and what counts is its floor.
struct Member {
  Member() = default;
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  /// On any thread: what a device may write outlives it.
  ~Member() {
    if (parking) parking->keep(std::move(pages));
  }

  std::int32_t pid = 0;
  std::uint64_t subscriber = 0;  ///< the same in every generation; of one publisher
  bool expected = false;
  std::uint32_t queue_depth = 0;  ///< 0: latest
  std::uint32_t held_count_max = 0;
  // As it would be granted with as many slots as there can be.
  std::uint32_t queue_depth_wanted = 0;
  std::uint32_t held_count_wanted = 0;
  std::uint64_t generation = 0;
  std::uint64_t first_ticket = 0;  ///< claims from this ticket on know this member
  std::uint64_t first_cursor = 0;  ///< the last sequence that it is not given
  /// Under the ring's mutex: no frame up to this one is waited for here, whatever its cursor says.
  std::uint64_t floor = 0;
  ControlPages pages;  ///< the private segment
  wire::Private* words = nullptr;
  std::shared_ptr<Parking> parking;  ///< the channel's
  /// Its my_ready words are written with every READY. From before it is a member.
  std::shared_ptr<backend::RegisteredWords> my_ready;

  /// GO is on its way to it: whatever happens to the publisher now, it will learn of this life.
  std::atomic<bool> welcomed{false};
  /// It reads no new frames, but what it holds it still holds.
  std::atomic<bool> leaving{false};
  /// That, because a hold was older than its lease: its slots are missing until it lets them go.
  std::atomic<bool> evicted{false};
  /// Claims that were refused or delayed by it. One counter for all its generations.
  std::shared_ptr<std::atomic<std::uint64_t>> blocked_claims =
      std::make_shared<std::atomic<std::uint64_t>>(0);

  /// Refused claims in a row that met too many holds of it. Under the ring's mutex.
  std::uint32_t excess_in_a_row = 0;
  /// The hold that a claim met on a slot last, and the end of its lease, which began when the first
  /// claim met it. Under the ring's mutex.
  struct Met {
    std::uint64_t hold_number = 0;  ///< 0: none
    Deadline lease_end = kForever;
  };
  std::array<Met, wire::kSlotCountMax> met{};
  bool overdue = false;  ///< a lease is over, and the reactor is told. Under the ring's mutex

  /// Until GO is: what is published after that it will get, whatever happens to us.
  [[nodiscard]] bool is_on_its_way() const noexcept {
    const bool has_come = !expected && welcomed.load(std::memory_order_acquire);
    return !has_come && !leaving.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_stream_ordered() const noexcept { return my_ready != nullptr; }
  /// Of a stream-ordered one.
  [[nodiscard]] backend::WordRef my_ready_word(std::uint32_t slot_index) const noexcept {
    return {my_ready.get(), slot_index};
  }
  /// The hold that is on a slot, 0 for none. seq_cst: pairs with take()'s store of held and
  /// release()'s store of released, each of which is followed by a look at a word that a claim
  /// stores before.
  [[nodiscard]] std::uint64_t hold_on(std::uint32_t slot_index) const noexcept {
    const std::uint64_t held = words->held[slot_index].load(std::memory_order_seq_cst);
    const std::uint64_t released = words->released[slot_index].load(std::memory_order_seq_cst);
    return held > released ? held : 0;
  }
  [[nodiscard]] bool holds(std::uint32_t slot_index) const noexcept {
    return hold_on(slot_index) != 0;
  }
  /// Slots that one look finds held, which are not so at one instant.
  [[nodiscard]] std::uint32_t held_in_a_look(std::uint32_t slot_count) const noexcept {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < slot_count; ++i) count += holds(i) ? 1 : 0;
    return count;
  }
  /// Slots that it held all at one instant: on each, the same hold stood before and after. One look
  /// alone would count a reader that moves from slot to slot in step with it several times.
  [[nodiscard]] std::uint32_t held_at_once(std::uint32_t slot_count) const noexcept {
    std::array<std::uint64_t, wire::kSlotCountMax> before;
    for (std::uint32_t i = 0; i < slot_count; ++i) before[i] = hold_on(i);
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < slot_count; ++i) {
      count += before[i] != 0 && hold_on(i) == before[i] ? 1 : 0;
    }
    return count;
  }
};

/// Immutable: replaced as a whole, so that a claim can keep the list that it was made under.
struct Membership : std::vector<std::shared_ptr<Member>> {
  std::vector<Member*> stream_ordered;  ///< those of them whose my_ready words READY writes
  std::uint64_t stream_set = 0;         ///< another number for every other set of these
};

}  // namespace vramlink::inline v0::channel
