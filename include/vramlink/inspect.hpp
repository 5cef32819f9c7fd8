// What is shared on this host. An observer takes no slot, is not counted and never touches payload.
#ifndef VRAMLINK_INSPECT_HPP
#define VRAMLINK_INSPECT_HPP

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <vramlink/deadline.hpp>
#include <vramlink/device.hpp>
#include <vramlink/export.hpp>
#include <vramlink/format.hpp>
#include <vramlink/result.hpp>
#include <vramlink/runtime.hpp>
#include <vramlink/statistics.hpp>

namespace vramlink::inline v0 {

/// One channel as an observer sees it.
struct ChannelInfo {
  std::string name;
  std::int32_t owner_pid = 0;
  std::string owner_name;   ///< program name, empty if not visible
  bool responsive = false;  ///< false: the owner did not answer in time; the rest is unknown
  std::string trouble;      ///< why not responsive
  DeviceId device;
  Format format;
  std::uint32_t slot_count = 0;
  double frames_per_second = 0;     ///< over the slots' time stamps; 0: unknown
  std::int64_t newest_age_ns = -1;  ///< since the newest frame was published; -1: none yet
  std::uint64_t newest_sequence = 0;
  PublisherStatistics statistics;
};

/// Names that have a living publisher, sorted.
/// Codes: os, permission_denied, resource_exhausted (file descriptors), wrong_state (forked child).
[[nodiscard]] VRAMLINK_API Result<std::vector<std::string>> list_channels(const Runtime& runtime);
/// Asks one publisher. An owner that does not answer gives a ChannelInfo that says so.
/// Codes: not_found (with similar names), invalid_argument, os, permission_denied,
/// resource_exhausted (file descriptors), wrong_state (forked child).
[[nodiscard]] VRAMLINK_API Result<ChannelInfo> inspect_channel(const Runtime& runtime,
                                                               std::string_view name,
                                                               Deadline deadline);

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_INSPECT_HPP
