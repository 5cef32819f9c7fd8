// The wake model's programs, thread by thread.
#include "wake_scenario.hpp"

namespace vramlink::model {
namespace {

using Rule = WakeRule;
using Word = WakeWord;

// Registers by use.
constexpr int kSeen = 0;
constexpr int kOne = 1;  // the value a sleeping subscriber expects; a first bell in claim
constexpr int kSecond = 2;
constexpr int kThird = 3;

}  // namespace

void Scenario::ring(Program& program, bool always) const {
  const int done = program.new_label();
  if (!always) program.load(kSeen, Word::kBell).jump_if_below(kSeen, 1, done);
  program.exchange(kSeen, Word::kBell, 0);
  if (!always) program.jump_if_below(kSeen, 1, done);
  program.wake(Word::kBell).here(done);
}

Actor Scenario::subscriber(int frame_count, bool ready_is_late) const {
  Program program;
  const int end = program.new_label();
  program.set(kOne, 1);
  for (int frame = 1; frame <= frame_count; ++frame) {
    const int again = program.new_label();
    const int awake = program.new_label();
    const int found = program.new_label();
    program.here(again).load(kSeen, Word::kNewest).jump_if_at_least(kSeen, frame, found);
    for (Word ends : {Word::kGone, Word::kInterrupt, Word::kState})
      program.load(kSeen, ends).jump_if_at_least(kSeen, 1, end);
    const int sleep = program.new_label();
    program.here(sleep).store(Word::kBell, 1, order(Rule::kBellStoreIsSequential));
    const bool sleeps_until_ready = ready_is_late && !keeps(Rule::kNapUntilReady);
    const Word awaited = sleeps_until_ready ? Word::kReady : Word::kNewest;
    if (keeps(Rule::kRecheckNewest))
      program.load(kSeen, awaited).jump_if_at_least(kSeen, frame, awake);
    const std::pair<Word, Rule> rechecks[] = {{Word::kGone, Rule::kRecheckGone},
                                              {Word::kInterrupt, Rule::kRecheckInterrupt},
                                              {Word::kState, Rule::kRecheckState}};
    for (const auto& [word, rule] : rechecks) {
      if (keeps(rule)) program.load(kSeen, word).jump_if_at_least(kSeen, 1, awake);
    }
    program.wait({{Word::kBell, kOne}}).here(awake).store(Word::kBell, 0).jump(again).here(found);
    if (ready_is_late) {
      program.load(kSeen, Word::kReady)
          .jump_if_below(kSeen, frame, keeps(Rule::kNapUntilReady) ? again : sleep);
    }
  }
  program.here(end);
  return Actor{"subscriber", program.finish()};
}

Actor Scenario::publisher(int frame_count, bool closes) const {
  Program program;
  for (int frame = 1; frame <= frame_count; ++frame) {
    program.store(Word::kEnqueued, 1)
        .store(Word::kNewest, frame, order(Rule::kNewestStoreIsSequential));
    if (keeps(Rule::kPublishRings)) ring(program, false);
  }
  if (closes) {
    program.store(Word::kState, 1);
    if (keeps(Rule::kCloseRings)) ring(program, false);
  }
  return Actor{"publisher", program.finish()};
}

// One of two threads that publish: the mutex orders their stores; bells are rung and woken without
// it.
Actor Scenario::publishing_thread() const {
  Program program;
  const int retry = program.new_label();
  program.here(retry)
      .await(Word::kMutex)
      .exchange(kSeen, Word::kMutex, 0)
      .jump_if_below(kSeen, 1, retry);
  program.add(Word::kNewest, 1).store(Word::kMutex, 1, StoreOrder::kRelease);
  ring(program, false);
  return Actor{"publisher", program.finish()};
}

// The subscriber's own reactor: told by the kernel that the publisher is dead, or by the user to
// interrupt.
Actor Scenario::reactor(Word told, Rule rings, Rule always_wakes) const {
  Program program;
  if (told == Word::kGone) program.await(Word::kDead);
  program.store(told, 1);
  if (keeps(rings)) ring(program, keeps(always_wakes));
  return Actor{"reactor", program.finish()};
}

// Rings nothing.
Actor Scenario::stream(Word written) const {
  Program program;
  program.await(Word::kEnqueued).store(written, 1);
  return Actor{"stream", program.finish()};
}

void Scenario::raise_waiters(Program& program) const {
  if (keeps(Rule::kWaitersIsCount) && keeps(Rule::kWaitersIsSequential)) {
    program.add(Word::kWaiters, 1);
  } else {
    program.store(Word::kWaiters, 1, order(Rule::kWaitersIsSequential));
  }
}

void Scenario::load_bells(Program& program, bool local) const {
  if (local) {
    program.load(kThird, Word::kLocalBell);
  } else {
    program.load(kOne, Word::kFreeBell0).load(kSecond, Word::kFreeBell1);
  }
}

Actor Scenario::claim(const Claim& claim) const {
  Program program;
  const int again = program.new_label();
  const int retry = program.new_label();
  const int sleep = program.new_label();
  const int found = program.new_label();
  if (keeps(Rule::kWaitersBeforeScan)) raise_waiters(program);
  program.here(again);
  if (claim.reads_flags && !keeps(Rule::kStreamFlagAfterBells)) program.load(kThird, Word::kFlags);
  if (keeps(Rule::kBellsBeforeScan)) load_bells(program, false);
  // The register of the local word serves for the flags where nothing bumps that word.
  if (claim.reads_flags && keeps(Rule::kStreamFlagAfterBells)) program.load(kThird, Word::kFlags);
  if (!claim.reads_flags && keeps(Rule::kLocalBellBeforeScan)) load_bells(program, true);
  for (Word ends : claim.ends) program.load(kSeen, ends).jump_if_at_least(kSeen, 1, found);
  for (Word wanted : claim.wanted) program.load(kSeen, wanted).jump_if_below(kSeen, 1, sleep);
  program.jump(found).here(sleep);
  const bool naps = claim.reads_ready && keeps(Rule::kNapWhileIncomplete);
  if (naps && !keeps(Rule::kNapDecidedByScan)) program.load(kSeen, Word::kReady);
  if (naps) program.jump_if_below(kSeen, 1, retry);
  if (claim.reads_flags && keeps(Rule::kNapWhileStreamsRelease))
    program.jump_if_at_least(kThird, 1, retry);
  if (!keeps(Rule::kWaitersBeforeScan)) raise_waiters(program);
  if (!keeps(Rule::kBellsBeforeScan)) load_bells(program, false);
  if (!claim.reads_flags && !keeps(Rule::kLocalBellBeforeScan)) load_bells(program, true);
  std::vector<std::pair<Word, int>> words = {{Word::kFreeBell0, kOne}, {Word::kFreeBell1, kSecond}};
  if (!claim.reads_flags) words.push_back({Word::kLocalBell, kThird});
  program.wait(words).here(retry).jump(again).here(found);
  if (keeps(Rule::kWaitersIsCount)) {
    program.add(Word::kWaiters, -1);
  } else {
    program.store(Word::kWaiters, 0);
  }
  return Actor{"claim", program.finish()};
}

void Scenario::free_bell_ring(Program& program, Word bell) const {
  const int done = program.new_label();
  program.load(kSeen, Word::kWaiters).jump_if_below(kSeen, 1, done);
  program.add(bell, 1).wake(bell).here(done);
}

Actor Scenario::releasing(Word released, Word bell, int slot_count) const {
  Program program;
  for (int slot = 0; slot < slot_count; ++slot) {
    const Word word = slot == 0 ? released : Word::kReleased1;
    program.store(word, 1, order(Rule::kReleaseIsSequential));
    if (keeps(Rule::kReleaseRings)) free_bell_ring(program, bell);
  }
  return Actor{"subscriber", program.finish()};
}

// An attempt that fails: while it holds the slot the claim finds it held.
Actor Scenario::giving_up() const {
  Program program;
  program.store(Word::kReleased0, 0).store(Word::kReleased0, 1);
  if (keeps(Rule::kGiveUpRings)) free_bell_ring(program, Word::kFreeBell0);
  return Actor{"subscriber", program.finish()};
}

Actor Scenario::moving_cursor() const {
  Program program;
  program.store(Word::kCursor, 1, order(Rule::kCursorIsSequential));
  if (keeps(Rule::kCursorRings)) free_bell_ring(program, Word::kFreeBell0);
  return Actor{"subscriber", program.finish()};
}

Actor Scenario::releasing_by_stream() const {
  Program program;
  if (keeps(Rule::kStreamFlagBeforeRing)) program.add(Word::kFlags, 1);
  program.store(Word::kEnqueued, 1);
  if (keeps(Rule::kStreamReleaseRings)) free_bell_ring(program, Word::kFreeBell0);
  if (!keeps(Rule::kStreamFlagBeforeRing)) program.add(Word::kFlags, 1);
  return Actor{"subscriber", program.finish()};
}

Actor Scenario::publisher_reactor() const {
  Program program;
  program.await(Word::kDead);
  if (keeps(Rule::kMembershipBeforeBump)) program.store(Word::kMember, 1);  // 1: dropped
  if (keeps(Rule::kMembershipBumps)) program.add(Word::kLocalBell, 1).wake(Word::kLocalBell);
  if (!keeps(Rule::kMembershipBeforeBump)) program.store(Word::kMember, 1);
  return Actor{"reactor", program.finish()};
}

Actor Scenario::closing() const {
  Program program;
  program.store(Word::kState, 1);
  if (keeps(Rule::kCloseBumps)) program.add(Word::kLocalBell, 1).wake(Word::kLocalBell);
  return Actor{"closing thread", program.finish()};
}

}  // namespace vramlink::model
