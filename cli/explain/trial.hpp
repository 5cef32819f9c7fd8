// explain: one frame of a channel, received to see by which way it comes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <vramlink/deadline.hpp>
#include <vramlink/device.hpp>
#include <vramlink/error.hpp>
#include <vramlink/runtime.hpp>

#include "explain/paths.hpp"
#include "stop_signals.hpp"

namespace vramlink::cli::explain {

struct Trial {
  std::optional<Error> error{};  ///< why no frame came
  bool attached = false;         ///< the memory was mapped, whether or not a frame came
  Way way = Way::host;           ///< by which it came
  DeviceId device{};             ///< that read it
  std::uint64_t sequence = 0;
  std::int64_t age_ns = -1;  ///< from its publish until it was received
};

/// Attaches as a subscriber of the newest frame that holds one, takes it and leaves. `owner` is
/// where the frames live. A signal ends the process while it attaches, and the wait for a frame.
[[nodiscard]] Trial try_one_frame(const Runtime& runtime, const std::string& channel,
                                  const DeviceId& owner, const Reader& reader, Deadline deadline,
                                  StopSignals& signals);
/// Corrects what find_paths() said by what happened.
void apply(const Trial& trial, const DeviceId& owner, const Reader& reader, Paths& paths);

}  // namespace vramlink::cli::explain
