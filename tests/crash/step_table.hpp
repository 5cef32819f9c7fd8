// Every named step of the sources, and who has to be killed there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace vramlink::test {

enum class Victim : std::uint8_t { publisher, subscriber };

/// What a channel promises, on both sides.
enum class Mode : std::uint8_t {
  drop_latest,   ///< the publisher drops, subscribers want the newest frame
  drop_queue,    ///< the publisher drops, subscribers want the frames in order
  block_queue,   ///< the publisher waits, subscribers want every frame
  evict_latest,  ///< the publisher evicts, and subscribers hold frames for too long
};

struct Step {
  const char* name;
  Victim victim;
  std::uint32_t occurrence_max;  ///< a round takes one of the first so many
  bool only_drop = false;        ///< not on the way under block_queue
  bool only_block = false;
  bool only_stream = false;  ///< on devices with streams
  bool only_evict = false;   ///< there alone
  bool also_evict = false;
};

inline constexpr std::size_t kStepCountMax = 80;

[[nodiscard]] std::span<const Step> steps() noexcept;
/// Its place in steps(), or -1.
[[nodiscard]] int index_of_step(std::string_view name) noexcept;

}  // namespace vramlink::test
