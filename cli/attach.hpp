// cli: attaching to a channel in a way that a signal can end.
#pragma once

#include <string>

#include <vramlink/channel.hpp>
#include <vramlink/runtime.hpp>

#include "stop_signals.hpp"

namespace vramlink::cli {

/// Subscriber::open with one deadline: a second attempt would be a second subscriber, and what was
/// queued for the first would be lost. There is no object yet that could be interrupted, and
/// nothing to put in order, so a signal ends the process with its exit code.
[[nodiscard]] Result<Subscriber> attach(const Runtime& runtime, const std::string& channel,
                                        const SubscriberOptions& options, Deadline deadline,
                                        StopSignals& signals);

}  // namespace vramlink::cli
