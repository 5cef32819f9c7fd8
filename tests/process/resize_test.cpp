// A publisher changes its format and its slots while others read: what they get, and when one of
// them is stopped.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "support/channel_fixture.hpp"
#include "support/test_device.hpp"

namespace vramlink {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test::ChildLink;
using test::ChildProcess;
using test::kNow;
using test::publish_number;
using test::soon;
using test::TestDevice;

struct Shape {
  Format format;
  std::uint32_t slot_count;
};

/// What generation 1, 2, ... looks like: it grows, shrinks, and changes its element type.
const Shape& shape_of(std::uint64_t generation) {
  static const std::array kShapes{
      Shape{Format::bytes(5000).value(), 4},
      Shape{Format::tensor(DType::float32, {40, 100}).value(), 8},
      Shape{Format::bytes(100).value(), 2},
      Shape{Format::image(PixelFormat::nv12, 64, 48).value(), 6},
      Shape{Format::bytes(5000).value(), 3},
  };
  return kShapes.at((generation - 1) % kShapes.size());
}

/// For who must not be late: one who is would hang the test, and the watchdog ends it.
constexpr std::chrono::hours kPatience{1};

class ResizeProcessTest : public test::ChannelTest {
 protected:
  [[nodiscard]] Publisher open_first(const Runtime& runtime, WhenFull when_full) const {
    PublisherOptions options;
    options.slot_count = shape_of(1).slot_count;
    options.when_full = when_full;
    return Publisher::open(runtime, kName, shape_of(1).format, test::on_device(options)).value();
  }
  static Result<void> resize_to(Publisher& publisher, std::uint64_t generation) {
    const Shape& shape = shape_of(generation);
    return publisher.resize(shape.format, kForever,
                            {.slot_count = shape.slot_count, .follow_within = kPatience});
  }
  /// By CPU, or in a stream of the device, which is waited for.
  static Result<Frame> receive(Subscriber& subscriber, bool by_stream) {
    if (!TestDevice::is_host()) TestDevice::finish(TestDevice::stream());  // drops are behind it
    if (!by_stream || TestDevice::is_host()) return subscriber.receive(kForever);
    Result<Frame> frame = subscriber.receive(TestDevice::stream(), soon());
    if (frame) TestDevice::finish(TestDevice::stream());
    return frame;
  }
  /// What a frame must be: whole, and of its generation's shape.
  static void check(const Frame& frame) {
    EXPECT_FALSE(frame.aborted());
    EXPECT_EQ(frame.format(), shape_of(frame.generation()).format);
    EXPECT_EQ(frame.size_bytes(), frame.format().payload_bytes);
    EXPECT_TRUE(test::holds_frame(frame.bytes(), frame.sequence()));
  }
};
VRAMLINK_BOTH_WAYS(ResizeProcessTest);

TEST_P(ResizeProcessTest, AQueueUnderBlockGetsEveryFrameOfEveryGeneration) {
  constexpr std::uint64_t kFrames = 60;
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(4)});
    link.ready();
    for (std::uint64_t number = 1; number <= kFrames; ++number) {
      const Result<Frame> frame = receive(subscriber, number % 2 == 0);
      ASSERT_TRUE(frame) << to_string(frame.error());
      ASSERT_EQ(frame->sequence(), number);
      EXPECT_EQ(frame->generation(), 1 + (number - 1) / 10);
      check(*frame);
    }
    EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::closed));
    const SubscriberStatistics statistics = subscriber.statistics();
    EXPECT_EQ(statistics.resizes, 5U);
    EXPECT_EQ(statistics.connects, 1U);
    EXPECT_EQ(statistics.lost, 0U);
    EXPECT_EQ(statistics.peer_deaths, 0U);
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_first(runtime, WhenFull::block);
  peer->wait_ready();
  for (std::uint64_t number = 1; number <= kFrames; ++number) {
    if (number % 10 == 1 && number > 1) {
      ASSERT_TRUE(resize_to(publisher, 1 + number / 10));
    }
    ASSERT_TRUE(publish_number(publisher, number, kForever));
  }
  EXPECT_TRUE(publisher.close(kForever));
  EXPECT_EQ(publisher.statistics().resizes, 5U);
  peer->finish();
}

TEST_P(ResizeProcessTest, FramesAreWholeUnderDropWhateverIsHeldOfOldGenerations) {
  constexpr std::uint64_t kFrames = 200;
  std::vector<std::unique_ptr<test::Peer>> peers;
  for (std::uint32_t i = 0; i < 2; ++i) {
    peers.push_back(start_peer([this, i, kFrames](const ChildLink& link) {
      const Runtime runtime = open_runtime();
      const ReceivePolicy policy = i == 0 ? ReceivePolicy::latest() : ReceivePolicy::queue(2);
      Subscriber subscriber = open_subscriber(runtime, {.policy = policy, .held_count_max = 2});
      link.ready();
      std::mt19937 random(i);
      std::vector<Frame> held;
      std::uint64_t last = 0;
      std::uint64_t last_generation = 1;
      while (true) {
        // Of the present generation one at most is held while we wait: it has few slots.
        std::uint32_t recent = 0;
        std::erase_if(held, [&](const Frame& frame) {
          return frame.generation() == last_generation && ++recent > i;
        });
        Result<Frame> frame = receive(subscriber, random() % 2 == 0);
        if (frame.failed_with(Code::closed)) break;
        if (frame.failed_with(Code::resource_exhausted)) {  // of two slots one may be held
          std::erase_if(held,
                        [&](const Frame& old) { return old.generation() == last_generation; });
          continue;
        }
        ASSERT_TRUE(frame) << to_string(frame.error());
        EXPECT_GT(frame->sequence(), last);
        EXPECT_GE(frame->generation(), last_generation);
        last = frame->sequence();
        last_generation = frame->generation();
        check(*frame);
        if (random() % 2 == 0) held.push_back(*std::move(frame));
        if (held.size() > 4) {
          const std::size_t which = random() % held.size();
          check(held[which]);
          held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
        }
      }
      for (const Frame& frame : held) check(frame);
      EXPECT_EQ(last, kFrames) << "the newest is never lost";
      EXPECT_EQ(subscriber.statistics().peer_deaths, 0U);
    }));
  }
  const Runtime runtime = open_runtime();
  Publisher publisher = open_first(runtime, WhenFull::drop);
  for (const auto& peer : peers) peer->wait_ready();
  std::uint64_t generation = 1;
  for (std::uint64_t number = 1; number <= kFrames;) {
    if (number == generation * 25) {
      ASSERT_TRUE(resize_to(publisher, ++generation));
    }
    const Result<Receipt> receipt = publish_number(publisher, number);
    if (!receipt) {
      ASSERT_TRUE(receipt.failed_with(Code::full)) << to_string(receipt.error());
      std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(receipt->sequence(), number++);
  }
  EXPECT_TRUE(publisher.close(soon()));
  for (const auto& peer : peers) peer->finish();
  EXPECT_EQ(publisher.statistics().subscribers_revoked, 0U);
  EXPECT_EQ(publisher.statistics().subscribers_died, 0U);
}

TEST_P(ResizeProcessTest, PublishingGoesOnInOtherThreadsMeanwhile) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(6)});
    link.ready();
    std::uint64_t last = 0;
    while (true) {
      const Result<Frame> frame = subscriber.receive(kForever);
      if (frame.failed_with(Code::closed)) break;
      ASSERT_TRUE(frame) << to_string(frame.error());
      ASSERT_EQ(frame->sequence(), ++last);
      const auto number = static_cast<std::uint64_t>(frame->media_ns());
      ASSERT_TRUE(test::holds_frame(frame->bytes(), number));
    }
    EXPECT_GT(last, 0U);
  });
  const Runtime runtime = open_runtime();
  Publisher publisher =
      open_publisher(runtime, {.slot_count = 8, .when_full = WhenFull::block}, 100);
  peer->wait_ready();
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> published{0};
  std::thread other([&] {
    for (std::uint64_t number = 1; !done; ++number) {
      const Result<Receipt> receipt = publish_number(publisher, number, kForever);
      if (receipt.failed_with(Code::stale)) continue;  // it was claimed just before
      ASSERT_TRUE(receipt) << to_string(receipt.error());
      ASSERT_EQ(receipt->sequence(), ++published);
    }
  });
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::uint64_t before = published;
    while (published == before) std::this_thread::yield();  // each generation gets a frame
    EXPECT_TRUE(publisher.resize(Format::bytes(200 + i).value(), soon()));
  }
  done = true;
  other.join();
  EXPECT_TRUE(publisher.close(kForever));
  peer->finish();
  EXPECT_EQ(publisher.statistics().published, published);
}

class ResizeStopTest : public test::ChannelFixture {};

TEST_F(ResizeStopTest, AStoppedSubscriberIsNotWaitedForAndLosesNothingUnderBlock) {
  ChildProcess stopped([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber queue = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
    Subscriber latest = open_subscriber(runtime, {.stream_order = false});
    const Frame held = queue.receive(soon()).value();
    link.ready();
    static_cast<void>(link.wait_go());
    // Stopped here, and on from here.
    for (std::uint64_t number = 2; number <= 6; ++number) {
      const Result<Frame> frame = queue.receive(soon());
      EXPECT_TRUE(frame && frame->sequence() == number &&
                  frame->generation() == (number < 3 ? 1U : 2U) &&
                  test::holds_frame(frame->bytes(), number))
          << "frame " << number;
    }
    EXPECT_TRUE(test::holds_frame(held.bytes(), 1));
    EXPECT_EQ(queue.statistics().lost, 0U);
    EXPECT_EQ(queue.statistics().connects, 1U);
    Result<Frame> newest = latest.receive(soon());
    while (newest && newest->sequence() < 6) newest = latest.receive(soon());
    EXPECT_TRUE(newest && test::holds_frame(newest->bytes(), 6));
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 4, .when_full = WhenFull::block});
  ASSERT_TRUE(publisher.wait_for_subscribers(2, soon()));
  ASSERT_TRUE(publish_number(publisher, 1));
  stopped.wait_ready();
  Subscriber witness = open_subscriber(runtime);
  stopped.stop();
  ASSERT_TRUE(publish_number(publisher, 2));
  const auto begun = steady_clock::now();
  // It waits for follow_within, and not for the deadline, which never comes.
  ASSERT_TRUE(publisher.resize(Format::bytes(9000).value(), kForever));
  EXPECT_GE(steady_clock::now() - begun, milliseconds(500));
  for (std::uint64_t number = 3; number <= 6; ++number) {
    ASSERT_TRUE(publish_number(publisher, number));
  }
  EXPECT_TRUE(publisher.claim(kNow, Deadline::after(milliseconds(20))).failed_with(Code::timed_out))
      << "it has taken none of them";
  EXPECT_TRUE(test::receives_frame(witness, 6, soon())) << "the others go on";
  EXPECT_EQ(publisher.statistics().subscribers.size(), 3U);
  stopped.resume();
  stopped.go();
  EXPECT_EQ(stopped.wait(), 0);
  ASSERT_TRUE(publish_number(publisher, 7)) << "all slots are free again";
}

TEST_F(ResizeStopTest, AStoppedSubscriberLosesUnderDropWhatItsPolicyLoses) {
  ChildProcess stopped([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber queue = open_subscriber(runtime, {.policy = ReceivePolicy::queue(2)});
    link.ready();
    static_cast<void>(link.wait_go());
    std::uint64_t last = 0;
    std::uint64_t count = 0;
    while (last < 40) {
      const Result<Frame> frame = queue.receive(soon());
      if (!frame || frame->sequence() <= last ||
          !test::holds_frame(frame->bytes(), frame->sequence())) {
        ADD_FAILURE() << "after frame " << last;
        return 1;
      }
      last = frame->sequence();
      ++count;
    }
    EXPECT_EQ(queue.statistics().lost, 40 - count) << "each frame was given or is counted";
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 4});
  stopped.wait_ready();
  stopped.stop();
  for (std::uint64_t number = 1; number <= 10; ++number) {
    ASSERT_TRUE(publish_number(publisher, number));
  }
  for (std::uint64_t part = 1; part <= 3; ++part) {
    ASSERT_TRUE(publisher.resize(Format::bytes(1000 * part).value(), Deadline::passed()));
    for (std::uint64_t i = 1; i <= 10; ++i) ASSERT_TRUE(publish_number(publisher, part * 10 + i));
  }
  stopped.resume();
  stopped.go();
  EXPECT_EQ(stopped.wait(), 0);
}

TEST_F(ResizeStopTest, AStoppedSubscriberKeepsTwoGenerationsAndNoMore) {
  ChildProcess stopped([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber latest = open_subscriber(runtime);
    const Frame held = latest.receive(soon()).value();
    link.ready();
    static_cast<void>(link.wait_go());
    Result<Frame> newest = latest.receive(soon());
    while (newest && newest->sequence() < 2) newest = latest.receive(soon());
    EXPECT_TRUE(newest && newest->generation() == 21 && test::holds_frame(newest->bytes(), 2));
    EXPECT_TRUE(test::holds_frame(held.bytes(), 1));
    EXPECT_EQ(latest.statistics().connects, 1U);
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  ASSERT_TRUE(publisher.wait_for_subscribers(1, soon()));
  ASSERT_TRUE(publish_number(publisher, 1));
  stopped.wait_ready();
  stopped.stop();
  for (std::uint64_t part = 1; part <= 20; ++part) {
    ASSERT_TRUE(publisher.resize(Format::bytes(500 * part).value(), Deadline::passed()));
  }
  // The one that it reads, the one that it was offered, and the present one.
  const auto generations = [] {
    std::int64_t count = 0;
    for (const auto& [what, number] : test::current_holdings()) {
      const bool is_one = what.find("memfd:vramlink-broadcast") != std::string::npos;
      if (is_one && what.rfind("fd ", 0) == 0) count += number;
    }
    return count;
  };
  for (int i = 0; i < 2000 && generations() > 3; ++i) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(generations(), 3);
  ASSERT_TRUE(publish_number(publisher, 2));
  stopped.resume();
  stopped.go();
  EXPECT_EQ(stopped.wait(), 0);
}

TEST_F(ResizeStopTest, AStoppedSubscriberThatIsKilledHoldsNobodyUp) {
  ChildProcess stopped([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber queue = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
    link.ready();
    link.wait_forever();
    return 0;
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
  stopped.wait_ready();
  stopped.stop();
  ASSERT_TRUE(publisher.resize(Format::bytes(9000).value(), Deadline::after(milliseconds(10))));
  ASSERT_TRUE(publish_number(publisher, 1));
  ASSERT_TRUE(publish_number(publisher, 2));
  EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
  stopped.kill();
  ASSERT_TRUE(publish_number(publisher, 3, kForever)) << "nobody waits for the dead";
  while (!publisher.statistics().subscribers.empty()) std::this_thread::yield();
  EXPECT_EQ(publisher.statistics().subscribers_died, 1U);
}

TEST_F(ResizeStopTest, APublisherThatIsKilledAfterItIsToldOnceAndAfterItsFrames) {
  ChildProcess victim([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime, {.slot_count = 4});
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(publish_number(publisher, 1));
    EXPECT_TRUE(
        publisher.resize(Format::bytes(9000).value(), soon(), {.follow_within = kPatience}));
    const Result<Receipt> last = publish_number(publisher, 2);
    EXPECT_TRUE(last && last->wait(soon()));
    static_cast<void>(link.wait_go());
    link.ready();
    link.wait_forever();
    return 0;
  });
  const Runtime runtime = open_runtime();
  Subscriber queue = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
  // It follows before the end: a session that is on its way then is none any more.
  while (!(queue.format() == Format::bytes(9000).value())) std::this_thread::yield();
  victim.go();
  victim.wait_ready();
  victim.kill();
  expect_leftovers();
  const Frame first = queue.receive(soon()).value();
  EXPECT_TRUE(test::holds_frame(first.bytes(), 1));
  EXPECT_TRUE(test::receives_frame(queue, 2, soon()));
  EXPECT_TRUE(queue.receive(soon()).failed_with(Code::peer_gone));
  EXPECT_TRUE(queue.try_receive().failed_with(Code::empty)) << "told once";
  EXPECT_TRUE(test::holds_frame(first.bytes(), 1)) << "held of the generation before";
  EXPECT_EQ(queue.statistics().peer_deaths, 1U);
}

TEST_F(ResizeStopTest, WithoutMemoryTheErrorNamesTheBytes) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  Subscriber subscriber = open_subscriber(runtime);
  constexpr std::uint64_t kTooMuch = std::uint64_t{1} << 45;
  const Result<void> resized = publisher.resize(Format::bytes(kTooMuch).value(), soon());
  ASSERT_FALSE(resized);
  ASSERT_EQ(resized.error().code(), Code::out_of_memory) << to_string(resized.error());
  EXPECT_EQ(resized.error().facts()->numbers[0], 4 * kTooMuch) << "wanted";
  EXPECT_GT(resized.error().facts()->numbers[1], 0U) << "free";
  ASSERT_TRUE(publish_number(publisher, 1));
  EXPECT_TRUE(test::receives_frame(subscriber, 1, soon()));
  EXPECT_EQ(publisher.statistics().resizes, 0U);
}

}  // namespace
}  // namespace vramlink
