// Receiving and releasing in a stream: sections 6, 8 and 10 of the protocol.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "support/absent_device.hpp"
#include "support/stream_fixture.hpp"

namespace vramlink {
namespace {

using std::chrono::milliseconds;

class StreamReceive : public test::StreamFixture {
 protected:
  Result<Frame> receive(Subscriber& subscriber, Deadline wait_until = test::soon()) {
    return subscriber.try_receive(device_.stream(kRead), wait_until);
  }
};

TEST_F(StreamReceive, TheStreamWaitsForTheFrame) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish(publisher, 4);
  Frame frame = receive(subscriber).value();
  const auto number = read(frame);
  device_.run(kRead);
  EXPECT_EQ(*number, 0U) << "the frame is not there yet";
  device_.run();
  EXPECT_EQ(*number, 4U);
  EXPECT_FALSE(frame.aborted());
  EXPECT_TRUE(receive(subscriber).failed_with(Code::empty)) << "each frame is received once";
}

TEST_F(StreamReceive, ACompleteFrameIsNotWaitedFor) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish(publisher, 4);
  device_.run();
  const Frame frame = receive(subscriber).value();
  EXPECT_EQ(device_.calls("wait"), 0);
  const auto number = read(frame);
  device_.run(kRead);
  EXPECT_EQ(*number, 4U);
}

TEST_F(StreamReceive, TakesTheNewestOrTheNextAsItsPolicySays) {
  Publisher publisher = open_publisher();
  Subscriber latest = open_subscriber();
  Subscriber queue = open_subscriber({.policy = ReceivePolicy::queue(3)});
  for (std::uint64_t number = 1; number <= 2; ++number) publish(publisher, number);
  EXPECT_EQ(receive(latest).value().sequence(), 2U);
  EXPECT_EQ(receive(queue).value().sequence(), 1U);
  EXPECT_EQ(receive(queue).value().sequence(), 2U);
  device_.run();
}

TEST_F(StreamReceive, AFrameClaimedBeforeItJoinedIsWaitedForByTheCpu) {
  Publisher publisher = open_publisher();
  WritableFrame claimed = publisher.try_claim(device_.stream(kRender)).value();
  Subscriber subscriber = open_subscriber();
  static_cast<void>(publisher.publish(std::move(claimed), device_.stream(kRender)).value());
  EXPECT_TRUE(receive(subscriber).failed_with(Code::empty));
  EXPECT_EQ(device_.calls("wait"), 0) << "our word is not in that frame's batch";
  device_.run();
  EXPECT_TRUE(receive(subscriber));
}

TEST_F(StreamReceive, BlocksUntilAFrameIsPublished) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  EXPECT_TRUE(
      subscriber.receive(device_.stream(kRead), Deadline::passed()).failed_with(Code::timed_out));
  auto received = std::async(std::launch::async, [&] {
    return subscriber.receive(device_.stream(kRead), test::soon()).value().sequence();
  });
  publish(publisher, 1);
  EXPECT_EQ(received.get(), 1U);
  device_.run();
}

TEST_F(StreamReceive, WithoutAStreamItIsAReceiveByCpu) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish(publisher, 1);
  EXPECT_TRUE(subscriber.try_receive(test::kNow).failed_with(Code::empty));
  device_.run();
  EXPECT_TRUE(subscriber.receive(test::kNow));
}

TEST_F(StreamReceive, RefusesWhatCannotBe) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  Subscriber by_cpu = open_subscriber({.stream_order = false});
  publish(publisher, 1);
  int nothing = 0;
  EXPECT_TRUE(subscriber.try_receive(StreamView::cuda(&nothing)).failed_with(Code::wrong_state));
  EXPECT_TRUE(
      subscriber.receive(device_.stream(kRead), kForever).failed_with(Code::invalid_argument));
  const auto refused = by_cpu.try_receive(device_.stream(kRead));
  ASSERT_TRUE(refused.failed_with(Code::wrong_state));
  EXPECT_NE(to_string(refused.error()).find("stream_order"), std::string::npos);
  EXPECT_TRUE(receive(subscriber)) << "a refusal takes no frame";
  device_.run();
}

TEST_F(StreamReceive, AWaitForAReleaseEndsWithTheDevice) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish(publisher, 1);
  Frame frame = subscriber.try_receive(device_.stream(kRead), test::soon()).value();
  const ReleaseReceipt receipt = frame.release(device_.stream(kRead)).value();
  device_.break_down();
  EXPECT_TRUE(receipt.wait(kForever).failed_with(Code::driver));
}

TEST_F(StreamReceive, ADeviceThatRefusesAReleaseIsAskedWhetherItWorks) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.held_count_max = 1});
  publish(publisher, 1);
  Frame frame = subscriber.try_receive(device_.stream(kRead)).value();
  device_.run();
  device_.fail("signal");
  EXPECT_TRUE(frame.release(device_.stream(kRead)).failed_with(Code::driver));
  test::wait_until([&] { return device_.calls("check_health") > 0; });
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty)) << "it works";
  device_.break_down();
  device_.fail("signal");
  EXPECT_TRUE(frame.release(device_.stream(kRead)).failed_with(Code::driver));
  test::wait_until([&] { return subscriber.try_receive().failed_with(Code::driver); });
}

TEST_F(StreamReceive, AFrameThatCouldNotBeHandedOutIsCountedAsLost) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.policy = ReceivePolicy::queue(2)});
  publish(publisher, 1);
  device_.fail("wait");
  EXPECT_TRUE(subscriber.try_receive(device_.stream(kRead)).failed_with(Code::driver));
  EXPECT_EQ(subscriber.statistics().lost, 1U);
  EXPECT_EQ(held(publisher), 0U);
  device_.run();
}

TEST_F(StreamReceive, WhatKeepsTheNextPublisherAwayIsSaidOnce) {
  std::optional<Publisher> publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.device = test::fake_device()});
  publisher.reset();
  EXPECT_TRUE(subscriber.receive(test::soon()).failed_with(Code::closed));
  const Publisher on_the_host = ChannelFixture::open_publisher(runtime_);
  EXPECT_TRUE(subscriber.receive(test::soon()).failed_with(Code::unsupported));
  EXPECT_TRUE(subscriber.receive(Deadline::after(std::chrono::milliseconds(50)))
                  .failed_with(Code::timed_out));
}

TEST_F(StreamReceive, AWaitThatCannotBeEnqueuedGivesTheSlotBack) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish(publisher, 1);
  device_.fail("wait");
  EXPECT_TRUE(receive(subscriber).failed_with(Code::driver));
  EXPECT_EQ(held(publisher), 0U);
  device_.run();
}

// Deadlines

TEST_F(StreamReceive, ADeadlineLetsTheStreamGoOnAndSaysSo) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish(publisher, 4);
  const Frame frame = receive(subscriber, milliseconds(5)).value();
  const auto number = read(frame);
  test::wait_until([&] { return device_.step(kRead) == 1; });
  EXPECT_TRUE(frame.aborted()) << "known before the stream went on";
  EXPECT_EQ(device_.pending(kRender), 3U) << "the publisher has not got there";
  device_.run();
  EXPECT_TRUE(frame.aborted()) << "whatever came later";
  EXPECT_EQ(subscriber.statistics().aborted, 1U);
}

TEST_F(StreamReceive, ADeadlineThatPassesAfterTheFrameIsNothing) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish(publisher, 4);
  const Deadline deadline = Deadline::after(milliseconds(5));
  const Frame frame = receive(subscriber, deadline).value();
  device_.run();
  test::wait_until([&] { return deadline.has_passed(); });
  drain_reactor();
  EXPECT_FALSE(frame.aborted());
  EXPECT_EQ(subscriber.statistics().aborted, 0U);
}

TEST_F(StreamReceive, EachWaitHasItsOwnDeadline) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.policy = ReceivePolicy::queue(3)});
  publish(publisher, 1);
  publish(publisher, 2);
  const Frame patient = receive(subscriber, test::soon()).value();
  const Frame hasty = receive(subscriber, milliseconds(1)).value();
  test::wait_until([&] { return hasty.aborted(); });
  EXPECT_FALSE(patient.aborted());
  device_.run();
  EXPECT_FALSE(patient.aborted());
}

// Releasing

TEST_F(StreamReceive, AReleaseTakesPlaceBehindTheStream) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish(publisher, 4);
  device_.run();
  Frame frame = subscriber.try_receive().value();
  const auto number = read(frame);
  const ReleaseReceipt receipt = frame.release(device_.stream(kRead)).value();
  EXPECT_EQ(frame.data(), nullptr);
  EXPECT_FALSE(receipt.ready());
  EXPECT_TRUE(receipt.wait(Deadline::passed()).failed_with(Code::timed_out));
  EXPECT_EQ(held(publisher), 1U);
  device_.step(kRead);
  EXPECT_EQ(*number, 4U);
  EXPECT_EQ(held(publisher), 1U);
  device_.run();
  EXPECT_EQ(held(publisher), 0U);
  EXPECT_TRUE(receipt.ready());
  EXPECT_TRUE(receipt.wait(Deadline::passed()));
  EXPECT_TRUE(frame.release(device_.stream(kRead)).failed_with(Code::wrong_state));
}

TEST_F(StreamReceive, AFrameReceivedWithAStreamIsDroppedBehindIt) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish(publisher, 4);
  std::shared_ptr<std::uint64_t> number;
  {
    const Frame frame = receive(subscriber).value();
    number = read(frame);
  }
  device_.run(kRender);
  EXPECT_EQ(held(publisher), 1U) << "never early";
  device_.run();
  EXPECT_EQ(*number, 4U);
  EXPECT_EQ(held(publisher), 0U);
}

TEST_F(StreamReceive, AnotherStreamReleasesBehindTheOneItWasReceivedWith) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish(publisher, 4);
  Frame frame = receive(subscriber).value();
  const ReleaseReceipt receipt = frame.release(device_.stream(kOther)).value();
  device_.run(kOther);
  EXPECT_FALSE(receipt.ready());
  device_.run();
  EXPECT_TRUE(receipt.ready());
}

TEST_F(StreamReceive, ByTheCallersWordItIsReleasedAtOnce) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish(publisher, 4);
  Frame frame = receive(subscriber).value();
  device_.run();
  const ReleaseReceipt receipt = frame.release(test::kNow).value();
  EXPECT_TRUE(receipt.ready());
  EXPECT_EQ(held(publisher), 0U);
  EXPECT_EQ(device_.pending(kRead), 0U);
}

TEST_F(StreamReceive, AReleaseThatCannotBeEnqueuedKeepsTheFrame) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish(publisher, 4);
  device_.run();
  Frame frame = subscriber.try_receive().value();
  device_.fail("signal");
  EXPECT_TRUE(frame.release(device_.stream(kRead)).failed_with(Code::driver));
  EXPECT_NE(frame.data(), nullptr);
  EXPECT_EQ(held(publisher), 1U);
  int nothing = 0;
  EXPECT_TRUE(frame.release(StreamView::cuda(&nothing)).failed_with(Code::wrong_state));
  EXPECT_TRUE(frame.release(device_.stream(kRead)));
  device_.run();
  EXPECT_EQ(held(publisher), 0U);
}

TEST_F(StreamReceive, TheReceiptKnowsOfAnAbortedWait) {
  Publisher publisher = open_publisher({.slot_count = 2});
  Subscriber subscriber = open_subscriber({.held_count_max = 1});
  publish(publisher, 1);
  Frame first = receive(subscriber, milliseconds(1)).value();
  const ReleaseReceipt aborted = first.release(device_.stream(kRead)).value();
  EXPECT_FALSE(aborted.ready());
  test::wait_until([&] {
    device_.run(kRead);
    return aborted.ready();
  });
  EXPECT_TRUE(aborted.aborted());
  EXPECT_TRUE(aborted.wait(test::soon()).failed_with(Code::aborted));
  device_.run();
  // The slot is used again, and waited for again; the first verdict stands.
  for (std::uint64_t number = 2; number < 6; ++number) {
    publish(publisher, number);
    Frame frame = receive(subscriber).value();
    const ReleaseReceipt receipt = frame.release(device_.stream(kRead)).value();
    device_.run();
    EXPECT_TRUE(receipt.ready());
    EXPECT_FALSE(receipt.aborted());
  }
  EXPECT_TRUE(aborted.aborted());
}

TEST_F(StreamReceive, HeldFramesCountUntilTheStreamReleasedThem) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.held_count_max = 1});
  publish(publisher, 1);
  device_.run();
  EXPECT_TRUE(subscriber.try_receive().value().release(device_.stream(kRead)));
  publish(publisher, 2);
  device_.run(kRender);
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::resource_exhausted));
  device_.run();
  EXPECT_TRUE(test::receives_frame(subscriber, 2, Deadline::passed()));
}

TEST_F(StreamReceive, EveryReleaseIsCountedHoweverLateItIsLookedAt) {
  Publisher publisher = open_publisher({.slot_count = 3});
  Subscriber subscriber = open_subscriber({.held_count_max = 2});
  for (std::uint64_t number = 1; number <= 20; ++number) {
    publish(publisher, number);
    device_.run();
    EXPECT_TRUE(subscriber.try_receive().value().release(device_.stream(kRead)));
    device_.run();
  }
}

TEST_F(StreamReceive, AnEventLoopHearsOfAReleaseByStream) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.held_count_max = 1});
  pollfd poll{subscriber.readiness_fd().value(), POLLIN, 0};
  publish(publisher, 1);
  device_.run();
  Frame frame = subscriber.try_receive().value();
  publish(publisher, 2);
  device_.run();
  test::wait_until([&] { return subscriber.try_receive().failed_with(Code::resource_exhausted); });
  EXPECT_EQ(::poll(&poll, 1, 0), 0);
  EXPECT_TRUE(frame.release(device_.stream(kRead)));
  EXPECT_EQ(::poll(&poll, 1, 0), 0);
  device_.run();
  EXPECT_EQ(::poll(&poll, 1, -1), 1);
  EXPECT_TRUE(test::receives_frame(subscriber, 2, Deadline::passed()));
}

TEST_F(StreamReceive, AClaimThatSleepsSeesAReleaseByStream) {
  Publisher publisher = open_publisher({.slot_count = 2, .when_full = WhenFull::block});
  Subscriber subscriber = open_subscriber({.policy = ReceivePolicy::queue(1)});
  publish(publisher, 1);
  device_.run();
  EXPECT_TRUE(subscriber.try_receive().value().release(device_.stream(kRead)));
  publish(publisher, 2);
  device_.run(kRender);
  auto claimed = std::async(std::launch::async, [&] {
    return publisher.claim(test::kNow, test::soon()).value().size_bytes();
  });
  device_.run();
  EXPECT_EQ(claimed.get(), kBytes);
}

// Ends

TEST_F(StreamReceive, ASubscriberLeavesWhenItsStreamsAreThrough) {
  Publisher publisher = open_publisher();
  publish(publisher, 1);
  std::shared_ptr<std::uint64_t> number;
  {
    Subscriber subscriber = open_subscriber();
    publish(publisher, 2);
    number = read(receive(subscriber).value());
  }
  drain_janitor();
  drain_reactor();
  EXPECT_EQ(held(publisher), 1U) << "its stream reads the frame still";
  device_.run();
  test::wait_until([&] { return publisher.statistics().subscribers.empty(); });
  EXPECT_EQ(*number, 2U);
  EXPECT_EQ(publisher.statistics().subscribers_died, 0U);
}

TEST_F(StreamReceive, AStreamIsReleasedAlsoWhenNobodyHasTheSessionAnyMore) {
  std::optional<Publisher> publisher = open_publisher();
  std::shared_ptr<std::uint64_t> number;
  {
    Subscriber subscriber = open_subscriber();
    publish(*publisher, 2);
    number = read(receive(subscriber, milliseconds(20)).value());
  }
  test::wait_until([&] { return device_.step(kRead) == 1; });
  EXPECT_EQ(device_.pending(kRender), 3U);
  device_.run();
}

TEST_F(StreamReceive, ADeviceOfTheReaderThatFailsEndsItsHolds) {
  test::FakeBackend& other = add_device(test::fake_device(2));
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.reconnect = false, .device = test::fake_device(2)});
  publish(publisher, 1);
  device_.run();
  other.break_down();
  EXPECT_TRUE(subscriber.try_receive().value().release(other.stream(kRead)));
  test::wait_until([&] { return publisher.statistics().subscribers.empty(); });
  EXPECT_TRUE(subscriber.receive(test::soon()).failed_with(Code::driver));
  EXPECT_TRUE(publisher.try_claim(device_.stream(kRender))) << "the publisher is untouched";
  device_.run();
}

// Devices

TEST_F(StreamReceive, ReadsOnTheDeviceThatItNames) {
  test::FakeBackend& other = add_device(test::fake_device(2));
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.device = test::fake_device(2)});
  publish(publisher, 6);
  EXPECT_TRUE(subscriber.try_receive(device_.stream(kRead)).failed_with(Code::wrong_state));
  const Frame frame = subscriber.try_receive(other.stream(kRead)).value();
  EXPECT_EQ(other.calls("wait"), 1);
  other.run();
  EXPECT_EQ(other.pending(kRead), 1U);
  device_.run();
  other.run();
  EXPECT_EQ(other.pending(kRead), 0U);
  EXPECT_EQ(test::number_in(frame.bytes()), 6U);
}

TEST_F(StreamReceive, CopiesBehindTheFrameToADeviceThatCannotReachIt) {
  test::FakeBackend& other = add_device(test::fake_device(2));
  Publisher publisher = open_publisher();
  other.fail("import_memory", Code::unsupported);
  Subscriber subscriber =
      open_subscriber({.device = test::fake_device(2), .copy_frames = CopyFrames::if_needed});
  publish(publisher, 6);
  {
    const Frame frame = subscriber.try_receive(other.stream(kRead)).value();
    EXPECT_TRUE(frame.is_copy());
    other.run();
    EXPECT_EQ(test::number_in(frame.bytes()), 0U) << "nothing is copied before it is complete";
    device_.run();
    other.run();
    EXPECT_EQ(test::number_in(frame.bytes()), 6U);
  }
  other.run();
  EXPECT_EQ(held(publisher), 0U);
  publish(publisher, 7);
  device_.run();
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty)) << "it is being copied";
  other.run();
  const Frame complete = subscriber.try_receive().value();
  EXPECT_EQ(test::number_in(complete.bytes()), 7U);
  EXPECT_EQ(subscriber.statistics().copied, 2U);
}

TEST_F(StreamReceive, ACopyThatFailsGivesTheFrameBack) {
  test::FakeBackend& other = add_device(test::fake_device(2));
  Publisher publisher = open_publisher();
  Subscriber subscriber =
      open_subscriber({.device = test::fake_device(2), .copy_frames = CopyFrames::always});
  publish(publisher, 6);
  device_.run();
  other.fail("copy");
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::driver));
  EXPECT_EQ(held(publisher), 1U) << "what the driver refuses may run all the same";
  other.run();
  EXPECT_EQ(held(publisher), 0U);
  publish(publisher, 7);
  device_.run();
  other.fail("copy");
  EXPECT_TRUE(subscriber.try_receive(other.stream(kRead)).failed_with(Code::driver));
  other.run();
  EXPECT_EQ(held(publisher), 0U);
  EXPECT_EQ(subscriber.statistics().copied, 0U);
}

TEST_F(StreamReceive, CopiesNeedConsentAndBothDevices) {
  test::FakeBackend& other = add_device(test::fake_device(2));
  const Publisher publisher = open_publisher();
  other.fail("import_memory", Code::unsupported);
  const auto refused =
      Subscriber::open(runtime_, kName, test::soon(), {.device = test::fake_device(2)});
  ASSERT_TRUE(refused.failed_with(Code::unsupported));
  EXPECT_NE(to_string(refused.error()).find("copy_frames"), std::string::npos);
  other.fail("allocate", Code::out_of_memory);
  EXPECT_TRUE(Subscriber::open(runtime_, kName, test::soon(),
                               {.device = test::fake_device(2), .copy_frames = CopyFrames::always})
                  .failed_with(Code::out_of_memory));
}

TEST_F(StreamReceive, NamesTheDeviceThatIsNotThere) {
  const auto refused =
      Subscriber::open(runtime_, kName, test::soon(), {.device = test::fake_device(9)});
  ASSERT_TRUE(refused.failed_with(test::absent_device_code(runtime_)));
  EXPECT_NE(to_string(refused.error()).find(to_string(test::fake_device(9))), std::string::npos);
}

TEST_F(StreamReceive, AHostChannelHasNoUseForADevice) {
  const Publisher publisher = ChannelFixture::open_publisher(runtime_);
  const auto refused =
      Subscriber::open(runtime_, kName, test::soon(), {.device = test::fake_device()});
  ASSERT_TRUE(refused.failed_with(Code::unsupported));
  Subscriber subscriber = open_subscriber();
  const auto no_streams = subscriber.try_receive(device_.stream(kRead));
  EXPECT_TRUE(no_streams.failed_with(Code::wrong_state));
}

}  // namespace
}  // namespace vramlink
