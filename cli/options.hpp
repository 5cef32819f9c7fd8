// cli: the command line as values. Hides the parser behind it, which one file includes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <vramlink/deadline.hpp>
#include <vramlink/device.hpp>
#include <vramlink/format.hpp>

#include "device.hpp"
#include "media/frame_io.hpp"
#include "parse.hpp"

namespace vramlink::cli {

struct DemoOptions {
  std::string group;  ///< of users, that a channel is shared with; empty: this user alone
  std::int64_t seconds_ns = 5'000'000'000;
  Size size{1920, 1080};
  Rate rate{60, 1};
  std::string out = "vramlink-demo.png";
  DeviceWish device;
  bool crash = false;
  bool json = false;
};

/// A process of the demo: `vramlink demo-publisher` and `vramlink demo-subscriber`, for its own
/// use.
struct DemoChildOptions {
  bool publisher = false;
  std::string group;
  std::string channel;
  std::int32_t parent_pid = 0;
  DeviceId device;
  Size size;
  Rate rate;
  std::uint64_t first_number = 1;
  std::uint32_t queue_depth = 0;
  std::string out;
};

struct PubOptions {
  std::string group;
  std::string channel;
  std::vector<std::string> files;
  bool test_card = false;
  media::SourceOptions source;
  std::optional<Rate> rate;
  bool loop = false;
  std::optional<std::uint64_t> count;
  DeviceWish device = DeviceWish::host();
  SlotCounts slots{4, 0};
  LegacyHandles legacy_handles = LegacyHandles::never;
  PublishPolicy policy;
  std::uint32_t wait_subscribers = 0;
  std::int64_t timeout_ns = INT64_MAX;
  std::int64_t linger_ns = 5'000'000'000;
  bool json = false;
};

struct SubOptions {
  std::string group;
  std::string channel;
  std::optional<media::Container> container;  ///< none: frames are counted only
  std::string file;
  std::optional<std::uint64_t> count;
  std::uint32_t queue_depth = 0;
  std::optional<DeviceWish> device;  ///< none: the channel's own
  bool copy_frames = false;          ///< to that device, where it cannot reach the channel's
  std::int64_t timeout_ns = 10'000'000'000;
  bool keep = false;
  bool json = false;
};

struct GrabOptions {
  std::string group;
  std::string channel;
  std::string out;
  std::optional<DeviceWish> device;  ///< none: the channel's own
  bool copy_frames = false;          ///< to that device, where it cannot reach the channel's
  std::int64_t timeout_ns = 10'000'000'000;
};

struct LsOptions {
  std::string group;
  bool json = false;
  bool names = false;
};

struct DoctorOptions {
  std::string group;
  bool json = false;
  bool strict = false;  ///< a warning fails, too
};

/// A process of the doctor: `vramlink doctor-publisher` and `vramlink doctor-subscriber`, for its
/// own use.
struct DoctorChildOptions {
  bool publisher = false;
  std::string group;
  std::string channel;
  std::int32_t parent_pid = 0;
  DeviceId device;
};

struct ExplainOptions {
  std::string group;
  std::string what;                  ///< a channel's name, or a process's pid
  std::optional<DeviceWish> device;  ///< none: the channel's own
  bool copy_frames = false;          ///< to that device, where it cannot reach the channel's
  bool attempt = false;              ///< receive a frame
  std::int64_t timeout_ns = 10'000'000'000;
  bool json = false;
};

struct VersionOptions {
  bool json = false;
};

using Command =
    std::variant<DemoOptions, DemoChildOptions, PubOptions, SubOptions, GrabOptions, LsOptions,
                 DoctorOptions, DoctorChildOptions, ExplainOptions, VersionOptions>;

/// What the command line asks for, or the exit code after help or a mistake was printed.
[[nodiscard]] std::variant<Command, int> parse_command_line(int argc, const char* const* argv);

/// A wait that an option gives; the greatest number means for ever.
[[nodiscard]] inline Deadline deadline_in(std::int64_t wait_ns) noexcept {
  return Deadline::after(std::chrono::nanoseconds(wait_ns));
}

}  // namespace vramlink::cli
