// The wake model: does every sleeper wake? No wait here has a time limit, so a lost ring is a state
// in which nothing moves while a thread still sleeps.
//
// Modelled: threads as programs (wake_program.hpp) under TSO, futex wait and wake on several words,
// a process that is killed or stopped for ever between any two instructions, streams and the
// kernel's news of a death as threads. A nap (a sleep with a short limit) is a jump back to the
// look-around before it.
//
// Not modelled: deadlines, evict, the eventfd of readiness_fd(), payload. Wrap-around of bells:
// they count far.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "explorer.hpp"
#include "wake_program.hpp"

namespace vramlink::model {

enum class WakeRule : std::uint8_t {
  kNone,
  kBellStoreIsSequential,    // subscriber: bell = 1 is seq_cst
  kNewestStoreIsSequential,  // publisher: newest is stored seq_cst
  kRecheckNewest,            // subscriber: newest is read again after bell = 1
  kRecheckGone,              // the same for gone,
  kRecheckInterrupt,         // interrupt
  kRecheckState,             // and state
  kPublishRings,             // publish rings
  kCloseRings,               // a change of state rings
  kGoneRings,                // the reactor rings after gone
  kInterruptRings,           // the reactor rings after an interrupt
  kReactorAlwaysWakes,       // ... and wakes even if the bell is 0 already: its ringer may be dead
  kInterruptAlwaysWakes,     // ... or stopped
  kNapUntilReady,            // a frame that is submitted and not complete: naps, not sleep
  kWaitersIsSequential,      // claim: claim_waiters is raised seq_cst
  kWaitersBeforeScan,        // claim: claim_waiters is raised before the scan
  kWaitersIsCount,           // claim_waiters is a count, not a flag
  kBellsBeforeScan,          // claim: free bells are loaded before the scan
  kLocalBellBeforeScan,      // claim: the process-local word too
  kReleaseIsSequential,      // release: released is stored seq_cst
  kReleaseRings,             // release rings
  kGiveUpRings,              // give_up rings
  kCursorIsSequential,       // take: the cursor is stored seq_cst
  kCursorRings,              // take rings after the cursor has moved
  kStreamReleaseRings,       // release by stream rings
  kStreamFlagBeforeRing,     // release by stream: flag 1 is set before the ring
  kStreamFlagAfterBells,     // claim: flag 1 is read after the bells
  kNapWhileStreamsRelease,   // claim: naps while a subscriber releases by stream
  kNapWhileIncomplete,       // claim: naps while a slot is incomplete
  kNapDecidedByScan,         // claim: incomplete is what the scan saw, not what is read after it
  kMembershipBumps,          // a dropped subscriber wakes claims
  kMembershipBeforeBump,     // ... and is dropped before they wake
  kCloseBumps,               // close wakes claims
  kCount,
};

struct WakeThread {
  std::uint8_t place;
  std::uint8_t asleep;
  std::uint8_t halted;  // killed or stopped
  std::uint8_t registers[Program::kRegisterCount];
  StoreBuffer<3> buffer;
};

struct WakeState {
  static constexpr int kThreadMax = 4;
  std::uint8_t memory[static_cast<int>(WakeWord::kCount)];
  std::uint8_t fault_done;
  WakeThread threads[kThreadMax];
};

struct Actor {
  const char* name;
  std::vector<Instruction> program;
  bool can_be_killed = false;   // the kernel then sets kDead
  bool can_be_stopped = false;  // for ever; nobody is told
};

class WakeModel {
 public:
  using State = WakeState;
  using Steps = Successors<State>;

  WakeModel(std::vector<Actor> actors, std::vector<std::pair<WakeWord, int>> memory)
      : actors_(std::move(actors)), memory_(std::move(memory)) {}
  State initial() const;
  void successors(const State& state, Steps& out) const;
  const char* check(const State& state, const Steps& out) const;

 private:
  void thread_step(const State& state, Steps& out, int index) const;
  void compute_step(State& next, int index, const Instruction& instruction) const;
  void fault_steps(const State& state, Steps& out, int index) const;

  std::vector<Actor> actors_;
  std::vector<std::pair<WakeWord, int>> memory_;
};

}  // namespace vramlink::model
