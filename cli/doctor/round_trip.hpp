// doctor: frames through a real channel, from one process to another.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <vramlink/device.hpp>

#include "doctor/check.hpp"
#include "options.hpp"

namespace vramlink::cli::doctor {

/// What a process of the trip says at its end.
struct TripReport {
  static constexpr std::uint32_t kMagic = 0x54444c56;

  std::uint32_t magic = kMagic;
  std::int32_t exit_code = 0;
  std::uint64_t frames = 0;  ///< published, or received
  std::uint64_t wrong = 0;   ///< received with a byte that was not sent
  std::int64_t age_p50_ns = -1;
  std::int64_t age_p99_ns = -1;
  std::array<char, 1024> trouble{};  ///< an error's text; empty without one
};

/// Publishes through memory of `device` in one new process, and receives with `reader` in another,
/// both for `group`. The check's id is "round-trip". Half a minute at most; whatever hangs is
/// killed.
[[nodiscard]] Check check_round_trip(const DeviceId& device, const DeviceId& reader,
                                     const std::string& group);

/// The processes themselves; exit codes.
[[nodiscard]] int run_trip_publisher(const DoctorChildOptions& options);
[[nodiscard]] int run_trip_subscriber(const DoctorChildOptions& options);

}  // namespace vramlink::cli::doctor
