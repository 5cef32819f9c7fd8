// cli: vramlink grab.
#include <string>
#include <string_view>

#include <vramlink/channel.hpp>
#include <vramlink/host_copy.hpp>
#include <vramlink/runtime.hpp>

#include "attach.hpp"
#include "commands.hpp"
#include "device.hpp"
#include "download.hpp"
#include "exit_status.hpp"
#include "media/byte_output.hpp"
#include "media/npy.hpp"
#include "media/picture.hpp"
#include "media/png_file.hpp"
#include "stop_signals.hpp"
#include "talk.hpp"

namespace vramlink::cli {
namespace {

bool ends_with_any_case(std::string_view text, std::string_view ending) {
  if (text.size() < ending.size()) return false;
  text.remove_prefix(text.size() - ending.size());
  for (std::size_t i = 0; i < ending.size(); ++i) {
    const char c = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] + 32) : text[i];
    if (c != ending[i]) return false;
  }
  return true;
}

Result<void> save_npy(const std::string& path, const HostFrame& frame) {
  auto output = media::ByteOutput::open(path);
  if (!output) return std::move(output).error();
  auto written = media::write_npy(*output, frame.format(), frame.bytes());
  if (!written) return written;
  return output->close();
}

Result<void> save_png(const std::string& path, const HostFrame& frame) {
  auto picture = media::to_picture(frame.format(), frame.bytes());
  if (!picture) return std::move(picture).error();
  return media::write_png(path, *picture);
}

}  // namespace

int run(const GrabOptions& options) {
  const bool npy = ends_with_any_case(options.out, ".npy");
  if (!npy && options.out != "-" && !ends_with_any_case(options.out, ".png")) {
    say("-o " + options.out + ": the name ends neither with .png nor with .npy");
    return kUsage;
  }
  StopSignals signals;
  const Deadline deadline = deadline_in(options.timeout_ns);
  auto runtime = Runtime::open({.group = options.group});
  if (!runtime) return fail(runtime.error());
  SubscriberOptions subscriber_options;
  subscriber_options.held_count_max = 1;
  subscriber_options.reconnect = false;
  subscriber_options.stream_order = false;  // one frame, which next() gives back
  if (options.device) {
    const auto device = choose_device(*runtime, *options.device, LegacyHandles::if_needed);
    if (!device) return fail(device.error());
    subscriber_options.device = device->id;
    if (options.copy_frames) subscriber_options.copy_frames = CopyFrames::if_needed;
  }
  auto subscriber = attach(*runtime, options.channel, subscriber_options, deadline, signals);
  if (signals.stopped()) return signals.exit_code();
  if (!subscriber) return fail(subscriber.error());
  const StopSignals::Interrupt interrupt(signals, [&subscriber] { subscriber->interrupt(); });
  auto download = Download::open(*runtime, *subscriber, false);
  if (!download) return fail(download.error());
  auto frame = download->receive(*subscriber, deadline);
  if (signals.stopped()) return signals.exit_code();
  if (frame.failed_with(Code::timed_out)) {
    say("grab '" + options.channel + "': no frame was published within " +
        duration_text(options.timeout_ns) + ". Try: --timeout with more seconds");
    return kTimedOut;
  }
  if (!frame) return fail(frame.error());
  const auto saved = npy ? save_npy(options.out, *frame) : save_png(options.out, *frame);
  if (!saved && signals.stopped()) return signals.exit_code();
  if (!saved) return fail(saved.error());
  if (options.out != "-") {
    say(options.out + ": frame " + std::to_string(frame->sequence()) + " of '" + options.channel +
        "', " + to_string(frame->format()));
  }
  return kSuccess;
}

}  // namespace vramlink::cli
