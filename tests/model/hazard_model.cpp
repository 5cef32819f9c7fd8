// The hazard model: memory, membership, faults and what must hold in every state.
#include "hazard_model.hpp"

namespace vramlink::model {

HazardState HazardModel::initial() const {
  State state{};
  for (int index = 0; index < kReaderMax; ++index) {
    const bool last = index == kReaderMax - 1 || !present(index + 1);
    Reader& reader = state.readers[index];
    const bool joins_later = options_.late_join && last;
    reader.first_ticket = 1;
    reader.member = present(index) && !joins_later;
    const bool takes_at_once = present(index) && (!joins_later || !keeps(HazardRule::kTakeAfterGo));
    reader.at = takes_at_once ? ReaderAt::kIdle : ReaderAt::kAbsent;
  }
  return state;
}

StoreOrder HazardModel::order(bool sequential) const {
  return sequential || !options_.store_buffers ? StoreOrder::kSequential : StoreOrder::kRelease;
}

void HazardModel::successors(const State& state, Steps& out) const {
  drain_steps(state, out);
  publisher_gpu_steps(state, out);
  publisher_steps(state, out);
  for (int reader = 0; reader < kReaderMax; ++reader) {
    if (!present(reader)) continue;
    reader_gpu_step(state, out, reader);
    if (state.readers[reader].life != Life::kRuns || state.readers[reader].stopped) continue;
    reader_steps(state, out, reader);
    watchdog_steps(state, out, reader);
  }
  membership_steps(state, out);
  fault_steps(state, out);
}

void HazardModel::drain_steps(const State& state, Steps& out) const {
  if (!state.publisher.buffer.empty()) {
    State& next = out.add(state, {"publisher's oldest store reaches memory"});
    next.publisher.buffer.drain(next.memory);
    if (visible_complete_frame(next)) next.publisher.had_complete = 1;
  }
  for (int index = 0; index < kReaderMax; ++index) {
    if (state.readers[index].buffer.empty()) continue;
    State& next = out.add(
        state, {"reader %'s oldest store reaches memory", {static_cast<std::uint8_t>(index)}});
    next.readers[index].buffer.drain(next.memory);
  }
}

// What the publisher's reactor does under the mutex: never inside a claim or the second half of a
// publish.
void HazardModel::membership_steps(const State& state, Steps& out) const {
  const Publisher& publisher = state.publisher;
  const bool mutex_free =
      publisher.at == PublisherAt::kIdle || publisher.at == PublisherAt::kHostBegin ||
      publisher.at == PublisherAt::kHostEnd || publisher.at == PublisherAt::kHostReady;
  if (publisher.life != Life::kRuns || !mutex_free) return;
  for (std::uint8_t index = 0; index < kReaderMax; ++index) {
    if (!present(index)) continue;
    const Reader& reader = state.readers[index];
    if (!reader.member && reader.life == Life::kRuns && !reader.revoked) {
      State& next = out.add(state, {"publisher: reader % joins, GO", {index}});
      Reader& joined = next.readers[index];
      joined.member = 1;
      joined.first_ticket = static_cast<std::uint8_t>(publisher.ticket_count + 1);
      if (reader.at == ReaderAt::kAbsent) {
        joined.at = ReaderAt::kIdle;
        if (publisher.sequence_count > 1)
          joined.cursor = static_cast<std::uint8_t>(publisher.sequence_count - 1);
      }
    }
    const bool may_drop = reader.life == Life::kExited ||
                          (reader.life == Life::kDead && !keeps(HazardRule::kDropOnlyAfterExit));
    if (reader.member && may_drop) {
      State& next = out.add(state, {"publisher: reader % is dropped", {index}});
      next.readers[index].member = 0;
    }
    const bool drained =
        reader.at == ReaderAt::kIdle && reader.stream.count == 0 && reader.buffer.empty();
    if (reader.member && reader.revoked && (drained || !keeps(HazardRule::kRevokedHoldsCount))) {
      State& next = out.add(state, {"publisher: revoked reader % has drained", {index}});
      next.readers[index].member = 0;
    }
    if (options_.revoke && index == 0 && reader.member && !reader.revoked &&
        reader.life == Life::kRuns) {
      State& next = out.add(state, {"publisher: reader % is revoked", {index}}, Mover::kFault);
      next.readers[index].revoked = 1;
    }
  }
  if (options_.evict) eviction_steps(state, out);
}

// The reactor about holds beyond their lease, and about what evictions leave.
void HazardModel::eviction_steps(const State& state, Steps& out) const {
  for (std::uint8_t index = 0; index < kReaderMax; ++index) {
    const Reader& reader = state.readers[index];
    if (!reader.overdue) continue;
    bool stands = false;
    for (int slot = 0; slot < options_.slot_count; ++slot) {
      const bool met = state.memory[Word::held(index, slot)] == state.publisher.met[index][slot];
      stands |= reader.member && met && is_held(state, index, slot);
    }
    State& next = out.add(state, {stands ? "publisher: reader % is evicted"
                                         : "publisher: reader % has let go in the meantime",
                                  {index}});
    next.readers[index].overdue = 0;
    if (stands) next.readers[index].revoked = 1;
  }
  const int least = keeps(HazardRule::kRenewUnderTwo) ? 2 : 1;
  if (usable_slots(state) >= least || state.publisher.ticket_count == options_.ticket_count) return;
  // What comes in the new one is a world of its own; here nothing is claimed any more.
  State& next = out.add(state, {"publisher: a new generation takes the place of this one"});
  next.publisher.ticket_count = static_cast<std::uint8_t>(options_.ticket_count);
}

int HazardModel::usable_slots(const State& state) const {
  int count = 0;
  for (int slot = 0; slot < options_.slot_count; ++slot) {
    bool lost = false;
    for (int index = 0; index < kReaderMax; ++index) {
      const Reader& reader = state.readers[index];
      lost |= reader.member && reader.revoked && is_held(state, index, slot);
    }
    count += lost ? 0 : 1;
  }
  return count;
}

void HazardModel::fault_steps(const State& state, Steps& out) const {
  const Publisher& publisher = state.publisher;
  if (options_.publisher_dies && publisher.life == Life::kRuns) {
    State& next = out.add(state, {"publisher dies"}, Mover::kFault);
    next.publisher.life = Life::kDead;
  }
  if (publisher.life == Life::kDead) {
    State& next = out.add(state, {"publisher's queued GPU work vanishes"});
    next.publisher.life = Life::kExited;
    for (auto& stream : next.publisher.streams) stream = {};
  }
  if (options_.context_fails && !publisher.context_failed && publisher.life == Life::kRuns) {
    State& next = out.add(state, {"publisher's context fails"}, Mover::kFault);
    next.publisher.context_failed = 1;
    for (auto& stream : next.publisher.streams) stream = {};
  }
  const Reader& reader = state.readers[0];
  if (options_.reader_stops && !reader.stopped && reader.life == Life::kRuns) {
    State& next = out.add(state, {"reader 0 is stopped"}, Mover::kFault);
    next.readers[0].stopped = 1;
  }
  if (options_.reader_dies && reader.life == Life::kRuns) {
    State& next = out.add(state, {"reader 0 dies"}, Mover::kFault);
    Reader& dead = next.readers[0];
    dead.life = Life::kDead;
    for (int slot = 0; slot < kSlotMax; ++slot) dead.in_use[slot] = 0;  // now only its stream reads
  }
  if (reader.life == Life::kDead) {
    State& next = out.add(state, {"reader 0's queued GPU work vanishes"});
    next.readers[0].life = Life::kExited;
    next.readers[0].stream = {};
  }
}

bool HazardModel::visible_complete_frame(const State& state) const {
  for (int slot = 0; slot < options_.slot_count; ++slot) {
    const std::uint8_t tag = state.memory[Word::tag(slot)];
    const bool visible = tag != 0 && tag <= state.memory[Word::kNewest];
    if (visible && state.memory[Word::ready(slot)] >= state.memory[Word::ticket(slot)]) return true;
  }
  return false;
}

// Nobody holds anything for long, no claim is out, and still no slot can be claimed.
bool HazardModel::claim_is_stuck(const State& state) const {
  const Publisher& publisher = state.publisher;
  if (publisher.life != Life::kRuns || publisher.at != PublisherAt::kIdle ||
      publisher.context_failed)
    return false;
  if (publisher.ticket_count == options_.ticket_count) return false;
  for (int slot = 0; slot < options_.slot_count; ++slot) {
    const SlotState slot_state = publisher.slots[slot].state;
    if (slot_state == SlotState::kClaimed || slot_state == SlotState::kSubmitted) return false;
    bool held = false;
    bool evictable = false;
    for (int index = 0; index < kReaderMax; ++index) {
      if (!state.readers[index].member || !is_held(state, index, slot)) continue;
      held = true;
      evictable |= options_.evict && !state.readers[index].revoked;
    }
    if (is_candidate(state, slot) && (!held || evictable)) return false;
  }
  return true;
}

const char* HazardModel::check(const State& state, const Steps& out) const {
  if (state.publisher.had_complete && !visible_complete_frame(state)) {
    return "invariant 6: a frame was complete, and now a newcomer finds none";
  }
  for (int index = 0; index < kReaderMax; ++index) {
    const Reader& reader = state.readers[index];
    const bool by_word =
        !keeps(HazardRule::kVerdictByFlagAtDeath) || !keeps(HazardRule::kVerdictByFlagAtDeadline);
    for (int slot = 0; by_word && slot < options_.slot_count; ++slot) {
      if (reader.bad_read[slot] != 0 && state.memory[Word::ready(slot)] >= reader.bad_read[slot]) {
        return "invariant 5: a frame was read unfinished and its READY word says complete "
               "afterwards";
      }
    }
  }
  if (out.any(Mover::kRest)) return nullptr;  // something goes on by itself: nothing is stuck yet
  for (int index = 0; index < kReaderMax; ++index) {
    const Reader& reader = state.readers[index];
    if (reader.life != Life::kRuns || reader.stopped) continue;
    if (reader.stream.count != 0) return "invariant 4: a subscriber's stream waits for ever";
    if (reader.at == ReaderAt::kDecide) return "invariant 4: a subscriber's CPU waits for ever";
  }
  if (claim_is_stuck(state)) return "a slot is lost: the publisher can never claim again";
  return nullptr;
}

}  // namespace vramlink::model
