// explain: what a subscriber really gets.
#include "explain/trial.hpp"

#include <utility>

#include <vramlink/channel.hpp>

#include "attach.hpp"
#include "talk.hpp"

namespace vramlink::cli::explain {
namespace {

/// By which a reader comes to frames that are not copied.
Way plain_way(const DeviceId& owner, const DeviceId& reader) noexcept {
  if (owner.is_host() || reader.is_host()) return Way::host;
  return reader == owner ? Way::direct : Way::peer;
}

}  // namespace

Trial try_one_frame(const Runtime& runtime, const std::string& channel, const DeviceId& owner,
                    const Reader& reader, Deadline deadline, StopSignals& signals) {
  SubscriberOptions options;
  options.held_count_max = 1;
  options.reconnect = false;
  options.stream_order = false;
  options.device = reader.device;
  if (reader.device && reader.copy_frames) options.copy_frames = CopyFrames::if_needed;
  Trial trial;
  auto subscriber = attach(runtime, channel, options, deadline, signals);
  if (!subscriber) {
    trial.error = subscriber.error();
    return trial;
  }
  trial.attached = true;
  const StopSignals::Interrupt interrupt(signals, [&subscriber] { subscriber->interrupt(); });
  const auto frame = subscriber->receive(deadline);
  if (!frame) {
    trial.error = frame.error();
    return trial;
  }
  trial.age_ns = monotonic_ns() - frame->publish_ns();
  trial.device = frame->device();
  trial.way = frame->is_copy() ? Way::copy : plain_way(owner, frame->device());
  trial.sequence = frame->sequence();
  return trial;
}

void apply(const Trial& trial, const DeviceId& owner, const Reader& reader, Paths& paths) {
  paths.open = false;
  if (!trial.error) {
    for (Path& path : paths.all) {
      if (path.state == State::taken) path.state = State::possible;
    }
    Path& path = paths.of(trial.way);
    path.state = State::taken;
    path.reason = "frame " + std::to_string(trial.sequence) + " was read this way by " +
                  to_string(trial.device);
    path.remedy.clear();
    return;
  }
  if (trial.attached) return;  // no frame came, and the way is there all the same
  for (Path& path : paths.all) {
    const bool is_meant = path.way == plain_way(owner, reader.device.value_or(owner));
    if (path.state != State::taken && !is_meant) continue;
    path.state = State::refused;
    path.reason = text_without_remedy(*trial.error);
    path.remedy = remedy_of(*trial.error);
  }
}

}  // namespace vramlink::cli::explain
