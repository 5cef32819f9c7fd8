// Deaths and stops that no single step tells of: both sides at once, sleepers, forked children.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <optional>

#include <vramlink/inspect.hpp>

#include "channel/handshake.hpp"
#include "os/threads.hpp"
#include "scoreboard.hpp"
#include "support/asleep.hpp"
#include "support/frame_pattern.hpp"
#include "survivor.hpp"
#include "victims.hpp"

namespace vramlink::test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

class Deaths : public CrashTest {
 protected:
  Deaths() : runtime_(Runtime::open({directory_.path()}).value()) {
    orders_.directory = directory_.path();
  }

  Subscriber open_subscriber(bool reconnect = true) {
    SubscriberOptions options = subscriber_options(orders_.mode);
    options.reconnect = reconnect;
    return Subscriber::open(runtime_, orders_.name, Deadline::after(seconds(60)), options).value();
  }

  /// Lets an orderly publisher publish one frame; false if it found no slot.
  static bool publish(SpawnedProcess& publisher) {
    publisher.go(1);
    return publisher.wait_ready() == 1;
  }

  static void expect_frame(Subscriber& subscriber, std::uint64_t sequence) {
    const auto frame = subscriber.receive(Deadline::after(seconds(60)));
    ASSERT_TRUE(frame) << to_string(frame.error());
    EXPECT_TRUE(is_whole(*frame));
    EXPECT_EQ(frame->sequence(), sequence);
  }

  static void expect_end(Subscriber& subscriber, Code code) {
    const auto frame = subscriber.receive(Deadline::after(seconds(60)));
    ASSERT_FALSE(frame);
    EXPECT_EQ(frame.error().code(), code) << to_string(frame.error());
  }

  /// The name can be taken at once, and whoever waits for it is found.
  void expect_restart(Subscriber* subscriber = nullptr) {
    SpawnedProcess again("orderly_publisher", orders_.arguments(), -1);
    ASSERT_EQ(again.wait_ready(), 1);
    ASSERT_TRUE(publish(again));
    if (subscriber != nullptr) expect_frame(*subscriber, 1);
    again.go(0);
    EXPECT_EQ(again.wait(), 0);
  }

  Orders orders_;
  Runtime runtime_;
};

TEST_F(Deaths, BothSidesDieAndTheNameIsFree) {
  for (int round = 0; round < round_count(); ++round) {
    const SharedScoreboard board = SharedScoreboard::create();
    SpawnedProcess publisher("orderly_publisher", orders_.arguments(), -1);
    ASSERT_EQ(publisher.wait_ready(), 1);
    SpawnedProcess subscriber("subscriber", orders_.arguments(), board.fd());
    Subscriber survivor = open_subscriber();
    ASSERT_TRUE(until("both are at work", [&] {
      EXPECT_TRUE(publish(publisher));
      return board->received.load() > 3;
    }));
    subscriber.signal(SIGKILL);
    EXPECT_EQ(publisher.kill_and_wait(), 128 + SIGKILL);
    EXPECT_EQ(subscriber.kill_and_wait(), 128 + SIGKILL);
    const auto last = survivor.receive(Deadline::after(seconds(60)));
    ASSERT_TRUE(last) << to_string(last.error());
    EXPECT_TRUE(is_whole(*last));
    expect_end(survivor, Code::peer_gone);
    EXPECT_EQ(list_channels(runtime_).value(), std::vector<std::string>());
    EXPECT_TRUE(is_whole(*last));
    expect_restart(&survivor);
  }
}

TEST_F(Deaths, AForkedChildOfADeadPublisherHoldsNobodyUp) {
  // So that waiting for an answer of the child would be seen.
  const auto before = channel::handshake_limit.exchange(hours(1));
  {
    SpawnedProcess publisher("forking_publisher", orders_.arguments(), -1);
    ASSERT_EQ(publisher.wait_ready(), 1);
    Subscriber survivor = open_subscriber();
    expect_frame(survivor, 1);
    EXPECT_EQ(publisher.kill_and_wait(), 128 + SIGKILL);
    expect_end(survivor, Code::peer_gone);
    const auto newcomer =
        Subscriber::open(runtime_, orders_.name, Deadline::after(milliseconds(50)));
    EXPECT_TRUE(newcomer.failed_with(Code::not_found));
    expect_restart(&survivor);
  }
  channel::handshake_limit.store(before);
}

TEST_F(Deaths, AStoppedPublisherLetsThreeWaitersTimeOut) {
  SpawnedProcess publisher("orderly_publisher", orders_.arguments(), -1);
  ASSERT_EQ(publisher.wait_ready(), 1);
  std::vector<Subscriber> subscribers;
  for (int i = 0; i < 3; ++i) subscribers.push_back(open_subscriber());
  publisher.signal(SIGSTOP);
  ASSERT_TRUE(
      until("it stops", [&] { return publisher.state() == SpawnedProcess::State::stopped; }));
  std::vector<std::future<Code>> codes;
  for (Subscriber& subscriber : subscribers) {
    codes.push_back(std::async(std::launch::async, [&subscriber] {
      const auto frame = subscriber.receive(Deadline::after(milliseconds(50)));
      return frame ? Code::empty : frame.error().code();
    }));
  }
  for (auto& code : codes) EXPECT_EQ(code.get(), Code::timed_out);
  const auto newcomer = Subscriber::open(runtime_, orders_.name, Deadline::after(milliseconds(20)));
  EXPECT_TRUE(newcomer.failed_with(Code::timed_out));
  publisher.resume();
  ASSERT_TRUE(publish(publisher));
  for (Subscriber& subscriber : subscribers) expect_frame(subscriber, 1);
  publisher.go(0);
  for (Subscriber& subscriber : subscribers) expect_end(subscriber, Code::closed);
  EXPECT_EQ(publisher.wait(), 0);
}

TEST_F(Deaths, ASubscriberAsleepForEverHearsOfTheDeath) {
  SpawnedProcess publisher("orderly_publisher", orders_.arguments(), -1);
  ASSERT_EQ(publisher.wait_ready(), 1);
  Subscriber survivor = open_subscriber();
  std::promise<pid_t> receiver;
  auto code = std::async(std::launch::async, [&] {
    receiver.set_value(::gettid());
    const auto frame = survivor.receive(kForever);
    return frame ? Code::empty : frame.error().code();
  });
  wait_until_asleep(receiver.get_future().get());
  EXPECT_EQ(publisher.kill_and_wait(), 128 + SIGKILL);
  EXPECT_EQ(code.get(), Code::peer_gone);
  expect_restart(&survivor);
}

TEST_F(Deaths, APublisherAsleepForEverInClaimGoesOnWhenTheLastReaderDies) {
  orders_.mode = Mode::block_queue;
  auto publisher = Publisher::open(runtime_, orders_.name, Format::bytes(kPayloadBytes).value(),
                                   publisher_options(orders_.mode))
                       .value();
  for (int round = 0; round < round_count(); ++round) {
    orders_.step = "take.checked";
    orders_.occurrence = 1;
    orders_.signal = SIGSTOP;
    const SharedScoreboard board = SharedScoreboard::create();
    SpawnedProcess reader("subscriber", orders_.arguments(), board.fd());
    ASSERT_TRUE(publisher.wait_for_subscribers(1, Deadline::after(seconds(60))));
    std::uint64_t sequence = publisher.statistics().published;
    Result<WritableFrame> frame = Error(Code::empty, "claim");
    ASSERT_TRUE(until("all slots are queued", [&] {
      frame = publisher.claim(StreamView::already_complete(), Deadline::after(milliseconds(5)));
      if (!frame) return reader.state() == SpawnedProcess::State::stopped;
      EXPECT_TRUE(publish_pattern(publisher, *std::move(frame), {0, ++sequence}));
      return false;
    }));
    std::promise<pid_t> claimer;
    auto claimed = std::async(std::launch::async, [&] {
      claimer.set_value(::gettid());
      return publisher.claim(StreamView::already_complete(), kForever).has_value();
    });
    wait_until_asleep(claimer.get_future().get());
    EXPECT_EQ(reader.kill_and_wait(), 128 + SIGKILL);
    EXPECT_TRUE(claimed.get());
    // Its queue counts until it hangs up, what it held until its end is proven.
    EXPECT_TRUE(until("the death is counted", [&] {
      return publisher.statistics().subscribers_died == static_cast<std::uint64_t>(round) + 1;
    }));
  }
}

TEST_F(Deaths, APublisherThatDiesAsleepInClaimLeavesItsFrames) {
  orders_.mode = Mode::block_queue;
  SpawnedProcess publisher("sleeping_publisher", orders_.arguments(), -1);
  ASSERT_EQ(publisher.wait_ready(), 1);
  Subscriber survivor = open_subscriber();
  publisher.go();
  ASSERT_EQ(publisher.wait_ready(), 1);  // at claim.waiting
  EXPECT_EQ(publisher.kill_and_wait(), 128 + SIGKILL);
  std::uint64_t last = 0;
  Result<Frame> frame = survivor.receive(Deadline::after(seconds(60)));
  for (; frame; frame = survivor.receive(Deadline::after(seconds(60)))) {
    EXPECT_TRUE(is_whole(*frame));
    EXPECT_EQ(frame->sequence(), last + 1);
    last = frame->sequence();
  }
  EXPECT_EQ(frame.error().code(), Code::peer_gone);
  EXPECT_GE(last, std::uint64_t{kQueueDepth});
  expect_restart(&survivor);
}

TEST_F(Deaths, AQueueReaderFarBehindHearsOfADeathBetweenTwoStores) {
  // The entry for the next frame is stored, the word that makes it visible is not: the reader, a
  // whole round of entries behind, finds an entry that is newer than all it may know of.
  orders_.step = "publish.recent_set";
  for (const int signal : {SIGKILL, SIGSTOP}) {
    orders_.signal = signal;
    orders_.occurrence = 100;
    SpawnedProcess publisher("waiting_publisher", orders_.arguments(), -1);
    ASSERT_EQ(publisher.wait_ready(), 1);
    SubscriberOptions options;
    options.policy = ReceivePolicy::queue(kQueueDepth);
    Subscriber survivor =
        Subscriber::open(runtime_, orders_.name, Deadline::after(seconds(60)), options).value();
    publisher.go();
    ASSERT_TRUE(until("it reaches the step",
                      [&] { return publisher.state() != SpawnedProcess::State::running; }));
    int frames = 0;
    Result<Frame> frame = survivor.receive(Deadline::after(milliseconds(100)));
    for (; frame; frame = survivor.receive(Deadline::after(milliseconds(100)))) {
      EXPECT_TRUE(is_whole(*frame));
      ++frames;
    }
    EXPECT_GT(frames, 0);
    EXPECT_EQ(frame.error().code(), signal == SIGKILL ? Code::peer_gone : Code::timed_out);
    (void)publisher.kill_and_wait();
    if (signal == SIGSTOP) expect_end(survivor, Code::peer_gone);
    expect_restart(&survivor);
  }
}

TEST_F(Deaths, AReaderThatKnowsOfTheEndBeforeItsConnectionFindsTheNextPublisher) {
  // The publisher lingers for a queue reader that takes nothing, so the other one reads of the end
  // in the shared words and lets go long before the connection ends.
  orders_.mode = Mode::block_queue;
  SpawnedProcess publisher("orderly_publisher", orders_.arguments(), -1);
  ASSERT_EQ(publisher.wait_ready(), 1);
  std::optional<Subscriber> slow = open_subscriber();
  orders_.mode = Mode::drop_latest;
  Subscriber fast = open_subscriber();
  ASSERT_TRUE(publish(publisher));
  expect_frame(fast, 1);
  publisher.go(0);
  expect_end(fast, Code::closed);
  expect_frame(*slow, 1);
  expect_end(*slow, Code::closed);
  slow.reset();
  EXPECT_EQ(publisher.wait(), 0);
  expect_restart(&fast);
}

TEST_F(Deaths, TheNameIsFreeAfterADeathAtAnyMoment) {
  std::mt19937_64 random(seed());
  for (int round = 0; round < 5 * round_count(); ++round) {
    SpawnedProcess opener("opening_publisher", orders_.arguments(), -1);
    ASSERT_EQ(opener.wait_ready(), 1);
    // The sleep is the point: how far the opener has come when it dies.
    os::nap_until(Deadline::after(
        std::chrono::microseconds(std::uniform_int_distribution<int>(0, 3000)(random))));
    EXPECT_EQ(opener.kill_and_wait(), 128 + SIGKILL);
    const auto publisher = Publisher::open(runtime_, orders_.name, Format::bytes(64).value(),
                                           publisher_options(orders_.mode));
    ASSERT_TRUE(publisher) << to_string(publisher.error());
  }
}

/// For devices: it is what the other tests' look at the device's memory relies on.
class DeviceMemory : public Deaths {
 protected:
  void SetUp() override {
    Deaths::SetUp();
    if (!cannot_run() && !counts_device_bytes()) GTEST_SKIP() << "others use this GPU, too";
  }
};

TEST_F(DeviceMemory, OfAnotherProcessCountsUntilItsDeath) {
  const std::uint64_t before = TestDevice::bytes_held();
  SpawnedProcess publisher("orderly_publisher", orders_.arguments(), -1);
  ASSERT_EQ(publisher.wait_ready(), 1);
  EXPECT_GE(TestDevice::bytes_held(), before + kSlotCount * kPayloadBytes);
  EXPECT_EQ(publisher.kill_and_wait(), 128 + SIGKILL);
  EXPECT_TRUE(until("its memory comes back", [&] { return TestDevice::bytes_held() <= before; }));
  expect_restart();
}

}  // namespace
}  // namespace vramlink::test
