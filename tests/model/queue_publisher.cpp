// The queue model: the publisher, its streams, and newcomers.
#include "queue_model.hpp"

namespace vramlink::model {
namespace {

using At = QueueState::PublisherAt;

std::uint8_t byte(int value) { return static_cast<std::uint8_t>(value); }
SlotPhase phase(const QueuePublisherSlot& slot) { return static_cast<SlotPhase>(slot.state); }
void set_phase(QueuePublisherSlot& slot, SlotPhase value) {
  slot.state = static_cast<std::uint8_t>(value);
}

}  // namespace

bool QueueModel::is_candidate(const State& state, int slot) const {
  const QueuePublisherSlot& own = state.publisher.slots[slot];
  if (phase(own) == SlotPhase::kFree) return true;
  if (phase(own) == SlotPhase::kClaimed || phase(own) == SlotPhase::kSubmitted) return false;
  if (state.ready[slot] < own.ticket) return false;
  if (phase(own) == SlotPhase::kAbandoned) return true;
  bool newer_complete = false;
  for (int other = 0; other < options_.slot_count; ++other) {
    const QueuePublisherSlot& candidate = state.publisher.slots[other];
    newer_complete |= phase(candidate) == SlotPhase::kPublished &&
                      candidate.sequence > own.sequence && state.ready[other] >= candidate.ticket;
  }
  if (!newer_complete) return false;
  for (int reader = 0; reader < State::kReaderMax; ++reader) {
    const bool law = options_.block && keeps(QueueRule::kCursorIsLaw) && is_queue(reader);
    if (law && state.readers[reader].member && own.sequence > state.readers[reader].cursor)
      return false;
  }
  return true;
}

QueueState* QueueModel::publisher_store(const State& state, Steps& out, Step step, int word,
                                        int value, StoreOrder order, At next_at) const {
  if (!state.publisher.buffer.can_store(order)) return nullptr;
  State& next = out.add(state, step, Mover::kPublisherCpu);
  next.publisher.buffer.store(next.memory, byte(word), byte(value), order);
  next.publisher.at = next_at;
  return &next;
}

void QueueModel::publisher_steps(const State& state, Steps& out) const {
  switch (state.publisher.at) {
    case At::kIdle:
      choose_publisher_step(state, out);
      join_steps(state, out);
      break;
    case At::kMarkSlot:
    case At::kScanHolds:
    case At::kUndo:
    case At::kGrant:
      claim_steps(state, out);
      break;
    case At::kCloseFirst:
    case At::kCloseSecond:
      close_steps(state, out);
      break;
    case At::kDone:
      break;
    default:
      publish_steps(state, out);
  }
  other_publisher_steps(state, out);
}

void QueueModel::choose_publisher_step(const State& state, Steps& out) const {
  const auto& publisher = state.publisher;
  int claimed = 0;
  for (const auto& slot : publisher.slots) {
    claimed += phase(slot) == SlotPhase::kClaimed || phase(slot) == SlotPhase::kSubmitted;
  }
  const bool may_claim =
      !publisher.closed && claimed < (options_.two_claims ? 2 : 1) &&
      publisher.ticket_count < options_.frame_count + (options_.two_claims ? 1 : 0);
  for (int slot = 0; slot < options_.slot_count; ++slot) {
    auto begin = [&](const char* text, At at) -> State& {
      State& next = out.add(state, {text, {byte(slot)}}, Mover::kPublisherCpu);
      next.publisher.slot = byte(slot);
      next.publisher.at = at;
      return next;
    };
    const SlotPhase own = phase(publisher.slots[slot]);
    if (may_claim && is_candidate(state, slot)) begin("publisher: claims slot %?", At::kMarkSlot);
    if (own == SlotPhase::kClaimed) {
      State& next = begin("publisher: enqueues READY of slot %", At::kIdle);
      set_phase(next.publisher.slots[slot], SlotPhase::kSubmitted);
      next.publisher.slot = 0;
    }
    if (own == SlotPhase::kSubmitted && publisher.closed &&
        keeps(QueueRule::kNoPublishAfterClose)) {
      State& next = begin("publisher: slot % is stale, abandoned", At::kIdle);
      set_phase(next.publisher.slots[slot], SlotPhase::kAbandoned);
      next.publisher.slot = 0;
    } else if (own == SlotPhase::kSubmitted) {
      begin("publisher: publishes slot %", At::kWriteTicket);
    }
  }
  if (!publisher.closed && publisher.sequence_count >= options_.frame_count) {
    State& next = out.add(state, {"publisher: closes"}, Mover::kPublisherCpu);
    next.publisher.at = At::kCloseFirst;
    next.publisher.closed = 1;
  }
}

void QueueModel::claim_steps(const State& state, Steps& out) const {
  const auto& publisher = state.publisher;
  const std::uint8_t slot = publisher.slot;
  const QueuePublisherSlot& own = publisher.slots[slot];
  if (publisher.at == At::kMarkSlot) {
    publisher_store(state, out, {"publisher: tag[%] = 0", {slot}}, State::kTag + slot, 0,
                    StoreOrder::kSequential, At::kScanHolds);
    return;
  }
  if (publisher.at == At::kUndo) {
    const bool restores = keeps(QueueRule::kUndoRestoresTag) && phase(own) == SlotPhase::kPublished;
    const std::uint8_t tag = restores ? own.sequence : 0;
    State* next =
        publisher_store(state, out, {"publisher: undoes the claim, tag[%] = %", {slot, tag}},
                        State::kTag + slot, tag, StoreOrder::kRelease, At::kIdle);
    if (next != nullptr) next->publisher.slot = 0;
    return;
  }
  State& next = out.add(state, {"publisher: scans slot %, reader %", {slot, publisher.reader}},
                        Mover::kPublisherCpu);
  auto& after = next.publisher;
  if (publisher.at == At::kGrant) {
    after.slots[slot] = {static_cast<std::uint8_t>(SlotPhase::kClaimed), ++after.ticket_count, 0};
    after.at = At::kIdle;
    after.slot = 0;
    return;
  }
  const auto& reader = state.readers[publisher.reader];
  if (reader.member && reader.holds[slot]) after.found_hold = 1;
  if (++after.reader < reader_count()) return;
  after.reader = 0;
  after.at = after.found_hold ? At::kUndo : At::kGrant;
  after.found_hold = 0;
}

// As specified: ticket, tag, recent, newest. The variant swaps tag and recent.
void QueueModel::publish_steps(const State& state, Steps& out) const {
  const std::uint8_t slot = state.publisher.slot;
  const std::uint8_t sequence = byte(state.publisher.sequence_count + 1);
  const bool tag_first = keeps(QueueRule::kTagBeforeRecent);
  switch (state.publisher.at) {
    case At::kWriteTicket:
      publisher_store(state, out, {"publisher: ticket[%]", {slot}}, State::kTicket + slot,
                      state.publisher.slots[slot].ticket, StoreOrder::kRelease,
                      tag_first ? At::kWriteTag : At::kWriteRecent);
      return;
    case At::kWriteTag:
      publisher_store(state, out, {"publisher: tag[%] = %", {slot, sequence}}, State::kTag + slot,
                      sequence, StoreOrder::kRelease,
                      tag_first ? At::kWriteRecent : At::kWriteNewest);
      return;
    case At::kWriteRecent:
      publisher_store(state, out, {"publisher: recent has frame %, slot %", {sequence, slot}},
                      ring_place(sequence), sequence * 4 + slot, StoreOrder::kRelease,
                      tag_first ? At::kWriteNewest : At::kWriteTag);
      return;
    default:
      break;
  }
  if (!state.publisher.buffer.empty()) return;  // seq_cst
  State& next = out.add(state, {"publisher: newest = %", {sequence}}, Mover::kPublisherCpu);
  next.newest = sequence;
  auto& publisher = next.publisher;
  publisher.sequence_count = sequence;
  publisher.slots[slot].sequence = sequence;
  set_phase(publisher.slots[slot], SlotPhase::kPublished);
  publisher.at = At::kIdle;
  publisher.slot = 0;
}

// Two stores; the variant swaps them.
void QueueModel::close_steps(const State& state, Steps& out) const {
  const bool first = state.publisher.at == At::kCloseFirst;
  const At next_at = first ? At::kCloseSecond : At::kIdle;
  if (first == keeps(QueueRule::kLastSequenceBeforeState)) {
    publisher_store(state, out, {"publisher: last_sequence = %", {state.publisher.sequence_count}},
                    State::kLast, state.publisher.sequence_count, StoreOrder::kRelease, next_at);
  } else {
    publisher_store(state, out, {"publisher: state = closed"}, State::kClosed, 1,
                    StoreOrder::kSequential, next_at);
  }
}

void QueueModel::other_publisher_steps(const State& state, Steps& out) const {
  if (!state.publisher.buffer.empty()) {
    State& next = out.add(state, {"publisher's oldest store reaches memory"});
    next.publisher.buffer.drain(next.memory);
  }
  for (int slot = 0; slot < options_.slot_count; ++slot) {
    const QueuePublisherSlot& own = state.publisher.slots[slot];
    const bool enqueued = phase(own) != SlotPhase::kFree && phase(own) != SlotPhase::kClaimed;
    if (!enqueued || state.ready[slot] >= own.ticket) continue;
    State& next = out.add(state, {"a stream: ready[%] = %", {byte(slot), own.ticket}});
    next.ready[slot] = own.ticket;
  }
}

// A newcomer: cursor first, then membership, both under the mutex. The variant lets go of the mutex
// between the two.
void QueueModel::join_steps(const State& state, Steps& out) const {
  if (state.publisher.closed) return;  // who comes now is told at once
  for (std::uint8_t index = 0; index < State::kReaderMax; ++index) {
    const auto& reader = state.readers[index];
    if (!present(index) || reader.member) continue;
    State& next = out.add(state, {"publisher: reader % joins", {index}});
    auto& joined = next.readers[index];
    const bool has_cursor = reader.first != 0xFF;
    if (!has_cursor) {
      joined.cursor = state.newest > 1 ? byte(state.newest - 1) : 0;
      joined.first = joined.position = joined.cursor;
      if (!keeps(QueueRule::kCursorWithMembership)) continue;
    }
    joined.member = 1;
    joined.at = State::ReaderAt::kLookup;
  }
}

}  // namespace vramlink::model
