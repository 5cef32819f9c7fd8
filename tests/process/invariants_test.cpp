// The invariants of the channel's protocol, one test or more each, named by their numbers
// (docs/channel.md lists them). Those of a device's streams (3 and 5) have theirs in the model and
// over the fake back end, whose streams a test steps (tests/unit/channel); 10, the steady state, is
// counted by steady_state.cpp; 11, that the reactor calls no back end, holds in every test.
//
// invariant_steps_test.cpp has those that are made to happen at a named step.
//
// Each test says which rule it is there for: tests/mutation removes the rule and demands a failure.
#include <gtest/gtest.h>

#include <ctime>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "channel/publisher_core.hpp"
#include "os/futex.hpp"
#include "support/channel_fixture.hpp"
#include "support/link_attacker.hpp"

namespace vramlink {
namespace {

using test::ChildLink;
using test::kNow;
using test::publish_number;
using test::soon;

class InvariantTest : public test::ChannelTest {
 protected:
  // Before any peer is forked.
  InvariantTest() { channel::limit_claim_sleeps(false); }
  InvariantTest(const InvariantTest&) = delete;
  InvariantTest& operator=(const InvariantTest&) = delete;
  ~InvariantTest() override { channel::limit_claim_sleeps(true); }
};
VRAMLINK_BOTH_WAYS(InvariantTest);

// Rule: claim looks at every hold again after it cleared the tag; a hold number is fresh.
TEST_P(InvariantTest, invariant_1_held_frames_do_not_change) {
  std::vector<std::unique_ptr<test::Peer>> peers;
  for (const std::uint32_t depth : {0U, 2U}) {
    peers.push_back(start_peer([this, depth](const ChildLink& link) {
      const Runtime runtime = open_runtime();
      Subscriber subscriber = open_subscriber(runtime, {.policy = {depth}, .held_count_max = 1});
      link.ready();
      while (true) {
        const Result<Frame> frame = subscriber.receive(kForever);
        if (!frame) break;
        for (int look = 0; look < 3; ++look) {
          ASSERT_TRUE(
              test::holds_frame(frame->bytes(), static_cast<std::uint64_t>(frame->media_ns())));
          std::this_thread::yield();
        }
      }
    }));
  }
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 4});
  for (const auto& peer : peers) peer->wait_ready();
  for (std::uint64_t number = 1; number <= 1000; ++number) {
    // 4 slots are enough for 2 that hold 1 each; but a reader that moves from slot to slot while a
    // claim looks can stand in its way twice.
    Result<Receipt> receipt = publish_number(publisher, number);
    while (!receipt) {
      ASSERT_TRUE(receipt.failed_with(Code::full));
      receipt = publish_number(publisher, number);
    }
  }
  EXPECT_TRUE(publisher.close(soon()));
  for (const auto& peer : peers) peer->finish();
}

// Rule: the newest complete frame is not claimable.
TEST_P(InvariantTest, invariant_6_a_newcomer_finds_a_complete_frame) {
  const auto newcomer = start_peer([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    const Runtime runtime = open_runtime();
    for (int i = 0; i < 25; ++i) {
      Subscriber subscriber = open_subscriber(runtime);
      const Result<Frame> frame = subscriber.receive(kForever);
      ASSERT_TRUE(frame) << to_string(frame.error());
      ASSERT_TRUE(test::holds_frame(frame->bytes(), static_cast<std::uint64_t>(frame->media_ns())));
    }
    link.ready();
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2});
  ASSERT_TRUE(publish_number(publisher, 1));
  newcomer->go();
  // As fast as it can, and for as long as newcomers come.
  std::atomic<bool> done{false};
  std::thread hurry([&] {
    for (std::uint64_t number = 2; !done; ++number) {
      static_cast<void>(publish_number(publisher, number));
    }
  });
  newcomer->wait_ready();
  done = true;
  hurry.join();
  newcomer->finish();
}

// Rules: under block a slot that a queue still wants is not claimed; a queue takes in order, and an
// undone claim loses it nothing.
TEST_P(InvariantTest, invariant_7_a_queue_gets_every_sequence_once_in_order) {
  constexpr std::uint64_t kFrames = 600;
  std::vector<std::unique_ptr<test::Peer>> peers;
  for (std::uint32_t i = 0; i < 3; ++i) {
    peers.push_back(start_peer([this, i](const ChildLink& link) {
      const Runtime runtime = open_runtime();
      Subscriber subscriber = open_subscriber(
          runtime, {.policy = ReceivePolicy::queue(1 + i), .held_count_max = 1 + i % 2});
      link.ready();
      std::mt19937 random(i);
      std::optional<Frame> kept;
      std::uint64_t next = 1;
      while (true) {
        Result<Frame> frame = subscriber.receive(kForever);
        if (!frame) {
          EXPECT_TRUE(frame.failed_with(Code::closed)) << to_string(frame.error());
          break;
        }
        ASSERT_EQ(frame->sequence(), next++);
        ASSERT_TRUE(test::holds_frame(frame->bytes(), frame->sequence()));
        if (i % 2 == 1) kept = *std::move(frame);
        if (random() % 8 == 0) std::this_thread::yield();
      }
      EXPECT_EQ(next, kFrames + 1);
      EXPECT_EQ(subscriber.statistics().lost, 0U);
    }));
  }
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 4, .when_full = WhenFull::block});
  for (const auto& peer : peers) peer->wait_ready();
  for (std::uint64_t number = 1; number <= kFrames; ++number) {
    ASSERT_TRUE(publish_number(publisher, number, kForever));
  }
  EXPECT_TRUE(publisher.close(kForever));
  for (const auto& peer : peers) peer->finish();
}

// Rules: who waits sets its bell, then looks; who changes something stores it, then looks at the
// bell. Both sides sleep for every frame: one slot to write, one to read.
TEST_P(InvariantTest, invariant_8_sleepers_on_both_sides_miss_no_ring) {
  constexpr std::uint64_t kFrames = 3000;
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber =
        open_subscriber(runtime, {.policy = ReceivePolicy::queue(1), .held_count_max = 1});
    link.ready();
    for (std::uint64_t sequence = 1; sequence <= kFrames; ++sequence) {
      ASSERT_EQ(subscriber.receive(kForever).value().sequence(), sequence);
    }
    EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::closed));
  });
  const Runtime runtime = open_runtime();
  Publisher publisher =
      open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block}, 64);
  peer->wait_ready();
  for (std::uint64_t number = 1; number <= kFrames; ++number) {
    ASSERT_TRUE(publish_number(publisher, number, kForever));
  }
  EXPECT_TRUE(publisher.close(kForever));
  peer->finish();
}

// Rule: the end rings, and is looked for after the bell was set.
TEST_P(InvariantTest, invariant_8_a_sleeper_hears_every_end) {
  constexpr int kLives = 30;
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    std::optional<Subscriber> subscriber = open_subscriber(runtime);
    for (int life = 0; life < kLives; ++life) {
      link.ready();
      ASSERT_TRUE(subscriber->receive(kForever).failed_with(Code::closed));
    }
    link.ready();
  });
  const Runtime runtime = open_runtime();
  std::optional<Publisher> publisher = open_publisher(runtime);
  for (int life = 0; life < kLives; ++life) {
    ASSERT_TRUE(publisher->wait_for_subscribers(1, kForever));
    peer->wait_ready();
    publisher.reset();
    publisher = open_publisher(runtime);
  }
  peer->wait_ready();
  peer->finish();
}

// Rules: what a subscriber writes is never trusted; who holds more than it may is thrown out.
class InvariantHostileTest : public test::ChannelFixture {};

TEST_F(InvariantHostileTest, invariant_9_garbage_costs_the_others_nothing_lasting) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 4}, 64);
  Subscriber honest = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
  std::mt19937_64 random(1);
  std::uint64_t next = 1;
  std::uint64_t revoked = 0;
  for (int life = 0; life < 10; ++life) {
    test::RawSubscriber hostile(directory_.path(), kName, 1, life % 4);
    hostile.attach();
    auto* const words = reinterpret_cast<std::atomic<std::uint64_t>*>(hostile.mapping.data());
    for (int round = 0; round < 200; ++round) {
      for (int i = 0; i < 20; ++i) {
        const std::uint64_t value = random() >> (random() % 64);
        words[random() % (wire::kPrivateBytes / 8)].store(value);
      }
      // At most one claim fails for it before the publisher has noticed and thrown it out.
      const Result<Receipt> receipt = publish_number(publisher, next);
      if (!receipt) {
        ASSERT_TRUE(receipt.failed_with(Code::full));
        while (publisher.statistics().subscribers_revoked == revoked) std::this_thread::yield();
        break;
      }
      ++next;
      EXPECT_EQ(honest.receive(soon()).value().sequence(), receipt->sequence());
    }
    // What it holds would count until this process ends.
    hostile.peer.send(wire::Bye{{}, hostile.offer.generation, wire::ByeReason::drained, 0});
    while (publisher.statistics().subscribers.size() > 1) std::this_thread::yield();
    revoked = publisher.statistics().subscribers_revoked;
  }
  EXPECT_GT(revoked, 0U);
  ASSERT_TRUE(publish_number(publisher, next));
  EXPECT_TRUE(test::receives_frame(honest, next, soon()));
}

TEST_F(InvariantHostileTest, invariant_9_who_holds_everything_is_thrown_out) {
  const Runtime runtime = open_runtime();
  Publisher publisher =
      open_publisher(runtime, {.slot_count = 4, .when_full = WhenFull::block}, 64);
  Subscriber honest = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
  test::RawSubscriber hostile(directory_.path(), kName, 1);
  hostile.attach();
  for (auto& held : hostile.words().held) held.store(1'000'000);
  for (std::uint64_t number = 1; number <= 20; ++number) {
    ASSERT_TRUE(publish_number(publisher, number, kForever));
    EXPECT_TRUE(test::receives_frame(honest, number, kForever));
  }
  EXPECT_EQ(publisher.statistics().subscribers_revoked, 1U);
  EXPECT_NE(hostile.words().flags.load() & wire::kRevoked, 0U);
  std::optional<wire::MessageType> last;
  while (const auto message = hostile.peer.next()) last = message->type();
  EXPECT_EQ(last, wire::MessageType::revoked);
}

TEST_F(InvariantHostileTest, invariant_9_within_its_rights_it_costs_what_it_may_hold) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 4}, 64);
  Subscriber honest = open_subscriber(runtime);
  test::RawSubscriber hostile(directory_.path(), kName, 1);
  hostile.attach();
  hostile.words().held[2].store(1);  // for ever
  for (std::uint64_t number = 1; number <= 100; ++number) {
    hostile.words().bell.store(1);  // and one futex call a frame
    ASSERT_TRUE(publish_number(publisher, number));
    EXPECT_TRUE(test::receives_frame(honest, number, soon()));
  }
  EXPECT_EQ(publisher.statistics().subscribers_revoked, 0U);
  EXPECT_EQ(publisher.statistics().refused_full, 0U);
}

TEST_F(InvariantHostileTest, invariant_9_a_bell_that_rings_for_nothing_costs_no_core) {
  const Runtime runtime = open_runtime();
  Publisher publisher =
      open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block}, 64);
  const Subscriber honest = open_subscriber(runtime, {.policy = ReceivePolicy::queue(1)});
  test::RawSubscriber hostile(directory_.path(), kName, 1);
  hostile.attach();
  ASSERT_TRUE(publish_number(publisher, 1));
  ASSERT_TRUE(publish_number(publisher, 2));  // nobody takes them: the next claim waits
  std::atomic<bool> stop{false};
  std::thread ringer([&] {
    while (!stop) {
      hostile.words().free_bell.fetch_add(1);
      os::futex_wake(hostile.words().free_bell, 1);
    }
  });
  const auto own_cpu_ns = [] {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * 1'000'000'000 + used.tv_nsec;
  };
  constexpr std::int64_t kWaitNs = 500'000'000;
  const std::int64_t before_ns = own_cpu_ns();
  EXPECT_TRUE(publisher.claim(test::kNow, Deadline::after(std::chrono::nanoseconds(kWaitNs)))
                  .failed_with(Code::timed_out));
  // CPU time, not time: what others do on the machine does not count. A claim that every ring keeps
  // awake uses nearly all of the wait, this one about a hundredth.
  EXPECT_LT(own_cpu_ns() - before_ns, kWaitNs / 10);
  stop = true;
  ringer.join();
}

}  // namespace
}  // namespace vramlink
