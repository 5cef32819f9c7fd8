// Frames from a publisher to a subscriber: ways to publish, policies, what travels beside the
// bytes.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/absent_device.hpp"
#include "support/channel_fixture.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using test::ChildLink;
using test::kNow;
using test::Mode;
using test::publish_complete;
using test::publish_number;
using test::soon;

class PublishTest : public test::ChannelTest {};
VRAMLINK_BOTH_WAYS(PublishTest);

TEST_P(PublishTest, InPlaceAndByCopy) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
    link.ready();
    for (std::uint64_t number = 1; number <= 40; ++number) {
      const Result<Frame> frame = subscriber.receive(soon());
      ASSERT_TRUE(frame) << to_string(frame.error());
      EXPECT_EQ(frame->sequence(), number);
      EXPECT_EQ(frame->size_bytes(), kFrameBytes);
      EXPECT_TRUE(test::holds_frame(frame->bytes(), number));
      EXPECT_EQ(frame->format(), subscriber.format());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(frame->data()) % 4096, 0U);
    }
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.when_full = WhenFull::block});
  ASSERT_TRUE(publisher.wait_for_subscribers(1, soon()));
  EXPECT_EQ(peer->wait_ready(), 1);
  std::vector<std::byte> source(kFrameBytes);
  for (std::uint64_t number = 1; number <= 40; number += 2) {
    const Result<Receipt> in_place = publish_number(publisher, number);
    ASSERT_TRUE(in_place) << to_string(in_place.error());
    EXPECT_EQ(in_place->sequence(), number);
    EXPECT_TRUE(in_place->ready() || !test::TestDevice::is_host());
    EXPECT_TRUE(in_place->wait(soon()));
    EXPECT_TRUE(in_place->ready());
    EXPECT_TRUE(in_place->wait(Deadline::passed()));
    test::fill_frame(source, number + 1);
    const Result<Receipt> copied = publisher.publish_copy(source, kNow, soon());
    ASSERT_TRUE(copied) << to_string(copied.error());
    EXPECT_EQ(copied->sequence(), number + 1);
    test::fill_frame(source, 0);  // it may be reused at once
  }
  EXPECT_TRUE(publisher.close(soon()));
  peer->finish();
}

TEST_P(PublishTest, LatestGetsTheNewestAndCountsTheRest) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime);
    EXPECT_EQ(subscriber.granted_queue_depth(), 0U);
    EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_EQ(subscriber.try_receive().value().sequence(), 50U);
    EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
    const SubscriberStatistics statistics = subscriber.statistics();
    EXPECT_EQ(statistics.received, 1U);
    EXPECT_EQ(statistics.skipped, 49U);
    EXPECT_EQ(statistics.lost, 0U);
    link.ready();
    EXPECT_EQ(subscriber.receive(soon()).value().sequence(), 51U);
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  peer->wait_ready();
  for (std::uint64_t number = 1; number <= 49; ++number) {
    ASSERT_TRUE(publish_number(publisher, number));
  }
  ASSERT_TRUE(publish_complete(publisher, 50));
  peer->go();
  peer->wait_ready();
  ASSERT_TRUE(publish_number(publisher, 51));
  peer->finish();
}

TEST_P(PublishTest, AQueueIsGrantedWhatTheSlotsAllowAndLosesTheOldestUnderDrop) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(60)});
    EXPECT_EQ(subscriber.granted_queue_depth(), 3U);
    link.ready();
    static_cast<void>(link.wait_go());
    for (std::uint64_t sequence = 17; sequence <= 20; ++sequence) {
      EXPECT_EQ(subscriber.try_receive().value().sequence(), sequence);
    }
    EXPECT_EQ(subscriber.statistics().lost, 16U);
    EXPECT_EQ(subscriber.statistics().skipped, 0U);
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 4});
  peer->wait_ready();
  for (std::uint64_t number = 1; number <= 19; ++number) {
    ASSERT_TRUE(publish_number(publisher, number));
  }
  ASSERT_TRUE(publish_complete(publisher, 20));
  peer->go();
  peer->finish();
}

TEST_P(PublishTest, OneSlotIsAlwaysLeftToWriteTo) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber greedy =
        open_subscriber(runtime, {.policy = ReceivePolicy::queue(2), .held_count_max = 63});
    link.ready();
    const Frame first = greedy.receive(soon()).value();
    link.ready();
    const Frame second = greedy.receive(soon()).value();
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_TRUE(greedy.receive(soon()).failed_with(Code::resource_exhausted));
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 3});
  peer->wait_ready();
  for (std::uint64_t number = 1; number <= 2; ++number) {
    ASSERT_TRUE(publish_number(publisher, number));
    peer->wait_ready();
  }
  EXPECT_TRUE(publish_number(publisher, 3)) << "it asked for 63 and was granted 2 of 3";
  peer->go();
  peer->finish();
}

TEST_P(PublishTest, DropRefusesAClaimWhenEverySlotIsHeld) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber =
        open_subscriber(runtime, {.policy = ReceivePolicy::queue(1), .held_count_max = 2});
    link.ready();
    const Frame first = subscriber.receive(soon()).value();
    link.ready();
    const Frame second = subscriber.receive(soon()).value();
    EXPECT_EQ(second.sequence(), 2U);
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_TRUE(test::holds_frame(first.bytes(), 1));
    EXPECT_TRUE(test::holds_frame(second.bytes(), 2));
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .held_count_max = 2});
  peer->wait_ready();
  for (std::uint64_t number = 1; number <= 2; ++number) {
    ASSERT_TRUE(publish_number(publisher, number));
    peer->wait_ready();
  }
  EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
  EXPECT_TRUE(publisher.claim(kNow, kForever).failed_with(Code::full)) << "drop never waits";
  const std::vector<std::byte> source(kFrameBytes);
  EXPECT_TRUE(publisher.try_publish_copy(source, kNow).failed_with(Code::full));
  const PublisherStatistics statistics = publisher.statistics();
  EXPECT_EQ(statistics.refused_full, 3U);
  ASSERT_EQ(statistics.subscribers.size(), 1U);
  EXPECT_EQ(statistics.subscribers[0].held, 2U);
  EXPECT_EQ(statistics.subscribers[0].blocked_claims, 3U);
  EXPECT_EQ(statistics.subscribers[0].pid, peer->pid());
  peer->go();
  peer->finish();
}

TEST_P(PublishTest, BlockWaitsForAReleaseOrTheDeadline) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(1)});
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_EQ(subscriber.receive(soon()).value().sequence(), 1U);  // and given back
    for (std::uint64_t sequence = 2; sequence <= 3; ++sequence) {
      EXPECT_EQ(subscriber.receive(soon()).value().sequence(), sequence);
    }
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
  peer->wait_ready();
  ASSERT_TRUE(publish_complete(publisher, 1));
  ASSERT_TRUE(publish_complete(publisher, 2));
  EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
  const std::int64_t begin_ns = monotonic_ns();
  EXPECT_TRUE(publisher.claim(kNow, Deadline::after(std::chrono::milliseconds(20)))
                  .failed_with(Code::timed_out));
  EXPECT_GE(monotonic_ns() - begin_ns, 20'000'000);
  EXPECT_EQ(publisher.statistics().timed_out, 1U);
  EXPECT_EQ(publisher.statistics().subscribers[0].blocked_claims, 2U) << "one for each claim";
  peer->go();
  EXPECT_TRUE(publish_number(publisher, 3, kForever));
  EXPECT_TRUE(publisher.close(kForever));
  peer->finish();
}

TEST_P(PublishTest, UserDataTimesAndFlagsTravel) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
    link.ready();
    for (std::size_t size = 0; size <= kUserDataBytesMax; ++size) {
      const Frame frame = subscriber.receive(soon()).value();
      EXPECT_EQ(frame.user_data().size(), size);
      for (std::size_t i = 0; i < frame.user_data().size(); ++i) {
        EXPECT_EQ(frame.user_data()[i], static_cast<std::byte>(size + 3 * i));
      }
      EXPECT_EQ(frame.media_ns(), -static_cast<std::int64_t>(size));
      EXPECT_EQ(frame.flags(), 0xf000'0000U + size);
      EXPECT_GT(frame.publish_ns(), 0);
      EXPECT_LE(frame.publish_ns(), monotonic_ns());
    }
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.when_full = WhenFull::block}, 8);
  peer->wait_ready();
  std::array<std::byte, kUserDataBytesMax> user{};
  const std::array<std::byte, 8> source{};
  for (std::size_t size = 0; size <= kUserDataBytesMax; ++size) {
    for (std::size_t i = 0; i < size; ++i) user[i] = static_cast<std::byte>(size + 3 * i);
    ASSERT_TRUE(publisher.publish_copy(source, kNow, soon(),
                                       {.media_ns = -static_cast<std::int64_t>(size),
                                        .user_data = std::span(user).first(size),
                                        .flags = 0xf000'0000U + static_cast<std::uint32_t>(size)}));
  }
  EXPECT_TRUE(publisher.close(soon()));
  peer->finish();
}

TEST_P(PublishTest, ALatecomerSeesTheNewestFrame) {
  const auto peer = start_peer([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    const Runtime runtime = open_runtime();
    for (const std::uint32_t depth : {0U, 2U}) {
      Subscriber subscriber = open_subscriber(runtime, {.policy = {depth}});
      const Frame frame = subscriber.try_receive().value();
      EXPECT_EQ(frame.sequence(), 9U);
      EXPECT_TRUE(test::holds_frame(frame.bytes(), 9));
      EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
      EXPECT_EQ(subscriber.statistics().lost + subscriber.statistics().skipped, 0U);
    }
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 3});
  for (std::uint64_t number = 1; number <= 8; ++number) {
    ASSERT_TRUE(publish_number(publisher, number));
  }
  ASSERT_TRUE(publish_complete(publisher, 9));
  peer->go();
  peer->finish();
}

TEST_P(PublishTest, AbandonedSlotsCostNobodyAnything) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(2)});
    link.ready();
    for (std::uint64_t sequence = 1; sequence <= 10; ++sequence) {
      EXPECT_EQ(subscriber.receive(soon()).value().sequence(), sequence);
    }
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 3, .when_full = WhenFull::block});
  peer->wait_ready();
  for (std::uint64_t number = 1; number <= 10; ++number) {
    { const WritableFrame dropped = publisher.claim(kNow, soon()).value(); }
    ASSERT_TRUE(publish_number(publisher, number));
  }
  EXPECT_EQ(publisher.statistics().abandoned, 10U);
  EXPECT_EQ(publisher.statistics().published, 10U);
  EXPECT_TRUE(publisher.close(soon()));
  peer->finish();
}

TEST_P(PublishTest, BothSidesCount) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
    link.ready();
    for (int i = 0; i < 12; ++i) static_cast<void>(subscriber.receive(soon()).value());
    const SubscriberStatistics statistics = subscriber.statistics();
    EXPECT_EQ(statistics.received, 12U);
    EXPECT_EQ(statistics.received_bytes, 12 * kFrameBytes);
    EXPECT_EQ(statistics.connects, 1U);
    EXPECT_EQ(statistics.peer_deaths, 0U);
    EXPECT_EQ(statistics.aborted, 0U);
    EXPECT_GE(statistics.age_p50_ns, 0);
    EXPECT_GE(statistics.age_p99_ns, statistics.age_p50_ns);
    link.ready();
    static_cast<void>(link.wait_go());
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.when_full = WhenFull::block});
  peer->wait_ready();
  for (std::uint64_t number = 1; number <= 12; ++number) {
    ASSERT_TRUE(publish_number(publisher, number));
  }
  peer->wait_ready();
  const PublisherStatistics statistics = publisher.statistics();
  EXPECT_EQ(statistics.published, 12U);
  EXPECT_EQ(statistics.published_bytes, 12 * kFrameBytes);
  EXPECT_EQ(statistics.subscribers_ever, 1U);
  EXPECT_EQ(statistics.subscribers_died, 0U);
  ASSERT_EQ(statistics.subscribers.size(), 1U);
  EXPECT_EQ(statistics.subscribers[0].queue_depth, 3U);
  EXPECT_EQ(statistics.subscribers[0].held, 0U);
  EXPECT_EQ(statistics.subscribers[0].lag, 0U);
  EXPECT_EQ(statistics.subscribers[0].received, 12U);
  peer->go();
  peer->finish();
}

/// Of host channels: the CPU touches the elements.
class ElementsTest : public test::ChannelTest {};
VRAMLINK_BOTH_WAYS(ElementsTest);

TEST_P(ElementsTest, FramesCanBeSeenAsElementsWhileTheyAreHeld) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime);
    link.ready();
    Frame frame = subscriber.receive(soon()).value();
    EXPECT_EQ(frame.as<float>().value()[5], 5.0F);
    EXPECT_EQ(frame.as<float>()->size(), 12U);
    EXPECT_TRUE(frame.as<double>().failed_with(Code::invalid_argument));
    frame.release();
    EXPECT_TRUE(frame.as<float>().failed_with(Code::wrong_state));
  });
  const Runtime runtime = open_runtime();
  Publisher publisher =
      Publisher::open(runtime, kName, Format::tensor(DType::float32, {3, 4}).value()).value();
  peer->wait_ready();
  WritableFrame frame = publisher.try_claim(kAlreadyComplete).value();
  EXPECT_TRUE(frame.as<std::int32_t>().failed_with(Code::invalid_argument));
  const std::span<float> values = frame.as<float>().value();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  EXPECT_TRUE(publisher.publish(std::move(frame), kAlreadyComplete));
  EXPECT_TRUE(frame.as<float>().failed_with(Code::wrong_state));  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(frame.data(), nullptr);                               // NOLINT(bugprone-use-after-move)
  peer->finish();
}

class PublishMisuseTest : public test::ChannelFixture {};

TEST_F(PublishMisuseTest, IsSaidAndHarmsNothing) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2});
  Publisher other = Publisher::open(runtime, "cam1", Format::bytes(kFrameBytes).value(),
                                    test::on_device(PublisherOptions()))
                        .value();
  const std::vector<std::byte> wrong_size(kFrameBytes - 1);
  EXPECT_TRUE(publisher.try_publish_copy(wrong_size, kNow).failed_with(Code::invalid_argument));
  const std::vector<std::byte> too_long(kUserDataBytesMax + 1);
  EXPECT_TRUE(publisher.publish(publisher.try_claim(kNow).value(), kNow, {.user_data = too_long})
                  .failed_with(Code::invalid_argument));
  EXPECT_TRUE(
      publisher.publish(other.try_claim(kNow).value(), kNow).failed_with(Code::invalid_argument));
  WritableFrame used = publisher.try_claim(kNow).value();
  ASSERT_TRUE(publisher.publish(std::move(used), kNow));
  EXPECT_TRUE(publisher.publish(std::move(used), kNow).failed_with(Code::invalid_argument));
  EXPECT_EQ(publisher.statistics().abandoned, 1U);
  EXPECT_EQ(other.statistics().abandoned, 1U);
  WritableFrame assigned = publisher.try_claim(kNow).value();
  assigned = other.try_claim(kNow).value();
  EXPECT_EQ(publisher.statistics().abandoned, 2U) << "an assigned-to frame is abandoned";
  const auto open_with = [&](const PublisherOptions& options) {
    return Publisher::open(runtime, "cam2", Format::bytes(8).value(), options);
  };
  EXPECT_TRUE(open_with({.slot_count = 1}).failed_with(Code::invalid_argument));
  EXPECT_TRUE(open_with({.slot_count = 65}).failed_with(Code::invalid_argument));
  EXPECT_TRUE(open_with({.subscriber_count_max = 65}).failed_with(Code::invalid_argument));
  EXPECT_TRUE(
      open_with({.device = test::kAbsentDevice}).failed_with(test::absent_device_code(runtime)));
  EXPECT_TRUE(Publisher::open(runtime, "cam2", Format{}, {}).failed_with(Code::invalid_argument));
  const auto subscribe_with = [&](const SubscriberOptions& options) {
    return Subscriber::open(runtime, kName, soon(), options);
  };
  EXPECT_TRUE(subscribe_with({.held_count_max = 0}).failed_with(Code::invalid_argument));
  EXPECT_TRUE(subscribe_with({.held_count_max = 64}).failed_with(Code::invalid_argument));
  EXPECT_TRUE(
      subscribe_with({.policy = ReceivePolicy::queue(64)}).failed_with(Code::invalid_argument));
}

}  // namespace
}  // namespace vramlink
