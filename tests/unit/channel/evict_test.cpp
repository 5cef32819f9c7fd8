// A publisher that disconnects who holds frames for too long, on a device whose streams the test
// steps: section 9 of the protocol and docs/policies.md.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <future>
#include <optional>
#include <vector>

#include "channel/publisher_core.hpp"
#include "support/resize_fixture.hpp"
#include "support/step_action.hpp"

namespace vramlink {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using test::kNow;
using test::soon;
using test::wait_until;

class EvictTest : public test::ResizeFixture {
 protected:
  /// A lease of a nanosecond is over as soon as a second claim meets the hold.
  [[nodiscard]] Publisher open_evicting(std::uint32_t slot_count,
                                        nanoseconds lease = nanoseconds(1)) const {
    return open_publisher({.slot_count = slot_count, .when_full = WhenFull::evict, .lease = lease});
  }
  /// Publishes one more frame, if there is a slot.
  void publish_next(Publisher& publisher) {
    if (test::publish_number(publisher, number_ + 1, Deadline::passed())) ++number_;
    drain_reactor();
  }
  void publish_until(Publisher& publisher, const std::function<bool()>& done) {
    wait_until([&] {
      publish_next(publisher);
      return done();
    });
  }
  void publish_until_evicted(Publisher& publisher, std::uint64_t count = 1) {
    publish_until(publisher, [&] { return publisher.statistics().subscribers_evicted >= count; });
  }
  Frame receive_next(Publisher& publisher, Subscriber& subscriber) {
    publish_next(publisher);
    return subscriber.receive(soon()).value();
  }
  std::vector<Frame> hold(Publisher& publisher, Subscriber& subscriber, std::size_t count) {
    std::vector<Frame> held;
    held.reserve(count);
    while (held.size() < count) held.push_back(receive_next(publisher, subscriber));
    return held;
  }

  std::uint64_t number_ = 0;
};

TEST_F(EvictTest, WhoHoldsForTooLongHearsOfItAndReadsOn) {
  Publisher publisher = open_evicting(4);
  Subscriber subscriber = open_subscriber();
  std::optional<Frame> held = receive_next(publisher, subscriber);
  publish_until_evicted(publisher);
  for (int i = 0; i < 20; ++i) publish_next(publisher);
  EXPECT_TRUE(test::holds_frame(held->bytes(), 1));
  const Result<Frame> end = subscriber.receive(soon());
  ASSERT_TRUE(end.failed_with(Code::revoked));
  ASSERT_NE(end.error().facts(), nullptr);
  EXPECT_NE(end.error().facts()->reason.find("lease"), std::string::npos);
  EXPECT_EQ(end.error().facts()->subject, "cam0");
  EXPECT_FALSE(end.error().facts()->remedy.empty());
  // Told once: then it is in again.
  const Frame frame = subscriber.receive(soon()).value();
  EXPECT_TRUE(test::holds_frame(frame.bytes(), number_));
  EXPECT_TRUE(test::holds_frame(held->bytes(), 1));
  EXPECT_EQ(subscriber.statistics().revocations, 1U);
  EXPECT_EQ(subscriber.statistics().connects, 2U);
  EXPECT_EQ(subscriber.statistics().peer_deaths, 0U);
  PublisherStatistics statistics = publisher.statistics();
  EXPECT_EQ(statistics.subscribers_revoked, 0U);
  EXPECT_EQ(statistics.slots_lost, 1U);
  EXPECT_EQ(statistics.replacements, 0U) << "three are left";
  ASSERT_EQ(statistics.subscribers.size(), 2U);
  EXPECT_TRUE(statistics.subscribers[0].evicted);
  EXPECT_EQ(statistics.subscribers[0].held, 1U);
  EXPECT_FALSE(statistics.subscribers[1].evicted);
  held.reset();
  wait_until([&] { return publisher.statistics().subscribers.size() == 1; });
  statistics = publisher.statistics();
  EXPECT_EQ(statistics.slots_lost, 0U);
  EXPECT_EQ(statistics.subscribers_evicted, 1U);
  EXPECT_EQ(statistics.subscribers_died, 0U);
  EXPECT_EQ(statistics.subscribers_ever, 2U);
}

TEST_F(EvictTest, NobodyIsEvictedWhileNoClaimWantsItsSlot) {
  Publisher publisher = open_evicting(4);
  Subscriber subscriber = open_subscriber();
  const Frame held = receive_next(publisher, subscriber);
  for (int i = 0; i < 3; ++i) publish_next(publisher);  // the other slots
  EXPECT_EQ(publisher.statistics().subscribers_evicted, 0U);
  EXPECT_TRUE(subscriber.receive(soon()));
}

TEST_F(EvictTest, WhoLetsGoInTimeStays) {
  Publisher publisher = open_evicting(3, hours(1));
  Subscriber latest = open_subscriber();
  Subscriber queue = open_subscriber({.policy = ReceivePolicy::queue(2)});
  for (int i = 0; i < 100; ++i) {
    const Frame one = receive_next(publisher, latest);
    const Result<Frame> two = queue.try_receive();
    publish_next(publisher);
  }
  EXPECT_EQ(publisher.statistics().subscribers_evicted, 0U);
  EXPECT_EQ(latest.statistics().revocations + queue.statistics().revocations, 0U);
}

TEST_F(EvictTest, AQueueIsEvictedAndBeginsAnewWithTheNewestFrame) {
  Publisher publisher = open_evicting(5);
  Subscriber queue = open_subscriber({.policy = ReceivePolicy::queue(3)});
  const Frame held = receive_next(publisher, queue);
  publish_until_evicted(publisher);
  ASSERT_TRUE(queue.receive(soon()).failed_with(Code::revoked));
  publish_next(publisher);
  const Frame next = queue.receive(soon()).value();
  EXPECT_GE(next.sequence(), number_ - 1);
  EXPECT_TRUE(test::holds_frame(held.bytes(), 1));
}

TEST_F(EvictTest, WithoutReconnectEveryCallSaysSo) {
  Publisher publisher = open_evicting(4);
  std::optional<Subscriber> subscriber = open_subscriber({.reconnect = false});
  const Frame held = receive_next(publisher, *subscriber);
  publish_until_evicted(publisher);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(subscriber->receive(soon()).failed_with(Code::revoked));
    EXPECT_TRUE(subscriber->try_receive().failed_with(Code::revoked));
  }
  EXPECT_EQ(subscriber->statistics().revocations, 1U);
  EXPECT_TRUE(test::holds_frame(held.bytes(), 1));
  subscriber.reset();
  for (int i = 0; i < 10; ++i) publish_next(publisher);
  EXPECT_TRUE(test::holds_frame(held.bytes(), 1)) << "the frame outlives its Subscriber";
}

TEST_F(EvictTest, AReceiveThatSleepsHearsOfIt) {
  Publisher publisher = open_evicting(4);
  Subscriber subscriber = open_subscriber({.held_count_max = 1});
  const Frame held = receive_next(publisher, subscriber);
  const int fd = subscriber.readiness_fd().value();
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  publish_next(publisher);
  // It may hold no more: only an end is news.
  wait_until([&] { return subscriber.try_receive().failed_with(Code::resource_exhausted); });
  publish_until_evicted(publisher);
  pollfd readable{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, -1), 1);
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::revoked));
}

TEST_F(EvictTest, AReleaseByStreamCountsOnceTheStreamGotThere) {
  Publisher publisher = open_evicting(4);
  Subscriber subscriber = open_subscriber();
  Frame frame = receive_next(publisher, subscriber);
  const auto number = read(frame);
  const ReleaseReceipt released = frame.release(device_.stream(kRead)).value();
  publish_until_evicted(publisher);
  for (int i = 0; i < 20; ++i) publish_next(publisher);
  EXPECT_EQ(publisher.statistics().slots_lost, 1U);
  EXPECT_FALSE(released.ready());
  ASSERT_TRUE(subscriber.receive(soon()).failed_with(Code::revoked));
  drain_janitor();
  EXPECT_EQ(publisher.statistics().slots_lost, 1U) << "the stream has not read it yet";
  device_.run(kRead);
  EXPECT_EQ(*number, 1U);
  EXPECT_TRUE(released.ready());
  EXPECT_FALSE(released.aborted());
  EXPECT_EQ(publisher.statistics().slots_lost, 0U);
  wait_until([&] {
    const auto views = publisher.statistics().subscribers;
    return std::none_of(views.begin(), views.end(), [](const auto& view) { return view.evicted; });
  });
}

TEST_F(EvictTest, AStreamThatWaitsForAnEarlierFrameGetsIt) {
  Publisher publisher = open_evicting(5);
  Subscriber subscriber = open_subscriber({.policy = ReceivePolicy::queue(3)});
  const Frame held = receive_next(publisher, subscriber);
  publish(publisher, ++number_);  // not complete
  Frame waited = subscriber.receive(device_.stream(kRead), soon()).value();
  const auto number = read(waited);
  publish_until_evicted(publisher);
  drain_reactor();
  EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::revoked));
  device_.run();
  EXPECT_EQ(*number, 2U);
  EXPECT_FALSE(waited.aborted());
  EXPECT_TRUE(test::holds_frame(held.bytes(), 1));
}

TEST_F(EvictTest, NewSlotsTakeThePlaceOfLostOnes) {
  Publisher publisher = open_evicting(3);
  Subscriber holder = open_subscriber();
  Subscriber other = open_subscriber({.policy = ReceivePolicy::queue(2)});
  std::vector<Frame> held;
  const int before = payloads();
  held.push_back(receive_next(publisher, holder));
  held.push_back(receive_next(publisher, holder));
  publish_until(publisher, [&] { return publisher.statistics().replacements == 1; });
  PublisherStatistics statistics = publisher.statistics();
  EXPECT_EQ(statistics.subscribers_evicted, 1U);
  EXPECT_EQ(statistics.resizes, 1U);
  EXPECT_EQ(statistics.growths, 0U);
  EXPECT_EQ(statistics.slot_count, 3U);
  EXPECT_EQ(statistics.slots_lost, 0U) << "of those in use";
  EXPECT_EQ(publisher.format(), bytes(kBytes));
  for (int i = 0; i < 20; ++i) publish_next(publisher);
  EXPECT_TRUE(test::holds_frame(held[0].bytes(), 1));
  EXPECT_TRUE(test::holds_frame(held[1].bytes(), 2));
  wait_until([&] {
    const Result<Frame> frame = other.receive(soon());
    return frame && frame->generation() == 2 && frame->sequence() == number_;
  });
  EXPECT_EQ(other.statistics().connects, 1U) << "it followed";
  ASSERT_TRUE(holder.receive(soon()).failed_with(Code::revoked));
  EXPECT_EQ(holder.receive(soon()).value().generation(), 2U);
  held.clear();
  wait_until([&] { return payloads() == before; });
  wait_until([&] { return publisher.statistics().subscribers.size() == 2; });
}

TEST_F(EvictTest, AClaimThatWaitsIsWokenByTheEndOfALeaseAndGetsANewSlot) {
  channel::limit_claim_sleeps(false);  // a wake-up that is missed would hang
  Publisher publisher = open_evicting(3, milliseconds(20));
  Subscriber holder = open_subscriber();
  std::vector<Frame> held = hold(publisher, holder, 2);
  publish_next(publisher);
  EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
  const Result<WritableFrame> claimed = publisher.claim(kNow, kForever);
  channel::limit_claim_sleeps(true);
  ASSERT_TRUE(claimed) << to_string(claimed.error());
  EXPECT_EQ(publisher.statistics().replacements, 1U);
  EXPECT_EQ(publisher.statistics().timed_out, 0U);
}

TEST_F(EvictTest, AClaimThatWaitsIsWokenByARelease) {
  channel::limit_claim_sleeps(false);
  Publisher publisher = open_evicting(2, hours(1));
  Subscriber holder = open_subscriber({.held_count_max = 1});
  std::optional<Frame> held = receive_next(publisher, holder);
  publish_next(publisher);
  auto claimed = std::async(std::launch::async, [&] { return publisher.claim(kNow, kForever); });
  while (held && claimed.wait_for(milliseconds(5)) != std::future_status::ready) held.reset();
  EXPECT_TRUE(claimed.get());
  channel::limit_claim_sleeps(true);
  EXPECT_EQ(publisher.statistics().subscribers_evicted, 0U);
}

TEST_F(EvictTest, AClaimFailsWithFullAtItsDeadline) {
  Publisher publisher = open_evicting(2, hours(1));
  Subscriber holder = open_subscriber({.held_count_max = 1});
  const Frame held = receive_next(publisher, holder);
  publish_next(publisher);
  EXPECT_TRUE(publisher.claim(kNow, milliseconds(5)).failed_with(Code::full));
  EXPECT_EQ(publisher.statistics().refused_full, 1U);
  EXPECT_EQ(publisher.statistics().timed_out, 0U);
}

TEST_F(EvictTest, WithoutMemoryForNewSlotsTheOldOnesGoOn) {
  Publisher publisher = open_evicting(3);
  Subscriber holder = open_subscriber();
  std::vector<Frame> held = hold(publisher, holder, 2);
  device_.fail("allocate", Code::out_of_memory, 1000);
  publish_until_evicted(publisher);
  // Nothing is waited for that cannot come.
  const Result<WritableFrame> refused = publisher.claim(kNow, kForever);
  EXPECT_TRUE(refused.failed_with(Code::full));
  EXPECT_EQ(publisher.statistics().replacements, 0U);
  EXPECT_TRUE(test::holds_frame(held[0].bytes(), 1));
  held.pop_back();
  ASSERT_TRUE(test::publish_number(publisher, ++number_, soon())) << "two are enough";
  EXPECT_TRUE(test::holds_frame(held[0].bytes(), 1));
  EXPECT_EQ(publisher.statistics().resizes, 0U);
}

TEST_F(EvictTest, ThereIsMemoryAgain) {
  Publisher publisher = open_evicting(3);
  Subscriber holder = open_subscriber();
  std::vector<Frame> held = hold(publisher, holder, 2);
  device_.fail("allocate", Code::out_of_memory, 1);
  publish_until(publisher, [&] { return publisher.statistics().replacements == 1; });
  EXPECT_TRUE(test::holds_frame(held[0].bytes(), 1));
  EXPECT_TRUE(test::holds_frame(held[1].bytes(), 2));
}

TEST_F(EvictTest, WhoComesAgainAndAgainCannotTakeAllMemory) {
  Publisher publisher = open_evicting(3);
  Subscriber holder = open_subscriber();
  std::vector<Frame> held;
  // Four generations are there at a time, and three of them are lost.
  for (std::uint64_t life = 1; life <= 4; ++life) {
    for (int i = 0; i < 2; ++i) {
      publish_until(publisher, [&] {
        Result<Frame> frame = holder.try_receive();
        if (!frame) return false;
        held.push_back(*std::move(frame));
        return true;
      });
    }
    publish_until_evicted(publisher, life);
    if (life < 4) {
      publish_until(publisher, [&] { return publisher.statistics().replacements == life; });
    }
    EXPECT_TRUE(holder.receive(soon()).failed_with(Code::revoked));
  }
  EXPECT_TRUE(publisher.claim(kNow, kForever).failed_with(Code::full));
  EXPECT_EQ(publisher.statistics().replacements, 3U);
  for (const Frame& frame : held) EXPECT_TRUE(test::holds_frame(frame.bytes(), frame.sequence()));
  held.erase(held.begin(), held.begin() + 2);  // the first generation goes
  publish_until(publisher, [&] { return publisher.statistics().replacements == 4; });
}

TEST_F(EvictTest, ItComesInAgainWhereThereIsOnePlaceAlone) {
  Publisher publisher = open_publisher({.slot_count = 4,
                                        .when_full = WhenFull::evict,
                                        .subscriber_count_max = 1,
                                        .lease = nanoseconds(1)});
  Subscriber subscriber = open_subscriber();
  const Frame held = receive_next(publisher, subscriber);
  publish_until_evicted(publisher);
  ASSERT_TRUE(subscriber.receive(soon()).failed_with(Code::revoked));
  EXPECT_TRUE(subscriber.receive(soon()));
  EXPECT_TRUE(test::holds_frame(held.bytes(), 1));
}

TEST_F(EvictTest, WhoHasLeftAndHoldsIsEvictedToo) {
  Publisher publisher = open_evicting(3);
  std::optional<Subscriber> leaver = open_subscriber();
  std::vector<Frame> held;
  held.push_back(receive_next(publisher, *leaver));
  held.push_back(receive_next(publisher, *leaver));
  leaver.reset();
  publish_until(publisher, [&] { return publisher.statistics().replacements == 1; });
  EXPECT_TRUE(test::holds_frame(held[0].bytes(), 1));
  EXPECT_TRUE(test::holds_frame(held[1].bytes(), 2));
}

TEST_F(EvictTest, CopiesGoOnInNewSlots) {
  Publisher publisher = open_evicting(3);
  Subscriber holder = open_subscriber();
  std::vector<std::byte> source(kBytes);
  std::vector<Frame> held;
  const auto copy = [&] {
    test::fill_frame(source, number_ + 1);
    if (publisher.publish_copy(source, kNow, Deadline::passed())) ++number_;
    device_.run();
    drain_reactor();
    drain_janitor();
  };
  for (int i = 0; i < 2; ++i) {
    copy();
    held.push_back(holder.receive(soon()).value());
  }
  wait_until([&] {
    copy();
    return publisher.statistics().replacements == 1;
  });
  copy();
  EXPECT_TRUE(test::holds_frame(held[0].bytes(), 1));
  EXPECT_TRUE(test::holds_frame(held[1].bytes(), 2));
  ASSERT_TRUE(holder.receive(soon()).failed_with(Code::revoked));
  const Frame frame = holder.receive(soon()).value();
  EXPECT_EQ(frame.generation(), 2U);
  EXPECT_TRUE(test::holds_frame(frame.bytes(), number_));
}

TEST_F(EvictTest, AnObserverSeesIt) {
  Publisher publisher = open_evicting(4);
  Subscriber subscriber = open_subscriber();
  const Frame held = receive_next(publisher, subscriber);
  publish_until_evicted(publisher);
  const ChannelInfo info = inspect_channel(runtime_, "cam0", soon()).value();
  EXPECT_EQ(info.statistics.subscribers_evicted, 1U);
  EXPECT_EQ(info.statistics.slots_lost, 1U);
  EXPECT_EQ(info.statistics.slot_count, 4U);
  EXPECT_EQ(info.statistics.slot_count_max, 4U);
  ASSERT_EQ(info.statistics.subscribers.size(), 1U);
  EXPECT_TRUE(info.statistics.subscribers.front().evicted);
}

TEST_F(EvictTest, RefusesALeaseThatIsNone) {
  const auto open = [this](nanoseconds lease, WhenFull when_full) {
    PublisherOptions options;
    options.device = test::fake_device();
    options.when_full = when_full;
    options.lease = lease;
    return Publisher::open(runtime_, "cam0", bytes(100), options);
  };
  EXPECT_TRUE(open(nanoseconds(0), WhenFull::evict).failed_with(Code::invalid_argument));
  EXPECT_TRUE(open(nanoseconds(-1), WhenFull::evict).failed_with(Code::invalid_argument));
  EXPECT_TRUE(open(nanoseconds(0), WhenFull::drop)) << "it has none";
  EXPECT_TRUE(open(nanoseconds::max(), WhenFull::evict));
}

TEST_F(EvictTest, AFrameThatIsClaimedIsNotMadeStaleAtOnce) {
  Publisher publisher = open_evicting(3);
  Subscriber holder = open_subscriber();
  std::vector<Frame> held = hold(publisher, holder, 2);
  std::optional<WritableFrame> claimed = publisher.try_claim(kNow).value();
  publish_until_evicted(publisher);
  for (int i = 0; i < 4; ++i) {
    drain_reactor();
    drain_janitor();
  }
  EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
  EXPECT_EQ(publisher.statistics().replacements, 0U) << "it is ready, and waits for the frame";
  test::fill_frame(claimed->bytes(), ++number_);
  ASSERT_TRUE(publisher.publish(*std::move(claimed), kNow));
  claimed = publisher.try_claim(kNow).value();
  EXPECT_EQ(publisher.statistics().replacements, 1U);
  test::fill_frame(claimed->bytes(), ++number_);
  ASSERT_TRUE(publisher.publish(*std::move(claimed), kNow));
  EXPECT_EQ(publisher.statistics().abandoned, 0U);
}

TEST_F(EvictTest, AFrameThatStaysClaimedIsStaleInTheEnd) {
  Publisher publisher = open_evicting(3);
  Subscriber holder = open_subscriber();
  std::vector<Frame> held = hold(publisher, holder, 2);
  WritableFrame claimed = publisher.try_claim(kNow).value();
  publish_until(publisher, [&] { return publisher.statistics().replacements == 1; });
  EXPECT_TRUE(publisher.publish(std::move(claimed), kNow).failed_with(Code::stale));
}

#if VRAMLINK_STEPS

TEST_F(EvictTest, ItLetsGoWhileItIsBeingEvicted) {
  for (const char* step : {"evict.quarantined", "evict.flag_set", "evict.told"}) {
    SCOPED_TRACE(step);
    number_ = 0;
    Publisher publisher = open_evicting(3);
    Subscriber subscriber = open_subscriber();
    std::optional<Frame> held = receive_next(publisher, subscriber);
    test::StepActions action(step, [&] { held.reset(); });
    publish_until_evicted(publisher);
    wait_until([&] { return action.all_done(); });
    EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::revoked));
    publish_next(publisher);
    EXPECT_TRUE(subscriber.receive(soon()));
    EXPECT_EQ(publisher.statistics().slots_lost, 0U);
  }
}

TEST_F(EvictTest, IsEvictedWhileNewSlotsAreAnnounced) {
  Publisher publisher = open_evicting(3);
  Subscriber holder = open_subscriber();
  Subscriber second = open_subscriber();
  std::vector<Frame> held = hold(publisher, holder, 2);
  const Frame seconds = second.receive(soon()).value();
  std::promise<void> announced;
  test::StepActions action("renew.announced", [&] { announced.set_value(); });
  publish_until_evicted(publisher, 1);
  publish_until(publisher, [&] { return publisher.statistics().replacements == 1; });
  announced.get_future().wait();
  EXPECT_TRUE(test::holds_frame(held[0].bytes(), 1));
  EXPECT_TRUE(test::holds_frame(held[1].bytes(), 2));
  EXPECT_TRUE(test::holds_frame(seconds.bytes(), 2));
}

TEST_F(EvictTest, ACloseWhileNewSlotsAreMadeIsTheEndOfBoth) {
  for (const char* step : {"renew.built", "renew.announced"}) {
    SCOPED_TRACE(step);
    number_ = 0;
    std::optional<Publisher> publisher = open_evicting(3);
    Subscriber holder = open_subscriber();
    std::vector<Frame> held;
    held.push_back(receive_next(*publisher, holder));
    held.push_back(receive_next(*publisher, holder));
    test::StepActions action(step,
                             [&] { static_cast<void>(publisher->close(Deadline::passed())); });
    wait_until([&] {
      publish_next(*publisher);
      return action.all_done();
    });
    drain_janitor();
    drain_reactor();
    EXPECT_TRUE(publisher->try_claim(kNow).failed_with(Code::closed));
    EXPECT_EQ(publisher->statistics().replacements, 0U);
    publisher.reset();
    EXPECT_TRUE(test::holds_frame(held[0].bytes(), 1));
  }
}

TEST_F(EvictTest, AResizeMeanwhileComesAfter) {
  Publisher publisher = open_evicting(3);
  Subscriber holder = open_subscriber();
  std::vector<Frame> held = hold(publisher, holder, 2);
  std::promise<void> built;
  std::promise<void> go_on;
  test::StepActions action("renew.built", [&] {
    built.set_value();
    go_on.get_future().wait();
  });
  publish_until_evicted(publisher);
  publish_next(publisher);
  built.get_future().wait();
  EXPECT_TRUE(publisher.resize(bytes(100), milliseconds(5)).failed_with(Code::timed_out));
  auto resized = std::async(std::launch::async, [&] { return resize(publisher, 100); });
  go_on.set_value();
  EXPECT_TRUE(resized.get());
  EXPECT_EQ(publisher.format(), bytes(100));
  EXPECT_EQ(publisher.statistics().replacements, 1U);
  EXPECT_EQ(publisher.statistics().resizes, 2U);
}

#endif

}  // namespace
}  // namespace vramlink
