// base: the clock behind Deadline.
#include <ctime>

#include <vramlink/deadline.hpp>

namespace vramlink::inline v0 {

std::int64_t monotonic_ns() noexcept {
  std::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace vramlink::inline v0
