// doctor: what the two processes of a round trip do.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include <vramlink/channel.hpp>
#include <vramlink/host_copy.hpp>
#include <vramlink/runtime.hpp>

#include "doctor/round_trip.hpp"
#include "exit_status.hpp"
#include "frame_writer.hpp"
#include "media/test_card.hpp"
#include "parent_link.hpp"

namespace vramlink::cli::doctor {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kWidth = 512;
constexpr std::uint64_t kHeight = 256;
constexpr std::uint64_t kWarmUpFrames = 20;
constexpr std::uint64_t kFrames = 200;
constexpr std::int64_t kPaceNs = 1'000'000;  // so that each frame finds its receiver asleep
constexpr std::uint32_t kSlotCount = 4;
constexpr auto kPeerWait = 10s;
constexpr auto kLookStep = 50ms;
constexpr auto kFrameWait = 5s;

Result<media::TestCard> make_card() {
  auto format = Format::image(PixelFormat::rgba, kWidth, kHeight);
  if (!format) return std::move(format).error();
  return media::TestCard::make(*format);
}

Result<void> publish_all(const DoctorChildOptions& options, ParentLink& link, TripReport& report) {
  auto card = make_card();
  if (!card) return std::move(card).error();
  auto runtime = Runtime::open({.group = options.group});
  if (!runtime) return std::move(runtime).error();
  PublisherOptions publisher_options;
  publisher_options.slot_count = kSlotCount;
  publisher_options.when_full = WhenFull::block;
  publisher_options.device = options.device;
  auto publisher = Publisher::open(*runtime, options.channel, card->format(), publisher_options);
  if (!publisher) return std::move(publisher).error();
  auto writer = FrameWriter::make(*runtime, *publisher, options.device);
  if (!writer) return std::move(writer).error();
  const Deadline there_by = kPeerWait;
  while (true) {
    auto there = publisher->wait_for_subscribers(1, kLookStep);
    if (there) break;
    const bool wait_on = there.failed_with(Code::timed_out) && !there_by.has_passed();
    if (!wait_on || !link.wait_until(0)) return there;  // the other may have failed meanwhile
  }
  for (std::uint64_t number = 1; number <= kFrames; ++number) {
    if (!link.wait_until(monotonic_ns() + kPaceNs)) break;
    auto bytes = writer->begin(kFrameWait);
    if (!bytes) return std::move(bytes).error();
    card->draw(number, *bytes);
    auto receipt = writer->publish({}, kFrameWait);
    if (!receipt) return std::move(receipt).error();
    ++report.frames;
  }
  return publisher->close(kFrameWait);
}

Result<void> receive_all(const DoctorChildOptions& options, TripReport& report) {
  auto card = make_card();
  if (!card) return std::move(card).error();
  auto runtime = Runtime::open({.group = options.group});
  if (!runtime) return std::move(runtime).error();
  SubscriberOptions subscriber_options;
  subscriber_options.policy = ReceivePolicy::queue(kSlotCount - 1);
  subscriber_options.held_count_max = 1;
  subscriber_options.reconnect = false;
  subscriber_options.device = options.device;
  auto subscriber = Subscriber::open(*runtime, options.channel, kPeerWait, subscriber_options);
  if (!subscriber) return std::move(subscriber).error();
  auto downloader =
      Downloader::open(*runtime, options.device, card->format().payload_bytes, {.buffer_count = 1});
  if (!downloader) return std::move(downloader).error();
  std::vector<std::int64_t> ages_ns;
  while (true) {
    auto frame = subscriber->receive(kFrameWait);
    const std::int64_t now_ns = monotonic_ns();
    if (frame.failed_with(Code::closed)) break;
    if (!frame) return std::move(frame).error();
    ++report.frames;
    if (report.frames > kWarmUpFrames) ages_ns.push_back(now_ns - frame->publish_ns());
    auto submitted = downloader->submit(*std::move(frame), kAlreadyComplete);
    if (!submitted) return submitted;
    const auto bytes = downloader->next(kFrameWait);
    if (!bytes) return bytes.error();
    if (!card->matches(report.frames, bytes->bytes())) ++report.wrong;
  }
  if (ages_ns.empty()) return {};
  std::sort(ages_ns.begin(), ages_ns.end());
  report.age_p50_ns = ages_ns[ages_ns.size() / 2];
  report.age_p99_ns = ages_ns[ages_ns.size() * 99 / 100];
  return {};
}

int finish(ParentLink& link, TripReport& report, const Result<void>& done) {
  if (!done) {
    const std::string text = to_string(done.error());
    const std::size_t size = std::min(text.size(), report.trouble.size() - 1);
    std::memcpy(report.trouble.data(), text.data(), size);
    report.exit_code = exit_code(done.error().code());
  }
  link.send(report);
  return report.exit_code;
}

}  // namespace

int run_trip_publisher(const DoctorChildOptions& options) {
  ParentLink link(options.parent_pid);
  TripReport report;
  const auto done = publish_all(options, link, report);
  return finish(link, report, done);
}

int run_trip_subscriber(const DoctorChildOptions& options) {
  ParentLink link(options.parent_pid);
  TripReport report;
  const auto done = receive_all(options, report);
  return finish(link, report, done);
}

}  // namespace vramlink::cli::doctor
