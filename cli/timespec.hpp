// cli: times as the kernel takes them.
#pragma once

#include <cstdint>
#include <ctime>

namespace vramlink::cli {

inline constexpr std::int64_t kNsPerSecond = 1'000'000'000;

/// A point in time or a duration; needs one that is not negative.
[[nodiscard]] inline std::timespec to_timespec(std::int64_t time_ns) noexcept {
  return {time_ns / kNsPerSecond, time_ns % kNsPerSecond};
}

}  // namespace vramlink::cli
