// Times as the kernel takes them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>

namespace vramlink::os {

/// A point in time or a duration in nanoseconds; what is negative is 0.
[[nodiscard]] inline timespec to_timespec(std::int64_t time_ns) noexcept {
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const std::int64_t from_zero_ns = std::max<std::int64_t>(time_ns, 0);
  return {.tv_sec = from_zero_ns / kNsPerSecond, .tv_nsec = from_zero_ns % kNsPerSecond};
}

}  // namespace vramlink::os
