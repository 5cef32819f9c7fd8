// Receives in a stream that meet another publisher than they began with: on the host, on another
// device, or of a subscriber without stream order. No frame may reach a stream that cannot read it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <optional>
#include <utility>

#include "support/asleep.hpp"
#include "support/stream_fixture.hpp"

namespace vramlink {
namespace {

class NextPublisher : public test::StreamFixture {
 protected:
  NextPublisher() : other_(add_device(test::fake_device(2))) {}

  /// A subscriber of a publisher that has come and gone.
  Subscriber orphan(const SubscriberOptions& options = {}) const {
    std::optional<Publisher> publisher = open_publisher();
    Subscriber subscriber = open_subscriber(options);
    publisher.reset();
    EXPECT_TRUE(subscriber.receive(test::soon()).failed_with(Code::closed));
    return subscriber;
  }
  /// What a receive by stream says that slept while `next` came.
  template <class Next>
  Result<Frame> receives(Subscriber& subscriber, Next next) {
    std::promise<pid_t> thread;
    auto received = std::async(std::launch::async, [&] {
      thread.set_value(::gettid());
      return subscriber.receive(device_.stream(kRead), test::soon());
    });
    test::wait_until_asleep(thread.get_future().get());
    next();
    return received.get();
  }
  [[nodiscard]] Publisher open_on(DeviceId device) const {
    PublisherOptions options;
    options.device = device;
    return ChannelFixture::open_publisher(runtime_, options);
  }
  /// The frame is there still, for whoever can read it.
  static void expect_untouched(Publisher& publisher, Subscriber& subscriber) {
    EXPECT_EQ(held(publisher), 0U);
    EXPECT_EQ(subscriber.statistics().received, 0U);
    EXPECT_EQ(subscriber.statistics().lost, 0U);
    const Result<Frame> frame = subscriber.receive(test::soon());
    ASSERT_TRUE(frame) << to_string(frame.error());
    EXPECT_EQ(frame->sequence(), 1U);
  }

  test::FakeBackend& other_;
};

TEST_F(NextPublisher, OnTheHostHasNothingForAStream) {
  Subscriber subscriber = orphan();
  std::optional<Publisher> publisher;
  const Result<Frame> refused = receives(subscriber, [&] {
    publisher = open_on(DeviceId::host());
    EXPECT_TRUE(test::publish_complete(*publisher, 1));
  });
  EXPECT_TRUE(refused.failed_with(Code::wrong_state));
  expect_untouched(*publisher, subscriber);
}

TEST_F(NextPublisher, OnAnotherDeviceHasNothingForThisOnesStream) {
  Subscriber subscriber = orphan();
  std::optional<Publisher> publisher;
  const Result<Frame> refused = receives(subscriber, [&] {
    publisher = open_on(test::fake_device(2));
    WritableFrame frame = publisher->try_claim(test::kNow).value();
    EXPECT_TRUE(publisher->publish(std::move(frame), test::kNow));
  });
  EXPECT_TRUE(refused.failed_with(Code::wrong_state));
  expect_untouched(*publisher, subscriber);
  EXPECT_EQ(device_.calls("wait") + other_.calls("wait"), 0);
}

TEST_F(NextPublisher, HasNothingForAStreamOfASubscriberWithoutStreamOrder) {
  Subscriber subscriber = orphan({.stream_order = false});
  std::optional<Publisher> publisher;
  const Result<Frame> refused = receives(subscriber, [&] {
    publisher = open_publisher();
    WritableFrame frame = publisher->try_claim(test::kNow).value();
    EXPECT_TRUE(publisher->publish(std::move(frame), test::kNow));
  });
  EXPECT_TRUE(refused.failed_with(Code::wrong_state));
  expect_untouched(*publisher, subscriber);
}

TEST_F(NextPublisher, OnTheSameDeviceIsReadAsTheOneBefore) {
  Subscriber subscriber = orphan();
  std::optional<Publisher> publisher;
  const Result<Frame> frame = receives(subscriber, [&] {
    publisher = open_publisher();
    EXPECT_TRUE(publisher->wait_for_subscribers(1, test::soon()));
    publish(*publisher, 1);
  });
  ASSERT_TRUE(frame) << to_string(frame.error());
  EXPECT_EQ(frame->sequence(), 1U);
  device_.run();
}

TEST_F(NextPublisher, IsNotMissedBehindOneThatHadNothingForTheStream) {
  Subscriber subscriber = orphan();
  std::optional<Publisher> on_the_host = open_on(DeviceId::host());
  test::wait_until([&] { return subscriber.statistics().connects == 2; });
  const StreamView stream = device_.stream(kRead);
  EXPECT_TRUE(subscriber.try_receive(stream).failed_with(Code::wrong_state));
  on_the_host.reset();
  test::wait_until([&] { return subscriber.try_receive(stream).failed_with(Code::closed); });
  Publisher publisher = open_publisher();
  EXPECT_TRUE(publisher.wait_for_subscribers(1, test::soon()));
  publish(publisher, 1);
  EXPECT_TRUE(subscriber.receive(stream, test::soon()));
  device_.run();
}

}  // namespace
}  // namespace vramlink
