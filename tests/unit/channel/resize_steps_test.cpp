// A publisher changes its format or its slots, and something happens at one of the steps of it.
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <thread>

#include "support/resize_fixture.hpp"
#include "support/step_action.hpp"

#if VRAMLINK_STEPS

namespace vramlink {
namespace {

using test::kNow;
using test::soon;
using test::wait_until;

class ResizeStepTest : public test::ResizeFixture {};

TEST_F(ResizeStepTest, WhoComesInTheMidstOfItFollowsToo) {
  Publisher publisher = open_publisher();
  publish_now(publisher, 1);
  std::optional<Subscriber> newcomer;
  test::StepActions action("resize.announced", [&] {
    newcomer.emplace(open_subscriber({.policy = ReceivePolicy::queue(3)}));
  });
  ASSERT_TRUE(resize(publisher, 100));
  publish_now(publisher, 2);
  expect_frame(*newcomer, 1, 1, kBytes);
  expect_frame(*newcomer, 2, 2, 100);
  EXPECT_EQ(publisher.statistics().subscribers.size(), 1U);
}

TEST_F(ResizeStepTest, WhoIsOnItsWayInWhenItHappensComesAgain) {
  Publisher publisher = open_publisher();
  publish_now(publisher, 1);
  Result<void> resized = Error(Code::empty, "not tried");
  // Between its OFFER of the first generation and its MAPPED.
  test::StepActions action("attach.mapped_all", [&] { resized = resize(publisher, 100); });
  Subscriber newcomer = open_subscriber();
  ASSERT_TRUE(resized);
  publish_now(publisher, 2);
  expect_frame(newcomer, 2, 2, 100);
  EXPECT_EQ(publisher.statistics().subscribers_ever, 1U);
}

TEST_F(ResizeStepTest, APublishInTheMidstOfItCounts) {
  Publisher publisher = open_publisher();
  Subscriber queue = open_subscriber({.policy = ReceivePolicy::queue(3)});
  Subscriber latest = open_subscriber();
  publish_now(publisher, 1);
  test::StepActions action("resize.announced", [&] {
    // After both are ready for the next generation.
    while (publisher.statistics().subscribers.size() != 2) std::this_thread::yield();
    publish_now(publisher, 2);
  });
  ASSERT_TRUE(resize(publisher, 100));
  publish_now(publisher, 3);
  expect_frame(queue, 1, 1, kBytes);
  expect_frame(queue, 2, 1, kBytes);
  expect_frame(queue, 3, 2, 100);
  wait_followed(latest, 100);
  expect_frame(latest, 3, 2, 100);
  EXPECT_EQ(latest.statistics().skipped, 2U);
  EXPECT_EQ(queue.statistics().lost, 0U);
}

TEST_F(ResizeStepTest, ACloseInTheMidstOfItIsTheEndOfBoth) {
  std::optional<Publisher> publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  Result<Frame> end = Error(Code::empty, "not tried");
  // GO has come, and its session is being made: it is late.
  std::promise<void> go;
  std::promise<void> told;
  const test::StepActions::List actions{{"attach.seals_seen",
                                         [&] {
                                           go.set_value();
                                           told.get_future().wait();
                                         }},
                                        {"resize.announced", [&] {
                                           go.get_future().wait();
                                           EXPECT_TRUE(publisher->close(soon()));
                                           end = subscriber.try_receive();
                                           told.set_value();
                                         }}};
  const test::StepActions steps(actions);
  EXPECT_TRUE(resize(*publisher, 100).failed_with(Code::closed));
  drain_janitor();
  EXPECT_TRUE(end.failed_with(Code::closed));
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty)) << "told once";
  publisher.reset();
  publisher = open_publisher();
  publish_now(*publisher, 1);
  expect_frame(subscriber, 1, 1, kBytes);
}

TEST_F(ResizeStepTest, AClaimThatSleepsGoesOnInTheNewSlots) {
  Publisher publisher = open_publisher({.slot_count = 2, .when_full = WhenFull::block});
  const WritableFrame first = publisher.try_claim(kNow).value();
  const WritableFrame second = publisher.try_claim(kNow).value();
  std::promise<void> asleep;
  test::StepActions action("claim.waiting", [&] { asleep.set_value(); });
  auto claimed = std::async(std::launch::async, [&] { return publisher.claim(kNow, kForever); });
  asleep.get_future().wait();
  ASSERT_TRUE(resize(publisher, 100));
  EXPECT_EQ(claimed.get().value().size_bytes(), 100U);
}

TEST_F(ResizeStepTest, ASubscriberWithoutMemoryBeginsAnew) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  publish_now(publisher, 1);
  const Frame held = subscriber.receive(soon()).value();
  device_.fail("import_memory", Code::out_of_memory);
  ASSERT_TRUE(publisher.resize(bytes(100), soon()));
  EXPECT_TRUE(subscriber.receive(soon()).failed_with(Code::peer_gone));
  EXPECT_TRUE(test::holds_frame(held.bytes(), 1));
  ASSERT_TRUE(publisher.wait_for_subscribers(1, soon()));
  publish_now(publisher, 2);
  expect_frame(subscriber, 2, 2, 100);
  EXPECT_EQ(subscriber.statistics().connects, 2U);
  EXPECT_EQ(publisher.statistics().subscribers_revoked, 0U);
}

}  // namespace
}  // namespace vramlink

#endif
