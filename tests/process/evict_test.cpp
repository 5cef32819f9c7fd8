// Holders that are too slow, stopped or dead, and a publisher that goes on without them; and one
// that gets more slots. docs/policies.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "support/channel_fixture.hpp"
#include "support/link_attacker.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using test::ChildLink;
using test::ChildProcess;
using test::kNow;
using test::soon;
using test::TestDevice;

constexpr milliseconds kLease{5};

PublisherOptions evicting(std::uint32_t slot_count) {
  return {.slot_count = slot_count, .when_full = WhenFull::evict, .lease = kLease};
}

/// Publishes frame after frame, complete ones, until `done`. A claim that finds no slot is no
/// fault: what is held comes back, or other slots come.
template <class Done>
void publish_until(Publisher& publisher, std::uint64_t& number, const Done& done) {
  while (!done()) {
    const auto published = test::publish_complete(publisher, number + 1, milliseconds(2));
    if (published) {
      ASSERT_EQ(published->sequence(), ++number);
    } else {
      ASSERT_TRUE(published.failed_with(Code::full) || published.failed_with(Code::stale))
          << to_string(published.error());
    }
  }
}

bool is_whole(const Frame& frame) {
  return test::holds_frame(frame.bytes(), frame.sequence()) ? true : false;
}

class EvictProcessTest : public test::ChannelTest {
 protected:
  /// Holds as many frames as it may, until they are taken from it; then comes again, and reads.
  void hold_and_come_again(const ChildLink& link, const ReceivePolicy& policy) const {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = policy, .held_count_max = 2});
    std::vector<Frame> held;
    for (int i = 0; i < 2; ++i) {
      held.push_back(subscriber.receive(soon()).value());
      EXPECT_TRUE(is_whole(held.back()));
    }
    link.ready();
    while (true) {
      const Result<Frame> none = subscriber.receive(soon());
      if (none.failed_with(Code::revoked)) break;
      ASSERT_TRUE(none.failed_with(Code::resource_exhausted)) << to_string(none.error());
      EXPECT_TRUE(is_whole(held[0]) && is_whole(held[1]));
    }
    for (int i = 0; i < 5; ++i) {
      const Result<Frame> frame = subscriber.receive(soon());
      ASSERT_TRUE(frame) << to_string(frame.error());
      EXPECT_TRUE(is_whole(*frame));
      EXPECT_GT(frame->sequence(), held[1].sequence());
      EXPECT_EQ(frame->epoch(), held[1].epoch());
    }
    EXPECT_TRUE(is_whole(held[0]) && is_whole(held[1]));
    EXPECT_EQ(subscriber.statistics().revocations, 1U);
    EXPECT_EQ(subscriber.statistics().connects, 2U);
    link.ready();
  }
  void publish_to_holder(const ReceivePolicy& policy, std::uint32_t slot_count,
                         std::uint64_t replacements) const {
    const auto peer =
        start_peer([this, policy](const ChildLink& link) { hold_and_come_again(link, policy); });
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime, evicting(slot_count));
    std::uint64_t number = 0;
    ASSERT_TRUE(publisher.wait_for_subscribers(1, soon()));
    // It holds before the slots run short.
    const auto holds = [&] {
      const auto views = publisher.statistics().subscribers;
      return !views.empty() && views.front().held == 2;
    };
    while (!holds() && number < 2) {
      ASSERT_TRUE(test::publish_complete(publisher, ++number, soon()));
      while (publisher.statistics().subscribers.front().received < number) {
      }
    }
    peer->wait_ready();
    publish_until(publisher, number,
                  [&] { return publisher.statistics().subscribers_evicted == 1; });
    bool is_through = false;
    publish_until(publisher, number, [&] {
      const auto views = publisher.statistics().subscribers;
      is_through = views.size() == 2 && views[1].received >= 5;
      return is_through || views.empty() || (views.size() == 1 && !views[0].evicted);
    });
    peer->finish();
    EXPECT_EQ(publisher.statistics().replacements, replacements);
    EXPECT_EQ(publisher.statistics().subscribers_evicted, 1U);
    EXPECT_EQ(publisher.statistics().subscribers_revoked, 0U);
    EXPECT_EQ(publisher.statistics().subscribers_ever, 2U);
  }
};
VRAMLINK_BOTH_WAYS(EvictProcessTest);

TEST_P(EvictProcessTest, WhoHoldsForTooLongReadsOnAndComesAgain) {
  publish_to_holder(ReceivePolicy::latest(), 5, 0);
}

TEST_P(EvictProcessTest, NewSlotsTakeThePlaceOfThoseThatItHolds) {
  publish_to_holder(ReceivePolicy::latest(), 3, 1);
}

TEST_P(EvictProcessTest, AQueueThatHoldsForTooLongComesAgain) {
  publish_to_holder(ReceivePolicy::queue(2), 3, 1);
}

TEST_P(EvictProcessTest, MoreSlotsComeWhereSubscribersHoldMoreThanFits) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber =
        open_subscriber(runtime, {.policy = ReceivePolicy::queue(6), .held_count_max = 6});
    EXPECT_EQ(subscriber.granted_queue_depth(), 2U);
    link.ready();
    std::vector<Frame> held;
    held.reserve(8);
    for (int i = 0; i < 2; ++i) held.push_back(subscriber.receive(soon()).value());
    EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::resource_exhausted));
    while (subscriber.granted_queue_depth() != 6) {
    }
    EXPECT_TRUE(is_whole(held[0]) && is_whole(held[1]));
    std::uint64_t sequence = held.back().sequence();
    while (held.size() < 5 || held.front().generation() < 3) {
      const std::uint64_t generation = held.back().generation();
      if (held.size() >= 5 || generation < 3) held.clear();
      Result<Frame> frame = subscriber.receive(soon());
      ASSERT_TRUE(frame) << to_string(frame.error());
      EXPECT_EQ(frame->sequence(), ++sequence) << "under block nothing is lost";
      held.push_back(*std::move(frame));
      for (const Frame& each : held) EXPECT_TRUE(is_whole(each));
    }
    EXPECT_EQ(subscriber.granted_queue_depth(), 6U);
    EXPECT_EQ(subscriber.statistics().lost, 0U);
    EXPECT_EQ(subscriber.statistics().connects, 1U);
    link.ready();
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(
      runtime, {.slot_count = 3, .when_full = WhenFull::block, .slot_count_max = 16});
  peer->wait_ready();
  std::uint64_t number = 0;
  while (publisher.statistics().slot_count < 12) {
    const auto published = test::publish_number(publisher, number + 1, milliseconds(1));
    if (published) ++number;
    ASSERT_TRUE(published || published.failed_with(Code::timed_out))
        << to_string(published.error());
  }
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(test::publish_number(publisher, ++number, soon()));
  peer->wait_ready();
  EXPECT_EQ(publisher.statistics().growths, 2U) << "3, 6, 12";
  peer->finish();
}

/// Whether the newest frame arrives whole. Who lives on may come to new slots a moment later than
/// their first frames, and read the last frame of the old ones before.
bool comes_to(Subscriber& subscriber, std::uint64_t newest) {
  Result<Frame> frame = subscriber.receive(soon());
  while (frame && is_whole(*frame) && frame->sequence() < newest)
    frame = subscriber.receive(soon());
  return frame && is_whole(*frame) && frame->sequence() == newest;
}

class EvictHostileTest : public test::ChannelFixture {};

// Words that say for ever that two slots are held cannot be told from an honest holder's: they cost
// the memory of a generation, until its process ends or says that it drained.
TEST_F(EvictHostileTest, WhoHoldsForEverCostsWhatItMayHold) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, evicting(3));
  Subscriber honest = open_subscriber(runtime);
  test::RawSubscriber hostile(directory_.path(), kName, 2);
  hostile.attach();
  for (int slot = 0; slot < 2; ++slot) hostile.words().held[slot].store(1'000'000);
  std::uint64_t number = 0;
  publish_until(publisher, number, [&] { return publisher.statistics().replacements == 1; });
  const std::uint32_t flags = hostile.words().flags.load();
  EXPECT_EQ(flags, wire::kRevoked | wire::kLeaseOver);
  const auto message = hostile.peer.next();
  ASSERT_TRUE(message);
  ASSERT_EQ(message->type(), wire::MessageType::revoked);
  EXPECT_EQ(message->as<wire::Revoked>()->reason, wire::RevokeReason::lease);
  // It goes on as if nothing had been: in slots that are nobody's any more.
  for (auto& held : hostile.words().held) held.store(2'000'000);
  const std::uint64_t before = number;
  publish_until(publisher, number, [&] { return number == before + 20; });
  EXPECT_TRUE(comes_to(honest, number));
  EXPECT_EQ(publisher.statistics().replacements, 1U);
  hostile.peer.send(wire::Bye{{}, 1, wire::ByeReason::drained, 0});
  hostile.peer.wait_for_end();
  publish_until(publisher, number, [&] { return publisher.statistics().subscribers.size() == 1; });
  EXPECT_EQ(publisher.statistics().subscribers_evicted, 1U);
  EXPECT_EQ(publisher.statistics().subscribers_revoked, 0U);
}

TEST_F(EvictHostileTest, WhoBreaksTheProtocolAfterItsEvictionHoldsNothing) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, evicting(4));
  Subscriber honest = open_subscriber(runtime);
  test::RawSubscriber hostile(directory_.path(), kName, 1);
  hostile.attach();
  hostile.words().held[0].store(1'000'000);
  std::uint64_t number = 0;
  publish_until(publisher, number, [&] { return publisher.statistics().subscribers_evicted == 1; });
  EXPECT_EQ(publisher.statistics().slots_lost, 1U);
  for (auto& held : hostile.words().held) held.store(2'000'000);
  publish_until(publisher, number, [&] { return publisher.statistics().subscribers.size() == 1; });
  EXPECT_EQ(publisher.statistics().slots_lost, 0U);
  const std::uint64_t before = number;
  publish_until(publisher, number, [&] { return number == before + 20; });
  EXPECT_TRUE(comes_to(honest, number));
  EXPECT_EQ(publisher.statistics().subscribers_evicted, 1U) << "counted once";
  EXPECT_EQ(publisher.statistics().subscribers_revoked, 0U);
}

class EvictStopTest : public test::ChannelFixture {};

TEST_F(EvictStopTest, AStoppedHolderIsEvictedAndReadsItsOldBytesWhenItGoesOn) {
  ChildProcess stopped([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime);
    std::vector<Frame> held;
    held.push_back(subscriber.receive(soon()).value());
    link.ready();
    held.push_back(subscriber.receive(soon()).value());
    link.ready();
    static_cast<void>(link.wait_go());
    // Stopped here, and on from here.
    EXPECT_TRUE(test::holds_frame(held[0].bytes(), 1));
    EXPECT_TRUE(test::holds_frame(held[1].bytes(), 2));
    EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::revoked));
    const Result<Frame> frame = subscriber.receive(soon());
    EXPECT_TRUE(frame && frame->generation() == 2 && is_whole(*frame));
    EXPECT_TRUE(test::holds_frame(held[0].bytes(), 1));
    link.ready();
    static_cast<void>(link.wait_go());
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, evicting(3));
  Subscriber witness = open_subscriber(runtime);
  ASSERT_TRUE(publisher.wait_for_subscribers(2, soon()));
  std::uint64_t number = 0;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(test::publish_complete(publisher, ++number));
    stopped.wait_ready();
  }
  stopped.stop();
  publish_until(publisher, number, [&] { return publisher.statistics().replacements == 1; });
  const std::uint64_t before = number;
  publish_until(publisher, number, [&] { return number >= before + 20; });
  const Result<Frame> newest = witness.receive(soon());
  EXPECT_TRUE(newest && is_whole(*newest)) << "the others go on";
  EXPECT_EQ(publisher.statistics().subscribers_evicted, 1U);
  stopped.resume();
  stopped.go();
  stopped.wait_ready();
  EXPECT_EQ(publisher.statistics().subscribers_ever, 3U);
  stopped.go();
  EXPECT_EQ(stopped.wait(), 0);
  publish_until(publisher, number, [&] { return publisher.statistics().subscribers.size() == 1; });
  EXPECT_EQ(publisher.statistics().subscribers_died, 0U);
}

TEST_F(EvictStopTest, AHolderThatDiesAfterItsEvictionGivesItsSlotsBack) {
  ChildProcess holder([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime);
    const Frame held = subscriber.receive(soon()).value();
    link.ready();
    static_cast<void>(link.wait_go());
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, evicting(4));
  ASSERT_TRUE(publisher.wait_for_subscribers(1, soon()));
  std::uint64_t number = 0;
  ASSERT_TRUE(test::publish_complete(publisher, ++number));
  holder.wait_ready();
  holder.stop();
  publish_until(publisher, number, [&] { return publisher.statistics().subscribers_evicted == 1; });
  EXPECT_EQ(publisher.statistics().slots_lost, 1U);
  holder.kill();
  publish_until(publisher, number, [&] { return publisher.statistics().subscribers.empty(); });
  EXPECT_EQ(publisher.statistics().slots_lost, 0U);
  EXPECT_EQ(publisher.statistics().subscribers_died, 0U) << "counted once, as evicted";
}

// For devices: what a stream has yet to read and to release stays as it is.
TEST_F(EvictStopTest, WhatAStreamReadsAfterTheEvictionIsWhole) {
  if (TestDevice::is_host()) GTEST_SKIP() << "the host has no streams";
  ChildProcess reader([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime);
    Frame frame = subscriber.receive(TestDevice::stream(), soon()).value();
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::revoked));
    const ReleaseReceipt released = frame.release(TestDevice::stream()).value();
    EXPECT_TRUE(released.wait(soon()));
    EXPECT_FALSE(released.aborted());
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, evicting(4));
  ASSERT_TRUE(publisher.wait_for_subscribers(1, soon()));
  std::uint64_t number = 0;
  ASSERT_TRUE(test::publish_complete(publisher, ++number));
  reader.wait_ready();
  publish_until(publisher, number, [&] { return publisher.statistics().subscribers_evicted == 1; });
  reader.go();
  EXPECT_EQ(reader.wait(), 0);
  publish_until(publisher, number, [&] { return publisher.statistics().slots_lost == 0; });
}

}  // namespace
}  // namespace vramlink
