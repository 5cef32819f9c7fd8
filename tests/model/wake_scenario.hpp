// The wake model's programs: section 7 of the specification (and what rings in sections 5, 6 and
// 11) as instructions.
#pragma once

#include <vector>

#include "wake_model.hpp"

namespace vramlink::model {

// One scenario: who takes part, and which rule is left out.
class Scenario {
 public:
  explicit Scenario(WakeRule left_out) : left_out_(left_out) {}
  bool keeps(WakeRule rule) const { return rule != left_out_; }
  StoreOrder order(WakeRule rule) const {
    return keeps(rule) ? StoreOrder::kSequential : StoreOrder::kRelease;
  }

  // Subscriber: receives `frame_count` frames, or ends when it is told to.
  Actor subscriber(int frame_count, bool ready_is_late = false) const;
  Actor publisher(int frame_count, bool closes = false) const;
  Actor publishing_thread() const;
  Actor reactor(WakeWord told, WakeRule rings, WakeRule always_wakes) const;
  Actor stream(WakeWord written) const;

  // Claim: waits until `wanted` are all 1, or until the word that ends it is not 0.
  struct Claim {
    std::vector<WakeWord> wanted;
    std::vector<WakeWord> ends;  // a dropped member, close
    bool reads_flags = false;
    bool reads_ready = false;
  };
  Actor claim(const Claim& claim) const;
  Actor releasing(WakeWord released, WakeWord bell, int slot_count = 1) const;
  Actor giving_up() const;
  Actor moving_cursor() const;
  Actor releasing_by_stream() const;
  Actor publisher_reactor() const;
  Actor closing() const;

 private:
  void ring(Program& program, bool always) const;
  void free_bell_ring(Program& program, WakeWord bell) const;
  void raise_waiters(Program& program) const;
  void load_bells(Program& program, bool local) const;

  WakeRule left_out_;
};

}  // namespace vramlink::model
