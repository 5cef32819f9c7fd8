// The processes that are stopped and killed: what they do until then.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <vramlink/channel.hpp>

#include "step_table.hpp"
#include "support/spawned_process.hpp"

namespace vramlink::test {

struct Scoreboard;

inline constexpr std::uint64_t kPayloadBytes = 16384;
inline constexpr std::uint32_t kSlotCount = 8;
inline constexpr std::uint32_t kQueueDepth = 4;

/// What a victim is told.
struct Orders {
  std::string directory;
  std::string name = "crash";
  Mode mode = Mode::drop_latest;
  std::string step;              ///< "": none
  std::uint32_t occurrence = 0;  ///< 0: count only
  int signal = 0;                ///< what it sends to itself there

  [[nodiscard]] std::vector<std::string> arguments() const;
  [[nodiscard]] static Orders parse(const std::vector<std::string>& arguments);
};

[[nodiscard]] constexpr std::uint32_t slot_count_of(Mode mode) noexcept {
  return mode == Mode::evict_latest ? 3 : kSlotCount;  // two that are held are too many
}
[[nodiscard]] PublisherOptions publisher_options(Mode mode);
[[nodiscard]] SubscriberOptions subscriber_options(Mode mode);

/// Ends a victim: what it saw was wrong.
inline constexpr int kSawFault = 90;
inline constexpr int kCannotOpen = 91;

/// Opens, publishes and closes Publishers without end.
int run_publisher(const Orders& orders, const ChildLink& link);
/// One Publisher that closes in order when told.
int run_orderly_publisher(const Orders& orders, const ChildLink& link);
/// Opens Subscribers, receives, and closes them without end.
int run_subscriber(const Orders& orders, const ChildLink& link);

/// Publishes one frame, forks a child that keeps everything open, and waits.
int run_forking_publisher(const Orders& orders, const ChildLink& link);
/// When told, publishes until it sleeps in claim; says so.
int run_sleeping_publisher(const Orders& orders, const ChildLink& link);
/// When told, publishes without end.
int run_waiting_publisher(const Orders& orders, const ChildLink& link);
/// Opens and closes without end.
int run_opening_publisher(const Orders& orders, const ChildLink& link);

/// From now on the process obeys at the step of `orders`.
void install_hook(const Orders& orders, const ChildLink& link, Scoreboard* board = nullptr);

/// Asked at take.before_hold: let the frame go by that is about to be taken.
inline constexpr std::uint8_t kLetItPass = 'p';

}  // namespace vramlink::test
