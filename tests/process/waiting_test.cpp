// Waiting and being woken: descriptors for event loops, interrupts, limits.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "support/channel_fixture.hpp"

namespace vramlink {
namespace {

using test::ChildLink;
using test::kNow;
using test::publish_complete;
using test::publish_number;
using test::soon;

/// Blocks until the descriptor is readable; the watchdog ends a hang.
void wait_readable(int fd) {
  pollfd readable{fd, POLLIN, 0};
  while (::poll(&readable, 1, -1) != 1) {
  }
}

bool is_readable(int fd) {
  pollfd readable{fd, POLLIN, 0};
  return ::poll(&readable, 1, 0) == 1;
}

class ReadinessTest : public test::ChannelTest {};
VRAMLINK_BOTH_WAYS(ReadinessTest);

TEST_P(ReadinessTest, AnEventLoopGetsEveryFrameAndTheEnd) {
  constexpr std::uint64_t kFrames = 2000;
  const auto peer = start_peer([&](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber =
        open_subscriber(runtime, {.policy = ReceivePolicy::queue(3), .reconnect = false});
    const int fd = subscriber.readiness_fd().value();
    EXPECT_EQ(subscriber.readiness_fd().value(), fd) << "there is one";
    link.ready();
    std::uint64_t sequence = 0;
    for (bool open = true; open;) {
      wait_readable(fd);
      while (true) {
        const Result<Frame> frame = subscriber.try_receive();
        if (frame.failed_with(Code::empty)) break;
        if (!frame) {
          EXPECT_TRUE(frame.failed_with(Code::closed)) << to_string(frame.error());
          open = false;
          break;
        }
        EXPECT_EQ(frame->sequence(), ++sequence);
      }
    }
    EXPECT_EQ(sequence, kFrames);
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.when_full = WhenFull::block}, 64);
  peer->wait_ready();
  for (std::uint64_t number = 1; number <= kFrames; ++number) {
    ASSERT_TRUE(publish_number(publisher, number, kForever));
  }
  EXPECT_TRUE(publisher.close(kForever));
  peer->finish();
}

TEST_P(ReadinessTest, OneFrameAtATimeWakesEveryTime) {
  const auto peer = start_peer([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime);
    const int fd = subscriber.readiness_fd().value();
    EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
    for (std::uint64_t sequence = 1; sequence <= 100; ++sequence) {
      link.ready();
      std::optional<Frame> frame;
      while (!frame) {
        wait_readable(fd);
        Result<Frame> tried = subscriber.try_receive();
        // Readable with nothing there is allowed: a frame may have been taken just before.
        if (tried) frame = *std::move(tried);
      }
      EXPECT_EQ(frame->sequence(), sequence);
    }
    link.ready();
    while (true) {
      wait_readable(fd);
      if (subscriber.try_receive().failed_with(Code::closed)) break;
    }
  });
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {}, 64);
  for (std::uint64_t number = 1; number <= 100; ++number) {
    peer->wait_ready();
    ASSERT_TRUE(publish_number(publisher, number));
  }
  peer->wait_ready();
  EXPECT_TRUE(publisher.close(kForever));
  peer->finish();
}

class WaitingTest : public test::ChannelFixture {};

TEST_F(WaitingTest, TheDescriptorTellsWhatIsThere) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  Subscriber subscriber = open_subscriber(runtime);
  ASSERT_TRUE(publish_number(publisher, 1));
  const int fd = subscriber.readiness_fd().value();
  wait_readable(fd);
  EXPECT_TRUE(is_readable(fd)) << "it stays so until a look finds nothing";
  EXPECT_TRUE(subscriber.try_receive());
  while (is_readable(fd)) EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  ASSERT_TRUE(publish_number(publisher, 2));
  wait_readable(fd);
  EXPECT_TRUE(subscriber.try_receive());
}

TEST_F(WaitingTest, ReadinessAndABlockingReceiveLiveTogether) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  Subscriber subscriber = open_subscriber(runtime);
  const int fd = subscriber.readiness_fd().value();
  for (std::uint64_t number = 1; number <= 50; ++number) {
    ASSERT_TRUE(publish_number(publisher, number));
    if (number % 2 == 0) wait_readable(fd);
    EXPECT_EQ(subscriber.receive(kForever).value().sequence(), number);
    static_cast<void>(subscriber.try_receive());  // empty: arms it again
  }
}

/// Calls `wake` again and again until `blocked` returns: a call that does not block yet is none of
/// its business.
template <class Blocked, class Wake>
auto end_by(Blocked blocked, Wake wake) {
  std::atomic<bool> ended{false};
  std::thread waker([&] {
    while (!ended) {
      wake();
      std::this_thread::yield();
    }
  });
  auto result = blocked();
  ended = true;
  waker.join();
  return result;
}

TEST_F(WaitingTest, InterruptEndsWhatBlocks) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(1)});
  const auto interrupt_publisher = [&] { publisher.interrupt(); };
  EXPECT_TRUE(end_by([&] { return subscriber.receive(kForever); }, [&] { subscriber.interrupt(); })
                  .failed_with(Code::interrupted));
  EXPECT_TRUE(
      end_by([&] { return publisher.wait_for_subscribers(2, kForever); }, interrupt_publisher)
          .failed_with(Code::interrupted));
  ASSERT_TRUE(publish_number(publisher, 1));
  ASSERT_TRUE(publish_number(publisher, 2));
  EXPECT_TRUE(end_by([&] { return publisher.claim(kNow, kForever); }, interrupt_publisher)
                  .failed_with(Code::interrupted));
  publisher.interrupt();  // nothing blocks now: nothing is remembered
  EXPECT_TRUE(publisher.wait_for_subscribers(1, kForever));
  EXPECT_TRUE(end_by([&] { return publisher.close(kForever); }, interrupt_publisher)
                  .failed_with(Code::interrupted));
  EXPECT_EQ(files(), std::vector<std::string>{}) << "it closed all the same";
}

TEST_F(WaitingTest, OneInterruptEndsEveryThreadThatWaits) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  Subscriber subscriber = open_subscriber(runtime);
  std::atomic<int> interrupted{0};
  std::atomic<bool> stop{false};
  // Each waits again at once, as a loop would: it must not take the place of one still to be woken.
  const auto wait = [&] {
    while (!stop) {
      if (subscriber.receive(kForever).failed_with(Code::interrupted)) ++interrupted;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(wait);
  while (interrupted < 1000) {
    subscriber.interrupt();
    std::this_thread::yield();
  }
  stop = true;
  std::atomic<bool> ended{false};
  std::thread waker([&] {
    while (!ended) {
      subscriber.interrupt();
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  ended = true;
  waker.join();
}

TEST_F(WaitingTest, SeveralThreadsSleepAndEachFrameWakesOne) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.when_full = WhenFull::block}, 64);
  Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(3)});
  std::atomic<std::uint64_t> received{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (subscriber.receive(kForever)) ++received;
    });
  }
  for (std::uint64_t number = 1; number <= 500; ++number) {
    ASSERT_TRUE(publish_number(publisher, number, kForever));
  }
  EXPECT_TRUE(publisher.close(kForever));
  while (received < 500) std::this_thread::yield();
  std::atomic<bool> ended{false};
  std::thread waker([&] {
    while (!ended) {
      subscriber.interrupt();
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  ended = true;
  waker.join();
  EXPECT_EQ(received, 500U);
}

TEST_F(WaitingTest, TheDescriptorIsQuietWhileAllHoldsAreUsed) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  Subscriber subscriber =
      open_subscriber(runtime, {.policy = ReceivePolicy::queue(3), .held_count_max = 1});
  const int fd = subscriber.readiness_fd().value();
  ASSERT_TRUE(publish_number(publisher, 1));
  ASSERT_TRUE(publish_complete(publisher, 2));
  wait_readable(fd);
  Frame first = subscriber.try_receive().value();
  for (int look = 0; look < 10; ++look) {
    ASSERT_TRUE(subscriber.try_receive().failed_with(Code::resource_exhausted));
    EXPECT_FALSE(is_readable(fd)) << "an event loop would spin";
  }
  first.release();
  wait_readable(fd);
  EXPECT_EQ(subscriber.try_receive().value().sequence(), 2U);
}

TEST_F(WaitingTest, MoreThanTheLimitCannotBeHeld) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime, {.slot_count = 6});
  Subscriber subscriber =
      open_subscriber(runtime, {.policy = ReceivePolicy::queue(5), .held_count_max = 3});
  std::vector<Frame> held;
  for (std::uint64_t number = 1; number <= 4; ++number) {
    ASSERT_TRUE(publish_number(publisher, number));
  }
  ASSERT_TRUE(publish_complete(publisher, 5));
  for (int i = 0; i < 3; ++i) held.push_back(subscriber.try_receive().value());
  const Result<Frame> refused = subscriber.receive(kForever);
  ASSERT_TRUE(refused.failed_with(Code::resource_exhausted));
  EXPECT_EQ(refused.error().facts()->numbers[0], 3U);
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::resource_exhausted));
  held[1].release();
  EXPECT_EQ(subscriber.try_receive().value().sequence(), 4U);
  held.clear();
  EXPECT_EQ(subscriber.try_receive().value().sequence(), 5U);
}

TEST_F(WaitingTest, ADeadlineEndsAWait) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  EXPECT_TRUE(publisher.wait_for_subscribers(0, Deadline::passed()));
  EXPECT_TRUE(publisher.wait_for_subscribers(1, Deadline::passed()).failed_with(Code::timed_out));
  Subscriber subscriber = open_subscriber(runtime);
  EXPECT_TRUE(publisher.wait_for_subscribers(1, Deadline::passed()));
  EXPECT_TRUE(subscriber.receive(Deadline::passed()).failed_with(Code::timed_out));
  EXPECT_TRUE(subscriber.receive(Deadline::after(std::chrono::milliseconds(1)))
                  .failed_with(Code::timed_out));
}

TEST_F(WaitingTest, ThePublisherHearsOfSubscribersThatComeAndGo) {
  const Runtime runtime = open_runtime();
  Publisher publisher = open_publisher(runtime);
  std::optional<Subscriber> subscriber;
  std::thread opener([&] { subscriber = open_subscriber(runtime); });
  EXPECT_TRUE(publisher.wait_for_subscribers(1, kForever));
  opener.join();
  subscriber.reset();
  while (!publisher.statistics().subscribers.empty()) std::this_thread::yield();
  std::thread closer([&] { EXPECT_TRUE(publisher.close(kForever)); });
  EXPECT_TRUE(publisher.wait_for_subscribers(1, kForever).failed_with(Code::closed));
  closer.join();
}

}  // namespace
}  // namespace vramlink
