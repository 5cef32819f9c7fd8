// The hazard model: a subscriber's CPU thread, its GPU stream, and the watchdog in its reactor.
#include "hazard_model.hpp"

namespace vramlink::model {
namespace {

constexpr std::uint8_t kUnsignedMaximum = 0xFF;  // stands for UINT64_MAX
constexpr std::uint8_t kSignedMaximum = 0x7F;    // stands for INT64_MAX

std::uint8_t byte(int value) { return static_cast<std::uint8_t>(value); }
std::uint8_t bit(int index) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(index));
}

// How a stream compares: signed and cyclic.
bool reaches(std::uint8_t word, std::uint8_t awaited) {
  return static_cast<std::int8_t>(word - awaited) >= 0;
}

}  // namespace

int HazardModel::my_ready_word(int reader, int slot) const {
  return Word::my_ready(reader, keeps(HazardRule::kReadyWordPerSlot) ? slot : 0);
}

int HazardModel::hold_value(const Reader& reader) const {
  return keeps(HazardRule::kFreshHoldNumber) ? reader.hold_number : reader.sequence;
}

void HazardModel::reader_steps(const State& state, Steps& out, int index) const {
  switch (state.readers[index].at) {
    case ReaderAt::kAbsent:
      return;
    case ReaderAt::kIdle:
    case ReaderAt::kHold:
    case ReaderAt::kCheckTag:
    case ReaderAt::kGiveUp:
      return take_steps(state, out, index);
    case ReaderAt::kDecide:
      return decide_step(state, out, index);
    case ReaderAt::kReadOnce:
    case ReaderAt::kReadAgain:
    case ReaderAt::kRelease:
      return read_steps(state, out, index);
    default:
      return stream_receive_steps(state, out, index);
  }
}

void HazardModel::take_steps(const State& state, Steps& out, int index) const {
  const Reader& reader = state.readers[index];
  const std::uint8_t slot = reader.slot;
  if (reader.at == ReaderAt::kIdle) {
    if (reader.revoked || reader.hold_number == options_.attempt_count) return;
    const int newest = state.memory[Word::kNewest];
    for (int sequence = reader.cursor + 1; sequence <= newest; ++sequence) {
      State& next =
          out.add(state, {"reader %: finds frame % by recent", {byte(index), byte(sequence)}});
      Reader& after = next.readers[index];
      after.sequence = byte(sequence);
      after.slot = state.memory[Word::recent(sequence)];
      after.hold_number++;
      after.at = ReaderAt::kHold;
    }
  } else if (reader.at == ReaderAt::kHold) {
    const StoreOrder hold_order = order(keeps(HazardRule::kHoldStoreIsSequential));
    if (!reader.buffer.can_store(hold_order)) return;
    const std::uint8_t value = byte(hold_value(reader));
    State& next = out.add(state, {"reader %: held[%] = %", {byte(index), slot, value}});
    Reader& after = next.readers[index];
    after.buffer.store(next.memory, Word::held(index, slot), value, hold_order);
    after.at = ReaderAt::kCheckTag;
  } else if (reader.at == ReaderAt::kCheckTag) {
    const bool good =
        state.memory[Word::tag(slot)] == reader.sequence || !keeps(HazardRule::kCheckTagAfterHold);
    State& next =
        out.add(state, {good ? "reader %: tag[%] is still %" : "reader %: tag[%] is no longer %",
                        {byte(index), slot, reader.sequence}});
    Reader& after = next.readers[index];
    after.at = good ? ReaderAt::kDecide : ReaderAt::kGiveUp;
    if (!good) return;
    after.ticket = state.memory[Word::ticket(slot)];
    after.in_use[slot] = after.ticket;
  } else {
    if (!reader.buffer.can_store(order(true))) return;
    const std::uint8_t value = byte(hold_value(reader));
    State& next =
        out.add(state, {"reader %: gives up, released[%] = %", {byte(index), slot, value}});
    next.memory[Word::released(index, slot)] = value;
    Reader& after = next.readers[index];
    after.in_use[slot] = 0;
    after.at = ReaderAt::kIdle;
    after.slot = after.sequence = after.ticket = 0;
  }
}

// The tag check has passed: is the frame complete, and if not, how is it waited for?
void HazardModel::decide_step(const State& state, Steps& out, int index) const {
  const Reader& reader = state.readers[index];
  const bool complete = state.memory[Word::ready(reader.slot)] >= reader.ticket;
  const bool by_cpu = !waits_by_stream(index);
  const bool our_word =
      reader.ticket >= reader.first_ticket || !keeps(HazardRule::kWaitOnlyFromFirstTicket);
  const bool by_stream = !by_cpu && !complete && our_word;
  if (!by_cpu && !complete && !our_word && !reader.gone) return;  // waits by CPU
  const bool accepted = complete || by_stream || (by_cpu && !keeps(HazardRule::kReadyUnderHold));
  State& next =
      out.add(state, {accepted ? "reader %: takes frame %" : "reader %: frame % is not complete",
                      {byte(index), reader.sequence}});
  Reader& after = next.readers[index];
  if (!accepted) {
    after.at = ReaderAt::kGiveUp;
    return;
  }
  after.cursor = reader.sequence;
  if (by_stream) {
    after.at = ReaderAt::kAppendWait;
  } else if (options_.readers[index] == Reading::kByCpu) {
    after.at = ReaderAt::kReadOnce;
  } else {
    after.at = ReaderAt::kEnqueueRead;
  }
}

void HazardModel::read_steps(const State& state, Steps& out, int index) const {
  const Reader& reader = state.readers[index];
  const std::uint8_t slot = reader.slot;
  if (reader.at == ReaderAt::kRelease) {
    if (!reader.buffer.can_store(order(true))) return;
    const std::uint8_t value = byte(hold_value(reader));
    State& next = out.add(state, {"reader %: released[%] = %", {byte(index), slot, value}});
    next.memory[Word::released(index, slot)] = value;
    Reader& after = next.readers[index];
    after.in_use[slot] = 0;
    after.at = ReaderAt::kIdle;
    after.slot = after.sequence = after.ticket = 0;
    return;
  }
  State& next = out.add(
      state, {"reader %: reads slot %, expects ticket %", {byte(index), slot, reader.ticket}});
  const bool same = state.memory[Word::payload(slot)] == reader.ticket;
  if (!same) out.violation("invariant 1: a CPU reader holds a complete frame and sees other bytes");
  if (state.memory[Word::ticket(slot)] != reader.ticket)
    out.violation("invariant 1: the header of a held slot changed");
  next.readers[index].at =
      reader.at == ReaderAt::kReadOnce ? ReaderAt::kReadAgain : ReaderAt::kRelease;
}

void HazardModel::stream_receive_steps(const State& state, Steps& out, int index) const {
  const Reader& reader = state.readers[index];
  const std::uint8_t slot = reader.slot;
  const std::uint8_t ticket = reader.ticket;
  if (reader.at == ReaderAt::kAppendWait) {
    State& next =
        out.add(state, {"reader %: wait list += slot %, ticket %", {byte(index), slot, ticket}});
    Reader& after = next.readers[index];
    after.awaited[slot] = ticket;
    after.watchdog.timed_out &= byte(~bit(slot));
    after.at = ReaderAt::kEnqueueWait;
  } else if (reader.at == ReaderAt::kEnqueueWait) {
    State& next =
        out.add(state, {"reader %: enqueues wait, slot %, ticket %", {byte(index), slot, ticket}});
    next.readers[index].stream.push(StreamOp::kWaitReady, slot, ticket);
    next.readers[index].at = ReaderAt::kCheckGone;
  } else if (reader.at == ReaderAt::kCheckGone) {
    State& next = out.add(state, {"reader %: gone is %", {byte(index), reader.gone}});
    Reader& after = next.readers[index];
    if (reader.gone && keeps(HazardRule::kCheckGoneAfterAppend) && reader.awaited[slot]) {
      after.watchdog.pending |=
          bit(slot);  // the same step as the reactor's, here one after the other
    }
    after.at = ReaderAt::kEnqueueRead;
  } else {
    State& next =
        out.add(state, {"reader %: enqueues read and release of slot %", {byte(index), slot}});
    Reader& after = next.readers[index];
    after.stream.push(StreamOp::kReadPayload, slot, ticket);
    after.stream.push(StreamOp::kRelease, slot, hold_value(reader));
    after.at = ReaderAt::kIdle;
    after.slot = after.sequence = after.ticket = 0;
  }
}

bool HazardModel::wait_is_over(const State& state, int index) const {
  const auto& head = state.readers[index].stream.entries[0];
  return reaches(state.memory[my_ready_word(index, head.slot)], head.value);
}

void HazardModel::reader_gpu_step(const State& state, Steps& out, int index) const {
  const Reader& reader = state.readers[index];
  if (reader.life == Life::kExited || reader.stream.count == 0) return;
  const auto head = reader.stream.entries[0];
  const std::uint8_t slot = head.slot;
  if (head.op == StreamOp::kWaitReady) {
    if (!wait_is_over(state, index)) return;
    State& next = out.add(
        state, {"reader %'s stream: my_ready[%] has reached %", {byte(index), slot, head.value}});
    next.readers[index].stream.pop();
    next.readers[index].awaited[slot] = 0;
  } else if (head.op == StreamOp::kReadPayload) {
    const bool same = state.memory[Word::payload(slot)] == head.value;
    State& next = out.add(state, {same ? "reader %'s stream: reads slot %, sees frame %"
                                       : "reader %'s stream: reads slot %, does not see frame %",
                                  {byte(index), slot, head.value}});
    next.readers[index].stream.pop();
    if (!same) next.readers[index].bad_read[slot] = head.value;
  } else {
    State& next =
        out.add(state, {"reader %'s stream: released[%] = %", {byte(index), slot, head.value}});
    Reader& after = next.readers[index];
    // The user may synchronise and ask for the verdict from here on. The flag is only ever set, so
    // asking at once is the worst that can happen.
    const std::uint8_t bad = reader.bad_read[slot];
    const bool by_word =
        !keeps(HazardRule::kVerdictByFlagAtDeath) || !keeps(HazardRule::kVerdictByFlagAtDeadline);
    if (bad != 0 && (reader.aborted & bit(bad)) == 0) {
      out.violation("invariant 1 or 5: a frame was read unfinished and is reported complete");
    }
    if (!by_word) after.bad_read[slot] = 0;
    after.stream.pop();
    if (next.memory[Word::released(index, slot)] >= head.value) out.violation("released decreases");
    next.memory[Word::released(index, slot)] = head.value;
    after.in_use[slot] = 0;
  }
}

// `gone` after EOF or failure, the walk over the wait list, deadlines.
void HazardModel::watchdog_start_steps(const State& state, Steps& out, int index) const {
  const Reader& reader = state.readers[index];
  const bool failed = state.publisher.context_failed && keeps(HazardRule::kHealthQuery);
  if ((state.publisher.life != Life::kRuns || failed) && !reader.gone) {
    State& next = out.add(state, {"reader %'s reactor: gone", {byte(index)}});
    next.readers[index].gone = 1;
    next.readers[index].watchdog.pass_due = keeps(HazardRule::kWatchdogAtEnd);
  }
  if (reader.watchdog.pass_due) {
    State& next = out.add(state, {"reader %'s reactor: walks the wait list", {byte(index)}});
    Reader& after = next.readers[index];
    after.watchdog.pass_due = 0;
    for (int slot = 0; slot < options_.slot_count; ++slot) {
      if (keeps(HazardRule::kNoSignedMaximum)) {
        if (reader.awaited[slot]) after.watchdog.pending |= bit(slot);
        continue;
      }
      if (reader.awaited[slot]) after.aborted |= bit(reader.awaited[slot]);
      next.memory[my_ready_word(index, slot)] = kSignedMaximum;
    }
  }
  for (int slot = 0; options_.deadline_releases && slot < options_.slot_count; ++slot) {
    const bool due = reader.awaited[slot] &&
                     !((reader.watchdog.timed_out | reader.watchdog.pending) & bit(slot));
    if (!due) continue;
    State& next =
        out.add(state, {"reader %: deadline of slot %", {byte(index), byte(slot)}}, Mover::kFault);
    next.readers[index].watchdog.pending |= bit(slot);
    next.readers[index].watchdog.timed_out |= bit(slot);
  }
}

void HazardModel::watchdog_steps(const State& state, Steps& out, int index) const {
  watchdog_start_steps(state, out, index);
  const Reader& reader = state.readers[index];
  const Watchdog& watchdog = reader.watchdog;
  const bool flag_first = keeps(HazardRule::kFlagBeforeWord);
  if (watchdog.at == WatchdogAt::kIdle && watchdog.pending == 0) return;
  static constexpr const char* kTexts[] = {
      "reader %'s watchdog: takes up the next entry, reads my_ready",
      "reader %'s watchdog: reads ready[%], wants %",
      "reader %'s watchdog: sets aborted, slot %, ticket %",
      "reader %'s watchdog: releases my_ready[%] for ticket %",
  };
  State& next = out.add(state, {kTexts[static_cast<int>(watchdog.at)],
                                {byte(index), watchdog.slot, watchdog.ticket}});
  Reader& after = next.readers[index];
  Watchdog& then = after.watchdog;
  switch (watchdog.at) {
    case WatchdogAt::kIdle: {
      int slot = 0;
      while ((watchdog.pending & bit(slot)) == 0) ++slot;
      then.pending &= byte(~bit(slot));
      if (reader.awaited[slot] == 0) return;  // the entry has left the list
      then.slot = byte(slot);
      then.ticket = reader.awaited[slot];
      then.seen = state.memory[my_ready_word(index, slot)];
      then.at = reaches(then.seen, then.ticket) ? WatchdogAt::kIdle : WatchdogAt::kLoadReady;
      break;
    }
    case WatchdogAt::kLoadReady: {
      const bool complete = state.memory[Word::ready(watchdog.slot)] >= watchdog.ticket;
      then.at = complete ? WatchdogAt::kIdle
                         : (flag_first ? WatchdogAt::kSetFlag : WatchdogAt::kStoreWord);
      break;
    }
    case WatchdogAt::kSetFlag:
      after.aborted |= bit(watchdog.ticket);
      then.at = flag_first ? WatchdogAt::kStoreWord : WatchdogAt::kIdle;
      break;
    case WatchdogAt::kStoreWord: {
      std::uint8_t& word = next.memory[my_ready_word(index, watchdog.slot)];
      const std::uint8_t value =
          keeps(HazardRule::kNoUnsignedMaximum) ? watchdog.ticket : kUnsignedMaximum;
      if (word == watchdog.seen || !keeps(HazardRule::kCompareExchange)) word = value;
      then.at = flag_first ? WatchdogAt::kIdle : WatchdogAt::kSetFlag;
      break;
    }
  }
  if (then.at == WatchdogAt::kIdle) then.slot = then.ticket = then.seen = 0;
}

}  // namespace vramlink::model
