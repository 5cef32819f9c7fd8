// The wake model: the interpreter of its programs. The programs are in wake_cases.cpp.
#include "wake_model.hpp"

#include <iterator>

namespace vramlink::model {
namespace {

std::uint8_t address(WakeWord word) { return static_cast<std::uint8_t>(word); }
std::uint8_t byte(int value) { return static_cast<std::uint8_t>(value); }

const char* step_text(Action action) {
  switch (action) {
    case Action::kStore:
      return "$ %: stores $";
    case Action::kLoad:
      return "$ %: loads $";
    case Action::kAdd:
    case Action::kExchange:
      return "$ %: changes $";
    case Action::kWait:
      return "$ %: futex wait, $";
    case Action::kWake:
      return "$ %: futex wake, $";
    default:
      return "$ %: decides where to go on";
  }
}

const char* name_of(WakeWord word) {
  static constexpr const char* kNames[] = {
      "bell",       "newest",        "gone",        "interrupt",   "state",      "ready",
      "mutex",      "claim_waiters", "free_bell 0", "free_bell 1", "local bell", "released 0",
      "released 1", "cursor",        "flags",       "member",      "enqueued",   "dead",
  };
  static_assert(std::size(kNames) == static_cast<std::size_t>(WakeWord::kCount));
  return kNames[static_cast<int>(word)];
}

}  // namespace

WakeState WakeModel::initial() const {
  State state{};
  for (const auto& [word, value] : memory_) state.memory[address(word)] = byte(value);
  return state;
}

void WakeModel::successors(const State& state, Steps& out) const {
  for (int index = 0; index < static_cast<int>(actors_.size()); ++index) {
    const WakeThread& thread = state.threads[index];
    const char* name = actors_[static_cast<std::size_t>(index)].name;
    if (!thread.buffer.empty()) {
      State& next = out.add(state, {"$: its oldest store reaches memory", {}, {name}});
      next.threads[index].buffer.drain(next.memory);
    }
    if (thread.halted) continue;
    fault_steps(state, out, index);
    if (!thread.asleep) thread_step(state, out, index);
  }
}

void WakeModel::fault_steps(const State& state, Steps& out, int index) const {
  const Actor& actor = actors_[static_cast<std::size_t>(index)];
  if (state.fault_done) return;
  if (actor.can_be_killed) {
    // At the end of its program the process ends, which is told in the same way.
    const bool ended = actor.program[state.threads[index].place].action == Action::kEnd;
    State& next =
        out.add(state, {"$ is killed", {}, {actor.name}}, ended ? Mover::kRest : Mover::kFault);
    next.threads[index].halted = 1;
    next.threads[index].asleep = 0;
    next.fault_done = 1;
    next.memory[address(WakeWord::kDead)] = 1;
  }
  if (actor.can_be_stopped) {
    State& next = out.add(state, {"$ is stopped", {}, {actor.name}}, Mover::kFault);
    next.threads[index].halted = 1;
    next.fault_done = 1;
  }
}

void WakeModel::thread_step(const State& state, Steps& out, int index) const {
  const WakeThread& thread = state.threads[index];
  const Actor& actor = actors_[static_cast<std::size_t>(index)];
  const Instruction& instruction = actor.program[thread.place];
  const std::uint8_t word = address(instruction.word);
  const bool buffer_empty = thread.buffer.empty();
  switch (instruction.action) {
    case Action::kEnd:
      return;
    case Action::kStore:
      if (!thread.buffer.can_store(instruction.order)) return;
      break;
    case Action::kAwait:
      if (state.memory[word] == 0) return;
      break;
    case Action::kAdd:
    case Action::kExchange:
    case Action::kWait:  // the kernel locks: a system call acts on memory
    case Action::kWake:
      if (!buffer_empty) return;
      break;
    default:
      break;
  }
  State& next = out.add(
      state,
      {step_text(instruction.action), {thread.place}, {actor.name, name_of(instruction.word)}});
  next.threads[index].place++;
  compute_step(next, index, instruction);
}

void WakeModel::compute_step(State& next, int index, const Instruction& instruction) const {
  WakeThread& thread = next.threads[index];
  const std::uint8_t word = address(instruction.word);
  const std::uint8_t subject = thread.registers[instruction.subject];
  switch (instruction.action) {
    case Action::kStore:
      thread.buffer.store(next.memory, word, instruction.value, instruction.order);
      return;
    case Action::kLoad:
      thread.registers[instruction.target] = thread.buffer.load(next.memory, word);
      return;
    case Action::kSet:
      thread.registers[instruction.target] = instruction.value;
      return;
    case Action::kAdd:
      next.memory[word] = byte(next.memory[word] + instruction.value);
      return;
    case Action::kExchange:
      thread.registers[instruction.target] = next.memory[word];
      next.memory[word] = instruction.value;
      return;
    case Action::kJump:
      thread.place = instruction.target;
      return;
    case Action::kJumpIfAtLeast:
      if (subject >= instruction.value) thread.place = instruction.target;
      return;
    case Action::kJumpIfBelow:
      if (subject < instruction.value) thread.place = instruction.target;
      return;
    case Action::kWait:
      for (const auto& [waited, expected] : instruction.waits) {
        if (next.memory[address(waited)] != thread.registers[expected]) return;
      }
      thread.asleep = 1;
      return;
    case Action::kWake:
      break;
    default:
      return;
  }
  for (int other = 0; other < static_cast<int>(actors_.size()); ++other) {
    WakeThread& sleeper = next.threads[other];
    if (!sleeper.asleep) continue;
    const auto& program = actors_[static_cast<std::size_t>(other)].program;
    for (const auto& wait : program[static_cast<std::size_t>(sleeper.place - 1)].waits) {
      if (wait.first == instruction.word) sleeper.asleep = 0;
    }
  }
}

const char* WakeModel::check(const State& state, const Steps& out) const {
  if (out.any(Mover::kRest)) return nullptr;
  for (const WakeThread& thread : state.threads) {
    if (thread.asleep && !thread.halted) return "invariant 8: a sleeper is never woken";
  }
  return nullptr;
}

}  // namespace vramlink::model
