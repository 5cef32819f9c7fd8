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

/// Returns once `is_done()`. A device that failed performs nothing any more, so it is asked after
/// while nothing comes. Codes: timed_out, and those of Backend::check_health.
template <class IsDone>
[[nodiscard]] Result<void> wait_for_device(const char* operation, backend::Backend& backend,
                                           Deadline deadline, const IsDone& is_done) {
  // Work takes milliseconds; what takes longer may be what never ends.
  constexpr std::chrono::milliseconds kHealthEvery{100};
  Backoff backoff(Backoff::kForReady);
  Deadline health_at = Deadline::after(kHealthEvery);
  while (!is_done()) {
    if (deadline.has_passed()) return Error(Code::timed_out, operation);
    if (health_at.has_passed()) {
      VRAMLINK_CHECK(backend.check_health());
      health_at = Deadline::after(kHealthEvery);
    }
    backoff.pause(std::min(deadline, health_at));
  }
  return {};
}

}  // namespace vramlink::inline v0::channel
