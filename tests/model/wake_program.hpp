// Small programs for the wake model: the loads, stores and futex calls of one thread, written down
// in order.
//
// A builder makes the list of instructions; labels are resolved when the program is finished. The
// interpreter is in wake_model.cpp.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "store_buffer.hpp"

namespace vramlink::model {

enum class WakeWord : std::uint8_t {  // all words of the model; not every program uses every word
  kBell,
  kNewest,
  kGone,
  kInterrupt,
  kState,
  kReady,
  kMutex,
  kWaiters,
  kFreeBell0,
  kFreeBell1,
  kLocalBell,  // the publisher's process-local word
  kReleased0,
  kReleased1,
  kCursor,
  kFlags,
  kMember,
  kEnqueued,  // work that a stream will do is in its queue
  kDead,      // what the kernel tells the other side: the process is dead
  kCount,
};

enum class Action : std::uint8_t {
  kStore,
  kLoad,
  kSet,
  kAdd,
  kExchange,
  kJump,
  kJumpIfAtLeast,
  kJumpIfBelow,
  kWait,   // futex: sleeps if every word has the value of its register
  kWake,   // futex: wakes every sleeper on the word
  kAwait,  // until the word is not 0; what must not be asked for ever (a poll of sockets, a stream,
           // a lock)
  kEnd,
};

struct Instruction {
  Action action = Action::kEnd;
  WakeWord word = WakeWord::kBell;
  std::uint8_t value = 0;
  std::uint8_t target = 0;  // register, or place to jump to after finish()
  StoreOrder order = StoreOrder::kSequential;
  std::uint8_t subject = 0;                     // register of a comparison
  std::vector<std::pair<WakeWord, int>> waits;  // word, register
};

class Program {
 public:
  static constexpr int kRegisterCount = 4;

  Program& store(WakeWord word, int value, StoreOrder order = StoreOrder::kSequential) {
    Instruction& added = add_instruction(Action::kStore, word, value);
    added.order = order;
    return *this;
  }
  Program& load(int target, WakeWord word) {
    add_instruction(Action::kLoad, word).target = static_cast<std::uint8_t>(target);
    return *this;
  }
  Program& set(int target, int value) {
    add_instruction(Action::kSet, WakeWord::kBell, value).target =
        static_cast<std::uint8_t>(target);
    return *this;
  }
  Program& add(WakeWord word, int value) {
    add_instruction(Action::kAdd, word, value);
    return *this;
  }
  Program& exchange(int target, WakeWord word, int value) {
    add_instruction(Action::kExchange, word, value).target = static_cast<std::uint8_t>(target);
    return *this;
  }
  Program& jump(int label) {
    add_instruction(Action::kJump).target = static_cast<std::uint8_t>(label);
    return *this;
  }
  Program& jump_if_at_least(int subject, int value, int label) {
    return compare(Action::kJumpIfAtLeast, subject, value, label);
  }
  Program& jump_if_below(int subject, int value, int label) {
    return compare(Action::kJumpIfBelow, subject, value, label);
  }
  Program& wait(std::vector<std::pair<WakeWord, int>> waits) {
    add_instruction(Action::kWait, waits.front().first).waits = std::move(waits);
    return *this;
  }
  Program& wake(WakeWord word) {
    add_instruction(Action::kWake, word);
    return *this;
  }
  Program& await(WakeWord word) {
    add_instruction(Action::kAwait, word);
    return *this;
  }
  int new_label() {
    places_.push_back(0);
    return static_cast<int>(places_.size()) - 1;
  }
  Program& here(int label) {
    places_[static_cast<std::size_t>(label)] = static_cast<std::uint8_t>(instructions_.size());
    return *this;
  }
  // Ends the program; jumps then hold places instead of labels.
  std::vector<Instruction> finish() {
    add_instruction(Action::kEnd);
    if (instructions_.size() > 250) std::abort();  // places are bytes
    for (Instruction& instruction : instructions_) {
      const bool jumps = instruction.action == Action::kJump ||
                         instruction.action == Action::kJumpIfAtLeast ||
                         instruction.action == Action::kJumpIfBelow;
      if (jumps) instruction.target = places_[instruction.target];
    }
    return std::move(instructions_);
  }

 private:
  Instruction& add_instruction(Action action, WakeWord word = WakeWord::kBell, int value = 0) {
    Instruction instruction;
    instruction.action = action;
    instruction.word = word;
    instruction.value = static_cast<std::uint8_t>(value);
    instructions_.push_back(instruction);
    return instructions_.back();
  }
  Program& compare(Action action, int subject, int value, int label) {
    Instruction& added = add_instruction(action, WakeWord::kBell, value);
    added.subject = static_cast<std::uint8_t>(subject);
    added.target = static_cast<std::uint8_t>(label);
    return *this;
  }

  std::vector<Instruction> instructions_;
  std::vector<std::uint8_t> places_;
};

}  // namespace vramlink::model
