// Many subscribers, many threads, random holds: every byte of every frame is looked at.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "support/channel_fixture.hpp"

namespace vramlink {
namespace {

using test::ChildLink;
using test::kNow;
using test::publish_number;
using test::soon;

class ManyTest : public test::ChannelTest {
 protected:
  /// Receives until the end, holding a random choice of frames for a random number of further ones.
  static void read_all(Subscriber& subscriber, std::uint32_t seed, std::size_t held_count_max) {
    std::mt19937 random(seed);
    std::vector<Frame> held;
    std::uint64_t last_sequence = 0;
    while (true) {
      Result<Frame> frame = subscriber.receive(kForever);
      if (frame.failed_with(Code::closed)) break;
      ASSERT_TRUE(frame) << to_string(frame.error());
      EXPECT_GT(frame->sequence(), last_sequence);
      last_sequence = frame->sequence();
      ASSERT_TRUE(test::holds_frame(frame->bytes(), static_cast<std::uint64_t>(frame->media_ns())));
      if (random() % 2 == 0) held.push_back(*std::move(frame));
      while (held.size() + 1 > held_count_max || (!held.empty() && random() % 3 == 0)) {
        const std::size_t which = random() % held.size();
        const Frame& oldest = held[which];
        ASSERT_TRUE(
            test::holds_frame(oldest.bytes(), static_cast<std::uint64_t>(oldest.media_ns())));
        std::swap(held[which], held.back());
        held.pop_back();
      }
    }
    EXPECT_GT(last_sequence, 0U);
  }
};
VRAMLINK_BOTH_WAYS(ManyTest);

TEST_P(ManyTest, EveryByteIsWholeUnderRandomHolds) {
  constexpr std::uint32_t kPeers = 3;
  constexpr std::uint64_t kFrames = 400;
  std::vector<std::unique_ptr<test::Peer>> peers;
  for (std::uint32_t i = 0; i < kPeers; ++i) {
    peers.push_back(start_peer([this, i](const ChildLink& link) {
      const Runtime runtime = open_runtime();
      const ReceivePolicy policy = i == 0 ? ReceivePolicy::latest() : ReceivePolicy::queue(i + 1);
      Subscriber subscriber = open_subscriber(runtime, {.policy = policy, .held_count_max = 3});
      link.ready();
      read_all(subscriber, i, 3);
    }));
  }
  const Runtime runtime = open_runtime();
  // While all of them wait, 6 slots are held and 1 has the newest frame; while they read, up to 9.
  Publisher publisher = open_publisher(runtime, {.slot_count = 8});
  for (const auto& peer : peers) peer->wait_ready();
  std::uint64_t published = 0;
  for (std::uint64_t number = 1; published < kFrames; ++number) {
    const Result<Receipt> receipt = publish_number(publisher, number);
    if (!receipt) {
      ASSERT_TRUE(receipt.failed_with(Code::full));
      std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(receipt->sequence(), ++published);
  }
  EXPECT_TRUE(publisher.close(soon()));
  for (const auto& peer : peers) peer->finish();
  EXPECT_EQ(publisher.statistics().subscribers_revoked, 0U);
}

TEST_P(ManyTest, SixtyFourSubscribersAndNotOneMore) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    std::vector<Subscriber> subscribers;
    for (std::uint32_t i = 0; i < kSubscriberCountMax; ++i) {
      const ReceivePolicy policy = ReceivePolicy::queue(i % 3);
      // As many in stream order as a device can have, which the host does not mind.
      const bool stream_order = i < kStreamOrderedSubscriberCountMax;
      subscribers.push_back(
          open_subscriber(runtime, {.policy = policy, .stream_order = stream_order}));
    }
    const Result<Subscriber> refused = Subscriber::open(runtime, kName, soon());
    ASSERT_TRUE(refused.failed_with(Code::resource_exhausted));
    EXPECT_EQ(refused.error().facts()->numbers[1], kSubscriberCountMax);
    link.ready();
    static_cast<void>(link.wait_go());
    for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) {
      for (Subscriber& subscriber : subscribers) {
        const Frame frame = subscriber.receive(soon()).value();
        EXPECT_EQ(frame.sequence(), sequence);
        EXPECT_TRUE(test::holds_frame(frame.bytes(), sequence));
      }
      link.ready();
      static_cast<void>(link.wait_go());
    }
    subscribers.pop_back();
    // The farewell and the greeting come over different connections.
    Result<Subscriber> again = Error(Code::empty, "not tried");
    while (!again) {
      again = Subscriber::open(runtime, kName, soon(), {.stream_order = false});
      ASSERT_TRUE(again || again.failed_with(Code::resource_exhausted));
    }
    EXPECT_EQ(again->receive(soon()).value().sequence(), 3U);
    link.ready();
    static_cast<void>(link.wait_go());
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  peer->wait_ready();
  EXPECT_EQ(publisher.statistics().subscribers.size(), 64U);
  EXPECT_EQ(publisher.statistics().subscribers_ever, 64U);
  peer->go();
  for (std::uint64_t number = 1; number <= 3; ++number) {
    ASSERT_TRUE(publish_number(publisher, number));
    peer->wait_ready();
    peer->go();
  }
  peer->wait_ready();
  EXPECT_EQ(publisher.statistics().subscribers_ever, 65U);
  peer->go();
  peer->finish();
}

TEST_P(ManyTest, SeveralThreadsPublishAndReceive) {
  constexpr std::uint64_t kEach = 150;
  constexpr std::uint64_t kThreads = 3;
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber =
        open_subscriber(runtime, {.policy = ReceivePolicy::queue(7), .held_count_max = 4});
    link.ready();
    std::mutex mutex;
    std::set<std::uint64_t> sequences;
    std::set<std::uint64_t> numbers;
    std::atomic<int> left{3};
    const auto read = [&] {
      while (true) {
        const Result<Frame> frame = subscriber.receive(kForever);
        if (!frame) {
          // The end is said once; whoever hears it interrupts the others, which wait for a
          // successor.
          EXPECT_TRUE(frame.failed_with(Code::closed) || frame.failed_with(Code::interrupted));
          break;
        }
        const std::uint64_t number = test::number_in(frame->bytes());
        EXPECT_TRUE(test::holds_frame(frame->bytes(), number));
        EXPECT_EQ(static_cast<std::uint64_t>(frame->media_ns()), number);
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(sequences.insert(frame->sequence()).second) << "received twice";
        EXPECT_TRUE(numbers.insert(number).second);
      }
      --left;
      // A thread that was not waiting yet misses an interrupt, so it is said again.
      while (left != 0) {
        subscriber.interrupt();
        std::this_thread::yield();
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back(read);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(sequences.size(), kThreads * kEach);
    EXPECT_EQ(numbers.size(), kThreads * kEach);
    EXPECT_EQ(*sequences.rbegin(), kThreads * kEach);
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 8, .when_full = WhenFull::block});
  peer->wait_ready();
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&publisher, i] {
      for (std::uint64_t n = 0; n < kEach; ++n) {
        EXPECT_TRUE(publish_number(publisher, 1000 * i + n + 1, kForever));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(publisher.close(kForever));
  EXPECT_EQ(publisher.statistics().published, kThreads * kEach);
  peer->finish();
}

class OneProcessTest : public test::ChannelFixture {};

TEST_F(OneProcessTest, PublishersAndSubscribersShareOneMapping) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  Publisher other =
      Publisher::open(runtime, "cam1", Format::bytes(kFrameBytes).value(), {}).value();
  std::vector<Subscriber> subscribers;
  for (int i = 0; i < 4; ++i) subscribers.push_back(open_subscriber(runtime));
  Subscriber reads_other = Subscriber::open(runtime, "cam1", soon()).value();
  WritableFrame frame = publisher.try_claim(kNow).value();
  const std::byte* const written_at = frame.data();
  test::fill_frame(frame.bytes(), 3);
  ASSERT_TRUE(publisher.publish(std::move(frame), kNow));
  ASSERT_TRUE(publish_number(other, 4));
  for (Subscriber& subscriber : subscribers) {
    const Frame received = subscriber.receive(soon()).value();
    EXPECT_EQ(received.data(), written_at);
    EXPECT_TRUE(test::holds_frame(received.bytes(), 3));
  }
  EXPECT_TRUE(test::receives_frame(reads_other, 4, soon()));
  EXPECT_EQ(publisher.statistics().subscribers.size(), 4U);
}

TEST_F(OneProcessTest, OpeningAndClosingLeavesNothingBehind) {
  const Runtime runtime = open_runtime();
  for (int i = 0; i < 20; ++i) {
    Publisher publisher = open_publisher(runtime);
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(2)});
    ASSERT_TRUE(publish_number(publisher, 1));
    EXPECT_EQ(subscriber.receive(soon()).value().sequence(), 1U);
  }
  EXPECT_EQ(files(), std::vector<std::string>{});
}

}  // namespace
}  // namespace vramlink
