// doctor: what every channel needs, with or without a GPU.
#pragma once

#include <optional>

#include <vramlink/runtime.hpp>

#include "doctor/check.hpp"

namespace vramlink::cli::doctor {

/// Kernel, memory, processes, limits.
void check_kernel(Findings& findings);
/// The folder that names live in; nothing if it cannot be used.
[[nodiscard]] std::optional<Runtime> check_directory(Findings& findings);
/// The channels that are there, and whether their owners answer.
void check_channels(Findings& findings, const Runtime& runtime);

}  // namespace vramlink::cli::doctor
