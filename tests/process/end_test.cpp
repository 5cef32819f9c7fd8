// The end of a stream, deaths and restarts, and what outlives them.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "support/channel_fixture.hpp"

namespace vramlink {
namespace {

using test::ChildLink;
using test::kNow;
using test::publish_complete;
using test::publish_number;
using test::soon;

class EndTest : public test::ChannelTest {};
VRAMLINK_BOTH_WAYS(EndTest);

TEST_P(EndTest, AQueueGetsEverythingThenClosedOnceThenTheNextPublisher) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(7)});
    link.ready();
    std::uint64_t first_epoch = 0;
    for (std::uint64_t sequence = 1; sequence <= 100; ++sequence) {
      const Frame frame = subscriber.receive(kForever).value();
      EXPECT_EQ(frame.sequence(), sequence);
      first_epoch = frame.epoch();
    }
    EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::closed));
    EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty)) << "closed is said once";
    EXPECT_TRUE(subscriber.receive(Deadline::passed()).failed_with(Code::timed_out));
    link.ready();
    const Frame next = subscriber.receive(kForever).value();
    EXPECT_EQ(next.sequence(), 1U) << "a new publisher counts from 1";
    EXPECT_NE(next.epoch(), first_epoch);
    EXPECT_TRUE(test::holds_frame(next.bytes(), 501));
    const SubscriberStatistics statistics = subscriber.statistics();
    EXPECT_EQ(statistics.connects, 2U);
    EXPECT_EQ(statistics.peer_deaths, 0U);
    EXPECT_EQ(statistics.received, 101U);
    EXPECT_EQ(statistics.lost, 0U);
    link.ready();
  });
  const Runtime runtime = open_runtime();
  {
    Publisher publisher = open_publisher(runtime, {.slot_count = 8, .when_full = WhenFull::block});
    peer->wait_ready();
    for (std::uint64_t number = 1; number <= 100; ++number) {
      ASSERT_TRUE(publish_number(publisher, number, kForever));
    }
    EXPECT_TRUE(publisher.close(kForever));
    EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::closed));
    EXPECT_TRUE(publisher.claim(kNow, kForever).failed_with(Code::closed));
    EXPECT_TRUE(publisher.close(kForever)) << "again is nothing";
    EXPECT_EQ(files(), std::vector<std::string>{});
  }
  peer->wait_ready();
  Publisher publisher = open_publisher(runtime);
  ASSERT_TRUE(publish_number(publisher, 501));
  peer->wait_ready();
  peer->finish();
}

TEST_P(EndTest, WithoutReconnectTheEndStays) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.reconnect = false});
    link.ready();
    EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::closed));
    EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::closed));
    EXPECT_TRUE(subscriber.try_receive().failed_with(Code::closed));
    EXPECT_EQ(subscriber.statistics().peer_deaths, 0U);
  });
  const Runtime runtime = open_runtime();
  std::optional<Publisher> publisher = open_publisher(runtime);
  peer->wait_ready();
  publisher.reset();  // the destructor announces the end too
  peer->finish();
}

TEST_P(EndTest, LatestGetsTheLastFrameBeforeTheEnd) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime);
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_EQ(subscriber.try_receive().value().sequence(), 5U);
    EXPECT_TRUE(subscriber.try_receive().failed_with(Code::closed));
  });
  const Runtime runtime = open_runtime();
  {
    Publisher publisher = open_publisher(runtime);
    peer->wait_ready();
    for (std::uint64_t number = 1; number <= 4; ++number) {
      ASSERT_TRUE(publish_number(publisher, number));
    }
    ASSERT_TRUE(publish_complete(publisher, 5));
    EXPECT_TRUE(publisher.close(kForever)) << "nobody waits for a latest subscriber";
  }
  peer->go();
  peer->finish();
}

TEST_P(EndTest, CloseWaitsForQueuesUntilTheDeadline) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_EQ(subscriber.try_receive().value().sequence(), 1U) << "what was queued stays";
    EXPECT_EQ(subscriber.try_receive().value().sequence(), 2U);
    EXPECT_TRUE(subscriber.try_receive().failed_with(Code::closed));
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  peer->wait_ready();
  ASSERT_TRUE(publish_number(publisher, 1));
  ASSERT_TRUE(publish_complete(publisher, 2));
  EXPECT_TRUE(
      publisher.close(Deadline::after(std::chrono::milliseconds(5))).failed_with(Code::timed_out));
  EXPECT_EQ(files(), std::vector<std::string>{}) << "it closed all the same";
  peer->go();
  peer->finish();
}

TEST_P(EndTest, FramesOutliveTheirPublisherAndSubscriber) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    std::optional<Subscriber> subscriber = open_subscriber(runtime);
    Frame frame = subscriber->receive(soon()).value();
    link.ready();
    static_cast<void>(link.wait_go());
    subscriber.reset();
    EXPECT_TRUE(test::holds_frame(frame.bytes(), 7));
    EXPECT_EQ(frame.user_data().size(), 2U);
    EXPECT_EQ(frame.format(), Format::bytes(kFrameBytes).value());
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_TRUE(test::holds_frame(frame.bytes(), 7)) << "its publisher reuses other slots";
    Frame moved = std::move(frame);
    EXPECT_TRUE(test::holds_frame(moved.bytes(), 7));
    moved.release();
  });
  const Runtime runtime = open_runtime();
  std::optional<Publisher> publisher = open_publisher(runtime, {.slot_count = 4});
  WritableFrame filled = publisher->try_claim(kNow).value();
  test::fill_frame(filled.bytes(), 7);
  const std::array<std::byte, 2> user{};
  ASSERT_TRUE(publisher->publish(std::move(filled), kNow, {.user_data = user}));
  peer->wait_ready();
  peer->go();
  peer->wait_ready();
  for (std::uint64_t number = 8; number <= 29; ++number) {
    ASSERT_TRUE(publish_number(*publisher, number));
  }
  ASSERT_TRUE(publish_complete(*publisher, 30));
  EXPECT_EQ(publisher->statistics().subscribers.at(0).held, 1U);
  WritableFrame unused = publisher->try_claim(kNow).value();
  const Receipt receipt = publish_number(*publisher, 31).value();
  publisher.reset();
  EXPECT_TRUE(receipt.wait(soon())) << "a receipt outlives its publisher";
  EXPECT_TRUE(receipt.ready());
  test::fill_frame(unused.bytes(), 1);  // a claimed slot is ours until it is dropped
  peer->go();
  peer->finish();
}

TEST_P(EndTest, AFarewellFreesTheSlotsThatWereHeld) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    {
      Subscriber subscriber = open_subscriber(runtime);
      Frame frame = subscriber.receive(soon()).value();
      Subscriber gone = std::move(subscriber);
      link.ready();
      static_cast<void>(link.wait_go());
    }
    link.ready();
    static_cast<void>(link.wait_go());
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
  ASSERT_TRUE(publish_number(publisher, 1));
  peer->wait_ready();
  ASSERT_TRUE(publish_number(publisher, 2));
  EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
  peer->go();
  EXPECT_TRUE(publish_number(publisher, 3, kForever));
  peer->wait_ready();
  EXPECT_EQ(publisher.statistics().subscribers_died, 0U);
  peer->go();
  peer->finish();
}

/// What only a process of its own can do.
class DeathTest : public test::ChannelFixture {
 protected:
  DeathTest() { expect_leftovers(); }
};

TEST_F(DeathTest, APublisherThatIsKilledLeavesItsFramesThenPeerGone) {
  test::ChildProcess child([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    for (std::uint64_t number = 1; number <= 2; ++number) {
      EXPECT_TRUE(publish_number(publisher, number));
    }
    EXPECT_TRUE(publish_complete(publisher, 3));
    link.ready();
    link.wait_forever();
    return 0;
  });
  const Runtime runtime = open_runtime();
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
  child.wait_ready();
  const Frame first = subscriber.receive(soon()).value();
  child.kill();
  child.wait_until_zombie();
  for (std::uint64_t number = 2; number <= 3; ++number) {
    const Frame frame = subscriber.receive(soon()).value();
    EXPECT_TRUE(test::holds_frame(frame.bytes(), number));
  }
  EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::peer_gone));
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  EXPECT_TRUE(test::holds_frame(first.bytes(), 1)) << "held frames stay readable";
  EXPECT_EQ(subscriber.statistics().peer_deaths, 1U);
  child.wait();
  Publisher next = open_publisher(runtime);
  ASSERT_TRUE(publish_number(next, 77));
  const Frame again = subscriber.receive(kForever).value();
  EXPECT_EQ(again.sequence(), 1U);
  EXPECT_NE(again.epoch(), first.epoch());
  EXPECT_EQ(subscriber.statistics().connects, 2U);
  EXPECT_EQ(subscriber.statistics().received, 4U);
  EXPECT_TRUE(test::holds_frame(first.bytes(), 1));
}

TEST_F(DeathTest, ASubscriberThatIsKilledGivesItsSlotsBack) {
  test::ChildProcess child([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    const Runtime runtime = open_runtime();
    Subscriber subscriber =
        open_subscriber(runtime, {.policy = ReceivePolicy::queue(1), .held_count_max = 2});
    const Frame frame = subscriber.receive(soon()).value();
    link.ready();
    link.wait_forever();
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
  ASSERT_TRUE(publish_number(publisher, 1));
  child.go();
  child.wait_ready();
  ASSERT_TRUE(publish_number(publisher, 2));
  EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
  child.kill();
  EXPECT_TRUE(publish_number(publisher, 3, kForever)) << "its death is the only thing that rings";
  EXPECT_EQ(publisher.statistics().subscribers_died, 1U);
  EXPECT_TRUE(publisher.statistics().subscribers.empty());
  child.wait();
  EXPECT_TRUE(publisher.close(kForever));
}

TEST_F(DeathTest, AStoppedPublisherIsNotGone) {
  test::ChildProcess child([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(publish_number(publisher, 1));
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_TRUE(publish_number(publisher, 2));
    EXPECT_TRUE(publisher.close(soon()));
    return 0;
  });
  const Runtime runtime = open_runtime();
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
  child.wait_ready();
  child.stop();
  EXPECT_EQ(subscriber.receive(soon()).value().sequence(), 1U);
  EXPECT_TRUE(subscriber.receive(Deadline::after(std::chrono::milliseconds(10)))
                  .failed_with(Code::timed_out));
  const Result<Subscriber> second =
      Subscriber::open(runtime, kName, Deadline::after(std::chrono::milliseconds(10)));
  EXPECT_TRUE(second.failed_with(Code::timed_out)) << "it is there and does not answer";
  child.resume();
  child.go();
  EXPECT_EQ(subscriber.receive(kForever).value().sequence(), 2U);
  EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::closed));
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace vramlink
