// cli: vramlink sub.
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include <vramlink/channel.hpp>
#include <vramlink/host_copy.hpp>
#include <vramlink/runtime.hpp>

#include "attach.hpp"
#include "commands.hpp"
#include "device.hpp"
#include "download.hpp"
#include "exit_status.hpp"
#include "json.hpp"
#include "stop_signals.hpp"
#include "talk.hpp"

namespace vramlink::cli {
namespace {

enum class End : std::uint8_t { stream, count, signal, fault };

struct Outcome {
  End end = End::fault;
  int exit_code = kFailure;
  std::optional<Error> error{};  ///< of a fault
};

const char* name(End end) noexcept {
  switch (end) {
    case End::stream:
      return "end of stream";
    case End::count:
      return "count reached";
    case End::signal:
      return "interrupted";
    case End::fault:
      break;
  }
  return "failed";
}

/// Receives until something ends it, into a sink or none.
class SubRun {
 public:
  SubRun(const SubOptions& options, StopSignals& signals, Subscriber& subscriber,
         media::FrameSink* sink, Download* download)
      : options_(options),
        signals_(signals),
        subscriber_(subscriber),
        sink_(sink),
        download_(download) {}

  Outcome receive_all() {
    while (frames_ < options_.count.value_or(UINT64_MAX)) {
      const Result<void> got = sink_ ? write_one() : count_one();
      if (signals_.stopped()) return {End::signal, signals_.exit_code()};
      if (write_error_) return {End::fault, fail_writing(*write_error_), *write_error_};
      if (got) continue;
      if (auto outcome = ended(got.error())) return *outcome;
    }
    return {End::count, kSuccess};
  }

  /// Completes the file, also after a death or a signal: what came is worth keeping. `outcome` as
  /// it was, or the fault.
  Outcome finish(Outcome outcome) {
    if (!sink_ || write_error_) return outcome;
    auto finished = sink_->finish(format_ ? *format_ : subscriber_.format());
    if (finished || outcome.end == End::signal || outcome.end == End::fault) return outcome;
    return {End::fault, fail_writing(finished.error()), finished.error()};
  }

  [[nodiscard]] std::uint64_t frames() const noexcept { return frames_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::optional<Outcome> ended(const Error& error) const {
    if (error.code() == Code::closed) {
      if (options_.keep) return std::nullopt;
      return Outcome{End::stream, kSuccess};
    }
    if (error.code() == Code::peer_gone && options_.keep) {
      say("the publisher of '" + options_.channel + "' is gone; waiting for the next");
      return std::nullopt;
    }
    if (error.code() == Code::revoked && options_.keep) {
      say(to_string(error));  // it attaches anew
      return std::nullopt;
    }
    if (error.code() == Code::peer_gone) {
      say("receive '" + options_.channel + "': the publisher ended without announcing it after " +
          std::to_string(frames_) + " frames. Try: --keep, to wait for the next one");
      return Outcome{End::fault, kPeerGone, error};
    }
    return Outcome{End::fault, fail(error), error};
  }

  // The bytes stay where they are.
  Result<void> count_one() {
    auto frame = subscriber_.receive(kForever);
    if (!frame) return std::move(frame).error();
    count(frame->size_bytes());
    return {};
  }

  Result<void> write_one() {
    auto frame = download_->receive(subscriber_, kForever);
    if (!frame) return std::move(frame).error();
    if (Result<void> written = write(*frame); !written) {
      write_error_ = std::move(written).error();
    } else {
      count(frame->size_bytes());
    }
    return {};
  }

  void count(std::uint64_t size_bytes) noexcept {
    ++frames_;
    bytes_ += size_bytes;
  }

  Result<void> write(const HostFrame& frame) {
    const Format& format = frame.format();
    if (!format_) format_ = format;
    Format comparable = format;
    comparable.rate_numerator = format_->rate_numerator;
    comparable.rate_denominator = format_->rate_denominator;
    if (comparable != *format_) {
      return Error(Code::incompatible, "write")
          .about(options_.file)
          .because("the format changed from " + to_string(*format_) + " to " + to_string(format) +
                   ", and one file holds one format")
          .remedy("another file");
    }
    return sink_->write({*format_, frame.bytes(), frame.user_data()});
  }

  // What is in the file is worth knowing when the disk is full.
  int fail_writing(const Error& error) const {
    const int exit_code = fail(error);
    if (exit_code != kBrokenPipe && options_.file != "-" && frames_ > 0) {
      say(options_.file + " is not complete: it holds " + std::to_string(frames_) +
          " whole frames");
    }
    return exit_code;
  }

  const SubOptions& options_;
  StopSignals& signals_;
  Subscriber& subscriber_;
  media::FrameSink* sink_;
  Download* download_;  // with a sink
  std::optional<Error> write_error_;
  std::optional<Format> format_;
  std::uint64_t frames_ = 0;
  std::uint64_t bytes_ = 0;
};

// Where the frames are not.
int print_line(const SubOptions& options, const std::string& line) {
  if (!options.container || options.file != "-") return print_and_finish(line);
  static_cast<void>(std::fputs(line.c_str(), stderr));
  return kSuccess;
}

// Before there was anything to count.
int fail_early(const SubOptions& options, const StopSignals& signals, const Error& error) {
  // Whatever failed meanwhile, that is why it ends.
  if (signals.stopped()) return signals.exit_code();
  const int exit_code = fail(error);
  if (options.json) {
    static_cast<void>(print_line(
        options,
        JsonObject("vramlink.sub/1").set("channel", options.channel).set_error(error).line()));
  }
  return exit_code;
}

std::string object_line(const SubOptions& options, const Subscriber& subscriber, const SubRun& run,
                        double seconds, const Outcome& outcome) {
  const SubscriberStatistics statistics = subscriber.statistics();
  JsonObject object("vramlink.sub/1");
  object.set("channel", options.channel)
      .set("device", to_string(subscriber.device()))
      .set("received", run.frames())
      .set("bytes", run.bytes())
      .set("lost", statistics.lost)
      .set("skipped", statistics.skipped)
      .set("queue_depth", subscriber.granted_queue_depth())
      .set("connects", statistics.connects)
      .set("peer_deaths", statistics.peer_deaths)
      .set("revocations", statistics.revocations)
      .set("seconds", seconds)
      .set("end", name(outcome.end));
  if (outcome.error) object.set_error(*outcome.error);
  const auto set_age = [&object](const char* key, std::int64_t age_ns) {
    if (age_ns < 0) {
      object.set_null(key);
    } else {
      object.set(key, static_cast<double>(age_ns) / 1e3);
    }
  };
  set_age("age_us_p50", statistics.age_p50_ns);
  set_age("age_us_p99", statistics.age_p99_ns);
  return object.line();
}

int report(const SubOptions& options, const Subscriber& subscriber, const SubRun& run,
           double seconds, const Outcome& outcome) {
  if (options.json) {
    return print_line(options, object_line(options, subscriber, run, seconds, outcome));
  }
  const SubscriberStatistics statistics = subscriber.statistics();
  std::string text = options.channel + ": received " + std::to_string(run.frames()) + " frames, " +
                     bytes_text(run.bytes()) + " in " + fixed(seconds, 1) + " s; lost " +
                     std::to_string(statistics.lost) + ", skipped " +
                     std::to_string(statistics.skipped);
  if (statistics.age_p50_ns >= 0) {
    text += ", age p50 " + duration_text(statistics.age_p50_ns) + ", p99 " +
            duration_text(statistics.age_p99_ns);
  }
  say(text + "; " + name(outcome.end));
  return kSuccess;
}

void say_granted(const SubOptions& options, const Subscriber& subscriber) {
  const std::uint32_t granted = subscriber.granted_queue_depth();
  if (granted >= options.queue_depth) return;
  say("queue:" + std::to_string(options.queue_depth) + " is granted " + std::to_string(granted) +
      ": the channel has " + std::to_string(granted + 1) + " slots. Try: `vramlink pub --slots " +
      std::to_string(options.queue_depth + 1) + "`");
}

}  // namespace

int run(const SubOptions& options) {
  StopSignals signals;
  auto runtime = Runtime::open({.group = options.group});
  if (!runtime) return fail_early(options, signals, runtime.error());
  SubscriberOptions subscriber_options;
  subscriber_options.policy = ReceivePolicy::queue(options.queue_depth);
  // One is written, one is on its way to host memory; on the host the second is never held.
  subscriber_options.held_count_max = 2;
  subscriber_options.reconnect = options.keep;
  // Frames that nobody copies are given back by the CPU.
  subscriber_options.stream_order = options.container.has_value();
  if (options.device) {
    const auto device = choose_device(*runtime, *options.device, LegacyHandles::if_needed);
    if (!device) return fail_early(options, signals, device.error());
    subscriber_options.device = device->id;
    if (options.copy_frames) subscriber_options.copy_frames = CopyFrames::if_needed;
  }
  auto subscriber = attach(*runtime, options.channel, subscriber_options,
                           deadline_in(options.timeout_ns), signals);
  if (signals.stopped()) return signals.exit_code();
  if (!subscriber) return fail_early(options, signals, subscriber.error());
  const StopSignals::Interrupt interrupt(signals, [&subscriber] { subscriber->interrupt(); });
  say_granted(options, *subscriber);

  std::unique_ptr<media::FrameSink> sink;
  std::optional<Download> download;
  if (options.container) {
    // Ahead only in order: a newest frame that waits is not the newest any more.
    auto opened_download = Download::open(*runtime, *subscriber, options.queue_depth > 0);
    if (!opened_download) return fail_early(options, signals, opened_download.error());
    download = *std::move(opened_download);
    auto opened = media::open_sink(*options.container, options.file, options.count);
    if (!opened) return fail_early(options, signals, opened.error());
    sink = *std::move(opened);
  }
  SubRun run(options, signals, *subscriber, sink.get(), download ? &*download : nullptr);
  const std::int64_t begin_ns = monotonic_ns();
  const Outcome outcome = run.finish(run.receive_all());
  const double seconds = static_cast<double>(monotonic_ns() - begin_ns) / 1e9;
  const int reported = outcome.exit_code == kBrokenPipe
                           ? kBrokenPipe
                           : report(options, *subscriber, run, seconds, outcome);
  return outcome.exit_code != kSuccess ? outcome.exit_code : reported;
}

}  // namespace vramlink::cli
