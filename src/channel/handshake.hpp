// How long a connection may stay half open.
#pragma once

#include <atomic>
#include <chrono>

#include <vramlink/deadline.hpp>

namespace vramlink::inline v0::channel {

/// A peer that does not go on within this is let go; it may try again. Tests change it before they
/// connect.
inline std::atomic<std::chrono::nanoseconds> handshake_limit{std::chrono::seconds(5)};

[[nodiscard]] inline Deadline handshake_deadline() {
  return Deadline::after(handshake_limit.load(std::memory_order_relaxed));
}

}  // namespace vramlink::inline v0::channel
