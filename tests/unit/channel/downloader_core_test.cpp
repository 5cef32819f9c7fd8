// Downloads from a device whose streams the test steps by hand.
#include "channel/downloader_core.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <utility>

#include <vramlink/host_copy.hpp>

#include "support/stream_fixture.hpp"

namespace vramlink {
namespace {

using test::kNow;
using test::soon;

class DownloaderCore : public test::StreamFixture {
 protected:
  static constexpr int kCopy = test::FakeBackend::kCopyStream;

  [[nodiscard]] Downloader open_downloader(const DownloaderOptions& options = {}) const {
    return Downloader::open(runtime_, test::fake_device(), kBytes, options).value();
  }
  /// A frame that is complete.
  [[nodiscard]] Frame complete_frame(Publisher& publisher, Subscriber& subscriber,
                                     std::uint64_t number) {
    publish(publisher, number);
    device_.run();
    return subscriber.try_receive().value();
  }
};

TEST_F(DownloaderCore, TheCopyRunsBehindTheStreamItIsGiven) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  Downloader downloader = open_downloader();
  publish(publisher, 4);
  Frame frame = subscriber.try_receive(device_.stream(kRead)).value();
  ASSERT_TRUE(downloader.submit(std::move(frame), device_.stream(kRead)));
  device_.run(kCopy);
  EXPECT_TRUE(downloader.next(Deadline::passed()).failed_with(Code::timed_out));
  EXPECT_EQ(downloader.submitted_count(), 1U) << "it stays submitted";
  device_.run();
  const HostFrame got = downloader.next(soon()).value();
  EXPECT_TRUE(test::holds_frame(got.bytes(), 4));
  EXPECT_EQ(got.sequence(), 1U);
}

TEST_F(DownloaderCore, TheSlotGoesBackWithTheCopyWhoeverAsks) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  Downloader downloader = open_downloader();
  ASSERT_TRUE(downloader.submit(complete_frame(publisher, subscriber, 1), kNow));
  EXPECT_EQ(held(publisher), 1U);
  device_.run(kCopy);
  EXPECT_EQ(held(publisher), 0U);
}

TEST_F(DownloaderCore, WithoutStreamOrderTheSlotGoesBackWithNext) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.stream_order = false});
  Downloader downloader = open_downloader();
  ASSERT_TRUE(downloader.submit(complete_frame(publisher, subscriber, 1), kNow));
  device_.run(kCopy);
  EXPECT_EQ(held(publisher), 1U);
  EXPECT_TRUE(downloader.next(soon()));
  EXPECT_EQ(held(publisher), 0U);
}

TEST_F(DownloaderCore, TheNextFrameIsCopiedWhileThisOneIsRead) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.policy = ReceivePolicy::queue(3), .held_count_max = 3});
  Downloader downloader = open_downloader();
  for (std::uint64_t number = 1; number <= 3; ++number) publish(publisher, number);
  device_.run();
  EXPECT_TRUE(downloader.receive(subscriber, Deadline::passed()).failed_with(Code::timed_out));
  EXPECT_EQ(downloader.submitted_count(), 2U);
  device_.run(kCopy);
  const HostFrame first = downloader.receive(subscriber, soon()).value();
  EXPECT_TRUE(test::holds_frame(first.bytes(), 1));
  EXPECT_EQ(downloader.submitted_count(), 1U) << "and there is no buffer for a third";
  const HostFrame second = downloader.receive(subscriber, soon()).value();
  EXPECT_TRUE(test::holds_frame(second.bytes(), 2));
  EXPECT_TRUE(test::holds_frame(first.bytes(), 1));
}

TEST_F(DownloaderCore, NotAheadTheFrameIsTheNewestNow) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  Downloader downloader = open_downloader({.ahead = false});
  for (std::uint64_t number = 1; number <= 2; ++number) publish(publisher, number);
  device_.run();
  EXPECT_TRUE(downloader.receive(subscriber, Deadline::passed()).failed_with(Code::timed_out));
  EXPECT_EQ(downloader.submitted_count(), 1U);
  device_.run();
  EXPECT_EQ(downloader.receive(subscriber, soon()).value().sequence(), 2U);
}

TEST_F(DownloaderCore, AFrameThatNeverCameIsAborted) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  Downloader downloader = open_downloader({.buffer_count = 1});
  publish(publisher, 1);
  Frame frame = subscriber.try_receive(device_.stream(kRead), std::chrono::milliseconds(1)).value();
  ASSERT_TRUE(downloader.submit(std::move(frame), device_.stream(kRead)));
  std::optional<Result<HostFrame>> got;
  test::wait_until([&] {  // the reactor lets the stream go on when its time is over
    device_.run(kRead);
    device_.run(kCopy);
    got.emplace(downloader.next(Deadline::passed()));
    return !got->failed_with(Code::timed_out);
  });
  EXPECT_TRUE(got->failed_with(Code::aborted));
  publish(publisher, 2);
  device_.run();
  ASSERT_TRUE(downloader.submit(subscriber.try_receive().value(), kNow)) << "the buffer is back";
  device_.run();
  const HostFrame second = downloader.next(soon()).value();
  EXPECT_TRUE(test::holds_frame(second.bytes(), 2));
}

TEST_F(DownloaderCore, WhatTheDeviceRefusesGivesBackTheSlot) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  Downloader downloader = open_downloader({.buffer_count = 1});
  for (const char* call : {"order", "copy"}) {
    Frame frame = complete_frame(publisher, subscriber, 1);
    device_.fail(call);
    EXPECT_TRUE(
        downloader.submit(std::move(frame), device_.stream(kRead)).failed_with(Code::driver))
        << call;
    EXPECT_EQ(downloader.submitted_count(), 0U);
    EXPECT_EQ(held(publisher), 0U);
  }
  ASSERT_TRUE(downloader.submit(complete_frame(publisher, subscriber, 2), kNow));
  device_.run();
  EXPECT_TRUE(downloader.next(soon()));
}

TEST_F(DownloaderCore, ADeviceThatFailsEndsTheWait) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  Downloader downloader = open_downloader();
  ASSERT_TRUE(downloader.submit(complete_frame(publisher, subscriber, 1), kNow));
  device_.break_down();
  EXPECT_TRUE(downloader.next(kForever).failed_with(Code::driver));
  EXPECT_EQ(downloader.submitted_count(), 0U);
}

TEST_F(DownloaderCore, WithoutABufferLeftItSaysWhatTookThem) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  Downloader downloader = open_downloader({.buffer_count = 1});
  ASSERT_TRUE(downloader.submit(complete_frame(publisher, subscriber, 1), kNow));
  device_.break_down();
  EXPECT_TRUE(downloader.next(kForever).failed_with(Code::driver));
  EXPECT_TRUE(downloader.receive(subscriber, test::soon()).failed_with(Code::driver));
}

TEST_F(DownloaderCore, AStreamThatTheHostRefusesCostsNoBuffer) {
  Publisher publisher = ChannelFixture::open_publisher(runtime_, {}, kBytes);
  Subscriber subscriber = open_subscriber();
  Downloader downloader =
      Downloader::open(runtime_, DeviceId::host(), kBytes, {.buffer_count = 1}).value();
  for (std::uint64_t number = 1; number <= 3; ++number) {
    ASSERT_TRUE(test::publish_number(publisher, number));
    Frame frame = subscriber.try_receive().value();
    EXPECT_TRUE(
        downloader.submit(std::move(frame), device_.stream(kRead)).failed_with(Code::wrong_state));
    EXPECT_EQ(held(publisher), 0U);
  }
  ASSERT_TRUE(test::publish_number(publisher, 4));
  ASSERT_TRUE(downloader.submit(subscriber.try_receive().value(), kNow));
  const HostFrame frame = downloader.next(test::soon()).value();
  EXPECT_TRUE(test::holds_frame(frame.bytes(), 4));
}

TEST_F(DownloaderCore, BuffersStayRegisteredWhileACopyWritesToThem) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  const int before = device_.registered_pages();
  std::optional<Downloader> downloader = open_downloader();
  EXPECT_EQ(device_.registered_pages(), before + 1);
  ASSERT_TRUE(downloader->submit(complete_frame(publisher, subscriber, 1), kNow));
  downloader.reset();
  drain_janitor();
  EXPECT_EQ(device_.registered_pages(), before + 1);
  device_.run();
  test::wait_until([&] { return device_.registered_pages() == before; });
}

TEST_F(DownloaderCore, AFrameOfAnotherDeviceOrTooLargeStaysTheCallers) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  Downloader on_host = Downloader::open(runtime_, DeviceId::host(), kBytes).value();
  Downloader small = Downloader::open(runtime_, test::fake_device(), kBytes - 1).value();
  Frame frame = complete_frame(publisher, subscriber, 1);
  EXPECT_TRUE(on_host.submit(std::move(frame), kNow).failed_with(Code::invalid_argument));
  EXPECT_TRUE(small.submit(std::move(frame), kNow).failed_with(Code::invalid_argument));
  EXPECT_NE(frame.data(), nullptr);
}

}  // namespace
}  // namespace vramlink
