// Frames between host memory and a channel's device: pinned buffers up, downloads down.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <vramlink/host_copy.hpp>

#include "support/channel_fixture.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using test::ChildKind;
using test::ChildLink;
using test::ChildProcess;
using test::kNow;
using test::soon;

class HostCopyTest : public test::ChannelFixture {
 protected:
  [[nodiscard]] Publisher open_blocking(const Runtime& runtime,
                                        std::uint32_t slot_count = 4) const {
    PublisherOptions options;
    options.slot_count = slot_count;
    options.when_full = WhenFull::block;
    options.device = device_;
    return open_publisher(runtime, options);
  }
  [[nodiscard]] Downloader open_downloader(const Runtime& runtime,
                                           const DownloaderOptions& options = {}) const {
    return Downloader::open(runtime, device_, kFrameBytes, options).value();
  }
  /// Uploads frame `number`.
  static Result<Receipt> upload(Publisher& publisher, PinnedBuffer& buffer, std::uint64_t number,
                                const FrameInfo& info = {}) {
    test::fill_frame(buffer.bytes(), number);
    Result<Receipt> receipt = publisher.publish_copy(buffer.bytes(), kNow, soon(), info);
    if (receipt) receipt->wait(soon()).value();
    return receipt;
  }

  const DeviceId device_ = test::TestDevice::id();
};

TEST_F(HostCopyTest, UpAndDownEveryByteAndWhatTravelsBeside) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_blocking(runtime);
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
  EXPECT_EQ(subscriber.device(), device_);
  Downloader downloader = open_downloader(runtime);
  PinnedBuffer buffer = PinnedBuffer::allocate(runtime, device_, kFrameBytes).value();
  ASSERT_EQ(buffer.size_bytes(), kFrameBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0U);
  const std::array<std::byte, 3> user_data{std::byte{1}, std::byte{2}, std::byte{3}};
  for (std::uint64_t number = 1; number <= 20; ++number) {
    ASSERT_TRUE(upload(
        publisher, buffer, number,
        {.media_ns = static_cast<std::int64_t>(number * 10), .user_data = user_data, .flags = 7}));
    const Result<HostFrame> frame = downloader.receive(subscriber, soon());
    ASSERT_TRUE(frame) << to_string(frame.error());
    EXPECT_TRUE(test::holds_frame(frame->bytes(), number));
    EXPECT_EQ(frame->sequence(), number);
    EXPECT_EQ(frame->media_ns(), static_cast<std::int64_t>(number * 10));
    EXPECT_EQ(frame->flags(), 7U);
    EXPECT_EQ(frame->format(), subscriber.format());
    EXPECT_NE(frame->epoch(), 0U);
    EXPECT_GT(frame->publish_ns(), 0);
    ASSERT_EQ(frame->user_data().size(), user_data.size());
    EXPECT_EQ(std::memcmp(frame->user_data().data(), user_data.data(), user_data.size()), 0);
    EXPECT_EQ(frame->as<std::uint8_t>().value().size(), kFrameBytes);
    EXPECT_TRUE(frame->as<float>().failed_with(Code::invalid_argument));
  }
}

TEST_F(HostCopyTest, FramesComeInOrderAndTheEndComesLast) {
  const Runtime runtime = open_runtime();
  std::optional<Publisher> publisher = open_blocking(runtime, 8);
  Subscriber subscriber = open_subscriber(
      runtime, {.policy = ReceivePolicy::queue(7), .held_count_max = 4, .reconnect = false});
  Downloader downloader = open_downloader(runtime, {.buffer_count = 3});
  PinnedBuffer buffer = PinnedBuffer::allocate(runtime, device_, kFrameBytes).value();
  for (std::uint64_t number = 1; number <= 6; ++number) {
    ASSERT_TRUE(upload(*publisher, buffer, number));
  }
  publisher.reset();
  for (std::uint64_t number = 1; number <= 6; ++number) {
    const Result<HostFrame> frame = downloader.receive(subscriber, soon());
    ASSERT_TRUE(frame) << to_string(frame.error());
    EXPECT_TRUE(test::holds_frame(frame->bytes(), number));
  }
  EXPECT_TRUE(downloader.receive(subscriber, soon()).failed_with(Code::closed));
}

TEST_F(HostCopyTest, BuffersThatAreHeldAreNotWrittenTo) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_blocking(runtime, 8);
  Subscriber subscriber =
      open_subscriber(runtime, {.policy = ReceivePolicy::queue(7), .held_count_max = 7});
  Downloader downloader = open_downloader(runtime, {.buffer_count = 2});
  PinnedBuffer buffer = PinnedBuffer::allocate(runtime, device_, kFrameBytes).value();
  for (std::uint64_t number = 1; number <= 4; ++number) {
    ASSERT_TRUE(upload(publisher, buffer, number));
  }
  HostFrame first = downloader.receive(subscriber, soon()).value();
  HostFrame second = downloader.receive(subscriber, soon()).value();
  EXPECT_TRUE(downloader.receive(subscriber, soon()).failed_with(Code::full));
  EXPECT_TRUE(test::holds_frame(first.bytes(), 1));
  EXPECT_TRUE(test::holds_frame(second.bytes(), 2));
  second.release();
  second.release();
  EXPECT_EQ(second.data(), nullptr);
  EXPECT_TRUE(second.as<std::uint8_t>().failed_with(Code::wrong_state));
  second = downloader.receive(subscriber, soon()).value();
  EXPECT_TRUE(test::holds_frame(second.bytes(), 3));
  second = std::move(first);
  EXPECT_EQ(second.sequence(), 1U);
  EXPECT_TRUE(test::holds_frame(second.bytes(), 1));
}

TEST_F(HostCopyTest, SubmitAndNextByHand) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_blocking(runtime);
  Subscriber subscriber =
      open_subscriber(runtime, {.policy = ReceivePolicy::queue(3), .held_count_max = 3});
  Downloader downloader = open_downloader(runtime);
  PinnedBuffer buffer = PinnedBuffer::allocate(runtime, device_, kFrameBytes).value();
  EXPECT_TRUE(downloader.next(soon()).failed_with(Code::empty));
  EXPECT_TRUE(downloader.receive(subscriber, Deadline::passed()).failed_with(Code::timed_out));
  for (std::uint64_t number = 1; number <= 3; ++number) {
    ASSERT_TRUE(upload(publisher, buffer, number));
  }
  ASSERT_TRUE(downloader.submit(subscriber.receive(soon()).value(), kNow));
  ASSERT_TRUE(downloader.submit(subscriber.receive(soon()).value(), kNow));
  EXPECT_EQ(downloader.submitted_count(), 2U);
  Frame third = subscriber.receive(soon()).value();
  EXPECT_TRUE(downloader.submit(std::move(third), kNow).failed_with(Code::full));
  ASSERT_NE(third.data(), nullptr) << "it stays the caller's";
  EXPECT_EQ(downloader.next(soon()).value().sequence(), 1U);
  ASSERT_TRUE(downloader.submit(std::move(third), kNow));
  EXPECT_EQ(downloader.next(soon()).value().sequence(), 2U);
  EXPECT_EQ(downloader.next(soon()).value().sequence(), 3U);
  Frame gone = std::move(third);
  EXPECT_TRUE(downloader.submit(std::move(gone), kNow).failed_with(Code::wrong_state));
  // The slots are back: none is left to be held.
  for (std::uint64_t number = 4; number <= 6; ++number) {
    ASSERT_TRUE(upload(publisher, buffer, number));
  }
}

TEST_F(HostCopyTest, AFrameOutlivesEverybody) {
  std::optional<Runtime> runtime = open_runtime();
  std::optional<Publisher> publisher = open_blocking(*runtime);
  std::optional<Subscriber> subscriber = open_subscriber(*runtime);
  std::optional<Downloader> downloader = open_downloader(*runtime);
  std::optional<PinnedBuffer> buffer =
      PinnedBuffer::allocate(*runtime, device_, kFrameBytes).value();
  ASSERT_TRUE(upload(*publisher, *buffer, 1));
  const HostFrame frame = downloader->receive(*subscriber, soon()).value();
  buffer.reset();
  downloader.reset();
  subscriber.reset();
  publisher.reset();
  runtime.reset();
  EXPECT_TRUE(test::holds_frame(frame.bytes(), 1));
}

TEST_F(HostCopyTest, WhatCannotBe) {
  const Runtime runtime = open_runtime();
  EXPECT_TRUE(PinnedBuffer::allocate(runtime, device_, 0).failed_with(Code::invalid_argument));
  DeviceId nowhere;
  nowhere.uuid.fill(0xee);
  EXPECT_FALSE(PinnedBuffer::allocate(runtime, nowhere, kFrameBytes));
  EXPECT_FALSE(Downloader::open(runtime, nowhere, kFrameBytes));
  for (const std::uint32_t count : {0U, kDownloadBufferCountMax + 1}) {
    EXPECT_TRUE(Downloader::open(runtime, device_, kFrameBytes, {.buffer_count = count})
                    .failed_with(Code::invalid_argument));
  }
  EXPECT_TRUE(Downloader::open(runtime, device_, 0).failed_with(Code::invalid_argument));
}

TEST_F(HostCopyTest, AForkedChildTouchesNothing) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_blocking(runtime);
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
  std::optional<Downloader> downloader = open_downloader(runtime);
  std::optional<PinnedBuffer> buffer =
      PinnedBuffer::allocate(runtime, device_, kFrameBytes).value();
  ASSERT_TRUE(upload(publisher, *buffer, 1));
  std::optional<HostFrame> frame = downloader->receive(subscriber, soon()).value();
  ChildProcess child(
      [&](const ChildLink&) {
        EXPECT_TRUE(downloader->receive(subscriber, kForever).failed_with(Code::wrong_state));
        EXPECT_TRUE(downloader->next(kForever).failed_with(Code::wrong_state));
        EXPECT_TRUE(PinnedBuffer::allocate(runtime, device_, 8).failed_with(Code::wrong_state));
        EXPECT_TRUE(Downloader::open(runtime, device_, 8).failed_with(Code::wrong_state));
        frame.reset();
        downloader.reset();
        buffer.reset();
        return 0;
      },
      ChildKind::forked);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(test::holds_frame(frame->bytes(), 1));
  ASSERT_TRUE(upload(publisher, *buffer, 2));
  frame = downloader->receive(subscriber, soon()).value();
  EXPECT_TRUE(test::holds_frame(frame->bytes(), 2));
}

}  // namespace
}  // namespace vramlink
