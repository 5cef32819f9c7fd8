// The queue model: the subscribers, what must hold, and the configurations.
#include "queue_model.hpp"

#include "suite.hpp"

namespace vramlink::model {
namespace {

using At = QueueState::ReaderAt;
using Rule = QueueRule;

std::uint8_t byte(int value) { return static_cast<std::uint8_t>(value); }

}  // namespace

QueueState QueueModel::initial() const {
  State state{};
  for (int index = 0; index < State::kReaderMax; ++index) {
    const bool last = index == State::kReaderMax - 1 || !present(index + 1);
    const bool joins_later = options_.late_join && last;
    auto& reader = state.readers[index];
    reader.member = present(index) && !joins_later;
    reader.at = reader.member ? At::kLookup : At::kAbsent;
    reader.first = joins_later ? 0xFF : 0;
  }
  return state;
}

void QueueModel::successors(const State& state, Steps& out) const {
  publisher_steps(state, out);
  for (int reader = 0; reader < State::kReaderMax; ++reader) reader_steps(state, out, reader);
}

void QueueModel::reader_steps(const State& state, Steps& out, int index) const {
  switch (state.readers[index].at) {
    case At::kAbsent:
    case At::kDone:
      return;
    case At::kLookup:
    case At::kCheckState:
    case At::kLoadLast:
      return lookup_steps(state, out, index);
    case At::kWaitReady:
      return wait_ready_step(state, out, index);
    case At::kJudgeLoss:
      return judge_loss(state, out, index);
    default:
      return take_steps(state, out, index);
  }
}

void QueueModel::lookup_steps(const State& state, Steps& out, int index) const {
  const auto& reader = state.readers[index];
  const std::uint8_t who = byte(index);
  const bool closed = state.memory[State::kClosed] != 0;
  if (reader.at == At::kCheckState) {
    State& next =
        out.add(state, {closed ? "reader %: state is closed" : "reader %: state is open", {who}});
    const bool ends = closed && (!is_queue(index) || !keeps(Rule::kFinishUpToLast));
    next.readers[index].at = ends ? At::kDone : (closed ? At::kLoadLast : At::kLookup);
    return;
  }
  if (reader.at == At::kLoadLast) {
    const std::uint8_t last = state.memory[State::kLast];
    State& next = out.add(state, {"reader %: last_sequence is %", {who, last}});
    next.readers[index].at = reader.position >= last ? At::kDone : At::kLookup;
    return;
  }
  if (is_queue(index)) return queue_lookup(state, out, index);
  // Latest: any frame newer than its position, newest first in the protocol.
  State& nothing = out.add(state, {"reader %: finds nothing that it wants", {who}},
                           closed ? Mover::kRest : Mover::kFault);
  nothing.readers[index].at = At::kCheckState;
  for (int place = 0; place < options_.slot_count; ++place) {
    const std::uint8_t entry = state.memory[State::kRecent + place];
    if (entry / 4 <= reader.position) continue;
    State& next = out.add(
        state, {"reader %: finds frame % in slot %", {who, byte(entry / 4), byte(entry % 4)}});
    next.readers[index].sequence = byte(entry / 4);
    next.readers[index].slot = byte(entry % 4);
    next.readers[index].at = At::kWaitReady;
  }
}

void QueueModel::queue_lookup(const State& state, Steps& out, int index) const {
  const auto& reader = state.readers[index];
  const int wanted = reader.position + 1;
  const std::uint8_t entry = state.memory[ring_place(wanted)];
  const int found = entry / 4;
  // Nothing new and not closed: it would sleep. It may look again, but that is no progress.
  const bool sleeps = found < wanted && state.memory[State::kClosed] == 0;
  State& next = out.add(
      state, {"reader %: wants frame %, recent has %", {byte(index), byte(wanted), byte(found)}},
      sleeps ? Mover::kFault : Mover::kRest);
  auto& after = next.readers[index];
  if (found == wanted) {
    after.sequence = byte(found);
    after.slot = byte(entry % 4);
    after.at = At::kWaitReady;
  } else if (found < wanted) {
    after.at = At::kCheckState;
  } else {
    if (options_.block) out.violation("invariant 7: block, and a queue was overrun");
    const int smallest_present = found - options_.slot_count + 1;
    after.lost = byte(after.lost + smallest_present - wanted);
    after.position = byte(smallest_present - 1);
  }
}

void QueueModel::wait_ready_step(const State& state, Steps& out, int index) const {
  const auto& reader = state.readers[index];
  const bool complete = state.ready[reader.slot] >= state.memory[State::kTicket + reader.slot];
  if (complete) {
    const bool cursor_first = !keeps(Rule::kCursorAfterTake) && is_queue(index);
    State& next = out.add(state, {"reader %: frame % is complete", {byte(index), reader.sequence}});
    next.readers[index].at = At::kHold;
    if (cursor_first) next.readers[index].cursor = reader.sequence;
    return;
  }
  if (!is_queue(index)) {
    State& next =
        out.add(state, {"reader %: frame % is not complete", {byte(index), reader.sequence}});
    next.readers[index].at = At::kLookup;
    next.readers[index].sequence = next.readers[index].slot = 0;
    return;
  }
  const int other = reader.sequence + 1;
  const std::uint8_t entry = state.memory[ring_place(other)];
  if (keeps(Rule::kReadyInOrder) || entry / 4 != other) return;  // waits
  State& next = out.add(state, {"reader %: prefers frame %", {byte(index), byte(other)}});
  next.readers[index].sequence = byte(other);
  next.readers[index].slot = byte(entry % 4);
}

// The take has succeeded. Nothing may be missing under block, and the frame must be the one that
// was asked for.
void QueueModel::deliver(State& next, Steps& out, int index) const {
  auto& reader = next.readers[index];
  const QueuePublisherSlot& slot = next.publisher.slots[reader.slot];
  const bool published = static_cast<SlotPhase>(slot.state) == SlotPhase::kPublished;
  if (published && slot.sequence != reader.sequence)
    out.violation("invariant 1: another frame than the tag said");
  if (reader.sequence <= reader.position)
    out.violation("invariant 7: a sequence was delivered twice");
  if (is_queue(index) && reader.sequence != reader.position + 1)
    out.violation("invariant 7: out of order");
  reader.delivered++;
  reader.position = reader.sequence;
  reader.at = At::kStoreCursor;
}

void QueueModel::take_steps(const State& state, Steps& out, int index) const {
  const auto& reader = state.readers[index];
  const std::uint8_t who = byte(index);
  const std::uint8_t slot = reader.slot;
  if (reader.at == At::kHold) {
    State& next = out.add(state, {"reader %: holds slot %", {who, slot}});
    next.readers[index].holds[slot] = 1;
    next.readers[index].at = At::kCheckTag;
  } else if (reader.at == At::kCheckTag) {
    const bool same = state.memory[State::kTag + slot] == reader.sequence;
    const bool complete = state.ready[slot] >= state.memory[State::kTicket + slot];
    State& next =
        out.add(state, {same ? "reader %: tag[%] is frame %" : "reader %: tag[%] is not frame %",
                        {who, slot, reader.sequence}});
    next.readers[index].at = At::kGiveUp;
    if (same && complete) deliver(next, out, index);
  } else if (reader.at == At::kGiveUp) {
    State& next = out.add(state, {"reader %: gives up slot %", {who, slot}});
    next.readers[index].holds[slot] = 0;
    next.readers[index].at = is_queue(index) ? At::kJudgeLoss : At::kLookup;
    if (!is_queue(index)) next.readers[index].sequence = next.readers[index].slot = 0;
  } else if (reader.at == At::kStoreCursor) {
    State& next = out.add(state, {"reader %: cursor = %", {who, reader.sequence}});
    next.readers[index].cursor = reader.sequence;
    next.readers[index].at = At::kRelease;
  } else {
    State& next = out.add(state, {"reader %: releases slot %", {who, slot}});
    next.readers[index].holds[slot] = 0;
    next.readers[index].sequence = next.readers[index].slot = 0;
    next.readers[index].at = At::kLookup;
  }
}

// A take of the next sequence has failed: a claim that may be undone, or a claim that went through?
void QueueModel::judge_loss(const State& state, Steps& out, int index) const {
  const auto& reader = state.readers[index];
  const std::uint8_t slot = reader.slot;
  const bool back = state.memory[State::kTag + slot] == reader.sequence;
  const bool retry = back && keeps(Rule::kRetryAfterUndo);
  State& next = out.add(
      state, {retry ? "reader %: frame % is back in slot %" : "reader %: frame % in slot % is lost",
              {byte(index), reader.sequence, slot}});
  auto& after = next.readers[index];
  after.at = At::kLookup;
  after.sequence = after.slot = 0;
  if (retry) return;
  const auto& publisher = state.publisher;
  const QueuePublisherSlot& own = publisher.slots[slot];
  const bool there =
      static_cast<SlotPhase>(own.state) == SlotPhase::kPublished && own.sequence == reader.sequence;
  const bool being_claimed = publisher.slot == slot &&
                             publisher.at >= State::PublisherAt::kMarkSlot &&
                             publisher.at <= State::PublisherAt::kGrant;
  if (options_.block) out.violation("invariant 7: block, and a queue lost a frame");
  if (there && !being_claimed && !publisher.buffer.holds(byte(State::kTag + slot))) {
    out.violation("a frame is counted as lost, and it is still in its slot");
  }
  after.lost++;
  after.position = reader.sequence;
}

const char* QueueModel::check(const State& state, const Steps& out) const {
  for (int index = 0; index < State::kReaderMax; ++index) {
    const auto& reader = state.readers[index];
    if (reader.at != At::kDone || !is_queue(index)) continue;
    if (reader.delivered + reader.lost != state.publisher.sequence_count - reader.first) {
      return "invariant 7: end of stream before the last sequence";
    }
  }
  if (out.any(Mover::kRest) || out.any(Mover::kPublisherCpu)) return nullptr;
  if (!state.publisher.closed) return "the publisher can never claim again";
  for (const auto& reader : state.readers) {
    if (reader.at != At::kDone && reader.at != At::kAbsent)
      return "invariant 7: a reader never comes to the end";
  }
  return nullptr;
}

namespace {

QueueOptions reading(Delivery first, Delivery second = Delivery::kNobody) {
  QueueOptions options;
  options.readers[0] = first;
  options.readers[1] = second;
  return options;
}

QueueOptions with(QueueOptions options, void (*change)(QueueOptions&)) {
  change(options);
  return options;
}

Case make_case(Size size, const char* name, const QueueOptions& options) {
  return Case{name, size, static_cast<int>(options.left_out),
              [options](Order order, std::size_t state_limit) {
                return explore(QueueModel(options), order, state_limit);
              }};
}

std::vector<RuleText> rule_texts() {
  const auto text = [](Rule rule, const char* section, const char* words) {
    return RuleText{static_cast<int>(rule), section, words};
  };
  return {
      text(Rule::kCursorIsLaw, "5 claim 1", "block: nothing above a queue cursor is claimed"),
      text(Rule::kCursorAfterTake, "6 take", "the cursor is stored after the take"),
      text(Rule::kCursorWithMembership, "11", "cursor and membership are one step"),
      text(Rule::kUndoRestoresTag, "5 claim 3", "an undone claim puts the tag back"),
      text(Rule::kRetryAfterUndo, "6 receive", "a failed take looks at the tag again"),
      text(Rule::kTagBeforeRecent, "5 publish 2", "the tag is stored before recent"),
      text(Rule::kReadyInOrder, "6 receive", "queue waits for the next sequence's READY"),
      text(Rule::kLastSequenceBeforeState, "3, 11", "last_sequence is stored before state"),
      text(Rule::kFinishUpToLast, "11", "the end is at last_sequence"),
      text(Rule::kNoPublishAfterClose, "5 publish 2", "nothing is published after the close"),
  };
}

void add_left_out(std::vector<Case>& cases, Rule rule, QueueOptions options) {
  options.left_out = rule;
  for (const RuleText& text : rule_texts()) {
    if (text.rule == static_cast<int>(rule))
      cases.push_back(make_case(Size::kSmall, text.text, options));
  }
}

}  // namespace

Suite queue_suite() {
  const QueueOptions queue = reading(Delivery::kQueue);
  const QueueOptions queues = reading(Delivery::kQueue, Delivery::kQueue);
  const QueueOptions both = reading(Delivery::kLatest, Delivery::kQueue);
  const auto two_claims = [](QueueOptions& o) { o.two_claims = true, o.slot_count = 3; };
  const auto late = [](QueueOptions& o) { o.late_join = true, o.slot_count = 3; };
  const auto drop = [](QueueOptions& o) { o.block = false, o.slot_count = 3; };
  std::vector<Case> cases = {
      make_case(Size::kSmall, "block, one queue, 2 slots", queue),
      make_case(Size::kSmall, "block, one queue, 3 slots, two claims", with(queue, two_claims)),
      make_case(Size::kSmall, "block, two queues, 2 slots", queues),
      make_case(Size::kSmall, "block, latest and queue, 2 slots", both),
      make_case(Size::kSmall, "block, two queues, one joins late", with(queues, late)),
      make_case(Size::kSmall, "drop, one queue", with(queue, drop)),
      make_case(Size::kFull, "drop, latest and queue", with(both, drop)),
      make_case(Size::kFull, "block, two queues, 3 slots, two claims", with(queues, two_claims)),
      make_case(Size::kFull, "block, latest and queue, 3 slots, two claims",
                with(both, two_claims)),
      make_case(Size::kFull, "block, one queue, 3 slots, 6 frames",
                with(queue, [](QueueOptions& o) { o.slot_count = 3, o.frame_count = 6; })),
  };
  add_left_out(cases, Rule::kCursorIsLaw, queue);
  add_left_out(cases, Rule::kCursorAfterTake, queue);
  add_left_out(cases, Rule::kCursorWithMembership, with(queue, late));
  add_left_out(cases, Rule::kUndoRestoresTag, with(both, drop));
  add_left_out(cases, Rule::kRetryAfterUndo, with(both, drop));
  add_left_out(cases, Rule::kTagBeforeRecent, queue);
  add_left_out(cases, Rule::kReadyInOrder, with(queue, two_claims));
  add_left_out(cases, Rule::kLastSequenceBeforeState, queue);
  add_left_out(cases, Rule::kFinishUpToLast, queue);
  add_left_out(cases, Rule::kNoPublishAfterClose, with(queue, two_claims));
  return Suite{"queue", static_cast<int>(Rule::kCount), rule_texts(), std::move(cases)};
}

}  // namespace vramlink::model
