// cli: vramlink pub.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <vramlink/channel.hpp>
#include <vramlink/runtime.hpp>

#include "commands.hpp"
#include "device.hpp"
#include "exit_status.hpp"
#include "frame_writer.hpp"
#include "json.hpp"
#include "media/test_card.hpp"
#include "stop_signals.hpp"
#include "talk.hpp"

namespace vramlink::cli {
namespace {

constexpr Rate kDefaultRate{30, 1};
constexpr Size kDefaultCardSize{1280, 720};
constexpr std::int64_t kLatenessMaxNs = 1'000'000'000;

Result<std::unique_ptr<media::FrameSource>> make_test_card(const media::SourceOptions& options) {
  auto format = Format::image(options.pixel_format.value_or(PixelFormat::rgba),
                              options.width.value_or(kDefaultCardSize.width),
                              options.height.value_or(kDefaultCardSize.height));
  if (!format) return std::move(format).error();
  auto card = media::TestCard::make(*format);
  if (!card) return std::move(card).error();
  return media::make_test_card_source(*std::move(card));
}

/// Publishes one source until its end.
class PubRun {
 public:
  PubRun(const PubOptions& options, StopSignals& signals, media::FrameSource& source,
         const Format& format, FrameWriter& writer)
      : options_(options), signals_(signals), source_(source), format_(format), writer_(writer) {
    stamp_ = format.rate_numerator != 0 ? Rate{format.rate_numerator, format.rate_denominator}
                                        : kDefaultRate;
    // Files and the test card imitate a camera; a pipe has a pace already.
    const bool pipe = !options.files.empty() && options.files.front() == "-";
    pace_ = options.rate.value_or(pipe ? Rate{} : stamp_);
  }

  /// Until the end of the input, --count or a signal.
  Result<void> publish_all() {
    begin_ns_ = monotonic_ns();
    while (!signals_.stopped() && index_ < options_.count.value_or(UINT64_MAX)) {
      auto more = source_.next();
      if (!more) return std::move(more).error();
      if (!*more) {
        if (!options_.loop || index_ == first_of_pass_) break;  // an empty file would loop for ever
        first_of_pass_ = index_;
        auto again = source_.rewind();
        if (!again) return again;
        continue;
      }
      if (!wait_until_due()) break;
      auto published = publish_one();
      if (!published) return published;
      ++index_;
    }
    return {};
  }

  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  // By absolute times; after a long stop (a suspended process) the schedule begins anew.
  bool wait_until_due() {
    if (pace_.is_unlimited()) return true;
    std::int64_t due_ns = begin_ns_ + pace_.due_ns(index_);
    const std::int64_t late_ns = monotonic_ns() - due_ns;
    if (late_ns > kLatenessMaxNs) {
      begin_ns_ += late_ns;
      due_ns += late_ns;
    }
    return late_ns >= 0 || signals_.sleep_until(due_ns);
  }

  Result<void> publish_one() {
    const bool blocks = options_.policy.when_full == WhenFull::block;
    const Deadline deadline = blocks ? kForever : Deadline::passed();
    auto bytes = writer_.begin(deadline);
    if (bytes.failed_with(Code::full)) return drop_one();
    if (!bytes) return std::move(bytes).error();
    auto read = source_.read(*bytes);
    if (!read) return read;
    FrameInfo info;
    info.media_ns = stamp_.due_ns(index_);
    info.user_data = source_.user_data();
    auto receipt = writer_.publish(info, deadline);
    // stale: other slots took the place of those that it was claimed from.
    if (receipt.failed_with(Code::full) || receipt.failed_with(Code::stale)) {
      ++dropped_;
      return {};
    }
    if (!receipt) return std::move(receipt).error();
    return {};
  }

  // The input goes on without the frame.
  Result<void> drop_one() {
    ++dropped_;
    scratch_.resize(static_cast<std::size_t>(format_.payload_bytes));
    return source_.read(scratch_);
  }

  const PubOptions& options_;
  StopSignals& signals_;
  media::FrameSource& source_;
  const Format format_;  // a copy: what Publisher::format() returns is a temporary
  FrameWriter& writer_;
  Rate pace_;
  Rate stamp_;
  std::int64_t begin_ns_ = 0;
  std::uint64_t index_ = 0;
  std::uint64_t first_of_pass_ = UINT64_MAX;
  std::uint64_t dropped_ = 0;
  std::vector<std::byte> scratch_;
};

// Before there was anything to count.
int fail_early(const PubOptions& options, const StopSignals& signals, const Error& error) {
  // Whatever failed meanwhile, that is why it ends.
  if (signals.stopped()) return signals.exit_code();
  const int exit_code = fail(error);
  if (options.json) {
    static_cast<void>(print(
        JsonObject("vramlink.pub/1").set("channel", options.channel).set_error(error).line()));
  }
  return exit_code;
}

int report(const PubOptions& options, const DeviceInfo& device,
           const PublisherStatistics& statistics, std::uint64_t dropped, double seconds,
           const Result<void>& published) {
  if (options.json) {
    JsonObject object("vramlink.pub/1");
    object.set("channel", options.channel)
        .set("device", to_string(device.id))
        .set("published", statistics.published)
        .set("bytes", statistics.published_bytes)
        .set("dropped", dropped)
        .set("subscribers", statistics.subscribers_ever)
        .set("subscribers_died", statistics.subscribers_died)
        .set("subscribers_evicted", statistics.subscribers_evicted)
        .set("slots", statistics.slot_count)
        .set("replacements", statistics.replacements)
        .set("growths", statistics.growths)
        .set("path", to_string(statistics.path))
        .set("legacy_imports", statistics.legacy_imports)
        .set("seconds", seconds);
    if (!published) object.set_error(published.error());
    return print_and_finish(object.line());
  }
  say(options.channel + ": published " + std::to_string(statistics.published) + " frames, " +
      bytes_text(statistics.published_bytes) + " in " + fixed(seconds, 1) + " s; dropped " +
      std::to_string(dropped) + ", subscribers " + std::to_string(statistics.subscribers_ever));
  return kSuccess;
}

// The end is announced whatever happened; the first fault decides the exit code.
int finish(const PubOptions& options, StopSignals& signals, Publisher& publisher,
           const Result<void>& published) {
  const bool orderly = published.has_value() && !signals.stopped();
  auto closed = publisher.close(orderly ? deadline_in(options.linger_ns) : Deadline::passed());
  if (signals.stopped()) return signals.exit_code();
  if (!published) return fail(published.error());
  if (closed.failed_with(Code::timed_out)) {
    say("close '" + options.channel + "': a subscriber has not taken all frames within " +
        duration_text(options.linger_ns) + ". Try: --linger with more seconds");
    return kTimedOut;
  }
  return closed ? kSuccess : fail(closed.error());
}

int publish(const PubOptions& options, StopSignals& signals, media::FrameSource& source) {
  Format format = source.format();
  if (options.rate && !options.rate->is_unlimited()) {
    format.rate_numerator = options.rate->numerator;
    format.rate_denominator = options.rate->denominator;
  }
  auto runtime = Runtime::open({.group = options.group});
  if (!runtime) return fail_early(options, signals, runtime.error());
  const auto device = choose_device(*runtime, options.device, options.legacy_handles);
  if (!device) return fail_early(options, signals, device.error());
  PublisherOptions publisher_options;
  publisher_options.device = device->id;
  publisher_options.slot_count = options.slots.count;
  publisher_options.legacy_handles = options.legacy_handles;
  publisher_options.slot_count_max = options.slots.count_max;
  publisher_options.when_full = options.policy.when_full;
  if (options.policy.lease_ns) {
    publisher_options.lease = std::chrono::nanoseconds(*options.policy.lease_ns);
  }
  auto publisher = Publisher::open(*runtime, options.channel, format, publisher_options);
  if (!publisher) return fail_early(options, signals, publisher.error());
  auto writer = FrameWriter::make(*runtime, *publisher, device->id);
  if (!writer) return fail_early(options, signals, writer.error());
  const StopSignals::Interrupt interrupt(signals, [&publisher] { publisher->interrupt(); });

  if (!device->id.is_host()) say(options.channel + " is on " + device_text(*device));
  if (const std::string remark = source.remark(); !remark.empty()) say(remark);
  if (options.wait_subscribers > 0) {
    auto there =
        publisher->wait_for_subscribers(options.wait_subscribers, deadline_in(options.timeout_ns));
    if (signals.stopped()) return signals.exit_code();
    if (there.failed_with(Code::timed_out)) {
      say("wait for subscribers of '" + options.channel + "': fewer than " +
          std::to_string(options.wait_subscribers) + " came within " +
          duration_text(options.timeout_ns) + ". Try: `vramlink sub " + options.channel + "`");
      return kTimedOut;
    }
    if (!there) return fail_early(options, signals, there.error());
  }
  PubRun run(options, signals, source, publisher->format(), *writer);
  const std::int64_t begin_ns = monotonic_ns();
  const Result<void> published = run.publish_all();
  const int exit_code = finish(options, signals, *publisher, published);
  const double seconds = static_cast<double>(monotonic_ns() - begin_ns) / 1e9;
  const int reported =
      report(options, *device, publisher->statistics(), run.dropped(), seconds, published);
  return exit_code != kSuccess ? exit_code : reported;
}

}  // namespace

int run(const PubOptions& options) {
  StopSignals signals;
  auto source = options.test_card ? make_test_card(options.source)
                                  : media::open_source(options.files, options.source);
  if (signals.stopped()) return signals.exit_code();
  if (!source) return fail_early(options, signals, source.error());
  return publish(options, signals, **source);
}

}  // namespace vramlink::cli
