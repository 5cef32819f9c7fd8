// What a victim has done so far, on a page that outlives it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "os/shared_segment.hpp"
#include "step_table.hpp"

namespace vramlink::test {

inline constexpr std::size_t kLifeCountMax = 2000;

/// The victim writes, the test reads; all bytes zero is the beginning.
struct Scoreboard {
  /// Of one Publisher of the victim; number 1 is the first.
  struct Life {
    // Each counted before and after the store itself: a death on another thread can come between.
    std::atomic<std::uint32_t> visible_begun;
    std::atomic<std::uint32_t> visible;   ///< frames that were made visible
    std::atomic<std::uint32_t> complete;  ///< the last sequence whose receipt was seen ready
    std::atomic<std::uint32_t> end_begun;
    std::atomic<std::uint32_t> ended;  ///< the end was announced
  };

  std::array<std::atomic<std::uint32_t>, kStepCountMax> step_counts;
  std::array<Life, kLifeCountMax> life;
  std::atomic<std::uint64_t> lives;     ///< Publishers or Subscribers that were begun
  std::atomic<std::uint64_t> leaving;   ///< Subscribers that began to say farewell
  std::atomic<std::uint64_t> left;      ///< Subscribers that said farewell
  std::atomic<std::uint64_t> received;  ///< by the present Subscriber of the victim
};

/// A scoreboard and its descriptor.
class SharedScoreboard {
 public:
  /// A new one, or in a child the parent's.
  static SharedScoreboard create();
  static SharedScoreboard adopt(int fd);

  [[nodiscard]] Scoreboard& operator*() const noexcept {
    return *reinterpret_cast<Scoreboard*>(mapping_.data());
  }
  [[nodiscard]] Scoreboard* operator->() const noexcept { return &**this; }
  [[nodiscard]] int fd() const noexcept { return segment_.fd(); }

 private:
  SharedScoreboard(os::SharedSegment segment, os::Mapping mapping) noexcept
      : segment_(std::move(segment)), mapping_(std::move(mapping)) {}

  os::SharedSegment segment_;
  os::Mapping mapping_;
};

}  // namespace vramlink::test
