// Processes that fork while they use channels: the child's objects are inert, the parent goes on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "support/channel_fixture.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using test::ChildKind;
using test::ChildLink;
using test::ChildProcess;
using test::kNow;
using test::publish_number;
using test::soon;

class ForkTest : public test::ChannelFixture {};

/// Returns when the last process that holds the pipe's other end has ended.
void wait_for_end_of(int pipe) {
  char byte = 0;
  while (::read(pipe, &byte, 1) > 0) {
  }
}

TEST_F(ForkTest, ThePublishersChildTouchesNothing) {
  const Runtime runtime = open_runtime();
  std::optional<Publisher> publisher =
      open_publisher(runtime, {.slot_count = 3, .when_full = WhenFull::block});
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(2)});
  std::optional<Receipt> receipt = publish_number(*publisher, 1).value();
  std::optional<WritableFrame> claimed = publisher->try_claim(kNow).value();
  ChildProcess child(
      [&](const ChildLink&) {
        const std::vector<std::byte> source(kFrameBytes);
        EXPECT_TRUE(publisher->try_claim(kNow).failed_with(Code::wrong_state));
        EXPECT_TRUE(publisher->claim(kNow, kForever).failed_with(Code::wrong_state));
        EXPECT_TRUE(publisher->try_publish_copy(source, kNow).failed_with(Code::wrong_state));
        EXPECT_TRUE(publisher->wait_for_subscribers(9, kForever).failed_with(Code::wrong_state));
        EXPECT_TRUE(publisher->publish(*std::exchange(claimed, std::nullopt), kNow)
                        .failed_with(Code::wrong_state));
        EXPECT_TRUE(publisher->close(kForever).failed_with(Code::wrong_state));
        EXPECT_EQ(publisher->statistics().published, 0U) << "the words are not mapped here";
        publisher->interrupt();
        EXPECT_EQ(publisher->name(), kName);
        EXPECT_EQ(publisher->format().payload_bytes, kFrameBytes);
        EXPECT_FALSE(receipt->ready());
        EXPECT_TRUE(receipt->wait(kForever).failed_with(Code::wrong_state));
        EXPECT_TRUE(list_channels(runtime).failed_with(Code::wrong_state));
        EXPECT_TRUE(inspect_channel(runtime, kName, soon()).failed_with(Code::wrong_state));
        EXPECT_TRUE(Publisher::open(runtime, "other", Format::bytes(8).value(), {})
                        .failed_with(Code::wrong_state));
        EXPECT_TRUE(Runtime::open({.directory = directory_.path()}).failed_with(Code::wrong_state));
        receipt.reset();
        publisher.reset();
        return 0;
      },
      ChildKind::forked);
  EXPECT_EQ(child.wait(), 0);
  test::fill_frame(claimed->bytes(), 2);
  ASSERT_TRUE(publisher->publish(*std::exchange(claimed, std::nullopt), kNow));
  ASSERT_TRUE(receipt->wait(soon()));
  for (std::uint64_t number = 1; number <= 2; ++number) {
    EXPECT_TRUE(test::receives_frame(subscriber, number, soon()));
  }
  for (std::uint64_t number = 3; number <= 20; ++number) {
    ASSERT_TRUE(publish_number(*publisher, number));
    EXPECT_TRUE(test::receives_frame(subscriber, number, soon()));
  }
  EXPECT_EQ(publisher->statistics().subscribers_died, 0U);
}

TEST_F(ForkTest, WhatIsToldInAChildWaitsForNoThreadOfTheParent) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  Subscriber subscriber = open_subscriber(runtime);
  const DeviceId device = test::TestDevice::id();
  std::atomic<bool> done{false};
  std::thread busy([&] {
    for (std::uint64_t number = 1; !done; ++number) {
      // Each of these takes a lock that a child may find taken.
      for (int i = 0; i < 1000; ++i) {
        static_cast<void>(publisher.format());
        static_cast<void>(subscriber.format());
      }
      static_cast<void>(publish_number(publisher, number, Deadline::passed()));
      static_cast<void>(subscriber.try_receive());
    }
  });
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    ChildProcess child(
        [&](const ChildLink&) {
          ::alarm(10);  // a child that waits for a lock does so for ever
          EXPECT_EQ(publisher.format().payload_bytes, kFrameBytes);
          EXPECT_EQ(publisher.name(), kName);
          EXPECT_EQ(publisher.statistics().published, 0U);
          EXPECT_EQ(subscriber.format().payload_bytes, kFrameBytes);
          EXPECT_EQ(subscriber.device(), device);
          EXPECT_EQ(subscriber.granted_queue_depth(), 0U);
          EXPECT_EQ(subscriber.statistics().received, 0U);
          EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::wrong_state));
          EXPECT_TRUE(subscriber.try_receive().failed_with(Code::wrong_state));
          return 0;
        },
        ChildKind::forked);
    EXPECT_EQ(child.wait(), 0) << "child " << i;
  }
  done = true;
  busy.join();
}

TEST_F(ForkTest, TheSubscribersChildTouchesNothing) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2});
  std::optional<Subscriber> subscriber = open_subscriber(runtime, {.held_count_max = 1});
  ASSERT_TRUE(subscriber->readiness_fd());
  const std::array<std::byte, 3> user{};
  const std::vector<std::byte> source(kFrameBytes);
  ASSERT_TRUE(publisher.try_publish_copy(source, kNow, {.user_data = user}));
  std::optional<Frame> frame = subscriber->receive(soon()).value();
  ChildProcess child(
      [&](const ChildLink&) {
        EXPECT_TRUE(subscriber->try_receive().failed_with(Code::wrong_state));
        EXPECT_TRUE(subscriber->receive(kForever).failed_with(Code::wrong_state));
        EXPECT_TRUE(subscriber->readiness_fd().failed_with(Code::wrong_state));
        subscriber->interrupt();
        EXPECT_EQ(subscriber->statistics().received, 0U);
        EXPECT_EQ(subscriber->format().payload_bytes, kFrameBytes);
        EXPECT_EQ(subscriber->granted_queue_depth(), 0U);
        EXPECT_EQ(subscriber->name(), kName);
        EXPECT_EQ(frame->sequence(), 1U);
        EXPECT_NE(frame->epoch(), 0U);
        EXPECT_TRUE(frame->user_data().empty());
        if (test::TestDevice::is_host()) {
          EXPECT_EQ(frame->bytes()[0], std::byte{0}) << "payload is inherited";
        }
        EXPECT_TRUE(Subscriber::open(runtime, kName, soon()).failed_with(Code::wrong_state));
        frame.reset();
        subscriber.reset();
        return 0;
      },
      ChildKind::forked);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(publisher.statistics().subscribers.at(0).held, 1U) << "the child gave nothing back";
  EXPECT_EQ(frame->user_data().size(), 3U);
  frame.reset();
  EXPECT_EQ(publisher.statistics().subscribers.at(0).held, 0U);
  ASSERT_TRUE(publish_number(publisher, 2));
  EXPECT_TRUE(test::receives_frame(*subscriber, 2, soon()));
  EXPECT_EQ(publisher.statistics().subscribers_died, 0U);
}

TEST_F(ForkTest, AKilledPublishersChildKeepsNeitherTheNameNorTheSubscribers) {
  std::array<int, 2> end_of_child{-1, -1};
  ASSERT_EQ(::pipe2(end_of_child.data(), O_CLOEXEC), 0);
  ChildProcess child([&](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(publish_number(publisher, 1));
    ::close(end_of_child[1]);
    if (::fork() == 0) {  // holds the sockets and the lock's description open
      ::alarm(test::Watchdog::kSeconds);
      wait_for_end_of(end_of_child[0]);
      ::_exit(0);
    }
    link.ready();
    link.wait_forever();
    return 0;
  });
  const Runtime runtime = open_runtime();
  Subscriber subscriber = open_subscriber(runtime);
  child.wait_ready();
  EXPECT_EQ(subscriber.receive(soon()).value().sequence(), 1U);
  child.kill();
  EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::peer_gone)) << "by its pidfd";
  child.wait();
  {
    Publisher next = open_publisher(runtime);
    ASSERT_TRUE(publish_number(next, 2));
    EXPECT_TRUE(test::receives_frame(subscriber, 2, kForever));
    EXPECT_EQ(subscriber.statistics().connects, 2U);
    EXPECT_EQ(subscriber.statistics().peer_deaths, 1U);
  }
  ::close(end_of_child[0]);
  ::close(end_of_child[1]);
}

TEST_F(ForkTest, AKilledSubscribersChildKeepsNoSlot) {
  std::array<int, 2> end_of_child{-1, -1};
  ASSERT_EQ(::pipe2(end_of_child.data(), O_CLOEXEC), 0);
  ChildProcess child([&](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime);
    const Frame frame = subscriber.receive(soon()).value();
    ::close(end_of_child[1]);
    if (::fork() == 0) {
      ::alarm(test::Watchdog::kSeconds);
      wait_for_end_of(end_of_child[0]);
      ::_exit(0);
    }
    link.ready();
    link.wait_forever();
    return 0;
  });
  {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
    ASSERT_TRUE(publish_number(publisher, 1));
    child.go();
    child.wait_ready();
    ASSERT_TRUE(publish_number(publisher, 2));
    EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
    child.kill();
    EXPECT_TRUE(publish_number(publisher, 3, kForever));
    EXPECT_EQ(publisher.statistics().subscribers_died, 1U);
  }
  child.wait();
  ::close(end_of_child[0]);
  ::close(end_of_child[1]);
}

}  // namespace
}  // namespace vramlink
