// Waiting by CPU for what a device completes, as long as it works at all.
#pragma once

#include <algorithm>
#include <chrono>

#include <vramlink/deadline.hpp>
#include <vramlink/result.hpp>

#include "backend/backend.hpp"
#include "base/try.hpp"
#include "channel/backoff.hpp"

namespace vramlink::inline v0::channel {

/// Device work that has not got further in this time is reason to ask whether the device works.
inline constexpr std::chrono::milliseconds kOverdue{100};

/// Returns once `is_done()`. A device that failed performs nothing any more, so it is asked after
/// while nothing comes. Codes: timed_out, and those of Backend::check_health.
template <class IsDone>
[[nodiscard]] Result<void> wait_for_device(const char* operation, backend::Backend& backend,
                                           Deadline deadline, const IsDone& is_done) {
  Backoff backoff(Backoff::kForReady);
  Deadline health_at = Deadline::after(kOverdue);
  while (!is_done()) {
    if (deadline.has_passed()) return Error(Code::timed_out, operation);
    if (health_at.has_passed()) {
      VRAMLINK_CHECK(backend.check_health());
      health_at = Deadline::after(kOverdue);
    }
    backoff.pause(std::min(deadline, health_at));
  }
  return {};
}

}  // namespace vramlink::inline v0::channel
