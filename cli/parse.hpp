// cli: values of options, from text. Each returns nothing for text that is not one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <vramlink/channel.hpp>

namespace vramlink::cli {

struct Size {
  std::uint64_t width = 0;
  std::uint64_t height = 0;
};

/// Frames a second as a fraction; 0/1: as fast as possible.
struct Rate {
  std::uint32_t numerator = 0;
  std::uint32_t denominator = 1;

  [[nodiscard]] constexpr bool is_unlimited() const noexcept { return numerator == 0; }
  /// When frame `index` is due, counted from frame 0.
  [[nodiscard]] std::int64_t due_ns(std::uint64_t index) const noexcept;
};

/// "1920x1080"; both at least 1.
[[nodiscard]] std::optional<Size> parse_size(std::string_view text) noexcept;
/// "60", "29.97", "30000/1001", "0".
[[nodiscard]] std::optional<Rate> parse_rate(std::string_view text) noexcept;
/// "latest" is 0, "queue:6" is 6; at most 63.
[[nodiscard]] std::optional<std::uint32_t> parse_receive_policy(std::string_view text) noexcept;
/// "4", "4:16": slots, and so many at most; 0: no more. Both 2 to 64.
struct SlotCounts {
  std::uint32_t count = 0;
  std::uint32_t count_max = 0;
};
[[nodiscard]] std::optional<SlotCounts> parse_slots(std::string_view text) noexcept;
/// Seconds, "2.5", as nanoseconds; "inf" is the greatest number.
[[nodiscard]] std::optional<std::int64_t> parse_seconds(std::string_view text) noexcept;

/// "drop", "block", "evict", "evict:0.5".
struct PublishPolicy {
  WhenFull when_full = WhenFull::drop;
  std::optional<std::int64_t> lease_ns;  ///< none: the library's own
};
[[nodiscard]] std::optional<PublishPolicy> parse_publish_policy(std::string_view text) noexcept;
/// "never", "if-needed", "always".
[[nodiscard]] std::optional<LegacyHandles> parse_legacy_handles(std::string_view text) noexcept;

}  // namespace vramlink::cli
