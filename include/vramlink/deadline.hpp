// Points in time that end a wait.
#ifndef VRAMLINK_DEADLINE_HPP
#define VRAMLINK_DEADLINE_HPP

#include <chrono>
#include <cstdint>
#include <limits>

#include <vramlink/export.hpp>

namespace vramlink::inline v0 {

/// CLOCK_MONOTONIC in nanoseconds.
[[nodiscard]] VRAMLINK_API std::int64_t monotonic_ns() noexcept;

/// An absolute point of CLOCK_MONOTONIC, or never. A relative time is turned into a point once, so
/// that loops and nested calls share one limit. A value.
class Deadline {
 public:
  /// `wait` from now, as after(): receive(500ms).
  template <class Rep, class Period>
  Deadline(std::chrono::duration<Rep, Period> wait) noexcept : time_ns_(never().time_ns_) {
    // In floating point first: hours::max() is more nanoseconds than there are, hours::min() less.
    constexpr double kLongNs = 9.0e18;
    const double wait_ns = std::chrono::duration<double, std::nano>(wait).count();
    if (wait_ns > -kLongNs && wait_ns < kLongNs) {
      *this = after(std::chrono::duration_cast<std::chrono::nanoseconds>(wait));
    } else if (!(wait_ns > 0)) {  // no number is no wait either
      *this = passed();
    }
  }
  /// `wait` from now; a negative or zero wait has passed already. Saturates at passed() and
  /// never().
  [[nodiscard]] static Deadline after(std::chrono::nanoseconds wait) noexcept {
    const std::int64_t now_ns = monotonic_ns();
    const std::int64_t left_ns = std::numeric_limits<std::int64_t>::max() - now_ns;
    if (wait.count() >= left_ns) return never();
    return wait.count() <= -now_ns ? passed() : Deadline(At{now_ns + wait.count()});
  }
  [[nodiscard]] static constexpr Deadline at_ns(std::int64_t monotonic) noexcept {
    return Deadline(At{monotonic});
  }
  [[nodiscard]] static constexpr Deadline never() noexcept {
    return Deadline(At{std::numeric_limits<std::int64_t>::max()});
  }
  /// A point in the past: look, do not wait.
  [[nodiscard]] static constexpr Deadline passed() noexcept { return Deadline(At{0}); }

  [[nodiscard]] constexpr bool is_never() const noexcept { return *this == never(); }
  [[nodiscard]] bool has_passed() const noexcept {
    return !is_never() && monotonic_ns() >= time_ns_;
  }
  /// Absolute nanoseconds of CLOCK_MONOTONIC; INT64_MAX means never.
  [[nodiscard]] constexpr std::int64_t time_ns() const noexcept { return time_ns_; }

  friend constexpr auto operator<=>(Deadline, Deadline) noexcept = default;

 private:
  struct At {
    std::int64_t time_ns;
  };
  constexpr explicit Deadline(At at) noexcept : time_ns_(at.time_ns) {}
  std::int64_t time_ns_;
};

/// For those who mean it: a wait that only death, close or interrupt ends.
inline constexpr Deadline kForever = Deadline::never();

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_DEADLINE_HPP
