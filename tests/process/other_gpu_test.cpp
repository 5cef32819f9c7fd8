// A publisher on one GPU and its subscriber on another, in two processes: the reader's streams
// wait, read, release and are freed as on the publisher's own GPU.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>

#include <vramlink/host_copy.hpp>

#include "support/channel_fixture.hpp"
#include "support/raw_cuda.hpp"
#include "support/stream_gate.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using test::ChildLink;
using test::ChildProcess;
using test::publish_complete;
using test::publish_number;
using test::RawCuda;
using test::soon;
using test::StreamGate;
using test::TestDevice;

constexpr std::uint8_t kGoOn = 1;
constexpr std::uint8_t kSkip = 0;

class OtherGpuTest : public test::ChannelFixture {
 protected:
  /// Whether there are two GPUs; with one, the other side ends. Forked before this: neither side
  /// may have used the driver until then.
  static bool has_two(ChildProcess& other) {
    if (RawCuda::get()->devices().size() > 1) return true;
    other.go(kSkip);
    EXPECT_EQ(other.wait(), 0);
    return false;
  }
  /// A stream of the second GPU.
  static StreamView reading_stream() { return RawCuda::get()->foreign_stream(); }
  [[nodiscard]] static SubscriberOptions reader_options(std::uint32_t depth) {
    SubscriberOptions options;
    options.policy = ReceivePolicy::queue(depth);
    options.device = RawCuda::get()->id(1);
    options.copy_frames = CopyFrames::if_needed;
    return options;
  }
};

TEST_F(OtherGpuTest, StreamsReadAndReleaseAcross) {
  constexpr std::uint64_t kFrames = 40;
  ChildProcess reader([this](const ChildLink& link) {
    if (link.wait_go() == kSkip) return 0;
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, reader_options(1));
    Downloader downloader =
        Downloader::open(runtime, RawCuda::get()->id(1), kFrameBytes, {}).value();
    const StreamView stream = reading_stream();
    link.ready();
    for (std::uint64_t number = 1; number <= kFrames; ++number) {
      Frame frame = subscriber.receive(stream, soon()).value();
      EXPECT_EQ(frame.sequence(), number);
      if (number % 4 == 0) {
        TestDevice::finish(stream);
        EXPECT_FALSE(frame.aborted());
        EXPECT_TRUE(frame.release(stream).value().wait(soon()));
        continue;
      }
      EXPECT_TRUE(downloader.submit(std::move(frame), stream));
      const Result<HostFrame> bytes = downloader.next(soon());
      EXPECT_TRUE(bytes && test::holds_frame(bytes->bytes(), number)) << "frame " << number;
    }
    return 0;
  });
  if (!has_two(reader)) GTEST_SKIP() << "one GPU is visible, and this needs two";
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
  reader.go(kGoOn);
  reader.wait_ready();
  // Two slots: each frame but the first needs one that the other GPU's stream has given back.
  for (std::uint64_t number = 1; number <= kFrames; ++number) {
    ASSERT_TRUE(publish_number(publisher, number, kForever));
  }
  EXPECT_EQ(reader.wait(), 0);
}

TEST_F(OtherGpuTest, AStreamGetsPastAPublisherThatDies) {
  ChildProcess victim([this](const ChildLink& link) {
    if (link.wait_go() == kSkip) return 0;
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(publish_complete(publisher, 1));
    StreamGate gate;
    gate.close(TestDevice::stream());
    EXPECT_TRUE(publish_number(publisher, 2));
    link.ready();
    link.wait_forever();
    return 0;
  });
  if (!has_two(victim)) GTEST_SKIP() << "one GPU is visible, and this needs two";
  const Runtime runtime = open_runtime();
  const StreamView stream = reading_stream();
  victim.go(kGoOn);
  Subscriber subscriber = open_subscriber(runtime, reader_options(2));
  victim.wait_ready();
  const Frame whole = subscriber.receive(stream, soon()).value();
  EXPECT_EQ(whole.sequence(), 1U);
  const Frame pending = subscriber.receive(stream, soon()).value();
  EXPECT_EQ(pending.sequence(), 2U);
  EXPECT_TRUE(RawCuda::get()->is_busy(stream));
  victim.kill();
  victim.wait_until_zombie();
  TestDevice::finish(stream);
  EXPECT_TRUE(pending.aborted());
  EXPECT_FALSE(whole.aborted());
  EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::peer_gone));
  expect_leftovers();
}

}  // namespace
}  // namespace vramlink
