// doctor: what every channel needs, with or without a GPU.
#pragma once

#include <optional>
#include <string>

#include <vramlink/runtime.hpp>

#include "doctor/check.hpp"

namespace vramlink::cli::doctor {

/// Kernel, memory, processes, limits.
void check_kernel(Findings& findings);
struct Place {
  Runtime runtime;
  std::string trip_group;  ///< for which frames are sent; empty: among this user's own
};

/// The folder that names live in, perhaps for a group; nothing if it cannot be used. Where another
/// user publishes in it, $VRAMLINK_RUNTIME_DIR is taken back for the children: what they send goes
/// through this user's own folder.
[[nodiscard]] std::optional<Place> check_directory(Findings& findings, const std::string& group);
/// The channels that are there, and whether their owners answer.
void check_channels(Findings& findings, const Runtime& runtime);

}  // namespace vramlink::cli::doctor
