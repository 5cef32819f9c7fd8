// Invariants of the channel's protocol (invariants_test.cpp) in races that are made to happen, at a
// named step and in one thread.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <thread>
#include <utility>

#include "channel/publisher_core.hpp"
#include "support/channel_fixture.hpp"
#include "support/link_attacker.hpp"
#include "support/step_action.hpp"
#include "support/stream_gate.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using test::kNow;
using test::publish_number;
using test::soon;

#if VRAMLINK_STEPS

class InvariantStepTest : public test::ChannelFixture {
 protected:
  InvariantStepTest() { channel::limit_claim_sleeps(false); }
  InvariantStepTest(const InvariantStepTest&) = delete;
  InvariantStepTest& operator=(const InvariantStepTest&) = delete;
  ~InvariantStepTest() override { channel::limit_claim_sleeps(true); }

  /// What an observer sees of the channel.
  struct View {
    os::Mapping mapping;
    [[nodiscard]] const wire::Broadcast& words() const {
      const std::byte* const base = mapping.data();
      return wire::broadcast_at(base);
    }
    [[nodiscard]] std::array<std::uint64_t, 64> ready() const {
      std::array<std::uint64_t, 64> tickets{};
      for (std::size_t i = 0; i < tickets.size(); ++i) tickets[i] = words().ready[i].ticket.load();
      return tickets;
    }
  };
  View observe() {
    test::RawPeer observer(directory_.path(), kName);
    wire::Hello hello = test::honest_hello(kName);
    hello.role = wire::Role::observer;
    hello.max_held = 0;
    EXPECT_TRUE(observer.send(hello));
    auto offer = observer.next().value();
    const auto segment =
        os::SharedSegment::adopt(std::move(offer.fds.at(0)), sizeof(wire::Broadcast),
                                 sizeof(wire::Broadcast), os::kFullSeals)
            .value();
    return {segment.map(os::Access::read_only).value()};
  }
};

// Rules: claim takes complete slots alone; READY is signalled by publish and by abandon, once each.
TEST_F(InvariantStepTest, invariant_2_ready_follows_the_work_and_never_decreases) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 3}, 64);
  const View view = observe();
  std::array<std::uint64_t, 64> before = view.ready();
  for (std::uint64_t round = 1; round <= 60; ++round) {
    WritableFrame frame = publisher.try_claim(kNow).value();
    test::fill_frame(frame.bytes(), round);
    EXPECT_EQ(view.ready(), before) << "the work of the claim is not complete";
    const bool abandons = round % 3 == 0;
    const test::StepActions steps(abandons ? "abandon.before_ready" : "publish.before_ready",
                                  [&] { EXPECT_EQ(view.ready(), before); });
    if (abandons) {
      const WritableFrame dropped = std::move(frame);
    } else {
      ASSERT_TRUE(publisher.publish(std::move(frame), kNow));
    }
    EXPECT_TRUE(steps.all_done());
    const auto after = view.ready();
    int changed = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_GE(after[i], before[i]);
      if (after[i] == before[i]) continue;
      ++changed;
      EXPECT_EQ(after[i], round) << "tickets count the claims";
    }
    EXPECT_EQ(changed, 1);
    before = after;
  }
}

// Rule: READY is enqueued before the frame is visible.
TEST_F(InvariantStepTest, invariant_4_no_frame_is_visible_before_its_ready) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 3}, 64);
  Subscriber subscriber = open_subscriber(runtime);
  const View view = observe();
  const auto sees_nothing = [&] {
    EXPECT_EQ(view.words().newest.load(), 0U);
    EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  };
  const test::StepActions steps({{"publish.before_ready", sees_nothing},
                                 {"publish.ready_enqueued",
                                  [&] {
                                    sees_nothing();
                                    // On a device some time later, by itself.
                                    while (view.words().ready[0].ticket.load() != 1) {
                                      std::this_thread::yield();
                                    }
                                    sees_nothing();
                                  }},
                                 {"publish.header_written", sees_nothing},
                                 {"publish.tag_set", sees_nothing},
                                 {"publish.recent_set", sees_nothing},
                                 {"publish.newest_set", [&] {
                                    EXPECT_EQ(subscriber.try_receive().value().sequence(), 1U);
                                  }}});
  ASSERT_TRUE(publish_number(publisher, 1));
  EXPECT_TRUE(steps.all_done());
}

// Rule: the bell is set before the last look. Each thing happens between the look that found
// nothing and the bell, or between the last look and the sleep.
TEST_F(InvariantStepTest, invariant_8_what_happens_just_before_the_sleep_is_heard) {
  const Runtime runtime = open_runtime();
  std::optional<Publisher> publisher = open_publisher(runtime);
  Subscriber subscriber = open_subscriber(runtime);
  for (const char* const step : {"receive.before_bell", "receive.asleep"}) {
    SCOPED_TRACE(step);
    {
      const test::StepActions steps(step, [&] { EXPECT_TRUE(publish_number(*publisher, 1)); });
      EXPECT_TRUE(test::receives_frame(subscriber, 1, kForever));
      EXPECT_TRUE(steps.all_done());
    }
    {
      const test::StepActions steps(step, [&] { subscriber.interrupt(); });
      EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::interrupted));
      EXPECT_TRUE(steps.all_done());
    }
    {
      const test::StepActions steps(step, [&] { publisher.reset(); });
      EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::closed));
      EXPECT_TRUE(steps.all_done());
    }
    {
      // Without a session the sleeper waits for a successor.
      const test::StepActions steps(step, [&] {
        publisher = open_publisher(runtime);
        EXPECT_TRUE(publisher->wait_for_subscribers(1, kForever));
        EXPECT_TRUE(publish_number(*publisher, 2));
      });
      EXPECT_TRUE(test::receives_frame(subscriber, 2, kForever));
      EXPECT_TRUE(steps.all_done());
    }
  }
}

// Rules: a claim counts itself as a waiter, reads the bells, then scans; a release stores, then
// looks for waiters.
TEST_F(InvariantStepTest, invariant_8_what_is_freed_just_before_the_sleep_is_seen) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
  std::optional<Subscriber> subscriber =
      open_subscriber(runtime, {.policy = ReceivePolicy::queue(1)});
  // 1 is held, 2 is the newest and queued: no slot is left.
  ASSERT_TRUE(publish_number(publisher, 1));
  std::optional<Frame> frame = subscriber->receive(soon()).value();
  ASSERT_TRUE(publish_number(publisher, 2));
  {
    const test::StepActions steps("claim.waiting", [&] { frame.reset(); });
    EXPECT_TRUE(publish_number(publisher, 3, kForever)) << "a frame was given back";
    EXPECT_TRUE(steps.all_done());
  }
  // 2 and 3 are queued.
  {
    const test::StepActions steps(
        "claim.waiting", [&] { EXPECT_EQ(subscriber->receive(soon()).value().sequence(), 2U); });
    EXPECT_TRUE(publish_number(publisher, 4, kForever)) << "the cursor moved";
    EXPECT_TRUE(steps.all_done());
  }
  // 3 and 4 are queued.
  {
    const test::StepActions steps("claim.waiting", [&] { subscriber.reset(); });
    EXPECT_TRUE(publish_number(publisher, 5, kForever)) << "the subscriber left";
    EXPECT_TRUE(steps.all_done());
  }
}

/// The same with work that a stream has yet to do, on devices.
class InvariantStreamTest : public InvariantStepTest {};

TEST_F(InvariantStreamTest, invariant_2_ready_follows_the_work_of_a_stream) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 3}, 64);
  const View view = observe();
  const StreamView stream = test::TestDevice::stream();
  test::StreamGate gate;
  for (std::uint64_t round = 1; round <= 12; ++round) {
    const std::array<std::uint64_t, 64> before = view.ready();
    WritableFrame frame = publisher.try_claim(stream).value();
    const std::byte* const written_at = frame.data();
    gate.close(stream);
    test::fill_frame_in(stream, frame.bytes(), round);
    if (round % 3 == 0) {
      const WritableFrame dropped = std::move(frame);
    } else {
      ASSERT_TRUE(publisher.publish(std::move(frame), stream));
      EXPECT_GT(view.words().newest.load(), 0U);
    }
    EXPECT_EQ(view.ready(), before) << "the work of the claim is not done";
    gate.open();
    while (view.ready() == before) std::this_thread::yield();
    // The work itself came first.
    EXPECT_TRUE(test::holds_frame({written_at, 64}, round));
    const auto after = view.ready();
    int changed = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_GE(after[i], before[i]);
      changed += after[i] != before[i] ? 1 : 0;
    }
    EXPECT_EQ(changed, 1);
  }
}

TEST_F(InvariantStreamTest, invariant_2_a_slot_whose_work_is_not_done_is_not_claimed) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 3}, 64);
  const StreamView stream = test::TestDevice::stream();
  ASSERT_TRUE(test::publish_complete(publisher, 1));
  test::StreamGate gate;
  gate.close(stream);
  ASSERT_TRUE(publisher.publish(publisher.try_claim(stream).value(), stream));
  { const WritableFrame dropped = publisher.try_claim(stream).value(); }
  EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full))
      << "one is the newest that is complete, two are in work";
  gate.open();
  test::TestDevice::finish(stream);
  EXPECT_TRUE(publisher.try_claim(kNow));
}

TEST_F(InvariantStreamTest, invariant_4_a_visible_frame_needs_no_further_call_to_become_ready) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 3}, 64);
  Subscriber subscriber = open_subscriber(runtime);
  const StreamView stream = test::TestDevice::stream();
  test::StreamGate gate;
  gate.close(stream);
  std::optional<Frame> frame;
  // As soon as it is visible, from within publish().
  const test::StepActions steps("publish.newest_set", [&] {
    frame = subscriber.try_receive(test::TestDevice::stream(1), soon()).value();
    EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
    gate.open();
    test::TestDevice::finish(test::TestDevice::stream(1));
    EXPECT_FALSE(frame->aborted());
    EXPECT_TRUE(test::holds_frame(frame->bytes(), 1));
  });
  ASSERT_TRUE(publish_number(publisher, 1));
  EXPECT_TRUE(steps.all_done());
}

TEST_F(InvariantStreamTest, invariant_8_a_release_by_stream_just_before_the_sleep_is_seen) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(1)});
  ASSERT_TRUE(test::publish_complete(publisher, 1));
  std::optional<Frame> frame = subscriber.receive(soon()).value();
  ASSERT_TRUE(test::publish_complete(publisher, 2));
  test::StreamGate gate;
  gate.close(test::TestDevice::stream(1));
  const test::StepActions steps("claim.waiting", [&] {
    EXPECT_TRUE(frame->release(test::TestDevice::stream(1)));
    gate.open();
  });
  EXPECT_TRUE(publish_number(publisher, 3, kForever)) << "a stream gave the slot back";
  EXPECT_TRUE(steps.all_done());
}

#endif

}  // namespace
}  // namespace vramlink
