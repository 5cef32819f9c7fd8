// A publisher that gets more slots by itself: docs/policies.md.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <vector>

#include "support/resize_fixture.hpp"
#include "support/step_action.hpp"

namespace vramlink {
namespace {

using std::chrono::milliseconds;
using test::kNow;
using test::soon;
using test::wait_until;

class GrowTest : public test::ResizeFixture {
 protected:
  [[nodiscard]] Publisher open_growing(std::uint32_t slot_count, std::uint32_t slot_count_max,
                                       WhenFull when_full = WhenFull::drop) const {
    return open_publisher(
        {.slot_count = slot_count, .when_full = when_full, .slot_count_max = slot_count_max});
  }
  Frame receive_next(Publisher& publisher, Subscriber& subscriber) {
    publish_now(publisher, ++number_);
    return subscriber.receive(soon()).value();
  }
  std::vector<Frame> hold(Publisher& publisher, Subscriber& subscriber, std::size_t count) {
    std::vector<Frame> held;
    held.reserve(count);
    while (held.size() < count) held.push_back(receive_next(publisher, subscriber));
    return held;
  }
  /// Claims, which must find nothing.
  void refuse(Publisher& publisher, int times = 1) {
    for (int i = 0; i < times; ++i) {
      EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
    }
  }
  /// What the publisher does by itself has been done, as far as it gets.
  void settle() const {
    for (int i = 0; i < 4; ++i) {
      drain_reactor();
      drain_janitor();
    }
  }
  static void wait_grown(Publisher& publisher, std::uint64_t growths = 1) {
    wait_until([&] {
      static_cast<void>(publisher.try_claim(kNow));
      return publisher.statistics().growths == growths;
    });
  }

  std::uint64_t number_ = 0;
};

TEST_F(GrowTest, HasMoreSlotsWhereMoreAreHeldThanFits) {
  Publisher publisher = open_growing(3, 8);
  Subscriber holder = open_subscriber();
  std::vector<Frame> held = hold(publisher, holder, 2);
  publish_now(publisher, ++number_);
  refuse(publisher, 2);
  settle();
  EXPECT_EQ(publisher.statistics().growths, 0U) << "now and then is no reason";
  wait_grown(publisher);
  const PublisherStatistics statistics = publisher.statistics();
  EXPECT_EQ(statistics.slot_count, 4U) << "the newest, two that are held, one to write to";
  EXPECT_EQ(statistics.slot_count_max, 8U);
  EXPECT_EQ(statistics.resizes, 1U);
  EXPECT_EQ(statistics.replacements, 0U);
  EXPECT_TRUE(test::holds_frame(held[0].bytes(), 1));
  const std::uint64_t refused = statistics.refused_full;
  held.clear();
  for (int i = 0; i < 20; ++i) {
    held.push_back(receive_next(publisher, holder));
    if (held.size() == 2) held.erase(held.begin());
  }
  EXPECT_EQ(publisher.statistics().refused_full, refused) << "what is granted fits now";
  EXPECT_EQ(publisher.statistics().growths, 1U);
  EXPECT_EQ(holder.statistics().connects, 1U);
  const ChannelInfo info = inspect_channel(runtime_, "cam0", soon()).value();
  EXPECT_EQ(info.slot_count, 4U);
  EXPECT_EQ(info.statistics.growths, 1U);
  EXPECT_EQ(info.statistics.slot_count_max, 8U);
}

TEST_F(GrowTest, IsFixedUnlessToldOtherwise) {
  Publisher publisher = open_publisher({.slot_count = 3});
  Subscriber holder = open_subscriber();
  std::vector<Frame> held = hold(publisher, holder, 2);
  publish_now(publisher, ++number_);
  refuse(publisher, 20);
  settle();
  refuse(publisher);
  EXPECT_EQ(publisher.statistics().slot_count, 3U);
  EXPECT_EQ(publisher.statistics().slot_count_max, 3U);
}

TEST_F(GrowTest, AQueueIsGrantedMoreThen) {
  Publisher publisher = open_growing(3, 16, WhenFull::block);
  Subscriber queue = open_subscriber({.policy = ReceivePolicy::queue(9), .held_count_max = 4});
  EXPECT_EQ(queue.granted_queue_depth(), 2U);
  std::uint64_t published = 0;
  while (publisher.statistics().slot_count < 15) {
    if (test::publish_number(publisher, published + 1, milliseconds(1))) ++published;
  }
  wait_until([&] { return queue.granted_queue_depth() == 9; });
  EXPECT_EQ(publisher.statistics().growths, 3U) << "3, 6, 12, 15";
  for (std::uint64_t number = 1; number <= published; ++number) {
    const Result<Frame> frame = queue.receive(soon());
    ASSERT_TRUE(frame) << to_string(frame.error());
    EXPECT_EQ(frame->sequence(), number);
    EXPECT_TRUE(test::holds_frame(frame->bytes(), number));
  }
  EXPECT_EQ(queue.statistics().lost, 0U);
}

TEST_F(GrowTest, WithoutMemoryItGoesOnAsItWas) {
  Publisher publisher = open_growing(3, 8);
  Subscriber holder = open_subscriber();
  std::vector<Frame> held = hold(publisher, holder, 2);
  publish_now(publisher, ++number_);
  device_.fail("allocate", Code::out_of_memory, 1);
  refuse(publisher, 3);
  settle();
  EXPECT_EQ(publisher.statistics().growths, 0U);
  held.clear();
  publish_now(publisher, ++number_);
  EXPECT_TRUE(test::receives_frame(holder, number_, soon()));
}

TEST_F(GrowTest, AFrameThatIsClaimedIsNotMadeStale) {
  Publisher publisher = open_growing(4, 8);
  Subscriber holder = open_subscriber();
  std::vector<Frame> held = hold(publisher, holder, 2);
  publish_now(publisher, ++number_);
  std::optional<WritableFrame> claimed = publisher.try_claim(kNow).value();
  refuse(publisher, 3);
  settle();
  refuse(publisher);
  EXPECT_EQ(publisher.statistics().growths, 0U) << "not while it is claimed";
  test::fill_frame(claimed->bytes(), ++number_);
  ASSERT_TRUE(publisher.publish(*std::move(claimed), kNow));
  wait_grown(publisher);
  EXPECT_EQ(publisher.statistics().slot_count, 5U);
}

TEST_F(GrowTest, AResizeDoesNotWaitForClaimedFrames) {
  Publisher publisher = open_growing(4, 8);
  Subscriber holder = open_subscriber();
  std::vector<Frame> held = hold(publisher, holder, 2);
  publish_now(publisher, ++number_);
  std::optional<WritableFrame> claimed = publisher.try_claim(kNow).value();
  refuse(publisher, 3);
  settle();
  ASSERT_TRUE(resize(publisher, 100));
  EXPECT_EQ(publisher.statistics().growths, 1U);
  EXPECT_EQ(publisher.statistics().slot_count, 5U) << "as many as there were";
  EXPECT_EQ(publisher.format(), bytes(100));
  EXPECT_TRUE(publisher.publish(*std::move(claimed), kNow).failed_with(Code::stale));
}

TEST_F(GrowTest, IsHeldBackByNobodyWhoIsLate) {
  Publisher publisher = open_growing(3, 8);
  Subscriber holder = open_subscriber();
  std::vector<Frame> held = hold(publisher, holder, 2);
  publish_now(publisher, ++number_);
#if VRAMLINK_STEPS
  std::optional<JanitorHeld> late;
  test::StepActions action("renew.announced", [&] {
    late.emplace(*this);  // nobody maps anything
  });
#endif
  wait_grown(publisher);
  publish_now(publisher, ++number_);
  held.clear();
#if VRAMLINK_STEPS
  EXPECT_TRUE(action.all_done());
  late.reset();
#endif
  wait_until([&] {
    const Result<Frame> frame = holder.receive(soon());
    return frame && frame->sequence() == number_;
  });
}

TEST_F(GrowTest, RefusesBoundsThatCannotBe) {
  const auto open = [this](std::uint32_t slot_count, std::uint32_t slot_count_max) {
    PublisherOptions options;
    options.device = test::fake_device();
    options.slot_count = slot_count;
    options.slot_count_max = slot_count_max;
    return Publisher::open(runtime_, "cam0", bytes(100), options);
  };
  EXPECT_TRUE(open(4, 3).failed_with(Code::invalid_argument));
  EXPECT_TRUE(open(4, 65).failed_with(Code::invalid_argument));
  EXPECT_TRUE(open(4, 4));
  EXPECT_TRUE(open(4, 64));
}

}  // namespace
}  // namespace vramlink
