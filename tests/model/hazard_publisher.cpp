// The hazard model: the publisher's CPU thread and its GPU streams.
#include "hazard_model.hpp"

namespace vramlink::model {
namespace {

constexpr std::uint8_t kTorn = 0xEE;

std::uint8_t byte(int value) { return static_cast<std::uint8_t>(value); }

StreamOp write_private(int reader) {
  return reader == 0 ? StreamOp::kWritePrivate0 : StreamOp::kWritePrivate1;
}

const char* step_text(StreamOp op) {
  switch (op) {
    case StreamOp::kRenderBegin:
      return "publisher's stream %: begins to overwrite slot %, frame of ticket %";
    case StreamOp::kRenderEnd:
      return "publisher's stream %: slot % now holds the frame of ticket %";
    case StreamOp::kWritePrivate0:
    case StreamOp::kWritePrivate1:
      return "publisher's stream %: my_ready[%] = %";
    case StreamOp::kWriteReady:
      return "publisher's stream %: ready[%] = %";
    default:
      return "publisher's stream %: event of slot %, ticket %";
  }
}

}  // namespace

int HazardModel::newest_complete_slot(const State& state) const {
  int newest = -1;
  const PublisherSlot* slots = state.publisher.slots;
  for (int slot = 0; slot < options_.slot_count; ++slot) {
    if (slots[slot].state != SlotState::kPublished) continue;
    if (state.publisher.buffer.load(state.memory, Word::ready(slot)) < slots[slot].ticket) continue;
    if (newest < 0 || slots[slot].sequence > slots[newest].sequence) newest = slot;
  }
  return newest;
}

bool HazardModel::is_candidate(const State& state, int slot) const {
  const PublisherSlot& own = state.publisher.slots[slot];
  const bool complete = state.publisher.buffer.load(state.memory, Word::ready(slot)) >= own.ticket;
  switch (own.state) {
    case SlotState::kFree:
      return true;
    case SlotState::kAbandoned:
      return complete || !keeps(HazardRule::kAbandonedWhenComplete);
    case SlotState::kPublished:
      if (keeps(HazardRule::kKeepNewestComplete) && slot == newest_complete_slot(state))
        return false;
      return complete || !keeps(HazardRule::kClaimOnlyComplete);
    default:
      return false;
  }
}

HazardState* HazardModel::publisher_store(const State& state, Steps& out, Step step, int word,
                                          int value, bool sequential, PublisherAt next_at) const {
  if (!state.publisher.buffer.can_store(order(sequential))) return nullptr;
  State& next = out.add(state, step, Mover::kPublisherCpu);
  next.publisher.buffer.store(next.memory, byte(word), byte(value), order(sequential));
  next.publisher.at = next_at;
  if (visible_complete_frame(next)) next.publisher.had_complete = 1;
  return &next;
}

void HazardModel::publisher_steps(const State& state, Steps& out) const {
  if (state.publisher.life != Life::kRuns) return;
  switch (state.publisher.at) {
    case PublisherAt::kIdle:
      return choose_publisher_step(state, out);
    case PublisherAt::kMarkSlot:
    case PublisherAt::kScanHeld:
    case PublisherAt::kScanReleased:
    case PublisherAt::kUndo:
      return claim_steps(state, out);
    case PublisherAt::kGrant:
      return grant_steps(state, out);
    case PublisherAt::kHostBegin:
    case PublisherAt::kHostEnd:
    case PublisherAt::kHostReady:
      return host_steps(state, out);
    default:
      return publish_steps(state, out);
  }
}

// Between calls: claim any candidate, submit or abandon any claimed slot, make any submitted slot
// visible. Several threads that share the mutex can do no more than this.
void HazardModel::choose_publisher_step(const State& state, Steps& out) const {
  int claimed = 0;
  for (const PublisherSlot& slot : state.publisher.slots) {
    claimed += slot.state == SlotState::kClaimed || slot.state == SlotState::kSubmitted;
  }
  const bool may_claim = claimed < (options_.two_claims ? 2 : 1) &&
                         state.publisher.ticket_count < options_.ticket_count;
  const PublisherAt first_write =
      keeps(HazardRule::kHeaderBeforeNewest) ? PublisherAt::kWriteTicket : PublisherAt::kWriteTag;
  for (int slot = 0; slot < options_.slot_count; ++slot) {
    const PublisherSlot& own = state.publisher.slots[slot];
    auto begin = [&](const char* text, PublisherAt at) -> State& {
      State& next = out.add(state, {text, {byte(slot)}}, Mover::kPublisherCpu);
      next.publisher.slot = byte(slot);
      next.publisher.at = at;
      return next;
    };
    if (may_claim && is_candidate(state, slot))
      begin("publisher: claims slot %?", PublisherAt::kMarkSlot);
    // A host channel abandons by a store of its own, here without a detour through the buffer.
    const bool can_abandon = options_.abandon && state.publisher.buffer.empty();
    if (own.state == SlotState::kClaimed && can_abandon) {
      abandon(begin("publisher: abandons slot %", PublisherAt::kIdle), slot);
    }
    if (own.state == SlotState::kClaimed && options_.host_channel) {
      begin("publisher: writes slot %", PublisherAt::kHostBegin);
    } else if (own.state == SlotState::kClaimed && !keeps(HazardRule::kReadyBeforeVisible)) {
      begin("publisher: publishes slot % without READY", first_write);
    } else if (own.state == SlotState::kClaimed) {
      for (int stream = 0; stream < (options_.publish_elsewhere ? kStreamMax : 1); ++stream) {
        submit(begin("publisher: enqueues READY of slot %", PublisherAt::kIdle), slot,
               stream ^ own.stream);
      }
    }
    if (own.state == SlotState::kSubmitted) begin("publisher: publishes slot %", first_write);
  }
}

void HazardModel::claim_steps(const State& state, Steps& out) const {
  const Publisher& publisher = state.publisher;
  const std::uint8_t slot = publisher.slot;
  const PublisherSlot& own = publisher.slots[slot];
  if (publisher.at == PublisherAt::kMarkSlot) {
    const bool scans = keeps(HazardRule::kScanHoldsAfterTag);
    publisher_store(state, out, {"publisher: tag[%] = 0", {slot}}, Word::tag(slot), 0,
                    keeps(HazardRule::kTagStoreIsSequential),
                    scans ? PublisherAt::kScanHeld : PublisherAt::kGrant);
    return;
  }
  if (publisher.at == PublisherAt::kUndo) {
    const int old_tag = own.state == SlotState::kPublished ? own.sequence : 0;
    State* next = publisher_store(
        state, out, {"publisher: undoes the claim, tag[%] = %", {slot, byte(old_tag)}},
        Word::tag(slot), old_tag, false, PublisherAt::kIdle);
    if (next != nullptr) next->publisher.slot = 0;
    return;
  }
  const std::uint8_t reader = publisher.reader;
  const bool skip = !state.readers[reader].member;
  State& next =
      out.add(state, {"publisher: scans slot %, reader %", {slot, reader}}, Mover::kPublisherCpu);
  Publisher& after = next.publisher;
  if (!skip && publisher.at == PublisherAt::kScanHeld) {
    after.held = state.memory[Word::held(reader, slot)];
    after.at = PublisherAt::kScanReleased;
    return;
  }
  const bool held = !skip && publisher.held > state.memory[Word::released(reader, slot)];
  if (held) after.found_hold = 1;
  if (held && options_.evict) after.met[reader][slot] = publisher.held;
  end_scan(next);
  if (held && options_.evict) meet(state, out, State(next));
}

void HazardModel::end_scan(State& state) const {
  Publisher& publisher = state.publisher;
  publisher.held = 0;
  publisher.at = PublisherAt::kScanHeld;
  if (++publisher.reader < reader_count()) return;
  publisher.reader = 0;
  publisher.at = publisher.found_hold ? PublisherAt::kUndo : PublisherAt::kGrant;
  publisher.found_hold = 0;
}

// Time is not modelled: a lease that began may be over at any later look, and need not be.
void HazardModel::meet(const State& state, Steps& out, const State& met) const {
  const std::uint8_t slot = state.publisher.slot;
  const std::uint8_t reader = state.publisher.reader;
  const std::uint8_t before = state.publisher.met[reader][slot];
  const bool same = before == state.publisher.held;
  const bool may_be_over = keeps(HazardRule::kLeaseIsOfOneHold) ? same : before != 0;
  if (!may_be_over || state.readers[reader].revoked || state.readers[reader].overdue) return;
  State& next =
      out.add(met, {"publisher: the lease of reader %'s hold on slot % is over", {reader, slot}},
              Mover::kPublisherCpu);
  next.readers[reader].overdue = 1;
  if (!same) out.violation("9: a reader is evicted for a hold that no claim had met before");
}

void HazardModel::grant_steps(const State& state, Steps& out) const {
  const int slot = state.publisher.slot;
  for (int stream = 0; stream < (options_.two_streams ? kStreamMax : 1); ++stream) {
    State& next =
        out.add(state, {"publisher: slot % is claimed for stream %", {byte(slot), byte(stream)}},
                Mover::kPublisherCpu);
    Publisher& publisher = next.publisher;
    for (int reader = 0; reader < kReaderMax; ++reader) {
      if (state.readers[reader].in_use[slot])
        out.violation("invariant 1: a slot was claimed while a reader uses it");
      for (const auto& pending : publisher.streams) {
        if (pending.contains(write_private(reader), slot)) {
          out.violation("invariant 3: a slot was claimed while a write to my_ready is pending");
        }
      }
    }
    PublisherSlot& own = publisher.slots[slot];
    own.state = SlotState::kClaimed;
    own.ticket = ++publisher.ticket_count;
    own.stream = byte(stream);
    own.members = 0;
    for (int reader = 0; reader < kReaderMax; ++reader)
      own.members |= byte(state.readers[reader].member << reader);
    publisher.at = PublisherAt::kIdle;
    publisher.slot = 0;
    if (options_.host_channel || publisher.context_failed) continue;
    // Enqueued at once: the user may do so any time later, but no time is worse for the readers.
    publisher.streams[stream].push(StreamOp::kRenderBegin, slot, own.ticket);
    publisher.streams[stream].push(StreamOp::kRenderEnd, slot, own.ticket);
  }
}

void HazardModel::submit(State& state, int slot, int stream) const {
  Publisher& publisher = state.publisher;
  PublisherSlot& own = publisher.slots[slot];
  own.state = SlotState::kSubmitted;
  publisher.slot = 0;
  if (publisher.context_failed) return;  // enqueueing still succeeds, nothing will run
  auto& target = publisher.streams[stream];
  if (stream != own.stream && keeps(HazardRule::kPublishBehindClaimStream)) {
    publisher.streams[own.stream].push(StreamOp::kRecordEvent, slot, own.ticket);
    target.push(StreamOp::kWaitEvent, slot, own.ticket);
  }
  if (!keeps(HazardRule::kBroadcastLast)) target.push(StreamOp::kWriteReady, slot, own.ticket);
  for (int reader = 0; reader < kReaderMax; ++reader) {
    const bool in_batch = waits_by_stream(reader) && ((own.members >> reader) & 1) != 0;
    if (in_batch) target.push(write_private(reader), slot, own.ticket);
  }
  if (keeps(HazardRule::kBroadcastLast)) target.push(StreamOp::kWriteReady, slot, own.ticket);
}

void HazardModel::abandon(State& state, int slot) const {
  Publisher& publisher = state.publisher;
  PublisherSlot& own = publisher.slots[slot];
  own.state = SlotState::kAbandoned;
  publisher.slot = 0;
  if (!keeps(HazardRule::kAbandonKeepsTagZero)) {
    state.memory[Word::tag(slot)] = own.sequence;
    if (own.sequence != 0) own.state = SlotState::kPublished;
  }
  if (!keeps(HazardRule::kAbandonWritesReady)) return;
  if (options_.host_channel) {
    state.memory[Word::ready(slot)] = own.ticket;
  } else if (!publisher.context_failed) {
    const int stream = keeps(HazardRule::kAbandonOnClaimStream) ? own.stream : 1 - own.stream;
    publisher.streams[stream].push(StreamOp::kWriteReady, slot, own.ticket);
  }
}

// All of this before the frame is visible: in a host channel nobody can see the order of payload
// and READY, so it is no rule that could be left out here.
void HazardModel::host_steps(const State& state, Steps& out) const {
  const std::uint8_t slot = state.publisher.slot;
  const std::uint8_t ticket = state.publisher.slots[slot].ticket;
  if (state.publisher.at == PublisherAt::kHostBegin) {
    publisher_store(state, out, {"publisher: begins to write slot %", {slot}}, Word::payload(slot),
                    kTorn, false, PublisherAt::kHostEnd);
  } else if (state.publisher.at == PublisherAt::kHostEnd) {
    publisher_store(state, out, {"publisher: payload[%] = frame %", {slot, ticket}},
                    Word::payload(slot), ticket, false, PublisherAt::kHostReady);
  } else {
    publisher_store(state, out, {"publisher: ready[%] = %", {slot, ticket}}, Word::ready(slot),
                    ticket, false, PublisherAt::kWriteTicket);
  }
}

// As specified: ticket, tag, recent, newest. The variant stores the ticket last.
void HazardModel::publish_steps(const State& state, Steps& out) const {
  const std::uint8_t slot = state.publisher.slot;
  const PublisherSlot& own = state.publisher.slots[slot];
  const std::uint8_t sequence = byte(state.publisher.sequence_count + 1);
  const bool ticket_first = keeps(HazardRule::kHeaderBeforeNewest);
  State* last = nullptr;
  switch (state.publisher.at) {
    case PublisherAt::kWriteTicket:
      last = publisher_store(state, out, {"publisher: ticket[%] = %", {slot, own.ticket}},
                             Word::ticket(slot), own.ticket, false, PublisherAt::kWriteTag);
      if (ticket_first) return;
      break;
    case PublisherAt::kWriteTag:
      publisher_store(state, out, {"publisher: tag[%] = %", {slot, sequence}}, Word::tag(slot),
                      sequence, false, PublisherAt::kWriteRecent);
      return;
    case PublisherAt::kWriteRecent:
      publisher_store(state, out, {"publisher: recent[%] = slot %", {sequence, slot}},
                      Word::recent(sequence), slot, false, PublisherAt::kWriteNewest);
      return;
    case PublisherAt::kWriteNewest:
      last = publisher_store(state, out, {"publisher: newest = %", {sequence}}, Word::kNewest,
                             sequence, true, PublisherAt::kWriteTicket);
      if (!ticket_first) return;
      break;
    default:
      last = &out.add(state, {"publisher: enqueues READY of slot % at last", {slot}},
                      Mover::kPublisherCpu);
      submit(*last, slot, own.stream);
      break;
  }
  if (last == nullptr) return;
  Publisher& publisher = last->publisher;
  const bool submitted =
      keeps(HazardRule::kReadyBeforeVisible) || state.publisher.at == PublisherAt::kSubmitLate;
  publisher.slots[slot].state = SlotState::kPublished;
  if (state.publisher.at != PublisherAt::kSubmitLate) {
    publisher.slots[slot].sequence = sequence;
    publisher.sequence_count = sequence;
  }
  publisher.at = submitted ? PublisherAt::kIdle : PublisherAt::kSubmitLate;
  publisher.slot = submitted ? 0 : slot;
}

void HazardModel::publisher_gpu_steps(const State& state, Steps& out) const {
  if (state.publisher.life == Life::kExited) return;
  for (int index = 0; index < kStreamMax; ++index) {
    const auto& stream = state.publisher.streams[index];
    if (stream.count == 0) continue;
    const std::uint8_t slot = stream.entries[0].slot;
    const std::uint8_t value = stream.entries[0].value;
    const StreamOp op = stream.entries[0].op;
    if (op == StreamOp::kWaitEvent && state.publisher.slots[slot].event < value) continue;
    State& next = out.add(state, {step_text(op), {byte(index), slot, value}});
    next.publisher.streams[index].pop();
    std::uint8_t* memory = next.memory;
    switch (op) {
      case StreamOp::kRenderBegin:
        memory[Word::payload(slot)] = kTorn;
        break;
      case StreamOp::kRenderEnd:
        memory[Word::payload(slot)] = value;
        break;
      case StreamOp::kRecordEvent:
        next.publisher.slots[slot].event = value;
        break;
      case StreamOp::kWritePrivate0:
        memory[my_ready_word(0, slot)] = value;
        break;
      case StreamOp::kWritePrivate1:
        memory[my_ready_word(1, slot)] = value;
        break;
      case StreamOp::kWriteReady:
        if (memory[Word::ready(slot)] >= value) out.violation("invariant 2: ready decreases");
        if (memory[Word::payload(slot)] != value)
          out.violation("invariant 2: ready before the work is complete");
        memory[Word::ready(slot)] = value;
        if (visible_complete_frame(next)) next.publisher.had_complete = 1;
        break;
      default:
        break;
    }
  }
}

}  // namespace vramlink::model
