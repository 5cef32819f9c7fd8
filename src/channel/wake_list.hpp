// Sleepers that were found under a lock and are woken after it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/steps.hpp"
#include "channel/member.hpp"
#include "os/futex.hpp"
#include "wire/limits.hpp"

namespace vramlink::inline v0::channel {

/// Collects the bells of a membership; wake() makes the system calls. Keeps the members mapped.
class WakeList {
 public:
  /// Rings the member's bell if it sleeps on it. Called after the store that it waits for
  /// (seq_cst).
  void ring(Member& member) noexcept {
    wire::AtomicU32& bell = member.words->bell;
    // Pairs with the subscriber's store of 1 before it looks again (both seq_cst).
    if (bell.load(std::memory_order_seq_cst) != 1) return;
    if (bell.exchange(0, std::memory_order_seq_cst) == 1) bells_[count_++] = &bell;
  }
  /// Whoever was rung stays mapped until wake().
  void keep(const std::shared_ptr<const Membership>& members) noexcept {
    if (count_ != 0) members_ = members;
  }

  /// Once, outside every lock.
  void wake() noexcept {
    if (count_ != 0) VRAMLINK_STEP("wake.bells_taken");
    for (std::size_t i = 0; i < count_; ++i) os::futex_wake(*bells_[i], 1);
    count_ = 0;
  }

 private:
  std::array<wire::AtomicU32*, wire::kSubscriberCountMax> bells_;
  std::size_t count_ = 0;
  std::shared_ptr<const Membership> members_;
};

}  // namespace vramlink::inline v0::channel
