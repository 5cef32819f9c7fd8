// Waiting for a word that nobody rings for: spin, then naps that grow.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <vramlink/deadline.hpp>

#include "os/threads.hpp"

namespace vramlink::inline v0::channel {

/// Used where a GPU completes the work: it cannot ring a futex.
class Backoff {
 public:
  struct Limits {
    std::int64_t spin_ns;
    std::int64_t nap_first_ns;
    std::int64_t nap_last_ns;
  };
  /// For a frame that is submitted but not complete.
  static constexpr Limits kForReady{20'000, 20'000, 200'000};

  explicit Backoff(const Limits& limits) noexcept : limits_(limits), nap_ns_(limits.nap_first_ns) {}

  /// One pause, which ends at the deadline at the latest.
  void pause(Deadline deadline) noexcept {
    const std::int64_t now_ns = monotonic_ns();
    if (start_ns_ == 0) start_ns_ = now_ns;
    if (now_ns - start_ns_ < limits_.spin_ns) {
      os::cpu_relax();
      return;
    }
    os::nap_until(std::min(deadline, Deadline::after(std::chrono::nanoseconds(next_nap_ns()))));
  }
  /// The length of the next nap, which grows with every call.
  [[nodiscard]] std::int64_t next_nap_ns() noexcept {
    const std::int64_t nap_ns = nap_ns_;
    nap_ns_ = std::min(nap_ns_ + nap_ns_ / 2, limits_.nap_last_ns);
    return nap_ns;
  }

 private:
  Limits limits_;
  std::int64_t nap_ns_;
  std::int64_t start_ns_ = 0;
};

}  // namespace vramlink::inline v0::channel
