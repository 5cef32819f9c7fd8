// Frames that a subscriber has copied to a GPU of its own, with and without a way between the two
// GPUs. Needs two.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <vramlink/host_copy.hpp>

#include "support/channel_fixture.hpp"
#include "support/raw_cuda.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using test::kNow;
using test::RawCuda;
using test::soon;

class CopyFramesTest : public test::ChannelFixture {
 protected:
  void SetUp() override {
    ChannelFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (raw().devices().size() < 2) GTEST_SKIP() << "one GPU is visible, and this needs two";
    int can = 0;
    raw().expect(
        raw().driver().device_can_access_peer(&can, raw().devices()[1], raw().devices()[0]));
    reachable_ = can != 0;
    reader_ = raw().id(1);
  }
  static RawCuda& raw() { return *RawCuda::get(); }

  [[nodiscard]] Publisher open_blocking(const Runtime& runtime) const {
    PublisherOptions options;
    options.when_full = WhenFull::block;
    options.device = raw().id(0);
    return open_publisher(runtime, options);
  }
  [[nodiscard]] SubscriberOptions copying(CopyFrames copy_frames) const {
    SubscriberOptions options;
    options.policy = ReceivePolicy::queue(2);
    options.device = reader_;
    options.copy_frames = copy_frames;
    return options;
  }
  /// The bytes of a frame, through a downloader of the reading GPU.
  static ::testing::AssertionResult holds(Downloader& downloader, Frame&& frame, StreamView stream,
                                          std::uint64_t number) {
    if (const Result<void> submitted = downloader.submit(std::move(frame), stream); !submitted) {
      return ::testing::AssertionFailure() << to_string(submitted.error());
    }
    const Result<HostFrame> bytes = downloader.next(soon());
    if (!bytes) return ::testing::AssertionFailure() << to_string(bytes.error());
    return test::holds_frame(bytes->bytes(), number);
  }

  bool reachable_ = false;
  DeviceId reader_;
};

TEST_F(CopyFramesTest, ArriveWholeByCpuAndInAStreamsOrder) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_blocking(runtime);
  Subscriber subscriber = open_subscriber(runtime, copying(CopyFrames::always));
  Downloader downloader = Downloader::open(runtime, reader_, kFrameBytes, {}).value();
  const StreamView stream = raw().foreign_stream();  // of the second GPU
  for (std::uint64_t number = 1; number <= 20; ++number) {
    ASSERT_TRUE(test::publish_number(publisher, number, soon()));
    const bool by_stream = number % 2 == 0;
    Result<Frame> frame =
        by_stream ? subscriber.receive(stream, soon()) : subscriber.receive(soon());
    ASSERT_TRUE(frame) << to_string(frame.error());
    EXPECT_EQ(frame->sequence(), number);
    EXPECT_EQ(frame->device(), reader_);
    EXPECT_TRUE(frame->is_copy());
    EXPECT_TRUE(holds(downloader, *std::move(frame), by_stream ? stream : kNow, number));
  }
  EXPECT_EQ(subscriber.statistics().copied, 20U);
  EXPECT_EQ(subscriber.statistics().received, 20U);
}

TEST_F(CopyFramesTest, AreMadeOnlyWhereTheyAreNeeded) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_blocking(runtime);
  Subscriber subscriber = open_subscriber(runtime, copying(CopyFrames::if_needed));
  Downloader downloader = Downloader::open(runtime, reader_, kFrameBytes, {}).value();
  ASSERT_TRUE(test::publish_number(publisher, 3, soon()));
  Frame frame = subscriber.receive(soon()).value();
  EXPECT_EQ(frame.is_copy(), !reachable_);
  EXPECT_TRUE(holds(downloader, std::move(frame), kNow, 3));
  EXPECT_EQ(subscriber.statistics().copied, reachable_ ? 0U : 1U);
}

TEST_F(CopyFramesTest, NeedConsent) {
  if (reachable_) GTEST_SKIP() << "the two GPUs reach one another";
  const Runtime runtime = open_runtime();
  const Publisher publisher = open_blocking(runtime);
  const auto refused = Subscriber::open(runtime, kName, soon(), copying(CopyFrames::never));
  ASSERT_TRUE(refused.failed_with(Code::unsupported));
  EXPECT_NE(to_string(refused.error()).find("copy_frames"), std::string::npos)
      << to_string(refused.error());
}

TEST_F(CopyFramesTest, AreNotMadeOnThePublishersOwnGpu) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_blocking(runtime);
  SubscriberOptions options = copying(CopyFrames::always);
  options.device = raw().id(0);
  Subscriber subscriber = open_subscriber(runtime, options);
  ASSERT_TRUE(test::publish_number(publisher, 4, soon()));
  const Frame frame = subscriber.receive(soon()).value();
  EXPECT_FALSE(frame.is_copy());
  EXPECT_TRUE(test::holds_frame(frame.bytes(), 4));
}

}  // namespace
}  // namespace vramlink
