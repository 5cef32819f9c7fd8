// A publisher that changes its format or its slots, on a device whose streams the test steps:
// section 11 of the protocol.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "support/resize_fixture.hpp"
#include "support/step_action.hpp"

namespace vramlink {
namespace {

using std::chrono::milliseconds;
using test::kNow;
using test::soon;
using test::wait_until;

class ResizeTest : public test::ResizeFixture {};

TEST_F(ResizeTest, FramesGoOnInAnotherSizeAndNothingIsLost) {
  Publisher publisher = open_publisher();
  Subscriber queue = open_subscriber({.policy = ReceivePolicy::queue(3)});
  Subscriber latest = open_subscriber();
  publish_now(publisher, 1);
  publish_now(publisher, 2);
  ASSERT_TRUE(resize(publisher, 9000, 8));
  EXPECT_EQ(publisher.format(), bytes(9000));
  wait_followed(queue, 9000);
  wait_followed(latest, 9000);
  publish_now(publisher, 3);
  expect_frame(queue, 1, 1, kBytes);
  expect_frame(queue, 2, 1, kBytes);
  expect_frame(queue, 3, 2, 9000);
  EXPECT_TRUE(queue.try_receive().failed_with(Code::empty)) << "and no end is told";
  expect_frame(latest, 3, 2, 9000);
  ASSERT_TRUE(resize(publisher, 100, 2));
  publish_now(publisher, 4);
  expect_frame(queue, 4, 3, 100);
  expect_frame(latest, 4, 3, 100);
  EXPECT_EQ(queue.granted_queue_depth(), 1U) << "two slots";

  EXPECT_EQ(publisher.statistics().resizes, 2U);
  EXPECT_EQ(publisher.statistics().published, 4U);
  EXPECT_EQ(publisher.statistics().published_bytes, 2 * kBytes + 9000 + 100);
  EXPECT_EQ(publisher.statistics().subscribers_ever, 2U);
  const SubscriberStatistics of_queue = queue.statistics();
  EXPECT_EQ(of_queue.resizes, 2U);
  EXPECT_EQ(of_queue.connects, 1U);
  EXPECT_EQ(of_queue.received, 4U);
  EXPECT_EQ(of_queue.received_bytes, 2 * kBytes + 9000 + 100);
  EXPECT_EQ(of_queue.lost, 0U);
  EXPECT_EQ(latest.statistics().skipped, 2U) << "1 and 2";
  for (const SubscriberView& view : publisher.statistics().subscribers) {
    EXPECT_EQ(view.lag, 0U);
    EXPECT_EQ(view.held, 0U);
    EXPECT_EQ(view.received, view.queue_depth != 0 ? 4U : 2U) << "its reports go on";
  }
}

TEST_F(ResizeTest, LatestGetsTheLastOldFrameIfThereIsNoNewerOne) {
  Publisher publisher = open_publisher();
  Subscriber first = open_subscriber();
  Subscriber second = open_subscriber();
  publish_now(publisher, 1);
  ASSERT_TRUE(resize(publisher, 100));
  expect_frame(first, 1, 1, kBytes);
  publish_now(publisher, 2);
  expect_frame(first, 2, 2, 100);
  wait_followed(second, 100);
  expect_frame(second, 2, 2, 100);
  EXPECT_EQ(second.statistics().skipped, 1U);
}

TEST_F(ResizeTest, ReceivesThatSleepGoOnWithTheNewFrames) {
  Publisher publisher = open_publisher();
  Subscriber queue = open_subscriber({.policy = ReceivePolicy::queue(3)});
  Subscriber latest = open_subscriber();
  const auto next = [](Subscriber& subscriber) { return subscriber.receive(kForever).value(); };
  auto one = std::async(std::launch::async, next, std::ref(queue));
  auto two = std::async(std::launch::async, next, std::ref(latest));
  auto three = std::async(std::launch::async, next, std::ref(latest));
  ASSERT_TRUE(resize(publisher, 100));
  ASSERT_TRUE(resize(publisher, 200));
  publish_now(publisher, 1);
  EXPECT_EQ(one.get().generation(), 3U);
  // Each frame is received once: one of the two gets the next.
  while (three.wait_for(milliseconds(1)) != std::future_status::ready &&
         two.wait_for(milliseconds(1)) != std::future_status::ready) {
  }
  publish_now(publisher, 2);
  const Frame first = two.get();
  const Frame second = three.get();
  EXPECT_EQ(first.sequence() + second.sequence(), 3U);
  EXPECT_EQ(first.generation() + second.generation(), 6U);
}

TEST_F(ResizeTest, WithoutMemoryTheOldGenerationGoesOn) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  for (const char* call : {"allocate", "register_words"}) {
    device_.fail(call, Code::out_of_memory);
    const Result<void> resized = resize(publisher, 9000);
    ASSERT_TRUE(resized.failed_with(Code::out_of_memory)) << call;
  }
  EXPECT_EQ(publisher.format(), bytes(kBytes));
  EXPECT_EQ(publisher.statistics().resizes, 0U);
  publish_now(publisher, 1);
  expect_frame(subscriber, 1, 1, kBytes);
  ASSERT_TRUE(resize(publisher, 9000)) << "there is memory again";
  publish_now(publisher, 2);
  expect_frame(subscriber, 2, 2, 9000);
}

TEST_F(ResizeTest, RefusesWhatCannotBe) {
  Publisher publisher = open_publisher();
  EXPECT_TRUE(resize(publisher, 100, 1).failed_with(Code::invalid_argument));
  EXPECT_TRUE(resize(publisher, 100, 65).failed_with(Code::invalid_argument));
  Format broken = bytes(100);
  broken.rank = 9;
  EXPECT_TRUE(publisher.resize(broken, soon()).failed_with(Code::invalid_argument));
  Result<void> meanwhile;
#if VRAMLINK_STEPS
  test::StepActions action("resize.built", [&] { meanwhile = resize(publisher, 300); });
  ASSERT_TRUE(resize(publisher, 100));
  EXPECT_TRUE(meanwhile.failed_with(Code::wrong_state)) << "one at a time";
#endif
  ASSERT_TRUE(publisher.close(soon()));
  EXPECT_TRUE(resize(publisher, 100).failed_with(Code::closed));
}

TEST_F(ResizeTest, AFrameClaimedBeforeIsStale) {
  Publisher publisher = open_publisher({.slot_count = 2});
  Subscriber subscriber = open_subscriber();
  WritableFrame early = publisher.try_claim(device_.stream(kRender)).value();
  WritableFrame dropped = publisher.try_claim(device_.stream(kRender)).value();
  ASSERT_TRUE(resize(publisher, 100));
  EXPECT_EQ(early.size_bytes(), kBytes) << "it can be written to still";
  test::fill_frame(early.bytes(), 1);
  const Result<Receipt> published = publisher.publish(std::move(early), device_.stream(kRender));
  EXPECT_TRUE(published.failed_with(Code::stale));
  { const WritableFrame gone = std::move(dropped); }
  device_.run();
  EXPECT_EQ(publisher.statistics().abandoned, 2U);
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::empty));
  publish_now(publisher, 1);
  expect_frame(subscriber, 1, 2, 100);
}

TEST_F(ResizeTest, StreamsThatWaitForOldFramesGetThem) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  const Receipt receipt = publish(publisher, 1);
  Frame frame = subscriber.try_receive(device_.stream(kRead), soon()).value();
  const auto number = read(frame);
  ASSERT_TRUE(resize(publisher, 9000));
  publish(publisher, 2);
  Frame next = subscriber.receive(device_.stream(kOther), soon()).value();
  EXPECT_EQ(next.generation(), 2U);
  const auto next_number = read(next, kOther);
  const ReleaseReceipt released = frame.release(device_.stream(kRead)).value();
  EXPECT_FALSE(receipt.ready());
  EXPECT_EQ(held(publisher), 2U) << "one of each generation";
  device_.run();
  EXPECT_TRUE(receipt.ready());
  EXPECT_EQ(*number, 1U);
  EXPECT_TRUE(released.ready());
  EXPECT_FALSE(released.aborted());
  EXPECT_EQ(*next_number, 2U);
  EXPECT_FALSE(next.aborted());
  EXPECT_EQ(subscriber.statistics().aborted, 0U);
}

TEST_F(ResizeTest, AQueueWaitsForOldFramesThatAreNotComplete) {
  Publisher publisher = open_publisher();
  Subscriber queue = open_subscriber({.policy = ReceivePolicy::queue(3)});
  publish(publisher, 1);
  ASSERT_TRUE(resize(publisher, 100));
  publish_now(publisher, 2);
  EXPECT_TRUE(queue.try_receive().failed_with(Code::empty)) << "nothing before the first";
  device_.run();
  expect_frame(queue, 1, 1, kBytes);
  expect_frame(queue, 2, 2, 100);
}

TEST_F(ResizeTest, OldMemoryGoesWhenTheLastFrameOfItIsLetGo) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.policy = ReceivePolicy::queue(3)});
  const int before = payloads();
  publish_now(publisher, 1);
  std::optional<Frame> first = subscriber.receive(soon()).value();
  ASSERT_TRUE(resize(publisher, 9000));
  publish_now(publisher, 2);
  std::optional<Frame> second = subscriber.receive(soon()).value();
  ASSERT_TRUE(resize(publisher, 100));
  publish_now(publisher, 3);
  const Frame third = subscriber.receive(soon()).value();
  EXPECT_EQ(payloads(), 3 * before);
  EXPECT_EQ(held(publisher), 3U);
  EXPECT_TRUE(test::holds_frame(first->bytes(), 1));
  EXPECT_TRUE(test::holds_frame(second->bytes(), 2));
  EXPECT_TRUE(test::holds_frame(third.bytes(), 3));
  first.reset();
  wait_until([&] { return payloads() == 2 * before; });
  EXPECT_EQ(held(publisher), 2U);
  EXPECT_TRUE(test::holds_frame(second->bytes(), 2));
  second.reset();
  wait_until([&] { return payloads() == before; });
  EXPECT_EQ(held(publisher), 1U);
  EXPECT_TRUE(test::holds_frame(third.bytes(), 3));
}

TEST_F(ResizeTest, OldMemoryStaysWhileWorkOnItIsUnderWay) {
  Publisher publisher = open_publisher();
  const int before = payloads();
  publish(publisher, 1);
  ASSERT_TRUE(resize(publisher, 100));
  drain_janitor();
  EXPECT_EQ(payloads(), 2 * before);
  device_.run();
  wait_until([&] { return payloads() == before; });
}

TEST_F(ResizeTest, RegisteredPagesStayUntilTheChannelEnds) {
  {
    Publisher publisher = open_publisher();
    Subscriber subscriber = open_subscriber();
    ASSERT_TRUE(resize(publisher, 100));
    publish_now(publisher, 1);
    expect_frame(subscriber, 1, 2, 100);
    const int registered = device_.registered_pages();
    drain_reactor();
    drain_janitor();
    drain_janitor();
    EXPECT_EQ(device_.registered_pages(), registered) << "streams may stand behind an unregister";
  }
  wait_until([&] { return device_.registered_pages() == 0; });
}

TEST_F(ResizeTest, CopiesGoOnInTheNewSlots) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.policy = ReceivePolicy::queue(3)});
  std::vector<std::byte> source(kBytes);
  test::fill_frame(source, 1);
  ASSERT_TRUE(publisher.publish_copy(source, kNow, soon()));
  device_.run();
  ASSERT_TRUE(resize(publisher, 100));
  EXPECT_TRUE(publisher.publish_copy(source, kNow, soon()).failed_with(Code::invalid_argument));
  for (std::uint64_t number = 2; number <= 4; ++number) {
    source.resize(100);
    test::fill_frame(source, number);
    ASSERT_TRUE(publisher.publish_copy(source, kNow, soon()));
    device_.run();
    drain_janitor();
  }
  for (std::uint64_t number = 1; number <= 4; ++number) {
    expect_frame(subscriber, number, number == 1 ? 1 : 2, number == 1 ? kBytes : 100);
  }
}

TEST_F(ResizeTest, WhoIsLateLosesNothingUnderBlock) {
  Publisher publisher = open_publisher({.slot_count = 4, .when_full = WhenFull::block});
  Subscriber queue = open_subscriber({.policy = ReceivePolicy::queue(3)});
  publish_now(publisher, 1);
  {
    const JanitorHeld held(*this);
    const auto begun = std::chrono::steady_clock::now();
    ASSERT_TRUE(publisher.resize(bytes(100), Deadline::after(milliseconds(30))));
    EXPECT_GE(std::chrono::steady_clock::now() - begun, milliseconds(30));
    EXPECT_EQ(publisher.statistics().resizes, 1U);
    for (std::uint64_t number = 2; number <= 5; ++number) publish_now(publisher, number);
    EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full)) << "it has taken none of them";
    expect_frame(queue, 1, 1, kBytes);
    EXPECT_TRUE(queue.try_receive().failed_with(Code::empty));
    const SubscriberView view = publisher.statistics().subscribers.at(0);
    EXPECT_EQ(view.lag, 4U);
    EXPECT_EQ(view.received, 1U);
  }
  for (std::uint64_t number = 2; number <= 5; ++number) expect_frame(queue, number, 2, 100);
  EXPECT_EQ(queue.statistics().lost, 0U);
  publish_now(publisher, 6);
  expect_frame(queue, 6, 2, 100);
}

TEST_F(ResizeTest, IsNotHeldUpForLongerThanToldTo) {
  Publisher publisher = open_publisher();
  const Subscriber late = open_subscriber();
  const JanitorHeld held(*this);
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_TRUE(publisher.resize(bytes(100), kForever, {.follow_within = milliseconds(20)}));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, milliseconds(20));
  EXPECT_EQ(publisher.format(), bytes(100));
}

TEST_F(ResizeTest, CloseWaitsForWhoIsLateSoThatItSeesTheEnd) {
  for (const auto policy : {ReceivePolicy::latest(), ReceivePolicy::queue(3)}) {
    SCOPED_TRACE(policy.queue_depth);
    Publisher publisher = open_publisher();
    Subscriber late = open_subscriber({.policy = policy});
    std::optional<JanitorHeld> held(std::in_place, *this);
    ASSERT_TRUE(publisher.resize(bytes(100), Deadline::passed()));
    auto closed = std::async(std::launch::async, [&] { return publisher.close(soon()); });
    EXPECT_EQ(closed.wait_for(milliseconds(20)), std::future_status::timeout);
    held.reset();
    EXPECT_TRUE(closed.get());
    EXPECT_TRUE(late.receive(soon()).failed_with(Code::closed));
    EXPECT_EQ(late.statistics().peer_deaths, 0U);
  }
}

TEST_F(ResizeTest, TheNewestFrameIsGivenBeforeTheEndOfAnEmptyGeneration) {
  Publisher publisher = open_publisher();
  Subscriber latest = open_subscriber();
  for (std::uint64_t number = 1; number <= 3; ++number) publish_now(publisher, number);
  ASSERT_TRUE(resize(publisher, 100));
  wait_followed(latest, 100);
  ASSERT_TRUE(publisher.close(soon()));
  expect_frame(latest, 3, 1, kBytes);
  EXPECT_TRUE(latest.receive(soon()).failed_with(Code::closed));
}

TEST_F(ResizeTest, TheNewestCompleteFrameIsGivenWhileANewerOneIsNotComplete) {
  Publisher publisher = open_publisher();
  Subscriber latest = open_subscriber();
  publish_now(publisher, 1);
  ASSERT_TRUE(resize(publisher, 100));
  wait_followed(latest, 100);
  publish(publisher, 2);  // the device has yet to perform it
  expect_frame(latest, 1, 1, kBytes);
  EXPECT_TRUE(latest.try_receive().failed_with(Code::empty));
  device_.run();
  expect_frame(latest, 2, 2, 100);
}

TEST_F(ResizeTest, WhoIsLateTwiceGoesThroughBothGenerations) {
  Publisher publisher = open_publisher({.slot_count = 4, .when_full = WhenFull::block});
  Subscriber queue = open_subscriber({.policy = ReceivePolicy::queue(3)});
  Subscriber latest = open_subscriber();
  {
    const JanitorHeld held(*this);
    ASSERT_TRUE(publisher.resize(bytes(100), Deadline::passed()));
    publish_now(publisher, 1);
    ASSERT_TRUE(publisher.resize(bytes(200), Deadline::passed()));
    ASSERT_TRUE(publisher.resize(bytes(300), Deadline::passed()));
    publish_now(publisher, 2);
  }
  expect_frame(queue, 1, 2, 100);
  expect_frame(queue, 2, 4, 300);
  EXPECT_EQ(queue.statistics().lost, 0U);
  wait_until([&] { return latest.format() == bytes(300); });
  expect_frame(latest, 2, 4, 300);
}

TEST_F(ResizeTest, WhoIsLateAndGoesKeepsNobodyWaiting) {
  Publisher publisher = open_publisher({.slot_count = 2, .when_full = WhenFull::block});
  std::optional<Subscriber> queue = open_subscriber({.policy = ReceivePolicy::queue(1)});
  const JanitorHeld held(*this);
  ASSERT_TRUE(publisher.resize(bytes(100), Deadline::passed()));
  publish_now(publisher, 1);
  publish_now(publisher, 2);
  EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
  queue.reset();
  wait_until([&] { return publisher.statistics().subscribers.empty(); });
  publish_now(publisher, 3);
  EXPECT_EQ(publisher.statistics().subscribers_died, 0U);
}

TEST_F(ResizeTest, WhoLetsGoOfNothingCannotTakeAllMemory) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  std::vector<Frame> held;
  for (std::uint64_t number = 1; number <= 8; ++number) {
    publish_now(publisher, number);
    held.push_back(subscriber.receive(soon()).value());
    if (number == 8) break;
    ASSERT_TRUE(resize(publisher, 100));
  }
  const int before = payloads();
  const auto refuse = [&](Deadline deadline, milliseconds follow_within) {
    const Result<void> refused =
        publisher.resize(bytes(200), deadline, {.follow_within = follow_within});
    ASSERT_TRUE(refused.failed_with(Code::resource_exhausted));
    EXPECT_EQ(refused.error().facts()->numbers[0], 8U);
    EXPECT_EQ(refused.error().facts()->numbers[1], 8U);
    EXPECT_FALSE(refused.error().facts()->remedy.empty());
  };
  refuse(Deadline::passed(), milliseconds(500));
  refuse(kForever, milliseconds(1));
  EXPECT_EQ(payloads(), before);
  EXPECT_EQ(publisher.format(), bytes(100));
  auto interrupted = std::async(std::launch::async, [&] {
    return publisher.resize(bytes(200), kForever, {.follow_within = std::chrono::hours(1)});
  });
  while (interrupted.wait_for(milliseconds(1)) != std::future_status::ready) publisher.interrupt();
  EXPECT_TRUE(interrupted.get().failed_with(Code::interrupted));
  // Who is slow is waited for.
  auto resized = std::async(std::launch::async, [&] { return resize(publisher, 200); });
  EXPECT_EQ(resized.wait_for(milliseconds(20)), std::future_status::timeout);
  held.erase(held.begin());
  EXPECT_TRUE(resized.get());
  EXPECT_EQ(publisher.format(), bytes(200));
  publish_now(publisher, 9);
  expect_frame(subscriber, 9, 9, 200);
  for (std::uint64_t number = 2; number <= 8; ++number) {
    EXPECT_TRUE(test::holds_frame(held[number - 2].bytes(), number));
  }
}

TEST_F(ResizeTest, InterruptEndsTheWaitAndNotTheResize) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber();
  std::optional<JanitorHeld> held(std::in_place, *this);
  auto resized =
      std::async(std::launch::async, [&] { return publisher.resize(bytes(100), kForever); });
  while (resized.wait_for(milliseconds(1)) != std::future_status::ready) publisher.interrupt();
  EXPECT_TRUE(resized.get().failed_with(Code::interrupted));
  EXPECT_EQ(publisher.format(), bytes(100));
  publish_now(publisher, 1);
  held.reset();
  expect_frame(subscriber, 1, 2, 100);
}

TEST_F(ResizeTest, CloseWaitsForQueuesInEveryGeneration) {
  Publisher publisher = open_publisher();
  Subscriber queue = open_subscriber({.policy = ReceivePolicy::queue(3)});
  publish_now(publisher, 1);
  ASSERT_TRUE(resize(publisher, 100));
  publish_now(publisher, 2);
  auto closed = std::async(std::launch::async, [&] { return publisher.close(soon()); });
  EXPECT_EQ(closed.wait_for(milliseconds(20)), std::future_status::timeout);
  expect_frame(queue, 1, 1, kBytes);
  EXPECT_EQ(closed.wait_for(milliseconds(20)), std::future_status::timeout);
  expect_frame(queue, 2, 2, 100);
  EXPECT_TRUE(closed.get());
  EXPECT_TRUE(queue.receive(soon()).failed_with(Code::closed));
  EXPECT_TRUE(queue.try_receive().failed_with(Code::empty)) << "told once";
}

TEST_F(ResizeTest, TheEndAfterAResizeIsToldOnceAndAfterAllFrames) {
  std::optional<Publisher> publisher = open_publisher();
  Subscriber queue = open_subscriber({.policy = ReceivePolicy::queue(3)});
  Subscriber latest = open_subscriber();
  publish_now(*publisher, 1);
  ASSERT_TRUE(resize(*publisher, 100));
  publish_now(*publisher, 2);
  wait_followed(latest, 100);
  publisher.reset();
  expect_frame(queue, 1, 1, kBytes);
  expect_frame(queue, 2, 2, 100);
  expect_frame(latest, 2, 2, 100);
  EXPECT_TRUE(queue.receive(soon()).failed_with(Code::closed));
  EXPECT_TRUE(latest.receive(soon()).failed_with(Code::closed));
  publisher = open_publisher();
  publish_now(*publisher, 1);
  expect_frame(queue, 1, 1, kBytes);
  expect_frame(latest, 1, 1, kBytes);
  EXPECT_EQ(queue.statistics().connects, 2U);
  EXPECT_EQ(queue.statistics().peer_deaths, 0U);
}

TEST_F(ResizeTest, AHeldFrameOutlivesItsSubscriberAndTheResize) {
  Publisher publisher = open_publisher();
  std::optional<Subscriber> subscriber = open_subscriber();
  publish_now(publisher, 1);
  std::optional<Frame> frame = subscriber->receive(soon()).value();
  ASSERT_TRUE(resize(publisher, 100));
  publish_now(publisher, 2);
  expect_frame(*subscriber, 2, 2, 100);
  subscriber.reset();
  EXPECT_TRUE(test::holds_frame(frame->bytes(), 1));
  wait_until([&] {
    const auto views = publisher.statistics().subscribers;
    return views.size() == 1 && views[0].held == 1;
  });
  ASSERT_TRUE(resize(publisher, 200)) << "nobody follows";
  frame.reset();
  wait_until([&] { return publisher.statistics().subscribers.empty(); });
  EXPECT_EQ(publisher.statistics().subscribers_died, 0U);
  EXPECT_EQ(publisher.statistics().subscribers_revoked, 0U);
}

TEST_F(ResizeTest, AReadinessDescriptorTellsOfTheNewFrames) {
  Publisher publisher = open_publisher();
  Subscriber subscriber = open_subscriber({.held_count_max = 1});
  pollfd ready{subscriber.readiness_fd().value(), POLLIN, 0};
  publish_now(publisher, 1);
  ASSERT_EQ(::poll(&ready, 1, 30'000), 1);
  const Frame held = subscriber.try_receive().value();
  publish_now(publisher, 2);
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::resource_exhausted));
  EXPECT_EQ(::poll(&ready, 1, 0), 0) << "all holds are used";
  ASSERT_TRUE(resize(publisher, 100));
  wait_followed(subscriber, 100);
  EXPECT_TRUE(subscriber.try_receive().failed_with(Code::resource_exhausted)) << "2 is the newest";
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
  publish_now(publisher, 3);
  ASSERT_EQ(::poll(&ready, 1, 30'000), 1);
  EXPECT_EQ(subscriber.try_receive()->sequence(), 3U) << "its holds count by generation";
}

TEST_F(ResizeTest, TheNewestFrameIsThereStillForWhoHasToLetGoOfOthersFirst) {
  Publisher publisher = open_publisher();
  Subscriber latest = open_subscriber({.held_count_max = 1});
  publish_now(publisher, 1);
  {
    const Frame held = latest.try_receive().value();
    publish_now(publisher, 2);
    ASSERT_TRUE(resize(publisher, 100));
    wait_followed(latest, 100);
    EXPECT_TRUE(latest.try_receive().failed_with(Code::resource_exhausted));
  }
  expect_frame(latest, 2, 1, kBytes);
  publish_now(publisher, 3);
  expect_frame(latest, 3, 2, 100);
}

TEST_F(ResizeTest, AnObserverSeesTheNewShape) {
  Publisher publisher = open_publisher();
  publish_now(publisher, 1);
  ASSERT_TRUE(resize(publisher, 100, 7));
  publish_now(publisher, 2);
  const ChannelInfo info = inspect_channel(runtime_, kName, soon()).value();
  EXPECT_EQ(info.format, bytes(100));
  EXPECT_EQ(info.slot_count, 7U);
  EXPECT_EQ(info.newest_sequence, 2U);
  EXPECT_EQ(info.statistics.resizes, 1U);
  EXPECT_EQ(info.statistics.published_bytes, kBytes + 100);
}

TEST_F(ResizeTest, SixtyFourSubscribersFollow) {
  Publisher publisher = open_publisher({.slot_count = 4, .when_full = WhenFull::block});
  std::vector<Subscriber> subscribers;
  for (std::uint32_t i = 0; i < kSubscriberCountMax; ++i) {
    subscribers.push_back(open_subscriber({.policy = ReceivePolicy::queue(1 + i % 3),
                                           .stream_order = i < kStreamOrderedSubscriberCountMax}));
  }
  publish_now(publisher, 1);
  ASSERT_TRUE(resize(publisher, 100, 6));
  for (std::uint64_t number = 2; number <= 7; ++number) publish_now(publisher, number);
  EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
  for (Subscriber& subscriber : subscribers) {
    expect_frame(subscriber, 1, 1, kBytes);
    for (std::uint64_t number = 2; number <= 7; ++number) expect_frame(subscriber, number, 2, 100);
  }
  EXPECT_EQ(publisher.statistics().subscribers.size(), kSubscriberCountMax);
  ASSERT_TRUE(resize(publisher, 200));
  publish_now(publisher, 8);
  for (Subscriber& subscriber : subscribers) expect_frame(subscriber, 8, 3, 200);
}

}  // namespace
}  // namespace vramlink
