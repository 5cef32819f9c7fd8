// A publisher changes its slots, and a subscriber, by hand, does not come after: because it is
// stopped, or leaves. What it keeps: docs/resize.md.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "support/link_attacker.hpp"
#include "support/resize_fixture.hpp"

namespace vramlink {
namespace {

using test::RawSubscriber;
using test::soon;
using wire::MessageType;

class ResizeLateTest : public test::ResizeFixture {
 protected:
  [[nodiscard]] RawSubscriber attach(std::uint32_t queue_depth = 0) const {
    RawSubscriber subscriber(directory_.path(), kName, 1, queue_depth);
    subscriber.attach();
    return subscriber;
  }
  /// Without waiting for anybody.
  static void resize_now(Publisher& publisher, int times = 1) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(publisher.resize(bytes(100), Deadline::passed()));
    }
  }
  /// The generation of the OFFER that must be next; its memory is given back at once.
  static std::uint64_t next_offer(const RawSubscriber& subscriber) {
    const auto message = subscriber.peer.next();
    if (!message || message->type() != MessageType::offer) return 0;
    return message->as<wire::Offer>()->generation;
  }
  static bool comes_to(const RawSubscriber& subscriber, std::uint64_t generation) {
    if (!subscriber.peer.send(wire::Mapped{{}, generation})) return false;
    const auto message = subscriber.peer.next();
    return message && message->type() == MessageType::go &&
           message->as<wire::Go>()->generation == generation;
  }
  /// Generations whose slots are there, once all that was let go of has ended.
  [[nodiscard]] int generations() const {
    for (int i = 0; i < 2; ++i) {
      drain_reactor();
      drain_janitor();
    }
    return payloads();
  }
};

TEST_F(ResizeLateTest, WhoDoesNotAnswerKeepsTwoGenerationsAndNoMore) {
  Publisher publisher = open_publisher();
  const RawSubscriber stopped = attach();
  resize_now(publisher, 20);
  EXPECT_EQ(generations(), 3) << "the one it reads, the one it was offered, and the present one";
  publish_now(publisher, 1);
  EXPECT_EQ(next_offer(stopped), 2U);
  ASSERT_TRUE(comes_to(stopped, 2));
  EXPECT_EQ(next_offer(stopped), 21U) << "those in between are left out";
  EXPECT_TRUE(comes_to(stopped, 21));
  EXPECT_EQ(publisher.statistics().subscribers.size(), 1U);
  EXPECT_EQ(publisher.statistics().subscribers_revoked, 0U);
}

TEST_F(ResizeLateTest, AQueueKeepsTheGenerationsThatHaveFramesForIt) {
  Publisher publisher = open_publisher();
  const RawSubscriber stopped = attach(3);
  resize_now(publisher);
  publish_now(publisher, 1);
  resize_now(publisher, 5);
  publish_now(publisher, 2);
  resize_now(publisher, 5);
  EXPECT_EQ(generations(), 4) << "1, 2 and 7, which have frames, and the present one";
  EXPECT_EQ(next_offer(stopped), 2U);
  ASSERT_TRUE(comes_to(stopped, 2));
  EXPECT_EQ(next_offer(stopped), 7U);
  ASSERT_TRUE(comes_to(stopped, 7));
  EXPECT_EQ(next_offer(stopped), 12U);
}

TEST_F(ResizeLateTest, WhoLeavesGivesUpTheGenerationThatItHasNotComeTo) {
  Publisher publisher = open_publisher();
  const RawSubscriber leaving = attach();
  resize_now(publisher);
  ASSERT_EQ(next_offer(leaving), 2U);
  ASSERT_TRUE(leaving.peer.send(wire::Bye{{}, 1, wire::ByeReason::leaving, 0}));
  ASSERT_TRUE(leaving.peer.send(wire::Mapped{{}, 2}));  // it was on its way
  EXPECT_EQ(generations(), 2);
  resize_now(publisher);
  EXPECT_EQ(generations(), 2) << "the one in which it may hold frames, and the present one";
  EXPECT_EQ(publisher.statistics().subscribers.size(), 1U);
  EXPECT_EQ(publisher.statistics().subscribers_revoked, 0U) << "a MAPPED too late is no offence";
  ASSERT_TRUE(leaving.peer.send(wire::Bye{{}, 1, wire::ByeReason::drained, 0}));
  leaving.peer.wait_for_end();
  EXPECT_EQ(generations(), 1);
}

TEST_F(ResizeLateTest, WhoHangsUpGivesThemUpToo) {
  Publisher publisher = open_publisher();
  RawSubscriber gone = attach(3);
  resize_now(publisher);
  publish_now(publisher, 1);
  resize_now(publisher);
  publish_now(publisher, 2);
  EXPECT_EQ(generations(), 3);
  gone.peer.hang_up();
  EXPECT_EQ(generations(), 2) << "its process lives, and may hold frames of the first";
}

}  // namespace
}  // namespace vramlink
