// A publisher that keeps its pace while it changes format and slots: no subscriber misses a frame
// that its policy does not pass over, and a change makes one frame late at most.
//
// Late is counted in frames and not in time, so that a slow machine is no fault: the next frame is
// published when every subscriber has the one before, and a frame that came only with a later one
// would never come. At a change the last frame of the old memory may be late: it is waited for
// before the change, or after it, or with the first frame of the new memory, in turn.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "support/channel_fixture.hpp"
#include "support/shared_page.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using test::ChildLink;
using test::soon;
using test::TestDevice;

/// How a subscriber waits for its next frame.
enum class PaceWait : std::uint8_t { asleep, awake, in_stream };

struct PaceReader {
  std::uint32_t queue_depth;
  PaceWait waiting;
};

constexpr std::array kPaceReaders{
    PaceReader{0, PaceWait::asleep},    PaceReader{3, PaceWait::asleep},
    PaceReader{0, PaceWait::awake},     PaceReader{3, PaceWait::awake},
    PaceReader{0, PaceWait::in_stream}, PaceReader{3, PaceWait::in_stream},
};

/// Those of a device; the host has no streams.
std::size_t pace_reader_count() { return TestDevice::is_host() ? 4 : kPaceReaders.size(); }

class ResizePaceTest : public test::ChannelTest {
 protected:
  static constexpr std::uint64_t kPaceFrames = 120;
  /// A frame whose number this divides is the first of a generation.
  static constexpr std::uint64_t kPerGeneration = 10;

  static std::uint64_t generation_of(std::uint64_t number) { return 1 + number / kPerGeneration; }
  /// Larger, smaller, of another element type; with more slots and with fewer.
  static const Format& format_of(std::uint64_t generation) {
    static const std::array kFormats{
        Format::bytes(5000).value(),
        Format::tensor(DType::float32, {40, 100}).value(),
        Format::bytes(100).value(),
        Format::image(PixelFormat::nv12, 64, 48).value(),
    };
    return kFormats.at(generation % kFormats.size());
  }
  static std::uint32_t slots_of(std::uint64_t generation) {
    return 4 + static_cast<std::uint32_t>(generation % 3);
  }
  /// When the last frame of a generation is waited for.
  enum class Last : std::uint8_t { before_change, after_change, with_next };
  static Last last_of(std::uint64_t generation) { return static_cast<Last>(generation % 3); }
  static bool is_last(std::uint64_t number) { return (number + 1) % kPerGeneration == 0; }
  static bool may_be_passed_over(std::uint64_t number) {
    return is_last(number) && last_of(generation_of(number)) == Last::with_next;
  }

  static Result<Frame> receive(Subscriber& subscriber, PaceWait waiting) {
    if (waiting == PaceWait::asleep) return subscriber.receive(soon());
    if (waiting == PaceWait::in_stream) return subscriber.receive(TestDevice::stream(), soon());
    Result<Frame> frame = subscriber.try_receive();
    for (const Deadline end = soon(); frame.failed_with(Code::empty) && !end.has_passed();) {
      std::this_thread::yield();
      frame = subscriber.try_receive();
    }
    return frame;
  }
  /// Gives the frame back and says that it came.
  static void done_with(Frame&& frame, PaceWait waiting, std::atomic<std::uint64_t>& came) {
    const std::uint64_t number = frame.sequence();
    { const Frame dropped = std::move(frame); }
    if (waiting == PaceWait::in_stream) TestDevice::finish(TestDevice::stream());
    came.store(number);
  }
  /// The body of reader `index`.
  void read(std::size_t index, const ChildLink& link, const test::SharedPage& page) const {
    const PaceReader& reader = kPaceReaders.at(index);
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = {reader.queue_depth}});
    link.ready();
    std::uint64_t last = 0;
    std::uint64_t skipped = 0;
    while (true) {
      Result<Frame> frame = receive(subscriber, reader.waiting);
      if (frame.failed_with(Code::closed)) break;
      ASSERT_TRUE(frame) << to_string(frame.error());
      if (reader.waiting == PaceWait::in_stream) TestDevice::finish(TestDevice::stream());
      EXPECT_FALSE(frame->aborted());
      const std::uint64_t number = frame->sequence();
      ASSERT_GT(number, last);
      for (std::uint64_t missed = last + 1; missed < number; ++missed, ++skipped) {
        EXPECT_EQ(reader.queue_depth, 0U) << "a queue misses nothing: " << missed;
        EXPECT_TRUE(may_be_passed_over(missed))
            << missed << " was passed over, and no change was near";
      }
      EXPECT_EQ(frame->generation(), generation_of(number));
      EXPECT_EQ(frame->format(), format_of(frame->generation()));
      EXPECT_TRUE(test::holds_frame(frame->bytes(), number));
      last = number;
      done_with(*std::move(frame), reader.waiting, page[index]);
    }
    EXPECT_EQ(last, kPaceFrames);
    const SubscriberStatistics statistics = subscriber.statistics();
    EXPECT_EQ(statistics.skipped, skipped);
    EXPECT_EQ(statistics.lost, 0U);
    EXPECT_EQ(statistics.received, kPaceFrames - skipped);
    EXPECT_EQ(statistics.resizes, kPaceFrames / kPerGeneration);
    EXPECT_EQ(statistics.connects, 1U);
  }
  /// Waits until every reader has the frame, which nothing but itself brings to them.
  static void see_at_all(const test::SharedPage& page, std::uint64_t number) {
    const Deadline end = soon();
    for (std::size_t index = 0; index < pace_reader_count(); ++index) {
      while (page[index].load() < number) {
        ASSERT_FALSE(end.has_passed()) << "frame " << number << " does not come to reader " << index
                                       << " until a later one is published";
        std::this_thread::yield();
      }
    }
  }
};
VRAMLINK_BOTH_WAYS(ResizePaceTest);

TEST_P(ResizePaceTest, AChangeCostsOneLateFrameAtMost) {
  const test::SharedPage page;
  std::vector<std::unique_ptr<test::Peer>> peers;
  for (std::size_t index = 0; index < pace_reader_count(); ++index) {
    peers.push_back(
        start_peer([this, index, &page](const ChildLink& link) { read(index, link, page); }));
  }
  const Runtime runtime = open_runtime();
  // Under drop nothing waits for a reader that is late.
  PublisherOptions options;
  options.slot_count = slots_of(1);
  Publisher publisher =
      Publisher::open(runtime, kName, format_of(1), test::on_device(options)).value();
  for (const auto& peer : peers) peer->wait_ready();
  for (std::uint64_t number = 1; number <= kPaceFrames; ++number) {
    if (number % kPerGeneration == 0) {
      const std::uint64_t generation = generation_of(number);
      ASSERT_TRUE(publisher.resize(
          format_of(generation), kForever,
          {.slot_count = slots_of(generation), .follow_within = std::chrono::hours(1)}));
      if (last_of(generation - 1) == Last::after_change) see_at_all(page, number - 1);
      if (HasFatalFailure()) return;
    }
    const Result<Receipt> published = test::publish_number(publisher, number);
    ASSERT_TRUE(published) << to_string(published.error());
    ASSERT_EQ(published->sequence(), number);
    if (!is_last(number) || last_of(generation_of(number)) == Last::before_change) {
      see_at_all(page, number);
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(publisher.close(soon()));
  for (const auto& peer : peers) peer->finish();
  EXPECT_EQ(publisher.statistics().refused_full, 0U);
  EXPECT_EQ(publisher.statistics().resizes, kPaceFrames / kPerGeneration);
}

}  // namespace
}  // namespace vramlink
