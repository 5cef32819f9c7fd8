// Receives by CPU where frames are copied to the reader's device: the copy takes its time, and no
// call waits for it longer than it was told to.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "support/asleep.hpp"
#include "support/stream_fixture.hpp"

namespace vramlink {
namespace {

using std::chrono::milliseconds;

class CopyingReceive : public test::StreamFixture {
 protected:
  CopyingReceive() : other_(add_device(test::fake_device(2))) {}

  [[nodiscard]] static SubscriberOptions copying(std::uint32_t depth = 2) {
    SubscriberOptions options;
    options.policy = ReceivePolicy::queue(depth);
    options.device = test::fake_device(2);
    options.copy_frames = CopyFrames::always;
    return options;
  }
  void publish_complete(Publisher& publisher, std::uint64_t number) {
    publish(publisher, number);
    device_.run();
  }
  [[nodiscard]] std::size_t copies() { return other_.pending(test::FakeBackend::kCopyStream); }

  test::FakeBackend& other_;
};

TEST_F(CopyingReceive, ATryDoesNotWaitForTheCopy) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber(copying());
  publish_complete(publisher, 6);
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  EXPECT_EQ(other_.calls("copy"), 1);
  EXPECT_EQ(held(publisher), 1U);
  other_.run();
  const Frame frame = subscriber.try_receive().value();
  EXPECT_EQ(test::number_in(frame.bytes()), 6U);
  EXPECT_EQ(subscriber.statistics().copied, 1U);
  EXPECT_EQ(subscriber.statistics().lost, 0U);
}

TEST_F(CopyingReceive, ADeadlineLosesNoFrame) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber(copying());
  for (std::uint64_t number = 1; number <= 2; ++number) publish_complete(publisher, number);
  for (std::uint64_t number = 1; number <= 2; ++number) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(
          subscriber.receive(Deadline::after(milliseconds(2))).failed_with(Code::timed_out));
    }
    other_.run();
    EXPECT_TRUE(test::receives_frame(subscriber, number, test::soon()));
  }
  EXPECT_EQ(other_.calls("copy"), 2);
  EXPECT_EQ(subscriber.statistics().lost, 0U);
}

TEST_F(CopyingReceive, AnInterruptEndsTheWaitForACopy) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber(copying());
  publish_complete(publisher, 1);
  auto received =
      std::async(std::launch::async, [&] { return subscriber.receive(kForever).error().code(); });
  test::wait_until([&] { return other_.calls("copy") == 1; });
  subscriber.interrupt();
  EXPECT_EQ(received.get(), Code::interrupted);
  other_.run();
  EXPECT_TRUE(subscriber.try_receive());
}

TEST_F(CopyingReceive, AnotherThreadThatSleepsGetsWhatOneDidNotWaitFor) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber(copying());
  std::promise<pid_t> thread;
  auto received = std::async(std::launch::async, [&] {
    thread.set_value(::gettid());
    return subscriber.receive(test::soon()).value().sequence();
  });
  test::wait_until_asleep(thread.get_future().get());
  publish_complete(publisher, 1);
  static_cast<void>(subscriber.receive(Deadline::passed()).failed_with(Code::timed_out));
  test::wait_until([&] { return other_.calls("copy") == 1; });
  other_.run();
  EXPECT_EQ(received.get(), 1U);
}

TEST_F(CopyingReceive, AnEventLoopHearsOfACopyThatIsComplete) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber(copying());
  pollfd poll{subscriber.readiness_fd().value(), POLLIN, 0};
  publish_complete(publisher, 1);
  EXPECT_EQ(::poll(&poll, 1, -1), 1);
  test::wait_until([&] {
    EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
    return other_.calls("copy") == 1;
  });
  EXPECT_TRUE(subscriber.readiness_fd()) << "no call holds it while a copy runs";
  other_.run();
  EXPECT_EQ(::poll(&poll, 1, -1), 1);
  EXPECT_TRUE(subscriber.try_receive());
}

TEST_F(CopyingReceive, AStreamTakesOverWhatIsBeingCopied) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber(copying());
  publish_complete(publisher, 6);
  publish_complete(publisher, 7);
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  EXPECT_TRUE(subscriber.try_receive(device_.stream(kRead)).failed_with(Code::wrong_state));
  {
    const Frame frame = subscriber.try_receive(other_.stream(kRead)).value();
    EXPECT_EQ(frame.sequence(), 1U);
    auto number = std::make_shared<std::uint64_t>(0);
    other_.enqueue(kRead, [bytes = frame.bytes(), number] { *number = test::number_in(bytes); });
    other_.run(kRead);
    EXPECT_EQ(*number, 0U) << "it waits for the copy";
    other_.run();
    EXPECT_EQ(*number, 6U);
  }
  other_.run();
  EXPECT_EQ(held(publisher), 0U);
  EXPECT_EQ(subscriber.try_receive(other_.stream(kRead)).value().sequence(), 2U);
  EXPECT_EQ(subscriber.statistics().copied, 2U);
  other_.run();
}

TEST_F(CopyingReceive, AFrameIsReadBeforeTheEndOfItsPublisher) {
  std::optional<Publisher> publisher = open_publisher();
  Subscriber subscriber = open_subscriber(copying());
  publish_complete(*publisher, 6);
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  publisher.reset();
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  other_.run();
  EXPECT_TRUE(subscriber.try_receive());
  EXPECT_TRUE(subscriber.receive(test::soon()).failed_with(Code::closed));
}

TEST_F(CopyingReceive, ASubscriberThatGoesGivesTheFrameBackBehindTheCopy) {
  Publisher publisher = open_publisher();
  {
    Subscriber subscriber = open_subscriber(copying());
    publish_complete(publisher, 6);
    EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  }
  drain_janitor();
  drain_reactor();
  EXPECT_EQ(held(publisher), 1U);
  other_.run();
  test::wait_until([&] { return publisher.statistics().subscribers.empty(); });
}

TEST_F(CopyingReceive, MemoryOutlivesACopyThatNobodyWaitsFor) {
  Publisher publisher = open_publisher();
  {
    SubscriberOptions options = copying();
    options.stream_order = false;
    Subscriber subscriber = open_subscriber(options);
    publish_complete(publisher, 6);
    EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  }
  for (int i = 0; i < 5; ++i) drain_janitor();
  EXPECT_EQ(copies(), 2U);
  other_.run();  // writes to what must still be mapped
}

TEST_F(CopyingReceive, ADeviceThatFailsLosesWhatItCopies) {
  for (const bool stream_order : {true, false}) {
    test::FakeBackend& broken = add_device(test::fake_device(stream_order ? 3 : 4));
    Publisher publisher = open_publisher();
    SubscriberOptions options = copying();
    options.device = broken.device();
    options.stream_order = stream_order;
    Subscriber subscriber = open_subscriber(options);
    publish_complete(publisher, 1);
    EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
    broken.break_down();
    EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::driver));
    EXPECT_EQ(subscriber.statistics().lost, 1U);
  }
}

}  // namespace
}  // namespace vramlink
